"""Do answers keep flowing while long prompts come in?

Some streams decode without end; after a time in which they are alone, a long prompt comes every few seconds. Shows
the gaps between their tokens in both phases, and what became of the long prompts.

With --sluiced it compares three settings, in turn and in several rounds: none, engine.inter_token_target at 1.5
times the median gap of the streams alone, and a small fixed engine.step_tokens.
"""
import asyncio
import math

from .common import arrivals, cli
from .common.client import clock
from .common.report import ms, number, percent, print_table
from .common.run import Run
from .common.server import serving
from .common.stats import gaps, generated, median, prefilled, ratio, summary, waits


# Prompts' and answers' tokens of all steps.
COMPUTED = "sluice_iteration_tokens_sum"


def arguments():
    result = cli.parser(__doc__)
    result.add_argument("--seconds", type=float, default=40, help="of the mixed phase (%(default)s)")
    result.add_argument("--alone-seconds", type=float, default=10, help="before it (%(default)s)")
    result.add_argument("--drain-seconds", type=float, default=20, help="then, for prompts under way (%(default)s)")
    result.add_argument("--streams", type=int, default=8, help="(%(default)s)")
    result.add_argument("--stream-prompt", type=int, default=32, help="their prompts' tokens (%(default)s)")
    result.add_argument("--stream-tokens", type=int, default=512, help="after which one starts anew (%(default)s)")
    result.add_argument("--long-prompt", type=int, default=2000, help="tokens (%(default)s)")
    result.add_argument("--long-tokens", type=int, default=16, help="of its answer (%(default)s)")
    result.add_argument("--every", type=float, default=2, help="seconds between long prompts (%(default)s)")
    result.add_argument("--rounds", type=int, default=5, help="with --sluiced (%(default)s)")
    result.add_argument("--target-factor", type=float, default=1.5, help="with --sluiced (%(default)s)")
    result.add_argument("--step-tokens", type=int, default=32, help="the small budget (%(default)s)")
    return result


async def drive(run, prompts, args):
    """When the mixed phase began and ended, and the tokens that the server computed in it, if it tells. The streams
    go on until the last long prompt is answered (or given up), as its answer would otherwise be an easier one."""
    async def stream(number):
        return await run.complete(prompts.new(args.stream_prompt), args.stream_tokens, label="stream")

    async def long(_, due_s):
        return await run.complete(prompts.new(args.long_prompt), args.long_tokens, label="long", due_s=due_s)

    streams = asyncio.create_task(arrivals.closed_loop(args.streams, math.inf, stream))
    await arrivals.sleep_until(run.origin_s + args.alone_seconds)
    computed = await run.metric_now(COMPUTED)
    begin_s = clock()
    times = [i * args.every for i in range(math.ceil(args.seconds / args.every))]
    longs = await arrivals.open_loop(times, long)
    end_s = begin_s + args.seconds
    await arrivals.sleep_until(end_s)
    computed_then = await run.metric_now(COMPUTED)
    await arrivals.finish(longs, args.drain_seconds)
    await arrivals.stop([streams])
    return begin_s, end_s, None if computed is None or computed_then is None else computed_then - computed


def figures_of(run, begin_s, end_s, computed, args):
    streams, longs = run.labelled("stream"), run.labelled("long")
    # Gaps count once all streams have begun: before that they hold the first prompts' computing.
    settled_s = max((s.first_s or math.inf for s in streams[:args.streams]), default=begin_s)
    settled_s = min(settled_s, begin_s)
    seconds = end_s - begin_s
    tokens = generated(run.samples, begin_s, end_s)
    # Seen from outside, a prompt counts as a whole when it is answered: coarse, with prompts that are so long.
    all_tokens = tokens + prefilled(run.samples, begin_s, end_s) if computed is None else computed
    return {"alone_itl_s": summary(gaps(streams, settled_s, begin_s)),
            "mixed_itl_s": summary(gaps(streams, begin_s, end_s)),
            "alone_from_s": settled_s - run.origin_s, "mixed_from_s": begin_s - run.origin_s,
            "mixed_until_s": end_s - run.origin_s,
            "long_sent": len(longs), "long_answered": sum(s.complete and s.end_s < end_s for s in longs),
            "long_answered_late": sum(s.complete and s.end_s >= end_s for s in longs),
            "long_ttft_s": summary(waits(longs)),
            # While a stream waits to begin anew it has no gaps: a server may not hide there.
            "restart_ttft_s": summary(waits([s for s in streams if begin_s <= s.due_s < end_s])),
            "generated_per_s": tokens / seconds,
            "tokens_per_s": all_tokens / seconds}


async def one_run(name, flags, args, report, prompts):
    """(figures, its JSON, the run)."""
    with serving(args, flags, report.log_path(name.replace(" ", "-"))) as server:
        report.note_server(server)
        async with Run(name, server, args, cli.new_salt()) as run:
            begin_s, end_s, computed = await drive(run, prompts, args)
    figures = figures_of(run, begin_s, end_s, computed, args)
    print_runs(name, {name: figures})
    return figures, run.to_json(figures), run


def print_runs(title, rows):
    """Answered: in the mixed phase + after it. Restart: of a stream, in the mixed phase."""
    shown = ("p50", "p95", "p99", "max")
    print_table(title, ["", "alone P50 ms", "mixed P50", "P95", "P99", "max", "long sent", "answered", "TTFT P50 ms",
                        "restart TTFT max", "generated/s", "tokens/s"],
                [[name, ms(row["alone_itl_s"]["p50"]), *(ms(row["mixed_itl_s"][q]) for q in shown),
                  row["long_sent"], f"{row['long_answered']}+{row['long_answered_late']}",
                  ms(row["long_ttft_s"]["p50"], 0), ms(row["restart_ttft_s"]["max"], 0),
                  number(row["generated_per_s"], 1), number(row["tokens_per_s"], 1)] for name, row in rows.items()])


async def compare(args, report, prompts):
    """The settings in turn, so that what else the machine does meets all of them: (figures, runs, the plot's runs)."""
    # A budget of a step may not be smaller than the number of answers at once, so all settings get the same one.
    base = {"max-running": str(args.step_tokens)}
    settings = {"no target": base, "target": None, "small steps": {**base, "step-tokens": str(args.step_tokens)}}
    rows = {name: [] for name in settings}
    runs, last, target_s = [], {}, None
    for i in range(args.rounds):
        for name in settings:
            if settings[name] is None:
                target_s = target_of(rows["no target"][0], args)
                settings[name] = {**base, "inter-token-target": f"{round(target_s * 1000)}ms"}
            figures, run_json, run = await one_run(f"{name} {i + 1}", settings[name], args, report, prompts)
            rows[name].append(figures)
            runs.append(run_json)
            last[name] = (run, figures)
    figures = {"target_s": target_s,
               "settings": {name: medians(rows[name], rows["no target"], target_s) for name in rows}}
    print_comparison(figures, args)
    return figures, runs, last


def target_of(figures, args):
    alone = figures["alone_itl_s"]["p50"]
    if alone is None:
        raise SystemExit("no gap was measured while the streams were alone: raise --alone-seconds")
    # The setting is in whole milliseconds.
    return math.ceil(alone * args.target_factor * 1000) / 1000


def medians(rows, base_rows, target_s):
    """Over the rounds; throughput against the same round's run without a target."""
    result = {f"{phase}_itl_{q}_s": median([row[f"{phase}_itl_s"][q] for row in rows])
              for phase in ("alone", "mixed") for q in ("p50", "p95", "p99")}
    result["p99_to_target"] = ratio(result["mixed_itl_p99_s"], target_s)
    result["long_ttft_p50_s"] = median([row["long_ttft_s"]["p50"] for row in rows])
    result["long_answered_share"] = median([ratio(row["long_answered"], row["long_sent"]) for row in rows])
    for name in ("generated_per_s", "tokens_per_s"):
        result[name] = median([row[name] for row in rows])
        result[name + "_to_no_target"] = median([ratio(row[name], base[name]) for row, base in zip(rows, base_rows)])
    return result


def print_comparison(figures, args):
    print_table(f"medians of {args.rounds} rounds; target {ms(figures['target_s'], 0)} ms",
                ["", "alone P50 ms", "mixed P50", "P95", "P99", "P99 / target", "long answered", "TTFT P50 ms",
                 "generated/s", "to no target", "tokens/s", "to no target"],
                [[name, ms(row["alone_itl_p50_s"]), ms(row["mixed_itl_p50_s"]), ms(row["mixed_itl_p95_s"]),
                  ms(row["mixed_itl_p99_s"]), number(row["p99_to_target"]), percent(row["long_answered_share"], 0),
                  ms(row["long_ttft_p50_s"], 0), number(row["generated_per_s"], 1),
                  number(row["generated_per_s_to_no_target"]), number(row["tokens_per_s"], 1),
                  number(row["tokens_per_s_to_no_target"])] for name, row in figures["settings"].items()])


def draw(axes, named, target_s):
    """Every gap of the streams as a dot where it ended; lines where long prompts were due."""
    for axis, (name, (run, figures)) in zip(axes, named.items()):
        dots = [(after - run.origin_s, (after - before) * 1000) for sample in run.labelled("stream")
                for before, after in zip(sample.chunk_s, sample.chunk_s[1:])]
        axis.plot(*zip(*dots) if dots else ([], []), ".", markersize=2, alpha=0.5, label="gap of a stream")
        for sample in run.labelled("long"):
            axis.axvline(sample.due_s - run.origin_s, color="tab:gray", linewidth=0.5)
        for q, style in (("p50", "--"), ("p99", "-")):
            if figures["mixed_itl_s"][q] is not None:
                axis.hlines(figures["mixed_itl_s"][q] * 1000, figures["mixed_from_s"], figures["mixed_until_s"],
                            color="tab:red", linestyle=style, label=f"mixed {q.upper()}")
        if target_s:
            axis.axhline(target_s * 1000, color="tab:green", label="target")
        axis.set(title=name, ylabel="gap, ms", yscale="log", xlabel="s")
        axis.legend(loc="upper left", fontsize="small")


async def main(argv=None):
    args, report, prompts = cli.start("mixed", arguments(), argv)
    if args.sluiced:
        figures, runs, named = await compare(args, report, prompts)
    else:
        figures, run_json, run = await one_run("as it runs", {}, args, report, prompts)
        runs, named = [run_json], {"as it runs": (run, figures)}
    report.write(figures, runs)
    report.plot(len(named), lambda axes: draw(axes, named, figures.get("target_s")))


if __name__ == "__main__":
    cli.run(main)
