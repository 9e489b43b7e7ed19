"""What happens under three times the load that the server can carry?

First finds the capacity: Poisson arrivals at rising rates, a few seconds each, and the goodput at each (answers
whose first token came in time and whose tokens kept the pace). Then offers a multiple of the best goodput for a
minute. A good server refuses early what it cannot serve in time, says when to come back, keeps the goodput, and
does not grow. HTTP requests carry no deadline: one that was admitted and got its first token too late counts as one
that missed the limit in the queue.
"""
import asyncio
import random

from .common import arrivals, cli
from .common.client import clock
from .common.report import ms, number, percent, print_table
from .common.run import Run
from .common.server import serving
from .common.stats import good, ratio, statuses, summary, ttft, ttfts


def arguments():
    result = cli.parser(__doc__)
    result.add_argument("--prompt", type=int, default=128, help="tokens (%(default)s)")
    result.add_argument("--answer", type=int, default=48, help="tokens (%(default)s)")
    result.add_argument("--ttft-limit", type=float, default=1, help="seconds (%(default)s)")
    result.add_argument("--wait-share", type=float, default=0.4,
                        help="with --sluiced: of that limit, the most to wait for (%(default)s)")
    result.add_argument("--itl-limit", type=float, default=0.1, help="seconds, of an answer's mean (%(default)s)")
    result.add_argument("--first-rate", type=float, default=1, help="requests/s (%(default)s)")
    result.add_argument("--rate-factor", type=float, default=1.5, help="from a rate to the next (%(default)s)")
    result.add_argument("--max-rate", type=float, default=500, help="requests/s (%(default)s)")
    result.add_argument("--step-seconds", type=float, default=10, help="of one rate (%(default)s)")
    result.add_argument("--capacity", type=float, help="requests/s, if known: then it is not looked for")
    result.add_argument("--overload", type=float, default=3, help="times the capacity (%(default)s)")
    result.add_argument("--seconds", type=float, default=60, help="of the overload (%(default)s)")
    result.add_argument("--drain-seconds", type=float, default=20, help="after each load (%(default)s)")
    result.add_argument("--retry-seconds", type=float, default=240, help="after the overload (%(default)s)")
    result.add_argument("--retry-share", type=float, default=0.1,
                        help="of the refused that come back once, after Retry-After (%(default)s)")
    return result


def server_flags(args):
    """Steps keep the pace that is asked for, and who would wait for much of the time that its first token may take is
    refused: the rest is for its own prompt, and for the wait being only foretold."""
    return {"max-wait": f"{round(args.wait_share * args.ttft_limit * 1000)}ms", "inter-token-target": f"{round(args.itl_limit * 1000)}ms"}


async def offer(run, prompts, source, args, rate, seconds, label, retry_share=0.0):
    """Begin and end of the load; all answers are there, or given up, when this returns."""
    retries = []
    begin_s = clock()
    end_s = begin_s + seconds

    async def retry(due_s):
        await arrivals.sleep_until(due_s)
        await run.complete(prompts.new(args.prompt), args.answer, label=label + " retry", due_s=due_s)

    async def send(_, due_s):
        sample = await run.complete(prompts.new(args.prompt), args.answer, label=label, due_s=due_s)
        if sample.status == 429 and sample.retry_after_s is not None and source.random() < retry_share:
            retries.append(asyncio.create_task(retry(sample.end_s + sample.retry_after_s)))

    tasks = await arrivals.open_loop(arrivals.poisson(source, rate, seconds), send)
    await arrivals.sleep_until(end_s)
    await arrivals.finish(tasks, args.drain_seconds)
    await arrivals.finish(retries, args.retry_seconds)
    return begin_s, end_s


def load_figures(samples, seconds, args):
    admitted = [sample for sample in samples if sample.status == 200]
    good_count = sum(good(sample, args.ttft_limit, args.itl_limit) for sample in samples)
    late = sum(s.first_s is None or ttft(s) > args.ttft_limit for s in admitted)
    return {"offered_per_s": len(samples) / seconds, "goodput_per_s": good_count / seconds,
            "admitted": len(admitted), "statuses": statuses(samples), "ttft_s": summary(ttfts(samples)),
            "first_token_late": late, "first_token_late_share": ratio(late, len(admitted))}


async def find_capacity(run, prompts, source, args):
    """The curve, up to twice the best goodput: beyond, it shows nothing new."""
    curve = []
    rate = args.first_rate
    while rate <= args.max_rate:
        label = f"rate {rate:.2f}"
        await offer(run, prompts, source, args, rate, args.step_seconds, label)
        figures = load_figures(run.labelled(label), args.step_seconds, args)
        curve.append(figures)
        print(f"  offered {figures['offered_per_s']:6.2f}/s  good {figures['goodput_per_s']:6.2f}/s  "
              f"TTFT P99 {ms(figures['ttft_s']['p99'], 0):>6} ms  refused {refused(figures)}", flush=True)
        best = max(step["goodput_per_s"] for step in curve)
        if len(curve) >= 3 and figures["offered_per_s"] >= 2 * best:
            break
        rate *= args.rate_factor
    return curve


def refused(figures):
    return sum(count for status, count in figures["statuses"].items() if status in ("429", "503"))


def overload_figures(run, begin_s, end_s, args):
    samples = run.labelled("overload")
    figures = load_figures(samples, end_s - begin_s, args)
    no = [sample for sample in samples if sample.status == 429]
    told = [sample.retry_after_s for sample in no if sample.retry_after_s is not None]
    retries = run.labelled("overload retry")
    figures["refusals"] = {"count": len(no), "latency_s": summary([s.end_s - s.due_s for s in no]),
                           "retry_after_s": summary(told), "without_retry_after": len(no) - len(told)}
    figures["retries"] = {"count": len(retries), "admitted": sum(s.status == 200 for s in retries),
                          "good": sum(good(s, args.ttft_limit, args.itl_limit) for s in retries)}
    during = [sample for sample in retries if sample.due_s < end_s]
    figures["retries"]["during"] = {"count": len(during), "admitted": sum(s.status == 200 for s in during)}
    figures["retries"]["admitted_share"] = ratio(figures["retries"]["admitted"], len(retries))
    sizes = [rest for at, _, rest in run.memory if begin_s <= at + run.origin_s <= end_s]
    figures["memory_bytes"] = {"first": sizes[0], "last": sizes[-1], "max": max(sizes)} if sizes else None
    figures["deadlines_passed"] = run.metric_growth("sluice_deadlines_passed_total")
    return figures


def print_overload(figures, curve_best, capacity):
    refusals, retries, sizes = figures["refusals"], figures["retries"], figures["memory_bytes"]
    of_best = ratio(figures["goodput_per_s"], max(curve_best, figures["goodput_per_s"]))
    mib = ", ".join(f"{name} {size / (1 << 20):.0f} MiB" for name, size in (sizes or {}).items())
    wait = refusals["retry_after_s"]
    print_table(f"overload: {number(figures['offered_per_s'])} requests/s, capacity {number(capacity)}", ["", ""], [
        ["goodput", f"{number(figures['goodput_per_s'])} requests/s, {percent(of_best)} of the best seen"],
        ["statuses", ", ".join(f"{status}: {count}" for status, count in figures["statuses"].items())],
        ["refusals' latency", f"P50 {ms(refusals['latency_s']['p50'])}, P99 {ms(refusals['latency_s']['p99'])} ms"],
        ["Retry-After", f"P50 {number(wait['p50'], 0)}, P99 {number(wait['p99'], 0)} s; "
                        f"missing in {refusals['without_retry_after']}"],
        ["retries after it", f"{retries['count']}, admitted {percent(retries['admitted_share'])}; of those that came "
                             f"while the overload lasted {retries['during']['admitted']} of {retries['during']['count']}"],
        ["admitted", f"{figures['admitted']}, first token late or never {figures['first_token_late']} "
                     f"({percent(figures['first_token_late_share'])})"],
        ["admitted, TTFT", f"P50 {ms(figures['ttft_s']['p50'], 0)}, P99 {ms(figures['ttft_s']['p99'], 0)} ms"],
        ["memory beside KV", mib or "the process is not known"]])


def draw(axes, run, curve, figures, begin_s, end_s, args):
    points = sorted((step["offered_per_s"], step["goodput_per_s"]) for step in [*curve, figures])
    axes[0].plot(*zip(*points), marker="o")
    axes[0].axline((0, 0), slope=1, color="tab:gray", linewidth=0.5)
    axes[0].set(xlabel="offered, requests/s", ylabel="good, requests/s", ylim=(0, None))
    samples = run.labelled("overload")
    groups = {"good": [s for s in samples if good(s, args.ttft_limit, args.itl_limit)],
              "admitted, not good": [s for s in samples
                                     if s.status == 200 and not good(s, args.ttft_limit, args.itl_limit)],
              "refused": [s for s in samples if s.status != 200]}
    edges = range(int(end_s - begin_s) + 2)
    axes[1].hist([[s.due_s - begin_s for s in group] for group in groups.values()], bins=edges, stacked=True,
                 label=list(groups), color=["tab:green", "tab:orange", "tab:red"])
    axes[1].set(xlabel="due, s of the overload", ylabel="requests/s")
    axes[1].legend(fontsize="small")
    times = [at + run.origin_s - begin_s for at, _, _ in run.memory]
    axes[2].plot(times, [rss / (1 << 20) for _, rss, _ in run.memory], label="resident")
    axes[2].plot(times, [rest / (1 << 20) for _, _, rest in run.memory], label="without the largest mapping (KV)")
    axes[2].set(xlabel="s of the overload (before 0: looking for the capacity)", ylabel="MiB", ylim=(0, None))
    axes[2].legend(fontsize="small")


async def main(argv=None):
    args, report, prompts = cli.start("overload", arguments(), argv)
    source = random.Random(args.seed)
    with serving(args, server_flags(args), report.log_path("server")) as server:
        report.note_server(server)
        async with Run("overload", server, args, cli.new_salt()) as run:
            print(f"goodput with TTFT <= {args.ttft_limit} s and mean ITL <= {args.itl_limit} s:")
            curve = [] if args.capacity else await find_capacity(run, prompts, source, args)
            best = max((step["goodput_per_s"] for step in curve), default=args.capacity or 0.0)
            capacity = best
            # With nothing good at any rate there still is an overload to look at.
            rate = args.overload * (capacity or args.first_rate)
            begin_s, end_s = await offer(run, prompts, source, args, rate, args.seconds, "overload", args.retry_share)
    figures = {"capacity_per_s": capacity, "curve": curve, "overload": overload_figures(run, begin_s, end_s, args)}
    figures["goodput_to_best"] = ratio(figures["overload"]["goodput_per_s"],
                                       max(best, figures["overload"]["goodput_per_s"]))
    figures["overload_from_s"], figures["overload_until_s"] = begin_s - run.origin_s, end_s - run.origin_s
    print_overload(figures["overload"], best, capacity)
    report.write(figures, [run.to_json(figures)])
    report.plot(3, lambda axes: draw(axes, run, curve, figures["overload"], begin_s, end_s, args))


if __name__ == "__main__":
    cli.run(main)
