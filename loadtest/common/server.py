"""The server under test: one that runs already, or one that the program starts with a scenario's settings."""
import asyncio
import contextlib
import json
import pathlib
import re
import shlex
import signal
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field

LOAD_SECONDS = 300
SETTLE_SECONDS = 60


@dataclass
class Server:
    url: str
    pid: int | None = None  # of a process on this machine
    flags: dict = field(default_factory=dict)  # those that it was started with, if it was

    def memory_bytes(self):
        """(resident, the same without the largest mapping), None when the process is unknown or gone. The largest
        one holds keys and values; it has its size from the start, but is backed by memory bit by bit."""
        try:
            text = pathlib.Path(f"/proc/{self.pid}/smaps").read_text()
        except OSError:
            return None
        sizes = [int(size) for size in re.findall(r"^Size:\s+(\d+) kB", text, re.M)]
        resident = [int(size) for size in re.findall(r"^Rss:\s+(\d+) kB", text, re.M)]
        if not sizes:
            return None
        _, largest = max(zip(sizes, resident))
        return sum(resident) << 10, (sum(resident) - largest) << 10

    def to_json(self):
        try:
            with urllib.request.urlopen(self.url + "/version", timeout=10) as answer:
                version = json.load(answer).get("version")
        except urllib.error.HTTPError:
            version = None  # another server
        except OSError as error:
            raise SystemExit(f"no server at {self.url}: {error}") from None
        return {"url": self.url, "pid": self.pid, "version": version, "flags": self.flags}


@contextlib.contextmanager
def serving(args, flags, log):
    """The server of --url as it is; with --sluiced one of our own, with `flags` (name -> value) under those of
    --serve, which ends with the block."""
    if not args.sluiced:
        yield Server(args.url.rstrip("/"), args.pid)
        return
    flags = {**flags, **parse_flags(args.serve)}
    command = [args.sluiced, "serve", "--model", args.model, "--http-port", "0", "--grpc-port", "-1"]
    for name, value in flags.items():
        command += ["--set", f"{name}={value}"] if "." in name else [f"--{name}", str(value)]
    with open(log, "w") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        server = Server(wait_until_ready(process, log), process.pid, flags)
        wait_until_settled(server)
        yield server
    finally:
        end(process)


def parse_flags(text):
    """ "--threads 2 --set engine.patience=5s" -> {"threads": "2", "engine.patience": "5s"}."""
    flags = {}
    words = iter(shlex.split(text))
    for word in words:
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--"):
            raise SystemExit(f"--serve: {word!r} is not a flag; write --NAME VALUE")
        if not equals:
            value = next(words, None)
            if value is None:
                raise SystemExit(f"--serve: {word} has no value")
        if name == "set":
            name, _, value = value.partition("=")
        flags[name] = value
    return flags


def wait_until_ready(process, log):
    """Its address, which it logs since the port is one that was free."""
    deadline = time.monotonic() + LOAD_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        text = pathlib.Path(log).read_text()
        found = re.search(r"ready: (http://\S+)", text)
        if found:
            return found.group(1)
        time.sleep(0.05)
    raise SystemExit(f"the server did not become ready (exit code {process.poll()}); its log is {log}:\n"
                     + pathlib.Path(log).read_text()[-2000:])


def wait_until_settled(server):
    """Until its memory for keys and values is backed by real pages, which it sees to in the background: on a virtual
    machine that takes seconds, and those who measure would find them in the first answers."""
    deadline, before = time.monotonic() + SETTLE_SECONDS, None
    while time.monotonic() < deadline and (now := server.memory_bytes()) is not None and now != before:
        before = now
        time.sleep(2)


def end(process):
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def parse_metrics(text):
    """Sample name with its labels -> value, without the buckets of histograms and without second names."""
    samples = {}
    for line in text.splitlines():
        if line and not line.startswith(("#", "vllm:")) and "_bucket{" not in line:
            name, value = line.rsplit(" ", 1)
            samples[name] = float(value)
    return samples


def metric(samples, name):
    """Summed over its labels; None when there is none."""
    values = [value for sample, value in samples.items() if sample.split("{")[0] == name]
    return sum(values) if values else None


async def watch_memory(server, origin_s, clock, series, every_s=1):
    # In a thread: the kernel takes some milliseconds to count the pages of a large process.
    while (sizes := await asyncio.to_thread(server.memory_bytes)) is not None:
        series.append((round(clock() - origin_s, 3), *sizes))
        await asyncio.sleep(every_s)
