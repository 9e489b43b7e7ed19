"""Requests that cost more than their bytes, and connections that never become requests."""
import socket
import threading
import time

import httpx
import pytest

pytestmark = pytest.mark.alone


def cpu_seconds(server):
    fields = open(f"/proc/{server.process.pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


@pytest.mark.parametrize("body", [
    {"stop": ["x"] * 500_000},
    {"stop_token_ids": [1] * 500_000},
    {"bad_words": ["x"] * 50_000},
    {"tools": [{"type": "function", "function": {"name": f"f{i}"}} for i in range(20_000)]},
    {"logit_bias": {str(i): 1 for i in range(40_000)}},
    {"n": 5_000_000},
    {"top_logprobs": 1_000_000_000},
    {"max_tokens": 10**18},
], ids=lambda body: next(iter(body)))
def test_lists_and_counts_are_capped_while_reading(daemon, body):
    resident = daemon.resident_bytes()
    cpu = cpu_seconds(daemon)
    response = daemon.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], **body})
    assert response.status_code == 400
    assert response.json()["error"]["param"].split("[")[0] == next(iter(body))
    assert cpu_seconds(daemon) - cpu < 0.5
    assert daemon.resident_bytes() - resident < 64 << 20


def tool_calls(*calls):
    return {"messages": [{"role": "assistant", "content": "x", "tool_calls": list(calls)}]}


@pytest.mark.parametrize("param,body", [
    ("messages[0].tool_calls", tool_calls(*[{"id": "1", "function": {"name": "f", "arguments": "{}"}}] * 60_000)),
    ("messages[0].tool_calls", tool_calls(*["|"] * 500_000)),
    ("messages[0].tool_calls", tool_calls({"function": {"arguments": '{"a":[' + "[]," * 1_000_000 + "[]]}"}})),
    ("chat_template_kwargs", {"messages": [{"role": "user", "content": "x"}],
                              "chat_template_kwargs": {f"k{i}": 1 for i in range(300_000)}}),
], ids=["calls", "strings", "arguments", "kwargs"])
def test_what_templates_are_given_is_capped(daemon, param, body):
    resident = daemon.resident_bytes()
    cpu = cpu_seconds(daemon)
    response = daemon.post("/v1/chat/completions", {**body, "max_tokens": 1})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == param and "65536" in response.json()["error"]["message"]
    assert cpu_seconds(daemon) - cpu < 1
    assert daemon.resident_bytes() - resident < 128 << 20


def test_tool_calls_of_a_usual_size_reach_the_template(daemon):
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": [1, ",,,[[["]}'}}
    answer = daemon.post("/v1/chat/completions", {**tool_calls(*[call] * 500), "max_tokens": 1})
    assert answer.status_code == 200, answer.text


def test_absurd_token_ids(daemon):
    for prompt in ([2**31 - 1], [2**31], [-1], [49152], [2**63]):
        response = daemon.post("/v1/completions", {"prompt": prompt})
        assert response.status_code == 400
        assert str(prompt[0]) in response.json()["error"]["message"]


def test_a_wrong_template_is_never_taken_from_a_request(daemon):
    for more in ({"chat_template": "{{ 1 }}"}, {"chat_template_kwargs": {"chat_template": "{{ 1 }}"}},
                 {"chat_template_kwargs": {"messages": []}}):
        response = daemon.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], **more})
        assert response.status_code == 400


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["a", "_", " ", "日", "<|im_start|>", "<"])
def test_long_runs_do_not_hold_up_others(daemon, unit):
    text = unit * (200_000 // len(unit))
    slowest = 0.0
    done = threading.Event()

    def tokenize():
        assert daemon.post("/tokenize", {"prompt": text}).status_code == 200
        messages = [{"role": "user", "content": text}]
        assert daemon.post("/tokenize", {"messages": messages}).status_code == 200
        done.set()

    thread = threading.Thread(target=tokenize)
    begin = time.monotonic()
    thread.start()
    with daemon.http() as client:
        while not done.is_set():
            asked = time.monotonic()
            assert client.get("/health").status_code == 200
            slowest = max(slowest, time.monotonic() - asked)
            time.sleep(0.005)
    thread.join()
    assert time.monotonic() - begin < 10
    assert slowest < 0.5


@pytest.mark.slow
def test_half_open_connections_and_floods_harm_nobody(daemon):
    address = ("127.0.0.1", int(daemon.url.rsplit(":", 1)[1]))
    resident = daemon.resident_bytes()
    files = daemon.open_files()
    sockets = []
    try:
        for number in range(600):
            sockets.append(socket.create_connection(address))
            if number % 3 == 1:
                sockets[-1].sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n")
            elif number % 3 == 2:
                sockets[-1].sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5000000\r\n\r\n{")
        answer = daemon.post("/v1/completions", {"prompt": "x", "max_tokens": 3, "ignore_eos": True})
        assert answer.json()["usage"]["completion_tokens"] == 3
        flood = b"GET / HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X-%d: y\r\n" % i for i in range(20_000)) + b"\r\n"
        with socket.create_connection(address) as client:
            client.sendall(flood)
            assert b" 431 " in client.recv(100)
        large = httpx.post(daemon.url + "/v1/completions", content=b"x" * (100 << 20), timeout=60)
        assert large.status_code == 413
        assert daemon.resident_bytes() - resident < 100 << 20
    finally:
        for each in sockets:
            each.close()
    end = time.monotonic() + 10
    while daemon.open_files() > files and time.monotonic() < end:
        time.sleep(0.05)
    assert daemon.open_files() <= files + 1
