"""When requests are sent: open loop (by a schedule, whatever the server does) and closed loop (a fixed number)."""
import asyncio
import math

from .client import clock


def poisson(source, rate, seconds):
    """Times in [0, seconds) of a Poisson process with its number of arrivals fixed at the expected one. So the
    offered load is what it says, and arrivals still come in clumps."""
    return sorted(source.uniform(0, seconds) for _ in range(max(1, round(rate * seconds))))


async def sleep_until(when_s):
    while (left := when_s - clock()) > 0:
        await asyncio.sleep(left)


async def open_loop(times, send):
    """Starts `send(i, due_s)` at each of the times (in seconds from now, rising); their tasks, still running."""
    begin = clock()
    tasks = []
    for i, at in enumerate(times):
        await sleep_until(begin + at)
        tasks.append(asyncio.create_task(send(i, begin + at)))
    return tasks


async def closed_loop(clients, end_s, send):
    """That many at once until `end_s`, each followed by the next; what then runs is cancelled."""
    async def one(number):
        while clock() < end_s:
            sample = await send(number)
            if sample is not None and sample.status != 200:
                # A refusal is quick: without a pause this would be a storm of refusals.
                await asyncio.sleep(min(sample.retry_after_s or 0.1, 1.0))

    tasks = [asyncio.create_task(one(number)) for number in range(clients)]
    try:
        await sleep_until(end_s)
    finally:
        await stop(tasks)


async def finish(tasks, seconds=math.inf):
    """Waits for the tasks, at most that long; cancels the others and returns how many those were."""
    if not tasks:
        return 0
    _, late = await asyncio.wait(tasks, timeout=None if seconds == math.inf else seconds)
    await stop(late)
    for task in tasks:
        if not task.cancelled() and task.exception():
            raise task.exception()
    return len(late)


async def stop(tasks):
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
