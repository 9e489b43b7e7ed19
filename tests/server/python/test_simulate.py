"""`sluiced simulate`: traces of every form, what is wrong with them, and what a real server's record predicts."""
import json
import random
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from servers import SLUICED

COST = ["--cost", "1000,10,0,0,0"]
SMALL = ["--max-running", "8", "--step-tokens", "64", "--context-length", "1000"]


def run(*arguments):
    return subprocess.run([str(SLUICED), "simulate", *map(str, arguments)], capture_output=True, text=True, timeout=120)


def simulated(*arguments):
    done = run(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


def refused(*arguments):
    done = run(*arguments)
    assert done.returncode == 2, done
    assert done.stdout == ""
    return done.stderr


@pytest.fixture
def trace(tmp_path):
    def write(text, name="trace"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def mooncake(rows):
    names = ("timestamp", "input_length", "output_length", "hash_ids")
    return "".join(json.dumps(dict(zip(names, row))) + "\n" for row in rows)


def test_one_request_takes_what_its_steps_take(trace):
    report = simulated("--trace", trace(mooncake([(7, 100, 5, [1])])), *COST, *SMALL)
    figures = report["simulated"]
    assert figures["requests"] == figures["finished"] == 1
    assert figures["steps"] == 6
    assert figures["ttft_mean"] == pytest.approx(1.64e-3 + 1.36e-3)
    assert figures["itl_mean"] == pytest.approx(1.01e-3)
    assert figures["itl_p99"] == pytest.approx(1.01e-3, rel=0.005)
    assert figures["e2e_mean"] == pytest.approx(3e-3 + 4 * 1.01e-3)
    assert figures["good_share"] == 1
    assert report["server"]["max_running"] == 8 and report["server"]["cost_us"] == [1000, 10, 0, 0, 0]


def test_every_form_says_the_same(trace):
    forms = {
        "mooncake": mooncake([(1000, 50, 4, []), (1500, 60, 6, [])]),
        "azure": "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,50,4\n"
        "2023-11-16 18:17:04.4799600,60,6\n",
        "burstgpt": "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,50,4,54,a\n"
        "5.2,ChatGPT,9,0,9,failed\n5.5,ChatGPT,60,6,66,a\n",
    }
    reports = {name: simulated("--trace", trace(text, name), *COST, *SMALL) for name, text in forms.items()}
    assert reports["mooncake"]["simulated"] == reports["azure"]["simulated"] == reports["burstgpt"]["simulated"]
    for name, report in reports.items():
        assert f"({name})" in report["load"]
    assert reports["burstgpt"]["notes"] == ["1 skipped: without prompt or answer"]
    offset = trace("TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.009930+00:00,50,4\n"
                   "2024-05-10 00:00:00.509930+00:00,60,6\n", "offset")
    assert simulated("--trace", offset, *COST, *SMALL)["simulated"] == reports["azure"]["simulated"]


def test_loads_are_cut_and_scaled(trace):
    path = trace(mooncake([(1000 * i, 3000, 3000, []) for i in range(20)]))
    report = simulated("--trace", path, *COST, *SMALL)
    assert report["notes"] == ["20 clipped to the context of 1000 tokens"]
    assert report["simulated"]["requests"] == 20
    assert simulated("--trace", path, *COST, *SMALL, "--requests", 7)["simulated"]["requests"] == 7
    assert simulated("--trace", path, *COST, *SMALL, "--duration", "4s")["simulated"]["requests"] == 5
    slow, fast = (simulated("--trace", path, *COST, *SMALL, "--speed", speed)["simulated"] for speed in (1, 100))
    assert fast["duration"] < slow["duration"] / 3
    assert fast["running_mean"] > 3 * slow["running_mean"]
    assert fast["ttft_p99"] > slow["ttft_p99"]


def test_equal_blocks_are_shared_and_memory_is_finite(trace):
    path = trace(mooncake([(1000 * i, 800, 100, [1, 10 + i]) for i in range(10)]))
    assert simulated("--trace", path, *COST, *SMALL)["simulated"]["prefix_hit_rate"] == pytest.approx(9 * 512 / 8000)
    assert simulated("--trace", path, *COST, *SMALL, "--share-prefixes", "false")["simulated"]["prefix_hit_rate"] == 0
    tight = trace(mooncake([(0, 20, 400, []) for i in range(8)]), "tight")
    figures = simulated("--trace", tight, *COST, *SMALL, "--kv-blocks", 63)["simulated"]
    assert figures["finished"] == 8 and figures["preemptions"] > 0 and figures["kv_use_peak"] > 0.9


def test_a_queue_has_an_end(trace):
    path = trace(mooncake([(0, 20, 50, [])] * 8))
    figures = simulated("--trace", path, *COST, "--max-running", 2, "--max-waiting", 3)["simulated"]
    assert (figures["requests"], figures["finished"], figures["refused"]) == (8, 5, 3)
    assert figures["waiting_peak"] == 3
    assert figures["good_share"] == 5 / 8


def test_the_table_is_for_people(trace):
    done = run("--trace", trace(mooncake([(0, 100, 5, [])])), *COST, *SMALL)
    assert done.returncode == 0, done.stderr
    for part in ("1 requests of", "TTFT P99", "ITL P50", "goodput", "KV use peak", "8 answers at once"):
        assert part in done.stdout
    assert "simulate" in subprocess.run([str(SLUICED), "help"], capture_output=True, text=True).stdout
    assert run("--help").returncode == 0


def test_wrong_usage_is_refused_with_a_reason(trace, tmp_path):
    good = trace(mooncake([(0, 100, 5, [])]))
    assert "one of --trace FILE and --arrivals-from-record" in refused(*COST)
    assert "one of --record FILE and --cost" in refused("--trace", good)
    assert "--arrivals-from-record: needs --record" in refused("--arrivals-from-record", *COST)
    for cost in ("1,2,3,4", "1,2,3,4,5,6", "1,2,3,4,x", "-1,0,0,0,0", "0,0,0,0,0", "nan,1,1,1,1", "1e10,0,0,0,0", "1,2,3,4,5 "):
        assert "five numbers of microseconds" in refused("--trace", good, f"--cost={cost}")
    assert "--speed: 0 is not in" in refused("--trace", good, *COST, "--speed", 0)
    assert "no such option; did you mean --kv-blocks?" in refused("--trace", good, *COST, "--kv-block", 5)
    assert "can't read" in refused("--trace", tmp_path / "nothing", *COST)
    assert "can't be read" in refused("--trace", tmp_path, *COST)
    assert "no flight record" in refused("--trace", good, "--record", good)
    assert "can't read" in refused("--trace", good, "--record", tmp_path / "nothing")
    assert "tokens of all KV blocks" in refused("--trace", good, *COST, "--kv-blocks", 60000000)


def test_wrong_traces_are_refused_with_the_place(trace):
    def why(text, *more):
        return refused("--trace", trace(text, "bad"), *COST, *more)

    assert "bad: empty" in why("")
    assert "bad:1: neither Mooncake's JSON lines" in why("a,b\n1,2\n")
    assert 'bad:2: ContextTokens: "many" is not a number' in why(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,many,1\n")
    assert 'bad:1: no "output_length"' in why('{"timestamp": 1, "input_length": 2}')
    assert "bad:1: not JSON" in why("TIMESTAMP,ContextTokens,GeneratedTokens\n", "--format", "mooncake")
    assert "bad:1: longer than 1048576 bytes" in why("{" + " " * 2_000_000)


@pytest.mark.alone
def test_a_servers_record_predicts_it(new_daemon, tmp_path, trace):
    record = tmp_path / "record"
    server = new_daemon("--flight-record", str(record), "--max-running", "16")
    chance = random.Random(5)
    prompts = [[chance.randrange(1000, 40000) for _ in range(chance.randrange(5, 300))] for _ in range(12)]
    lengths = [chance.randrange(5, 40) for _ in prompts]

    def complete(prompt, length):
        body = {"prompt": prompt, "max_tokens": length, "n": 2}
        with server.http() as client:
            assert client.post("/v1/completions", json=body).status_code == 200

    with ThreadPoolExecutor(len(prompts)) as pool:
        list(pool.map(complete, prompts, lengths))
    server.wait_until_idle()
    server.process.send_signal(signal.SIGUSR1)
    server.wait_for_log("flight record written")

    report = simulated("--record", record, "--arrivals-from-record", "--no-scatter")
    recorded, figures = report["recorded"], report["simulated"]
    assert report["server"]["max_running"] == 16 and report["server"]["fitted_steps"] == recorded["steps"]
    for exact in ("requests", "finished"):
        assert figures[exact] == recorded[exact], exact
    # Which of two equal prompts is still being computed when the other comes, depends on the steps' ends.
    assert figures["prefix_hit_rate"] == pytest.approx(recorded["prefix_hit_rate"], rel=0.3)
    # All come at once, so the whole takes what its steps take, and an answer's end starts nothing: the simulator
    # keeps to the times of the arrivals. The host has other things to do, too.
    for figure in ("output_tokens_per_second", "itl_mean", "ttft_mean"):
        assert 0.4 < report["ratio"][figure] < 2.5, figure

    # The same server under another load, and what more of it would do.
    load = trace(mooncake([(50 * i, 200, 20, []) for i in range(40)]), "load")
    few, many = (simulated("--record", record, "--trace", load, "--max-running", n)["simulated"] for n in (1, 16))
    assert few["finished"] == many["finished"] == 40
    assert few["waiting_mean"] > many["waiting_mean"]
    again = simulated("--record", record, "--trace", load, "--max-running", 16)["simulated"]
    assert again == many
    other = simulated("--record", record, "--trace", load, "--max-running", 16, "--seed", 2)["simulated"]
    assert other["e2e_mean"] != many["e2e_mean"]
