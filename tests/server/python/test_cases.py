"""What other servers' users ran into, as far as no other test has it."""
import asyncio
import json
import socket
import threading

import httpx
import pytest


def address(server):
    return "127.0.0.1", int(server.url.rsplit(":", 1)[1])


@pytest.mark.slow
def test_a_seeded_answer_does_not_depend_on_an_unseeded_neighbour(daemon):
    body = {"prompt": "The weather today is", "temperature": 0.8, "seed": 42, "max_tokens": 16, "ignore_eos": True}
    alone = daemon.post("/v1/completions", body).json()["choices"][0]["text"]
    neighbour = {"prompt": "Once", "temperature": 1.1, "max_tokens": 60, "ignore_eos": True}
    for _ in range(3):
        thread = threading.Thread(target=daemon.post, args=("/v1/completions", neighbour))
        thread.start()
        assert daemon.post("/v1/completions", body).json()["choices"][0]["text"] == alone
        thread.join()


def test_scoring_by_echo_harms_nobody(daemon):
    body = {"prompt": "Hello world", "echo": True, "max_tokens": 0}
    refused = daemon.post("/v1/completions", {**body, "logprobs": 1})
    assert refused.status_code == 400 and refused.json()["error"]["param"] == "logprobs"
    answer = daemon.post("/v1/completions", body).json()
    assert answer["choices"][0]["text"] == "Hello world" and answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == 0


def test_a_refused_body_is_never_a_request(new_daemon):
    """Refusals before the body is read: while loading, of a wrong path, of a wrong method."""
    server = new_daemon(wait=False)
    body = b"GET /phantom HTTP/1.1\r\nHost: x\r\n\r\n" * 100
    for line, statuses in ((b"POST /v1/completions", (503, 400)), (b"POST /nowhere", (404,)), (b"POST /v1/models", (405,))):
        with socket.create_connection(address(server), timeout=10) as client:
            client.sendall(line + b" HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
                           + b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            answer = b""
            while more := client.recv(1 << 16):
                answer += more
        assert int(answer.split(b" ", 2)[1]) in statuses
        assert b"phantom" not in answer
        assert answer.count(b"HTTP/1.1 ") == 2 and b'"version"' in answer


def test_a_large_body_that_asks_first_is_answered_at_once(daemon):
    for length, path, status in ((2_000_000, "/v1/completions", b"100"), (100_000_000, "/v1/completions", b"413"),
                                 (2_000_000, "/nowhere", b"404")):
        with socket.create_connection(address(daemon), timeout=10) as client:
            client.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
                           f"Content-Length: {length}\r\n\r\n".encode())
            assert client.recv(100).split(b" ")[1] == status


@pytest.mark.slow
def test_more_requests_than_may_wait_are_refused(new_scripted):
    """1,000 at once where 4 run and 100 may wait."""
    server = new_scripted("--max-running", "4", "--max-waiting", "100", "--step-ms", "50")
    resident = server.resident_bytes()
    statuses = []

    async def one(client, number):
        response = await client.post("/v1/completions", json={"prompt": f"loop:{number};", "max_tokens": 4})
        statuses.append(response.status_code)
        if response.status_code == 429:
            assert int(response.headers["retry-after"]) >= 1

    async def run():
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=server.url, timeout=300, limits=limits) as client:
            await one(client, 0)
            await asyncio.gather(*(one(client, n) for n in range(1000)))

    asyncio.run(run())
    assert set(statuses) == {200, 429}
    assert statuses.count(429) >= 500
    assert server.resident_bytes() - resident < 100 << 20
    server.wait_until_idle()


def test_endpoints_that_do_not_exist_make_no_series(daemon):
    before = len(daemon.metrics())
    with daemon.http() as client:
        for number in range(200):
            client.request("BREW" if number % 2 else "GET", f"/path{number}", headers={"X-Request-Id": f"id{number}"})
            client.post("/v1/completions", content=json.dumps({"model": f"m{number}", "prompt": "x"}))
    assert len(daemon.metrics()) <= before + 3
