"""How many events a second can the client of these programs take in?

A process of its own plays a server that streams events of the usual size as fast as they are read; nothing is
computed. A load test whose server sends more than this measures the client.
"""
import argparse
import asyncio
import json
import subprocess
import sys
import time

from .common.client import Client, clock

WANTED_PER_S = 3000


async def play_server(streams_tokens):
    """An HTTP server that knows one answer; prints its port."""
    event = {"id": "cmpl-0123456789abcdef0123456789abcdef", "object": "text_completion", "created": 1700000000,
             "model": "a-model-with-a-name-of-usual-length", "system_fingerprint": "fingerprint-0.1.0",
             "choices": [{"index": 0, "text": " word", "logprobs": None, "finish_reason": None, "token_ids": [1234]}],
             "usage": None}
    chunk = b"data: " + json.dumps(event).encode() + b"\n\n"
    event["choices"][0]["finish_reason"] = "length"
    last = b"data: " + json.dumps(event).encode() + b"\n\ndata: [DONE]\n\n"

    def framed(data):
        return f"{len(data):x}\r\n".encode() + data + b"\r\n"

    async def answer(reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
                await reader.readexactly(int(length[0].split(b":")[1]))
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                             b"Transfer-Encoding: chunked\r\n\r\n")
                for _ in range(streams_tokens - 1):
                    # Each event is a write of its own, as a server does that has one a step.
                    writer.write(framed(chunk))
                    await writer.drain()
                    await asyncio.sleep(0)
                writer.write(framed(last) + b"0\r\n\r\n")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def measure(port, streams, tokens):
    samples = []
    async with Client(f"http://127.0.0.1:{port}") as client:
        begin_s, begin_cpu_s = clock(), time.process_time()
        await asyncio.gather(*(client.complete([1, 2, 3], tokens, samples) for _ in range(streams)))
        seconds, cpu_s = clock() - begin_s, time.process_time() - begin_cpu_s
    assert all(sample.complete for sample in samples), [sample.error for sample in samples]
    events = sum(sample.tokens for sample in samples)
    return {"streams": streams, "events": events, "events_per_s": events / seconds, "client_cpu_us_per_event":
            cpu_s / events * 1e6, "events_per_cpu_s": events / cpu_s}


def main():
    command_line = argparse.ArgumentParser(description=__doc__.strip(),
                                           formatter_class=argparse.RawDescriptionHelpFormatter)
    command_line.add_argument("--tokens", type=int, default=500, help="of each stream (%(default)s)")
    command_line.add_argument("--play-server", action="store_true", help=argparse.SUPPRESS)
    args = command_line.parse_args()
    if args.play_server:
        return asyncio.run(play_server(args.tokens))
    server = subprocess.Popen([sys.executable, "-m", "loadtest.client_speed", "--play-server", "--tokens",
                               str(args.tokens)], stdout=subprocess.PIPE, text=True)
    try:
        port = int(server.stdout.readline())
        slowest = None
        for streams in (8, 64, 256):
            row = asyncio.run(measure(port, streams, args.tokens))
            slowest = min(slowest or row["events_per_s"], row["events_per_s"])
            print(f"{streams:4} streams: {row['events_per_s']:8.0f} events/s, {row['client_cpu_us_per_event']:5.1f} us "
                  f"of the client's CPU an event: {row['events_per_cpu_s']:8.0f}/s with a core of its own")
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()
    if slowest < WANTED_PER_S:
        raise SystemExit(f"fewer than {WANTED_PER_S} events/s: is the machine busy?")
    return 0


if __name__ == "__main__":
    sys.exit(main())
