"""The load tests of loadtest/ run against the daemon, and what they write is whole and makes sense. No times are
judged here."""
import json
import subprocess
import sys

import pytest

from servers import ROOT

pytest.importorskip("aiohttp", reason="the load tests' HTTP client, aiohttp, is not installed (tests/requirements.txt)")


@pytest.fixture
def load_test(daemon, tmp_path):
    """Runs loadtest.NAME against the daemon; what it printed, and its JSON."""
    def run(name, *flags):
        command = [sys.executable, "-m", f"loadtest.{name}", "--url", daemon.url, "--pid", str(daemon.process.pid),
                   "--seed", "7", "--out", str(tmp_path), "--no-plot", *map(str, flags)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        report = json.loads(next(tmp_path.glob(f"{name}-*.json")).read_text())
        check_report(report, name)
        assert "seed 7" in done.stdout
        return done.stdout, report

    return run


def check_report(report, name):
    assert report["scenario"] == name and report["seed"] == 7 and report["format"] == 1
    assert report["server"]["version"] and report["settings"]["url"] == report["server"]["url"]
    for run in report["runs"]:
        assert run["memory"] and all(0 < point["without_largest"] < point["rss"] for point in run["memory"])
        assert run["metrics_after"].keys() >= run["metrics_before"].keys() > set()
        assert sum(run["statuses"].values()) == len(run["samples"]) > 0
        for sample in run["samples"]:
            check_sample(sample)


def check_sample(sample):
    times = [sample["due_s"], sample["sent_s"], *([sample["headers_s"]] if sample["status"] else []),
             *sample["chunk_s"], sample["end_s"]]
    assert times == sorted(times), "in the order in which things happen"
    assert len(sample["chunk_s"]) == len(sample["chunk_tokens"])
    if sample["finish_reason"]:
        assert sample["status"] == 200 and sample["error"] is None and sample["finish_reason"] == "length"
        assert sum(sample["chunk_tokens"]) == sample["tokens_asked"] == sample["tokens_told"]
        assert sample["prompt_tokens_told"] == sample["prompt_tokens"], "prompts have the length that was meant"


def growth(run, name):
    def total(samples):
        return sum(value for sample, value in samples.items() if sample.split("{")[0] == name)

    return total(run["metrics_after"]) - total(run["metrics_before"])


def test_prefix_sees_what_is_cached(load_test):
    out, report = load_test("prefix", "--rounds", 2, "--requests", 4, "--prefix-tokens", 200, "--answer-tokens", 3)
    [run] = report["runs"]
    assert run["statuses"] == {"200": 8}
    for row in report["figures"]["rounds"].values():
        assert row["answered"] == 4 and row["first_cached_tokens"] == 0
        assert 192 <= row["later_cached_tokens_min"] <= 200 and row["first_to_later"] > 0
    assert growth(run, "sluice_generation_tokens_total") == 8 * 3
    assert "round 2" in out and "first / later" in out


def test_the_salt_makes_a_seed_usable_again(load_test):
    for _ in range(2):
        _, report = load_test("prefix", "--rounds", 1, "--requests", 2, "--prefix-tokens", 64, "--answer-tokens", 1)
        assert report["figures"]["rounds"]["round 1"]["first_cached_tokens"] == 0


def test_mixed_measures_both_phases(load_test):
    _, report = load_test("mixed", "--seconds", 3, "--alone-seconds", 3, "--streams", 2, "--stream-tokens", 40,
                          "--long-prompt", 300, "--long-tokens", 4, "--every", 1, "--drain-seconds", 100)
    figures = report["figures"]
    assert figures["alone_itl_s"]["count"] > 0 and figures["mixed_itl_s"]["count"] > 0
    assert 0 <= figures["mixed_itl_s"]["p50"] <= figures["mixed_itl_s"]["p95"] <= figures["mixed_itl_s"]["p99"]
    assert figures["long_sent"] == 3 == figures["long_answered"] + figures["long_answered_late"]
    assert figures["long_ttft_s"]["count"] == 3
    assert figures["generated_per_s"] > 0
    [run] = report["runs"]
    computed = figures["tokens_per_s"] * 3
    assert figures["generated_per_s"] * 3 * 0.5 < computed <= growth(run, "sluice_iteration_tokens_sum")
    longs = [sample for sample in run["samples"] if sample["label"] == "long"]
    assert [sample["prompt_tokens"] for sample in longs] == [300] * 3
    first, second, third = (sample["due_s"] for sample in longs)
    assert second - first == pytest.approx(1, abs=1e-4) == third - second, "due by the schedule, however late"


AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n" \
        "2023-11-16 18:15:46.6805900,37,4\r\n2023-11-16 18:15:46.9951690,5000,30\r\n2023-11-16 18:15:47.2225300,12,1"


def test_trace_sends_what_stands_in_azures_file(load_test, tmp_path):
    file = tmp_path / "azure.csv"
    file.write_bytes(AZURE.encode())
    _, report = load_test("trace", file, "--speed", 2, "--clip-input", 60, "--clip-output", 5)
    [run] = report["runs"]
    assert [(s["prompt_tokens"], s["tokens_asked"]) for s in run["samples"]] == [(37, 4), (60, 5), (12, 1)]
    dues = [sample["due_s"] - run["samples"][0]["due_s"] for sample in run["samples"]]
    assert dues == pytest.approx([0, 0.314579 / 2, 0.54194 / 2], abs=1e-4)
    figures = report["figures"]
    assert figures["sent"] == figures["answered"] == 3 and figures["clipped"] == 1 and figures["given_up"] == 0
    assert figures["ttft_s"]["count"] == figures["e2e_s"]["count"] == 3
    # A chunk may bring two tokens whose bytes make one letter.
    assert figures["itl_s"]["count"] == sum(len(sample["chunk_s"]) - 1 for sample in run["samples"])


def test_trace_shares_blocks_with_equal_hash_ids(load_test, tmp_path):
    rows = [{"timestamp": 0, "input_length": 600, "output_length": 2, "hash_ids": [5, 6]},
            {"timestamp": 6000, "input_length": 700, "output_length": 2, "hash_ids": [5, 9]},
            {"timestamp": 6001, "input_length": 9, "output_length": 1, "hash_ids": [8]}]
    file = tmp_path / "mooncake.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    _, report = load_test("trace", file, "--requests", 2)
    cached = [sample["cached_tokens"] for sample in report["runs"][0]["samples"]]
    assert cached[0] == 0 and len(cached) == 2
    # On a machine so slow that the first is not computed in six seconds there is nothing to share yet.
    assert cached[1] in (0, *range(512, 528))
