"""Logs: one line a line, whatever callers send; ids; levels; limits; no prompts unless asked."""
import json
import re
import socket

import httpx
import pytest

from servers import MODEL_NAME

HOSTILE = 'm"\n\r\t\\\x1b[31m\x7f\u2028{"forged":1}\u202e'


def json_lines(server):
    lines = server.read_log().splitlines()
    assert lines
    return [json.loads(line) for line in lines]


def raw_request(server, data):
    with socket.create_connection(("127.0.0.1", int(server.url.rsplit(":", 1)[1])), timeout=20) as connection:
        connection.sendall(data)
        connection.settimeout(20)
        return connection.recv(65536)


def send_hostile_requests(server):
    with server.http() as client:
        # In the model's name, and in the path.
        assert client.post("/v1/completions", json={"model": HOSTILE, "prompt": "x"}).status_code == 404
        assert client.get("/v1/models/" + "a%0Ab%22c%1B%FF").status_code == 404
    # In the request's id: what is not sound is not taken over.
    for value in (b'a"b', b"a b\tc", b"\xff\xfe", b"x" * 5000, b"a\x1b[31m", b"{}"):
        answer = raw_request(server, b"GET /v1/models/none HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Request-Id: " +
                             value + b"\r\n\r\n")
        echoed = re.search(rb"(?i)x-request-id: ([^\r]*)\r\n", answer)
        assert echoed is None or re.fullmatch(rb"[0-9a-f]{32}", echoed.group(1)), answer
    # Bytes that are no UTF-8, and line breaks, in the path.
    raw_request(server, b"GET /v1/models/\xff\xfe\x80 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    raw_request(server, b"GET /v1/models/a\x0bb HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")


@pytest.fixture
def json_daemon(new_daemon):
    return new_daemon("--log-format", "json", "--lame-duck-seconds", "0")


def test_json_lines_stay_json_whatever_callers_send(json_daemon):
    send_hostile_requests(json_daemon)
    with json_daemon.http() as client:
        sound = client.post("/v1/completions", json={"prompt": "x", "max_tokens": 2}, headers={"X-Request-Id": "my-id.7"})
    assert sound.status_code == 200 and sound.headers["x-request-id"] == "my-id.7"
    json_daemon.wait_for_log('"http_id":"my-id.7"')
    assert json_daemon.stop() == 0
    lines = json_lines(json_daemon)
    for line in lines:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["ts"])
        assert line["level"] in ("debug", "info", "warning", "error") and "msg" in line
        assert "forged" not in line
    request = [line for line in lines if line.get("http_id") == "my-id.7"]
    assert len(request) == 1 and request[0]["msg"] == "request"
    assert request[0]["generated"] == 2 and request[0]["model"] == MODEL_NAME and request[0]["status"] == 200
    assert request[0]["ttft_ms"] > 0
    refused = [line for line in lines if line["msg"] == "refused"]
    assert refused and all(line["status"] == 404 for line in refused)


def test_text_lines_stay_lines_whatever_callers_send(new_daemon):
    server = new_daemon(name='na"me forged line')
    send_hostile_requests(server)
    server.post("/v1/completions", {"prompt": "x", "max_tokens": 2})
    server.wait_for_log("request id=")
    assert server.stop() == 0
    log = server.read_log()
    log = log.split("\nTry it:")[0] + log.split("stream\": true}'\n", 1)[1]  # the greeting is not a log line
    for line in log.splitlines():
        assert not line or re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z [DIWE] ", line), line
        assert all(c == "\t" or c >= " " for c in line)
    assert r'model="na\"me forged line"' in log


def test_prompts_are_only_logged_when_asked(new_daemon):
    secret = "xylophone quarantine"

    def ask(server):
        server.post("/v1/completions", {"prompt": f"{secret} {'long ' * 1500}", "max_tokens": 2})
        server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": secret}], "max_tokens": 2,
                                             "stop": [secret]})
        # Refusals, too, of bodies and fields that hold it.
        server.post("/v1/completions", {"prompt": secret, "temperature": secret})
        server.post("/v1/completions", {"prompt": secret, secret: 1, "n": -1})
        httpx.post(server.url + "/v1/completions", content=f'{{"prompt": "{secret}"')
        server.post("/tokenize", {"prompt": secret})
        assert server.stop() == 0
        return server.read_log()

    assert "xylophone" not in ask(new_daemon("--log-level", "debug", "--lame-duck-seconds", "0"))
    asked = ask(new_daemon("--log-prompts", "true", "--log-format", "json", "--lame-duck-seconds", "0"))
    prompts = [json.loads(line) for line in asked.splitlines() if '"msg":"prompt"' in line]
    assert len(prompts) == 2 and all(secret in line["text"] for line in prompts)
    assert all(len(line["text"]) < 1100 for line in prompts) and prompts[0]["text"].endswith("...")


def test_a_flood_is_summed_up(new_daemon):
    server = new_daemon("--log-repeats", "5", "--lame-duck-seconds", "0")
    with server.http() as client:
        for _ in range(200):
            assert client.post("/v1/completions", json={"prompt": "x", "model": "none"}).status_code == 404
    assert server.stop() == 0
    log = server.read_log()
    refused = log.count(" refused path=")
    # Of that place: the progress of loading may have left out lines, too.
    suppressed = sum(int(n) for n in re.findall(r"(\d+) similar messages suppressed at=service\.cc", log))
    assert refused + suppressed == 200
    assert suppressed > 0 and refused < 200

