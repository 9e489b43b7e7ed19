"""A streaming client that writes down when everything happened to one request.

Times are seconds of one monotonic clock. A request's times count from when it was *due*, not from when it was
sent: a client that falls behind its own schedule must not hide what the server's callers would have waited.
"""
import asyncio
import json
import time
from dataclasses import asdict, dataclass, field

try:
    import aiohttp
except ImportError:
    raise SystemExit("aiohttp is not installed: pip install -r loadtest/requirements.txt") from None

clock = time.perf_counter


@dataclass
class Sample:
    """One request. A chunk is one event that brought tokens; first token and gaps are a reader's view of chunks."""
    label: str
    due_s: float
    prompt_tokens: int
    tokens_asked: int
    sent_s: float | None = None
    headers_s: float | None = None
    end_s: float | None = None
    status: int = 0  # 0: no answer, see error
    retry_after_s: float | None = None
    finish_reason: str | None = None
    error: str | None = None
    cached_tokens: int | None = None
    prompt_tokens_told: int | None = None  # by the server, in usage
    tokens_told: int | None = None
    chunk_s: list[float] = field(default_factory=list)
    chunk_tokens: list[int] = field(default_factory=list)

    @property
    def tokens(self):
        return sum(self.chunk_tokens)

    @property
    def first_s(self):
        return self.chunk_s[0] if self.chunk_s else None

    @property
    def complete(self):
        return self.status == 200 and self.error is None and self.finish_reason is not None

    def to_json(self, origin_s):
        """With times in seconds since `origin_s`, to the microsecond."""
        def since(value):
            return None if value is None else round(value - origin_s, 6)

        row = asdict(self)
        for name in ("due_s", "sent_s", "headers_s", "end_s"):
            row[name] = since(row[name])
        row["chunk_s"] = [since(value) for value in self.chunk_s]
        return row


class Client:
    """Requests to one server over as many connections as are open at once."""

    def __init__(self, url, model=None):
        self.url = url
        self.model = model
        self._session = None

    async def __aenter__(self):
        # No limit of connections: a request that waits for one would be late by the client's fault.
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=30)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=30)
        self._session = aiohttp.ClientSession(self.url, connector=connector, timeout=timeout, read_bufsize=1 << 18)
        return self

    async def __aexit__(self, *_):
        await self._session.close()

    async def get_text(self, path):
        async with self._session.get(path) as response:
            response.raise_for_status()
            return await response.text()

    async def complete(self, prompt, tokens, keep, label="", due_s=None, headers=None, **fields):
        """Sends it now and reads to the end; never raises for what the server does. The list `keep` gets the sample
        at the start, so that it has what came of an answer that the caller cancels, too."""
        sample = Sample(label, clock() if due_s is None else due_s, len(prompt), tokens)
        keep.append(sample)
        body = {"prompt": prompt, "max_tokens": tokens, "min_tokens": tokens, "ignore_eos": True, "temperature": 0,
                "stream": True, "stream_options": {"include_usage": True}, "return_token_ids": True, **fields}
        if self.model:
            body["model"] = self.model
        data = json.dumps(body, separators=(",", ":")).encode()
        sample.sent_s = clock()
        try:
            await self._exchange(data, headers or {}, sample)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            sample.error = f"{type(error).__name__}: {error}"
        except asyncio.CancelledError:
            sample.error = "cancelled by the client"
            raise
        finally:
            sample.end_s = clock()
        return sample

    async def _exchange(self, data, headers, sample):
        headers = {"Content-Type": "application/json", **headers}
        async with self._session.post("/v1/completions", data=data, headers=headers) as response:
            sample.headers_s = clock()
            sample.status = response.status
            if "Retry-After" in response.headers:
                sample.retry_after_s = float(response.headers["Retry-After"])
            if response.status != 200:
                sample.error = (await response.text())[:300]
                return
            rest = b""
            async for piece in response.content.iter_any():
                now = clock()
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    if line.startswith(b"data:"):
                        take_event(line[5:].strip(), now, sample)
            if sample.finish_reason is None and sample.error is None:
                sample.error = "the stream ended early"


def take_event(data, now, sample):
    if data == b"[DONE]":
        return
    event = json.loads(data)
    if "error" in event:
        sample.error = str(event["error"].get("message", event["error"]))[:300]
        return
    for choice in event.get("choices", ()):
        ids = choice.get("token_ids")
        # Servers that tell no ids send a chunk for each token.
        count = len(ids) if ids is not None else int(bool(choice.get("text")))
        if count:
            sample.chunk_s.append(now)
            sample.chunk_tokens.append(count)
        sample.finish_reason = choice.get("finish_reason") or sample.finish_reason
    usage = event.get("usage")
    if usage:
        sample.prompt_tokens_told = usage.get("prompt_tokens")
        sample.tokens_told = usage.get("completion_tokens")
        sample.cached_tokens = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
