"""One run against one server: its samples, the server's metrics around it, and whether the client kept up."""
import asyncio
import contextlib
import time

from .client import Client, clock
from .server import metric, parse_metrics, watch_memory
from .stats import percentile, statuses

TICK_S = 0.01


class Run:
    """Use as `async with Run(...) as run`, then `await run.complete(prompt, tokens, ...)`."""

    def __init__(self, name, server, args, salt):
        self.name = name
        self.server = server
        self.samples = []
        self.origin_s = clock()
        self.memory = []  # (seconds since the origin, resident bytes, the same without the largest mapping)
        self._client = Client(server.url, args.model_name)
        self._salt = salt
        self._before, self._after = {}, {}
        self._lags = []
        self._cpu_s = 0.0
        self._wall_s = 0.0
        self._watchers = []

    async def __aenter__(self):
        await self._client.__aenter__()
        self._before = await self._metrics()
        self.origin_s = clock()
        self._cpu_s = -time.process_time()
        self._watchers = [asyncio.create_task(self._watch_lag()),
                          asyncio.create_task(watch_memory(self.server, self.origin_s, clock, self.memory))]
        return self

    async def __aexit__(self, kind, *_):
        self._cpu_s += time.process_time()
        self._wall_s = clock() - self.origin_s
        for watcher in self._watchers:
            watcher.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)
        if kind is None:
            self._after = await self._metrics()
        await self._client.__aexit__()

    def complete(self, prompt, tokens, **more):
        """Client.complete; the sample is kept. The salt makes the server's prefix cache know nothing of earlier
        programs' prompts, which are the same ones where the seed is."""
        return self._client.complete(prompt, tokens, self.samples, cache_salt=self._salt, **more)

    def labelled(self, *labels):
        return [sample for sample in self.samples if sample.label in labels]

    async def metric_now(self, name):
        return metric(await self._metrics(), name)

    def metric_growth(self, name):
        """By how much the server's counter grew; None where the server has none."""
        before, after = metric(self._before, name), metric(self._after, name)
        return None if before is None or after is None else after - before

    def client_figures(self):
        """How late the client was itself: if these are not small, the figures are the client's."""
        lateness = [s.sent_s - s.due_s for s in self.samples if s.sent_s is not None]
        return {"send_lateness_p99_s": percentile(lateness, 99), "loop_lag_p99_s": percentile(self._lags, 99),
                "cpu_share": self._cpu_s / self._wall_s if self._wall_s else None}

    def to_json(self, figures):
        return {"name": self.name, "server": {"url": self.server.url, "flags": self.server.flags},
                "figures": figures, "client": self.client_figures(), "statuses": statuses(self.samples),
                "metrics_before": self._before, "metrics_after": self._after,
                "memory": [{"s": at, "rss": rss, "without_largest": rest} for at, rss, rest in self.memory],
                "samples": [sample.to_json(self.origin_s) for sample in self.samples]}

    async def _metrics(self):
        # Servers without /metrics can be tested, too.
        with contextlib.suppress(OSError, ValueError, asyncio.TimeoutError):
            return parse_metrics(await self._client.get_text("/metrics"))
        return {}

    async def _watch_lag(self):
        """How much later than asked for the event loop comes round."""
        while True:
            asked = clock()
            await asyncio.sleep(TICK_S)
            self._lags.append(max(0.0, clock() - asked - TICK_S))
