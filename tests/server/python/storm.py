"""A storm of hostile clients over a daemon that also serves friends; measures what the friends notice.

By hand:   storm.py [--seconds 15] [--friends 8] [--slow 1000] [--half-open 1000] [-- sluiced flags]
starts a daemon with the default model, or uses the one at --url. Friends' streams run through three phases, calm,
storm and calm again; the table compares their inter-token latencies. The attackers are a process of their own at
the lowest priority, so that the machine's few cores tell what the server spends on them, not what they spend.

Attackers come from 127.0.0.2, friends from 127.0.0.1.
"""
import argparse
import asyncio
import collections
import concurrent.futures
import http.client
import json
import pathlib
import random
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time

ATTACKER = "127.0.0.2"
HEAD = "POST {path} HTTP/1.1\r\nHost: x\r\n"


# Few enough sequences for a step to cost about the same with and without strangers in it, and a backlog that a
# reader who stops fills within his answer.
FLAGS = ["--max-running", "10", "--max-backlog-bytes", "65536"]


def raise_file_limit():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def post(path, body, more=""):
    return (HEAD.format(path=path) + more + f"Content-Length: {len(body)}\r\n\r\n").encode() + body


class Attackers:
    """Opens and keeps what the storm needs; counts the answers by kind and status."""

    def __init__(self, port, slow, half_open):
        self.port, self.slow, self.half_open = port, slow, half_open
        self.answers = collections.Counter()
        self.ending = False
        self.kept = []

    async def connect(self, receive_bytes=0):
        sock = socket.socket()
        sock.setblocking(False)
        if receive_bytes:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        sock.bind((ATTACKER, 0))
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.port))
        return sock

    async def keep(self, kind, first_bytes, receive_bytes=0):
        """Sends that and then nothing, and does not read."""
        try:
            sock = await self.connect(receive_bytes)
            await asyncio.get_running_loop().sock_sendall(sock, first_bytes)
            self.kept.append((kind, sock))
        except OSError as error:
            self.answers[f"{kind}: {type(error).__name__}"] += 1

    async def open_all(self):
        endless = {"prompt": "x", "max_tokens": 1000, "ignore_eos": True, "stream": True}
        large = json.dumps({"prompt": "word " * 8_000, "return_token_strs": True}).encode()
        tasks = []
        for number in range(self.slow):
            # Most wait in the engine's queue or for its tokens; the others for answers that are large at once.
            if number % 10:
                bytes_ = post("/v1/completions", json.dumps({**endless, "seed": number}).encode())
            else:
                bytes_ = post("/tokenize", large)
            tasks.append(self.keep("slow reader", bytes_, receive_bytes=4096))
        for number in range(self.half_open):
            bytes_ = [b"", HEAD.format(path="/v1/completions").encode(),
                      (HEAD.format(path="/v1/completions") + "Content-Length: 5000000\r\n\r\n{").encode()
                      + b" " * 100_000][number % 3]
            tasks.append(self.keep("half-open", bytes_))
        random.Random(4).shuffle(tasks)
        for begin in range(0, len(tasks), 50):
            await asyncio.gather(*tasks[begin:begin + 50])

    async def ask(self, kind, pieces):
        """One request in pieces, sent until the server stops taking them; its answer's status is counted."""
        loop = asyncio.get_running_loop()
        sock = await self.connect()
        try:
            for piece in pieces:
                try:
                    await asyncio.wait_for(loop.sock_sendall(sock, piece), 20)
                except (OSError, asyncio.TimeoutError):
                    break  # refused early; the answer is there all the same
            answer = b""
            while b"\r\n" not in answer:
                more = await asyncio.wait_for(loop.sock_recv(sock, 4096), 60)
                if not more:
                    break
                answer += more
            self.answers[f"{kind}: {answer.split(b' ')[1].decode() if answer else 'closed'}"] += 1
        except (OSError, asyncio.TimeoutError) as error:
            self.answers[f"{kind}: {type(error).__name__}"] += 1
        finally:
            sock.close()

    async def repeat(self, kind, make_pieces, pause):
        while not self.ending:
            await self.ask(kind, make_pieces())
            await asyncio.sleep(pause)

    def loops(self):
        head = HEAD.format(path="/v1/chat/completions")
        megabyte = b"x" * (1 << 20)
        deep = b'{"messages":' + b"[" * 10_000 + b"]" * 10_000 + b"}"
        many = b'{"prompt":[1' + b",1" * 3_500_000 + b"]}"
        lines = b"".join(b"X-%d: y\r\n" % i for i in range(20_000))
        chunk = b"100000\r\n" + megabyte + b"\r\n"
        yield "100 MB body", lambda: [(head + "Content-Length: 104857600\r\n\r\n").encode()] + [megabyte] * 100, 0.05
        yield ("100 MB in chunks",
               lambda: [(head + "Transfer-Encoding: chunked\r\n\r\n").encode()] + [chunk] * 100, 0.05)
        yield "10,000-deep JSON", lambda: [post("/v1/chat/completions", deep)], 0.02
        yield "JSON of 3.5 M numbers", lambda: [post("/v1/completions", many)], 0.1
        yield "20,000 headers", lambda: [HEAD.format(path="/").encode() + lines + b"\r\n"], 0.02
        yield "1 MB header", lambda: [HEAD.format(path="/").encode() + b"X: " + megabyte + b"\r\n\r\n"], 0.02

    async def run(self):
        await self.open_all()
        loops = [asyncio.create_task(self.repeat(kind, make, pause))
                 for kind, make, pause in self.loops() for _ in range(2)]
        print(json.dumps({"up": len(self.kept)}), flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        self.ending = True
        await asyncio.gather(*loops)
        for kind, sock in self.kept:
            # Who was cut off sees the end; who was not is still connected.
            try:
                while sock.recv(1 << 16):
                    pass
                self.answers[f"{kind}: cut off"] += 1
            except BlockingIOError:
                self.answers[f"{kind}: still connected"] += 1
            except OSError:
                self.answers[f"{kind}: cut off"] += 1
            sock.close()
        print(json.dumps(self.answers), flush=True)


class Storm:
    """The attackers' process. As a context: the storm blows inside."""

    def __init__(self, port, slow, half_open):
        self.command = ["nice", "-n", "5", sys.executable, __file__, "--attack", str(port), "--slow", str(slow),
                        "--half-open", str(half_open)]
        self.answers = None

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        start_new_session=True)
        # Where the kernel shares the CPU between sessions first, a process's own niceness says nothing to others'.
        try:
            pathlib.Path(f"/proc/{self.process.pid}/autogroup").write_text("3")
        except OSError:
            pass
        self.up = json.loads(self.process.stdout.readline())["up"]
        return self

    def __exit__(self, *_):
        out, _ = self.process.communicate("end\n", timeout=120)
        self.answers = json.loads(out.splitlines()[-1])


class Friend(threading.Thread):
    """One stream, read until told to stop: the times of its tokens and its text."""

    def __init__(self, port, number, tokens):
        super().__init__()
        self.port, self.tokens = port, tokens
        self.prompt = f"Story number {number}: Once upon a time"
        self.times, self.text, self.made, self.finish, self.failure = [], "", 0, None, None
        self.enough = False

    def body(self, **more):
        return json.dumps({"prompt": self.prompt, "temperature": 0, "ignore_eos": True, **more})

    def run(self):
        try:
            self.read()
        except Exception as error:  # told by the one who looks
            self.failure = error

    def read(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request("POST", "/v1/completions", self.body(
            max_tokens=self.tokens, stream=True, stream_options={"include_usage": True, "continuous_usage_stats": True}))
        response = connection.getresponse()
        assert response.status == 200, response.read()
        while not self.enough:
            line = response.readline()
            if not line or line.startswith(b"data: [DONE]"):
                break
            if not line.startswith(b"data: "):
                continue
            self.times.append(time.monotonic())
            event = json.loads(line[6:])
            assert "error" not in event, event
            if event["choices"]:
                self.text += event["choices"][0]["text"]
                self.finish = event["choices"][0]["finish_reason"]
            self.made = event["usage"]["completion_tokens"]
        connection.close()

    def text_alone(self):
        """The same request again, as long as the text was read."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        connection.request("POST", "/v1/completions", self.body(max_tokens=self.made))
        return json.loads(connection.getresponse().read())["choices"][0]["text"]

    def gaps(self, begin, end):
        inside = [t for t in self.times if begin <= t < end]
        return [b - a for a, b in zip(inside, inside[1:])]


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


class Outcome:
    """What a storm did: `calm` and `storm` are the friends' gaps between tokens, seconds."""

    def __init__(self):
        self.calm, self.storm, self.friends, self.answers, self.up = [], [], [], {}, 0
        self.resident_before = self.resident_peak = 0

    def check_friends(self):
        """Each got, as far as it read, what it gets without a storm."""
        for friend in self.friends:
            assert friend.failure is None, friend.failure
        with concurrent.futures.ThreadPoolExecutor(len(self.friends)) as pool:
            for friend, alone in zip(self.friends, pool.map(Friend.text_alone, self.friends)):
                assert alone.startswith(friend.text), (alone[-200:], friend.text[-200:])

    def table(self):
        lines = ["phase    tokens    P50 ms    P90 ms    P99 ms    max ms"]
        for name, gaps in (("calm", self.calm), ("storm", self.storm)):
            figures = [percentile(gaps, share) * 1e3 for share in (0.5, 0.9, 0.99, 1)]
            lines.append(f"{name:8s} {len(gaps):6d} " + " ".join(f"{figure:9.1f}" for figure in figures))
        lines.append("longest gaps in the storm, ms: " + " ".join(f"{g * 1e3:.0f}" for g in sorted(self.storm)[-12:]))
        lines.append(f"P99 ratio {percentile(self.storm, 0.99) / percentile(self.calm, 0.99):.2f}; resident memory "
                     f"{self.resident_before >> 20} MiB before, {self.resident_peak >> 20} MiB at most")
        lines += [f"  {count:6d}  {kind}" for kind, count in sorted(self.answers.items())]
        return "\n".join(lines)


def wait_for(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def blow(server, seconds, friends, slow, half_open, tokens=1500):
    """Calm, storm and calm, `seconds` each (the storm from when all attackers are up)."""
    port = int(server.url.rsplit(":", 1)[1])
    outcome = Outcome()
    outcome.friends = [Friend(port, number, tokens) for number in range(friends)]
    for friend in outcome.friends:
        friend.start()
    wait_for(lambda: all(len(f.times) > 2 or f.failure for f in outcome.friends), 120, "no tokens came")
    marks = [time.monotonic()]
    outcome.resident_before = outcome.resident_peak = server.resident_bytes()
    watching = threading.Event()

    def watch():
        while not watching.wait(0.05):
            outcome.resident_peak = max(outcome.resident_peak, server.resident_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    time.sleep(seconds)
    marks.append(time.monotonic())
    with Storm(port, slow, half_open) as storm:
        marks.append(time.monotonic())
        time.sleep(seconds)
        marks.append(time.monotonic())
    outcome.answers, outcome.up = storm.answers, storm.up
    time.sleep(1)  # what the attackers left is taken away
    marks.append(time.monotonic())
    time.sleep(seconds)
    marks.append(time.monotonic())
    for friend in outcome.friends:
        friend.enough = True
    watching.set()
    watcher.join()
    for friend in outcome.friends:
        friend.join()
        outcome.calm += friend.gaps(marks[0], marks[1]) + friend.gaps(marks[4], marks[5])
        outcome.storm += friend.gaps(marks[1], marks[3])
    return outcome


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--friends", type=int, default=8)
    parser.add_argument("--slow", type=int, default=1000)
    parser.add_argument("--half-open", type=int, default=1000)
    parser.add_argument("--attack", type=int, metavar="PORT", help="be the attackers")
    parser.add_argument("flags", nargs="*", help="for sluiced")
    arguments = parser.parse_args()
    raise_file_limit()
    if arguments.attack:
        asyncio.run(Attackers(arguments.attack, arguments.slow, arguments.half_open).run())
        return
    from servers import start_daemon
    with tempfile.TemporaryDirectory() as folder:
        server = start_daemon(pathlib.Path(folder) / "log", *FLAGS, *arguments.flags)
        try:
            outcome = blow(server, arguments.seconds, arguments.friends, arguments.slow, arguments.half_open)
            print(outcome.table())
            server.wait_until_idle()
            outcome.check_friends()
            print(f"{len(outcome.friends)} friends got what they get alone")
        finally:
            print("exit code", server.stop())


if __name__ == "__main__":
    main()
