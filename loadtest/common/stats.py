"""Figures from samples. The definitions:

TTFT       first chunk with tokens - when the request was due
ITL        gap between two chunks of one answer; figures pool the gaps of all answers
mean ITL   of one answer: (last chunk - first chunk) / (tokens - 1)
e2e        end of the stream - when the request was due
good       answered whole, with TTFT and mean ITL within their limits
goodput    good requests / second of the schedule
"""
import math
import statistics

QUANTILES = (50, 90, 95, 99)


def percentile(values, percent):
    """The smallest value that is not below `percent` % of all (nearest rank); None of none."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def summary(values):
    result = {"count": len(values)}
    for percent in QUANTILES:
        result[f"p{percent}"] = percentile(values, percent)
    result["mean"] = statistics.fmean(values) if values else None
    result["max"] = max(values) if values else None
    return result


def median(values):
    values = [value for value in values if value is not None]
    return statistics.median(values) if values else None


def ratio(value, base):
    return value / base if value is not None and base else None


def ttft(sample):
    return None if sample.first_s is None else sample.first_s - sample.due_s


def ttfts(samples):
    return [ttft(sample) for sample in samples if sample.first_s is not None]


def waits(samples):
    """TTFTs; whoever was given up without one has waited until then. Without those, a server that answers some
    quickly and others never would look quick."""
    return [(sample.end_s if sample.first_s is None else sample.first_s) - sample.due_s for sample in samples
            if sample.first_s is not None or (sample.status in (0, 200) and sample.end_s is not None)]


def gaps(samples, begin_s=-math.inf, end_s=math.inf):
    """Those that end in the interval, of answers that were broken off, too."""
    return [after - before for sample in samples for before, after in zip(sample.chunk_s, sample.chunk_s[1:])
            if begin_s <= after < end_s]


def mean_gap(sample):
    if sample.tokens < 2 or len(sample.chunk_s) < 2:
        return 0.0
    return (sample.chunk_s[-1] - sample.chunk_s[0]) / (sample.tokens - 1)


def e2es(samples):
    return [sample.end_s - sample.due_s for sample in samples if sample.complete]


def generated(samples, begin_s, end_s):
    return sum(count for sample in samples for at, count in zip(sample.chunk_s, sample.chunk_tokens)
               if begin_s <= at < end_s)


def prefilled(samples, begin_s, end_s):
    """Prompt tokens of the answers that began in the interval."""
    return sum(sample.prompt_tokens for sample in samples
               if sample.first_s is not None and begin_s <= sample.first_s < end_s)


def good(sample, ttft_limit_s, itl_limit_s):
    return sample.complete and ttft(sample) <= ttft_limit_s and mean_gap(sample) <= itl_limit_s


def statuses(samples):
    """Status -> how many; 0 stands for no answer."""
    counts = {}
    for sample in samples:
        counts[str(sample.status)] = counts.get(str(sample.status), 0) + 1
    return counts
