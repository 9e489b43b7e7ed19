"""Reads traces: when requests came and how long they were. Three formats, told apart by their first line.

Azure      CSV    TIMESTAMP,ContextTokens,GeneratedTokens; times of a calendar, seven digits of fractions
BurstGPT   CSV    Timestamp,Model,Request tokens,Response tokens,...; seconds
Mooncake   JSONL  timestamp (ms), input_length, output_length, hash_ids: one of each 512 tokens of the prompt
"""
import csv
import datetime
import json
from dataclasses import dataclass, field

BLOCK_TOKENS = 512


@dataclass
class Arrival:
    at_s: float  # since the first of the trace
    input_tokens: int
    output_tokens: int
    hash_ids: list = field(default_factory=list)  # equal ones: equal blocks of tokens


def read_trace(path, most):
    """The first `most` requests that have a prompt and an answer, by time."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        first = file.readline()
        file.seek(0)
        rows = read_jsonl(file) if first.lstrip().startswith("{") else read_csv(file)
        arrivals = []
        for number, row in enumerate(rows, 1):
            if most and len(arrivals) >= most:
                break
            try:
                arrival = row()
            except (KeyError, TypeError, ValueError) as error:
                raise SystemExit(f"{path}: request {number}: {type(error).__name__}: {error}") from None
            # Failed requests stand in traces with no answer.
            if arrival.input_tokens > 0 and arrival.output_tokens > 0:
                arrivals.append(arrival)
    if not arrivals:
        raise SystemExit(f"{path}: no request with a prompt and an answer")
    arrivals.sort(key=lambda arrival: arrival.at_s)
    begin_s = arrivals[0].at_s
    for arrival in arrivals:
        arrival.at_s -= begin_s
    return arrivals


def read_jsonl(file):
    for line in file:
        if line.strip():
            yield lambda line=line: mooncake(json.loads(line))


def read_csv(file):
    for row in csv.DictReader(file):
        yield lambda row=row: azure(row) if "TIMESTAMP" in row else burst(row)


def mooncake(row):
    return Arrival(row["timestamp"] / 1000, int(row["input_length"]), int(row["output_length"]),
                   list(row.get("hash_ids", ())))


def azure(row):
    return Arrival(calendar_seconds(row["TIMESTAMP"]), int(row["ContextTokens"]), int(row["GeneratedTokens"]))


def burst(row):
    return Arrival(float(row["Timestamp"]), int(row["Request tokens"]), int(row["Response tokens"]))


def calendar_seconds(text):
    """Of "2023-11-16 18:15:46.6805900", maybe with a zone; more digits than six are cut off."""
    whole, point, rest = text.strip().partition(".")
    digits = rest[:len(rest) - len(rest.lstrip("0123456789"))]
    moment = datetime.datetime.fromisoformat(whole + rest[len(digits):])
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.timezone.utc)
    return moment.timestamp() + (float("0." + digits) if digits else 0.0)


def prompt_of(arrival, tokens, prompts):
    """Its first `tokens` tokens: of named blocks while there are names, then of new ones."""
    result = []
    for name in arrival.hash_ids:
        if len(result) >= tokens:
            break
        result += prompts.block(name, BLOCK_TOKENS)
    del result[tokens:]
    return result + prompts.new(tokens - len(result))
