"""Server processes for the tests: the daemon with the default model, and the same server over a scripted engine.

SLUICED names the daemon (default: build/release/server/sluiced); the scripted server lies in the same build
tree. Servers listen on ports of their own, and their logs are shown when a test fails.
"""
import os
import pathlib
import re
import signal
import subprocess
import time

import httpx
import openai

ROOT = pathlib.Path(__file__).resolve().parents[3]
SLUICED = pathlib.Path(os.environ.get("SLUICED", ROOT / "build/release/server/sluiced"))
SCRIPTED = SLUICED.parent.parent / "tests/server/scripted_server"
GOLDEN = ROOT / "tests/golden"
MODEL_NAME = "smollm2"


def model_path():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.environ.get("SLUICE_TEST_MODEL") or f"{cache}/sluice/SmolLM2-135M-Instruct.Q4_1.gguf"


class Server:
    """A server process and clients for it."""

    def __init__(self, command, log):
        self.log = log
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=open(log, "w"), text=True)
        self.url = None
        self.kv_bytes = 0

    def read_log(self):
        return pathlib.Path(self.log).read_text()

    def wait_for_log(self, pattern, seconds=120):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = re.search(pattern, self.read_log())
            if found:
                return found
            assert self.process.poll() is None, f"ended with {self.process.returncode}:\n{self.read_log()}"
            time.sleep(0.02)
        raise AssertionError(f"no {pattern!r} in the log:\n{self.read_log()}")

    def openai(self, **kwargs):
        return openai.OpenAI(base_url=self.url + "/v1", api_key="none", max_retries=0, timeout=120, **kwargs)

    def http(self, **kwargs):
        return httpx.Client(base_url=self.url, timeout=120, **kwargs)

    def post(self, path, body, headers=None):
        with self.http() as client:
            return client.post(path, json=body, headers=headers)

    def metrics(self):
        """Sample name with its labels -> value."""
        text = httpx.get(self.url + "/metrics", timeout=30).text
        samples = {}
        for line in text.splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                samples[name] = float(value)
        return samples

    def metric(self, name, **labels):
        """The sum over all samples of that name with these labels."""
        total = 0.0
        for sample, value in self.metrics().items():
            if sample.split("{")[0] == name and all(f'{k}="{v}"' in sample for k, v in labels.items()):
                total += value
        return total

    def wait_until_idle(self, seconds=20):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            busy = [self.metric(f"sluice_{name}") for name in
                    ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")]
            if busy == [0, 0, 0]:
                return
            time.sleep(0.02)
        raise AssertionError(f"running, waiting, KV usage: {busy}")

    def open_files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def resident_bytes(self):
        """Without the memory for keys and values, which the daemon backs bit by bit after its start."""
        total = size = 0
        for line in pathlib.Path(f"/proc/{self.process.pid}/smaps").read_text().splitlines():
            if line.startswith("Size:"):
                size = int(line.split()[1]) << 10
            elif line.startswith("Rss:") and not (self.kv_bytes and size >= self.kv_bytes):
                total += int(line.split()[1]) << 10
        return total

    def stop(self, seconds=60):
        """Ends it as at a keyboard, without a lame duck's time; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(seconds)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self.process.stdout.close()


def start_daemon(log, *flags, wait=True, name=MODEL_NAME, kv_bytes=400 << 20, model=None):
    server = Server([str(SLUICED), "serve", "--model", model or model_path(), "--served-model-name", name,
                     "--http-port", "0", "--grpc-port", "0", "--kv-bytes", str(kv_bytes), *flags], str(log))
    server.kv_bytes = kv_bytes
    port = server.wait_for_log(r"listening on [0-9.]+:(\d+)").group(1)
    server.url = f"http://127.0.0.1:{port}"
    if wait:
        server.wait_for_log("ready: ")
    return server


def start_scripted(log, *flags):
    server = Server([str(SCRIPTED), *flags], str(log))
    server.url = server.process.stdout.readline().strip()
    assert server.url, server.read_log()
    return server
