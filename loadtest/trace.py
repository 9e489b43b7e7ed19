"""How does a recorded load run here?

Sends the requests of a trace (Azure or BurstGPT CSV, Mooncake JSONL) at the trace's times, whatever the server does,
with prompts of the trace's lengths and answers of exactly its lengths. Equal hash ids of a Mooncake trace give equal
blocks of 512 tokens, so that shared beginnings are shared here, too.
"""
import argparse

from .common import arrivals, cli
from .common.report import ms, number, percent, print_table
from .common.run import Run
from .common.server import serving
from .common.stats import e2es, gaps, good, ratio, statuses, summary, ttfts
from .common.trace_files import prompt_of, read_trace


def positive(text):
    value = float(text)
    if value <= 0:
        raise argparse.ArgumentTypeError("must be greater than 0")
    return value


def arguments():
    result = cli.parser(__doc__)
    result.add_argument("file", help="the trace")
    result.add_argument("--speed", type=positive, default=1, help="2: twice as fast as it was (%(default)s)")
    result.add_argument("--requests", type=int, default=0, help="the first N; 0: all (%(default)s)")
    result.add_argument("--clip-input", type=int, default=4096, help="most tokens of a prompt (%(default)s)")
    result.add_argument("--clip-output", type=int, default=512, help="most tokens of an answer (%(default)s)")
    result.add_argument("--ttft-limit", type=float, default=1, help="seconds, for goodput (%(default)s)")
    result.add_argument("--itl-limit", type=float, default=0.1, help="seconds, for goodput (%(default)s)")
    result.add_argument("--drain-seconds", type=float, default=120, help="after the last arrival (%(default)s)")
    return result


async def drive(run, trace, prompts, args):
    # Made before the clock runs: making a long prompt takes milliseconds.
    ready = [(prompt_of(arrival, min(arrival.input_tokens, args.clip_input), prompts),
              min(arrival.output_tokens, args.clip_output)) for arrival in trace]

    async def send(i, due_s):
        prompt, tokens = ready[i]
        ready[i] = None
        return await run.complete(prompt, tokens, label="trace", due_s=due_s)

    tasks = await arrivals.open_loop([arrival.at_s / args.speed for arrival in trace], send)
    return await arrivals.finish(tasks, args.drain_seconds)


def figures_of(run, trace, given_up, args):
    samples = run.samples
    begin_s = min(sample.due_s for sample in samples)
    seconds = max(sample.end_s for sample in samples) - begin_s
    answered = [sample for sample in samples if sample.complete]
    tokens, prompt_tokens = sum(s.tokens for s in samples), sum(s.prompt_tokens for s in answered)
    cached = sum(sample.cached_tokens or 0 for sample in answered)
    schedule_s = trace[-1].at_s / args.speed
    good_count = sum(good(sample, args.ttft_limit, args.itl_limit) for sample in samples)
    return {"sent": len(samples), "answered": len(answered), "given_up": given_up, "statuses": statuses(samples),
            "clipped": sum(a.input_tokens > args.clip_input or a.output_tokens > args.clip_output for a in trace),
            "schedule_s": schedule_s, "seconds": seconds, "offered_per_s": ratio(len(samples), schedule_s),
            "answered_per_s": len(answered) / seconds, "good": good_count, "goodput_per_s": good_count / seconds,
            "good_share": good_count / len(samples), "generated_per_s": tokens / seconds,
            "tokens_per_s": (tokens + prompt_tokens) / seconds, "cached_share": ratio(cached, prompt_tokens),
            "ttft_s": summary(ttfts(samples)), "itl_s": summary(gaps(samples)), "e2e_s": summary(e2es(samples))}


def print_figures(figures):
    shown = ("p50", "p90", "p95", "p99", "mean", "max")
    print_table("latencies, ms", ["", "count", "P50", "P90", "P95", "P99", "mean", "max"],
                [[name, figures[key]["count"], *(ms(figures[key][q]) for q in shown)]
                 for name, key in (("TTFT", "ttft_s"), ("ITL", "itl_s"), ("end to end", "e2e_s"))])
    counts = ", ".join(f"{count} of status {status}" for status, count in figures["statuses"].items())
    print_table("load", ["", ""], [
        ["sent", f"{figures['sent']} ({counts}); {figures['clipped']} clipped"],
        ["answered whole", f"{figures['answered']}; {figures['given_up']} given up"],
        ["schedule, run", f"{number(figures['schedule_s'], 1)} s, {number(figures['seconds'], 1)} s"],
        ["offered, answered", f"{number(figures['offered_per_s'])}, {number(figures['answered_per_s'])} requests/s"],
        ["goodput", f"{number(figures['goodput_per_s'])} requests/s; {percent(figures['good_share'])} of all are good"],
        ["generated", f"{number(figures['generated_per_s'], 1)} tokens/s"],
        ["prompt + generated", f"{number(figures['tokens_per_s'], 1)} tokens/s"],
        ["prompt tokens cached", percent(figures["cached_share"])]])


def draw(axes, run):
    began = [sample for sample in run.samples if sample.first_s is not None]
    x = [sample.due_s - run.origin_s for sample in began]
    axes[0].plot(x, [sample.first_s - sample.due_s for sample in began], ".", label="TTFT")
    whole = [sample for sample in began if sample.complete]
    axes[0].plot([s.due_s - run.origin_s for s in whole], [s.end_s - s.due_s for s in whole], ".", label="end to end")
    none = [sample.due_s - run.origin_s for sample in run.samples if sample.first_s is None]
    axes[0].plot(none, [axes[0].get_ylim()[0] or 0.001] * len(none), "rx", label="not answered")
    axes[0].set(ylabel="s", yscale="log")
    axes[0].legend(fontsize="small")
    axes[1].plot(x, [sample.prompt_tokens for sample in began], ".", label="prompt")
    axes[1].plot(x, [sample.tokens for sample in began], ".", label="answer")
    axes[1].set(xlabel="due, s", ylabel="tokens", yscale="log")
    axes[1].legend(fontsize="small")


async def main(argv=None):
    args, report, prompts = cli.start("trace", arguments(), argv)
    trace = read_trace(args.file, args.requests)
    with serving(args, {}, report.log_path("server")) as server:
        report.note_server(server)
        async with Run("trace", server, args, cli.new_salt()) as run:
            given_up = await drive(run, trace, prompts, args)
    figures = figures_of(run, trace, given_up, args)
    print_figures(figures)
    report.write(figures, [run.to_json(figures)])
    report.plot(2, lambda axes: draw(axes, run))


if __name__ == "__main__":
    cli.run(main)
