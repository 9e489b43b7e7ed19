"""The openai client against the real server over a scripted engine: exact tokens and exact faults."""
import signal
import threading
import time

import openai
import pytest


def say(text):
    return [{"role": "user", "content": f"say:{text};"}]


def test_chat_stream(new_scripted):
    server = new_scripted()
    stream = server.openai().chat.completions.create(model="test-model", messages=say("Hello, 🦙!"), stream=True)
    chunks = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == "Hello, 🦙!"
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert chunks[-1].choices[0].delta.content is None


def test_a_fault_in_mid_stream_raises(new_scripted):
    client = new_scripted("--step-ms", "20").openai()
    stream = client.chat.completions.create(model="test-model", messages=[{"role": "user", "content": "nan:3;"}],
                                            stream=True)
    texts = []
    with pytest.raises(openai.APIError):
        for chunk in stream:
            texts.append(chunk.choices[0].delta.content or "")
            assert chunk.choices[0].finish_reason is None
    assert "".join(texts) == "nnn"


def test_a_full_queue_is_429_with_retry_after(new_scripted):
    server = new_scripted("--max-running", "1", "--max-waiting", "2", "--step-ms", "20")
    results = []

    def ask():
        response = server.post("/v1/completions", {"prompt": "loop:abc;", "max_tokens": 30})
        results.append((response.status_code, response.headers.get("retry-after")))

    threads = [threading.Thread(target=ask) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    refused = [r for r in results if r[0] == 429]
    assert len(refused) >= 12 - 3 - 1 and all(int(r[1]) >= 1 for r in refused)
    assert sum(r[0] == 200 for r in results) >= 3
    assert server.post("/v1/completions", {"prompt": "x"}).status_code == 200


@pytest.mark.parametrize("grace_ms,finishes", [(30_000, True), (50, False)])
def test_sigterm_with_streams_running(new_scripted, grace_ms, finishes):
    server = new_scripted("--step-ms", "10", "--grace-ms", str(grace_ms))
    outcomes = []

    def read():
        try:
            chunks = list(server.openai().chat.completions.create(
                model="test-model", messages=[{"role": "user", "content": "loop:abc;"}], max_tokens=100, stream=True))
            outcomes.append(chunks[-1].choices[0].finish_reason)
        except openai.APIError:
            outcomes.append("error")

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    while server.metric("sluice_num_requests_running") < 4:
        time.sleep(0.01)
    server.process.send_signal(signal.SIGTERM)
    for thread in threads:
        thread.join()
    assert outcomes == (["length"] * 4 if finishes else ["error"] * 4)
    assert server.process.wait(10) == 0
