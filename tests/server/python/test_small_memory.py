"""Memory for fewer tokens than the answers need together: what can never fit is refused, the rest comes whole."""
import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from servers import start_daemon

CONTEXT = 400


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """28 blocks of 16 tokens, steps of at most 64."""
    server = start_daemon(tmp_path_factory.mktemp("small") / "log", "--context-length", str(CONTEXT), "--step-tokens", "64",
                          kv_bytes=10 << 20)
    yield server
    assert server.stop() == 0, server.read_log()


def ids_of(server, body):
    answer = server.post("/v1/completions", {"temperature": 0, "ignore_eos": True, "return_token_ids": True, **body})
    assert answer.status_code == 200, answer.text
    return [choice["token_ids"] for choice in answer.json()["choices"]]


def stream_of(server, body):
    """Text and token ids by the answer's index."""
    texts, ids = {}, {}
    with server.http() as client, client.stream("POST", "/v1/completions", json={**body, "stream": True}) as response:
        lines = [line[6:] for line in response.iter_lines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    for line in lines[:-1]:
        for choice in json.loads(line)["choices"]:
            texts[choice["index"]] = texts.get(choice["index"], "") + choice["text"]
            ids.setdefault(choice["index"], []).extend(choice.get("token_ids") or [])
    return texts, ids


def test_a_prompt_for_which_there_is_never_room_holds_nobody_up(small):
    running = {"prompt": "Once upon a time", "max_tokens": 200}
    with ThreadPoolExecutor(1) as pool:
        beside = pool.submit(ids_of, small, running)
        for tokens in (CONTEXT, CONTEXT + 1, 20 * CONTEXT):
            refused = small.post("/v1/completions", {"prompt": [100] * tokens, "max_tokens": 1})
            error = refused.json()["error"]
            assert refused.status_code == 400 and error["code"] == "context_length_exceeded"
            assert f"{tokens} tokens" in error["message"] and str(CONTEXT) in error["message"]
        assert len(ids_of(small, {"prompt": "The sea", "max_tokens": 3})[0]) == 3
        assert len(beside.result()[0]) == 200
    assert len(ids_of(small, {"prompt": [100] * (CONTEXT - 1), "max_tokens": 50})[0]) == 1, "all that there is room for"
    small.wait_until_idle()


def test_a_prompt_longer_than_a_step_is_computed_beside_short_ones(small, daemon):
    longer = {"prompt": [7 + i * 31 % 40_000 for i in range(CONTEXT - 10)], "max_tokens": 8}
    shorter = [{"prompt": f"The number {i} is", "max_tokens": 4} for i in range(4)]
    with ThreadPoolExecutor(5) as pool:
        answers = list(pool.map(lambda body: ids_of(small, body), [longer, *shorter]))
    assert answers == [ids_of(daemon, body) for body in (longer, *shorter)]
    small.wait_until_idle()


def test_answers_that_are_set_back_for_want_of_memory_are_whole(small, daemon):
    body = {"prompt": "A story about a river:", "n": 5, "max_tokens": 150, "temperature": 0.9, "seed": 5,
            "ignore_eos": True, "return_token_ids": True}
    names = ("sluice_num_preemptions_total", "sluice_recomputed_tokens_total")
    before = [small.metric(name) for name in names]
    texts, ids = stream_of(small, body)
    preemptions, recomputed = (small.metric(name) - value for name, value in zip(names, before))
    assert preemptions > 0, "five times 10 blocks do not fit into 28"
    assert preemptions <= 15 and recomputed < 3 * 5 * 160
    plain = daemon.post("/v1/completions", body).json()["choices"]
    assert [ids[i] for i in range(5)] == [choice["token_ids"] for choice in plain]
    assert [texts[i] for i in range(5)] == [choice["text"] for choice in plain]
    small.wait_until_idle()
