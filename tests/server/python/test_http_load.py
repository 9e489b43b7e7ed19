"""Many clients at once: every answer right, and nothing left behind."""
import asyncio
import json
import random
import time

import httpx
import openai
import pytest

from servers import GOLDEN, MODEL_NAME

pytestmark = pytest.mark.alone


def golden(count):
    """Prompts that are not too long, chat and text mixed, shortest first."""
    with open(GOLDEN / "greedy.jsonl") as lines:
        cases = [json.loads(line) for line in lines]
    return sorted((c for c in cases if len(c["prompt_ids"]) < 100 and c["kind"] in ("chat", "text")),
                  key=lambda c: (c["id"] * 7919) % 100)[:count]


@pytest.mark.slow
def test_golden_prompts_through_the_daemon(exact_daemon):
    with exact_daemon.http() as client:
        for case in golden(20):
            body = {"temperature": 0, "max_tokens": len(case["ids"]), "return_token_ids": True}
            if case["kind"] == "chat":
                answer = client.post("/v1/chat/completions", json={"messages": case["messages"], **body}).json()
                prompt_ids = answer["prompt_token_ids"]
            else:
                answer = client.post("/v1/completions", json={"prompt": case["text"], **body}).json()
                prompt_ids = answer["choices"][0]["prompt_token_ids"]
            assert prompt_ids == case["prompt_ids"], case["id"]
            ids = answer["choices"][0]["token_ids"]
            for step, (got, want, margin) in enumerate(zip(ids, case["ids"], case["margins"])):
                if got != want:
                    assert margin < 0.001, f"prompt {case['id']} step {step}: {got} for {want}, margin {margin}"
                    break
            else:
                assert len(ids) == len(case["ids"])
                assert answer["choices"][0]["finish_reason"] == ("stop" if case["stop"] == "eos" else "length")


async def stream_text(client, prompt, **more):
    stream = await client.chat.completions.create(model=MODEL_NAME, messages=[{"role": "user", "content": prompt}],
                                                  stream=True, max_tokens=16, **more)
    text = ""
    async for chunk in stream:
        text += chunk.choices[0].delta.content or ""
    return text


@pytest.mark.slow
def test_32_clients_get_what_they_get_alone(daemon):
    prompts = [f"Write one sentence about the number {i}." for i in range(32)]

    async def run():
        client = openai.AsyncOpenAI(base_url=daemon.url + "/v1", api_key="none", max_retries=0, timeout=120)
        sampling = [{"temperature": 0} if i % 2 else {"temperature": 0.8, "seed": i} for i in range(32)]
        alone = [await stream_text(client, p, **s) for p, s in zip(prompts, sampling)]
        together = await asyncio.gather(*(stream_text(client, p, **s) for p, s in zip(prompts, sampling)))
        assert together == alone

    asyncio.run(run())
    daemon.wait_until_idle()


@pytest.mark.slow
def test_2000_requests_of_which_200_are_cut_off_leave_nothing(daemon):
    """All blocks free, all sockets closed, memory flat."""
    rng = random.Random(2000)
    daemon.post("/v1/completions", {"prompt": "warm", "max_tokens": 2})
    files_before = daemon.open_files()
    aborted_before = daemon.metric("sluice_request_success_total", finished_reason="abort")
    resident = []

    async def one(client, number):
        prompt = "".join(rng.choice("abcdefgh ") for _ in range(rng.randint(1, 12)))
        if number % 10:
            response = await client.post("/v1/completions", json={"prompt": prompt, "max_tokens": 1, "seed": number})
            assert response.status_code == 200, response.text
            assert response.json()["usage"]["completion_tokens"] == 1
            return
        # Cut off: while streaming, or waiting for a plain answer.
        body = {"prompt": prompt, "max_tokens": 4000, "ignore_eos": True, "stream": number % 20 == 0}
        try:
            async with httpx.AsyncClient(base_url=daemon.url, timeout=0.3 if number % 20 else 60) as leaver:
                async with leaver.stream("POST", "/v1/completions", json=body) as response:
                    async for _ in response.aiter_bytes():
                        break
        except httpx.TimeoutException:
            pass

    async def run():
        limits = httpx.Limits(max_connections=32)
        async with httpx.AsyncClient(base_url=daemon.url, timeout=120, limits=limits) as client:
            for begin in range(0, 2000, 100):
                await asyncio.gather(*(one(client, n) for n in range(begin, begin + 100)))
                resident.append(daemon.resident_bytes())

    asyncio.run(run())
    daemon.wait_until_idle()
    end = time.monotonic() + 10
    while daemon.open_files() > files_before and time.monotonic() < end:
        time.sleep(0.05)
    assert daemon.open_files() <= files_before
    assert daemon.metric("sluice_request_success_total", finished_reason="abort") - aborted_before >= 190
    # Flat: the last half grows by less than a kibibyte a request.
    assert resident[-1] - resident[len(resident) // 2] < 1000 * 1024, resident


@pytest.mark.slow
def test_a_slow_reader_slows_nobody(daemon):
    async def tokens_per_second(client):
        begin = time.monotonic()
        text = await client.post("/v1/completions", json={"prompt": "a b c", "max_tokens": 60, "ignore_eos": True})
        assert text.json()["usage"]["completion_tokens"] == 60
        return 60 / (time.monotonic() - begin)

    async def run():
        async with httpx.AsyncClient(base_url=daemon.url, timeout=120) as client:
            await tokens_per_second(client)
            alone = await tokens_per_second(client)
            # Reads the head and then nothing more: its tokens pile up in its own buffer.
            slow = await asyncio.open_connection("127.0.0.1", int(daemon.url.rsplit(":", 1)[1]), limit=1024)
            body = json.dumps({"prompt": "x", "max_tokens": 3000, "ignore_eos": True, "stream": True}).encode()
            slow[1].write(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            await slow[0].readline()
            beside = await tokens_per_second(client)
            slow[1].transport.abort()
            # Two sequences share a step's weights; a wait for the slow reader would cost seconds.
            assert beside > alone / 4, (alone, beside)

    asyncio.run(run())
    daemon.wait_until_idle()


def test_metrics_tell_the_truth(daemon):
    daemon.wait_until_idle()
    names = {"prompt": "sluice_prompt_tokens_total", "made": "sluice_generation_tokens_total",
             "first": "sluice_time_to_first_token_seconds_count", "e2e": "sluice_e2e_request_latency_seconds_count",
             "next": "sluice_inter_token_latency_seconds_count"}
    before = {key: daemon.metric(name) for key, name in names.items()}
    usage = [daemon.post("/v1/completions", {"prompt": "The sea " * k, "max_tokens": 5, "ignore_eos": True}).json()["usage"]
             for k in range(1, 6)]
    daemon.wait_until_idle()
    time.sleep(0.1)
    grown = {key: daemon.metric(name) - before[key] for key, name in names.items()}
    assert grown == {"prompt": sum(u["prompt_tokens"] for u in usage), "made": 25, "first": 5, "e2e": 5, "next": 20}
    samples = daemon.metrics()
    assert any(name.startswith("sluice_kv_cache_usage_perc{") for name in samples)
    assert samples["process_resident_memory_bytes"] > 50e6
