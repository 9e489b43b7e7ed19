"""The daemon's end: real signals, real streams, and what load balancers, clients and supervisors see of it."""
import json
import signal
import socket
import subprocess
import threading
import time

import httpx
import pytest

from servers import SLUICED

pytestmark = pytest.mark.alone


def completion(tokens, **more):
    return {"prompt": "The sea", "max_tokens": tokens, "ignore_eos": True, **more}


class Stream(threading.Thread):
    """One streamed completion, read to its end on a thread of its own."""

    def __init__(self, server, tokens):
        super().__init__()
        self.server, self.tokens = server, tokens
        self.events, self.broken = [], None
        self.start()

    def run(self):
        try:
            with self.server.http() as client:
                with client.stream("POST", "/v1/completions", json=completion(self.tokens, stream=True)) as response:
                    for line in response.iter_lines():
                        if line.startswith("data: "):
                            self.events.append(line[6:])
        except httpx.HTTPError as error:
            self.broken = error

    def complete(self):
        return self.broken is None and self.events[-1:] == ["[DONE]"]

    def error(self):
        """The error event that it ended with, or None."""
        if self.broken is not None or not self.events or self.events[-1] == "[DONE]":
            return None
        return json.loads(self.events[-1]).get("error")


def wait_until_running(server, count):
    end = time.monotonic() + 60
    while server.metric("sluice_num_requests_running") < count:
        assert time.monotonic() < end, server.read_log()
        time.sleep(0.02)


def refuses_connections(server):
    try:
        with socket.create_connection(("127.0.0.1", int(server.url.rsplit(":", 1)[1])), timeout=5):
            return False
    except ConnectionRefusedError:
        return True


def wait_until_closed(server, seconds):
    end = time.monotonic() + seconds
    while not refuses_connections(server):
        assert time.monotonic() < end, "the port is still open"
        time.sleep(0.02)


def test_a_lame_duck_is_not_ready_but_takes_requests(new_daemon):
    server = new_daemon("--lame-duck-seconds", "4", "--grace-seconds", "60")
    begin = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    server.wait_for_log("signal 15")
    ready = httpx.get(server.url + "/readyz")
    assert ready.status_code == 503 and ready.json()["status"] == "draining" and "retry-after" in ready.headers
    assert httpx.get(server.url + "/livez").status_code == 200
    late = server.post("/v1/completions", completion(3))
    assert late.status_code == 200 and late.json()["usage"]["completion_tokens"] == 3
    assert time.monotonic() - begin < 4, "too slow a machine for this test's lame-duck time"
    wait_until_closed(server, 10)
    assert time.monotonic() - begin >= 3.9
    assert server.process.wait(10) == 0


def test_streams_outlive_the_port_and_the_daemon_waits_for_them(new_daemon):
    server = new_daemon("--lame-duck-seconds", "0.2", "--grace-seconds", "120")
    streams = [Stream(server, 600) for _ in range(4)]  # seconds of work, even for a fast machine
    idle = socket.create_connection(("127.0.0.1", int(server.url.rsplit(":", 1)[1])))
    half = socket.create_connection(("127.0.0.1", int(server.url.rsplit(":", 1)[1])))
    half.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Le")
    wait_until_running(server, 4)
    server.process.send_signal(signal.SIGTERM)
    wait_until_closed(server, 10)
    assert server.process.poll() is None and not any(stream.complete() for stream in streams)
    idle.settimeout(5)
    assert idle.recv(1) == b""  # an idle connection ends with the port
    for stream in streams:
        stream.join()
    ended = time.monotonic()
    assert all(stream.complete() for stream in streams), [s.broken or s.events[-1] for s in streams]
    # Nor is anybody waited for who has begun a request and does not go on.
    assert server.process.wait(10) == 0
    assert time.monotonic() - ended < 5
    half.close()
    assert "all answers finished" in server.read_log()


def test_what_outlives_the_grace_gets_an_error_event(new_daemon):
    server = new_daemon("--lame-duck-seconds", "0", "--grace-seconds", "1")
    streams = [Stream(server, 4000) for _ in range(3)]
    wait_until_running(server, 3)
    begin = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    for stream in streams:
        stream.join()
    assert server.process.wait(10) == 0
    assert time.monotonic() - begin < 1 + 5
    for stream in streams:
        assert stream.error() is not None and stream.error()["code"] == "draining", (stream.broken, stream.events[-1:])
    assert "answers were cut off" in server.read_log()


def test_sigint_has_no_lame_duck_time(new_daemon):
    server = new_daemon("--lame-duck-seconds", "60", "--grace-seconds", "60")
    begin = time.monotonic()
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(15) == 0
    assert time.monotonic() - begin < 10


@pytest.mark.parametrize("first,second", [(signal.SIGTERM, signal.SIGTERM), (signal.SIGTERM, signal.SIGINT)])
def test_a_second_signal_ends_a_lame_duck_at_once(new_daemon, first, second):
    server = new_daemon("--lame-duck-seconds", "60")
    server.process.send_signal(first)
    server.wait_for_log("signal 15")
    begin = time.monotonic()
    server.process.send_signal(second)
    assert server.process.wait(5) == 128 + second
    assert time.monotonic() - begin < 2


def test_sighup_without_a_terminal_changes_nothing(new_daemon):
    server = new_daemon("--lame-duck-seconds", "0")
    server.process.send_signal(signal.SIGHUP)
    server.wait_for_log("SIGHUP")
    assert httpx.get(server.url + "/readyz").status_code == 200
    assert server.post("/v1/completions", completion(2)).status_code == 200
    assert server.stop() == 0


def test_the_exit_codes_are_those_that_are_documented(tmp_path):
    help_text = subprocess.run([str(SLUICED), "--help"], capture_output=True, text=True, timeout=30).stdout
    assert all(word in help_text for word in ("wrong usage", "engine failed", "128+n")), help_text
    usage = subprocess.run([str(SLUICED), "serve", "--no-such-flag", "1"], capture_output=True, text=True, timeout=30)
    assert usage.returncode == 2 and "no-such-flag" in usage.stderr
    world = subprocess.run([str(SLUICED), "serve", "--model", str(tmp_path / "none.gguf")], capture_output=True,
                           text=True, timeout=30)
    assert world.returncode == 1 and "none.gguf" in world.stderr.strip().splitlines()[-1]
