"""/metrics tells the truth: of what was asked for, what was answered, and what was neither."""
import re
import shutil
import subprocess
import threading
import time

import httpx
import pytest

MODEL = 'model_name="test-model"'


def say(text):
    return {"messages": [{"role": "user", "content": text}]}


class Grown:
    """What samples grew by since it was made."""

    def __init__(self, server):
        self.server, self.before = server, server.metrics()

    def __call__(self, name, **labels):
        def total(samples):
            return sum(v for k, v in samples.items()
                       if k.split("{")[0] == name and all(f'{a}="{b}"' in k for a, b in labels.items()))
        return total(self.server.metrics()) - total(self.before)

    def settles(self, wanted, name, **labels):
        """Waits until it is `wanted`, and says whether it was."""
        end = time.monotonic() + 10
        while self(name, **labels) != wanted:
            if time.monotonic() > end:
                return False
            time.sleep(0.02)
        return True


def lint(page, promtool):
    return subprocess.run([promtool, "check", "metrics"], input=page, capture_output=True, text=True, timeout=60)


@pytest.fixture
def promtool():
    path = shutil.which("promtool")
    assert path, "promtool is missing: test.sh installs Debian's prometheus"
    return path


def test_promtool_accepts_the_page(new_scripted, promtool):
    server = new_scripted()
    server.post("/v1/chat/completions", {**say("say:hello;"), "n": 2})
    server.post("/v1/completions", {"prompt": "x", "model": "none"})
    httpx.get(server.url + "/nowhere")
    server.wait_until_idle()
    page = httpx.get(server.url + "/metrics")
    assert page.headers["content-type"].startswith("text/plain; version=0.0.4")
    result = lint(page.text, promtool)
    # Its one complaint is that vLLM's names have a colon and one of them (a histogram) ends in _total. They
    # are what dashboards and endpoint pickers look for; Prometheus itself takes them.
    complaints = (result.stdout + result.stderr).splitlines()
    assert complaints and all(re.match(r"vllm:\w+ (metric names should not contain ':'|non-counter metrics should "
                                       r'not have "_total" suffix)', line) for line in complaints), complaints
    ours = "\n".join(line for line in page.text.splitlines() if "vllm:" not in line) + "\n"
    result = lint(ours, promtool)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_every_figure_has_both_names(new_scripted):
    server = new_scripted()
    server.post("/v1/chat/completions", say("say:hello;"))
    server.wait_until_idle()
    samples = server.metrics()
    vllm = {k: v for k, v in samples.items() if k.startswith("vllm:")}
    assert len(vllm) > 500 and all('engine="0"' in k and MODEL in k for k in vllm)
    for name, value in vllm.items():
        ours = name.replace("vllm:", "sluice_").replace(',engine="0"', "").replace("iteration_tokens_total", "iteration_tokens")
        assert samples[ours] == value, name
    names = {k.split("{")[0] for k in vllm}
    assert {"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"} <= names
    info = [k for k in vllm if k.startswith("vllm:cache_config_info")]
    assert len(info) == 1 and 'block_size="16"' in info[0] and 'num_gpu_blocks="4096"' in info[0]


def test_usage_and_metrics_count_the_same(new_scripted):
    """With n > 1, stop strings, streams: generation tokens are those of the answers, whatever was computed beyond."""
    server = new_scripted()
    grown = Grown(server)
    tokens = answers = 0
    for body in ({**say("loop:ab;"), "max_tokens": 9}, {**say("loop:cd;"), "max_tokens": 5, "n": 3},
                 {**say("say:one two stop! three;"), "stop": ["stop!"]}, {**say("loop:efgh;"), "max_tokens": 50, "stop": "he"}):
        usage = server.post("/v1/chat/completions", body).json()["usage"]
        tokens += usage["completion_tokens"]
        answers += body.get("n", 1)
    assert grown("sluice_generation_tokens_total") == tokens  # at once: an answer that is out has been counted
    assert grown("sluice_request_success_total") == answers
    assert grown("sluice_request_success_total", finished_reason="length") == 4
    assert grown("sluice_request_success_total", finished_reason="stop") == 2
    assert grown("sluice_time_to_first_token_seconds_count") == answers
    assert grown("sluice_inter_token_latency_seconds_count") == tokens - answers
    assert grown("sluice_request_generation_tokens_sum") == tokens
    assert grown("sluice_request_params_n_count") == 4 and grown("sluice_request_params_n_sum") == answers
    server.wait_until_idle()
    assert grown("sluice_iteration_tokens_count") == grown("sluice_engine_steps_total")
    # All work is accounted for: a step's tokens are those of prompts and answers, and what was thrown away; an
    # answer's first token comes with its prompt, and its last one is not computed on.
    assert grown("sluice_iteration_tokens_sum") == (
        grown("sluice_prompt_tokens_total") + tokens - answers + grown("sluice_discarded_tokens_total"))


def test_cancelled_and_failed_answers(new_scripted):
    server = new_scripted("--step-ms", "5")
    grown = Grown(server)
    with server.http() as client:
        with client.stream("POST", "/v1/chat/completions", json={**say("loop:ab;"), "max_tokens": 1500, "stream": True}) as r:
            next(r.iter_bytes())
    assert grown.settles(1, "sluice_request_success_total", finished_reason="abort")
    assert server.post("/v1/chat/completions", say("nan:3;")).status_code == 500
    assert grown("sluice_request_success_total", finished_reason="error") == 1
    assert grown.settles(1, "sluice_request_errors_total", kind="internal")
    # They count where they were, but say nothing of how long answers take.
    assert grown("sluice_time_to_first_token_seconds_count") == 2
    assert grown("sluice_e2e_request_latency_seconds_count") == 0
    assert grown("sluice_request_generation_tokens_count") == 0
    server.wait_until_idle()


def test_rejections_by_reason(new_scripted):
    server = new_scripted("--max-running", "1", "--max-waiting", "2", "--step-ms", "20")
    grown = Grown(server)
    statuses = []

    def ask():
        statuses.append(server.post("/v1/completions", {"prompt": "loop:abc;", "max_tokens": 20}).status_code)

    threads = [threading.Thread(target=ask) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    refused = statuses.count(429)
    assert refused > 0
    assert grown.settles(refused, "sluice_requests_rejected_total", reason="queue_full")
    assert grown("sluice_request_errors_total", kind="rejected") == refused
    assert grown("sluice_http_requests_total", path="/v1/completions", status="429") == refused
    assert grown("sluice_requests_rejected_total") == refused


def test_callers_make_no_series(new_scripted):
    server = new_scripted()

    def ask(number):
        server.post("/v1/completions", {"prompt": "x", "model": f"model-{number}"})
        httpx.get(f"{server.url}/path/{number}")
        httpx.get(f"{server.url}/v1/models/{number}")
        httpx.request(f"METHOD{number}", server.url + "/v1/models")
        httpx.get(f"{server.url}/metrics?x={number}")

    ask(0)
    before = set(server.metrics())
    for number in range(1, 40):
        ask(number)
    assert set(server.metrics()) == before


@pytest.mark.alone
def test_the_page_is_cheap(new_scripted):
    """Endpoint pickers ask twenty times a second."""
    server = new_scripted()
    server.post("/v1/chat/completions", say("say:hello;"))
    with server.http() as client:
        client.get("/metrics")
        before = server.metric("process_cpu_seconds_total")
        for _ in range(200):
            assert client.get("/metrics").status_code == 200
        used = server.metric("process_cpu_seconds_total") - before
    # 20 a second would take a tenth of this many CPU seconds a second.
    assert used / 200 < 0.01, f"{used / 200 * 1000:.2f} ms each"


@pytest.mark.alone
def test_scrapes_disturb_nobody(new_scripted):
    """No lock is shared with the engine: answers come as fast beside a reader who never stops."""
    server = new_scripted("--step-ms", "1")
    body = {**say("loop:ab;"), "max_tokens": 400}

    def answer_seconds():
        begin = time.monotonic()
        server.post("/v1/chat/completions", body)
        return time.monotonic() - begin

    alone = min(answer_seconds() for _ in range(2))
    stop = threading.Event()

    def scrape():
        with server.http() as client:
            while not stop.wait(0.05):
                client.get("/metrics")

    thread = threading.Thread(target=scrape)
    thread.start()
    beside = min(answer_seconds() for _ in range(3))
    stop.set()
    thread.join()
    assert beside < alone * 1.5 + 0.2, (alone, beside)
