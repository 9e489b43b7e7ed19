"""Start and end of the daemon."""
import signal
import socket
import subprocess
import threading
import time

import httpx
import pytest

from servers import MODEL_NAME, SLUICED, model_path

pytestmark = pytest.mark.alone


def run(*arguments):
    return subprocess.run([str(SLUICED), *arguments], capture_output=True, text=True, timeout=60)


def test_help_and_version():
    assert run("--help").returncode == 0
    help_text = run("serve", "--help")
    assert help_text.returncode == 0 and "--http-port" in help_text.stdout
    assert run("version").stdout.startswith("sluiced ")
    wrong = run("serve", "--model", "x", "--http-port", "99999")
    assert wrong.returncode == 2 and "99999" in wrong.stderr and "65535" in wrong.stderr


def test_what_keeps_it_from_starting_is_said(tmp_path):
    missing = run("serve", "--model", str(tmp_path / "none.gguf"))
    assert missing.returncode == 1 and "none.gguf" in missing.stderr
    junk = tmp_path / "junk.gguf"
    junk.write_bytes(b"not a model" * 100)
    assert run("serve", "--model", str(junk)).returncode == 1
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        refused = run("serve", "--model", model_path(), "--http-port", port, "--kv-bytes", str(400 << 20))
    assert refused.returncode == 1 and port in refused.stderr
    huge = run("serve", "--model", model_path(), "--kv-bytes", str(1 << 45))
    assert huge.returncode == 1, huge.stderr


def test_ready_only_when_it_answers(new_daemon):
    server = new_daemon(wait=False)
    states = []
    while True:
        response = httpx.get(server.url + "/readyz", timeout=30)
        states.append(response.status_code)
        if response.status_code == 200:
            break
        assert response.json()["status"] == "loading"
        assert 0 <= response.json()["progress"] <= 1
        assert httpx.get(server.url + "/livez").status_code == 200
        time.sleep(0.01)
    answer = server.post("/v1/completions", {"prompt": "a", "max_tokens": 1})
    assert answer.status_code == 200
    log = server.read_log()
    assert "memory: weights" in log and "loading: weights" in log and f"ready: {server.url}" in log
    assert f"curl {server.url}/v1/chat/completions" in log


def test_sigterm_finishes_what_runs_and_exits_0(new_daemon):
    server = new_daemon("--grace-seconds", "60")
    texts = []

    def read():
        stream = server.openai().chat.completions.create(
            model=MODEL_NAME, messages=[{"role": "user", "content": "Tell me a story."}], max_tokens=400,
            extra_body={"ignore_eos": True}, stream=True)
        texts.append(list(stream)[-1].choices[0].finish_reason)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    while server.metric("sluice_num_requests_running") < 3:
        time.sleep(0.01)
    server.process.send_signal(signal.SIGTERM)
    for thread in threads:
        thread.join()
    assert texts == ["length"] * 3
    assert server.process.wait(20) == 0
    log = server.read_log()
    assert log.count("request id=chatcmpl-") == 3 and "finish=length" in log


def test_a_second_signal_ends_at_once(new_daemon):
    server = new_daemon("--grace-seconds", "600")
    with server.http() as client:
        with client.stream("POST", "/v1/completions", json={"prompt": "x", "max_tokens": 4000, "ignore_eos": True,
                                                            "stream": True}) as response:
            pieces = response.iter_bytes()  # kept: the connection closes with it
            next(pieces)
            server.process.send_signal(signal.SIGTERM)
            server.wait_for_log("signal 15")
            assert httpx.get(server.url + "/readyz").json()["status"] == "draining"
            begin = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(5) == 128 + signal.SIGTERM
            assert time.monotonic() - begin < 1


def test_a_signal_while_loading_ends_it(new_daemon):
    server = new_daemon(wait=False)
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(10) == 0
