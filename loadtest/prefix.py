"""Does a shared beginning save its computing?

Sends requests one after another that share a prefix and differ in their last tokens, in several rounds with a new
prefix each, and compares the first one's time to first token with the later ones'.
"""
from .common import cli
from .common.report import ms, number, percent, print_table
from .common.run import Run
from .common.server import serving
from .common.stats import median, ratio, summary, ttft, ttfts


def arguments():
    result = cli.parser(__doc__)
    result.add_argument("--requests", type=int, default=16, help="of a round (%(default)s)")
    result.add_argument("--rounds", type=int, default=3, help="each with another prefix (%(default)s)")
    result.add_argument("--prefix-tokens", type=int, default=1000, help="that are shared (%(default)s)")
    result.add_argument("--other-tokens", type=int, default=16, help="at most, at the end (%(default)s)")
    result.add_argument("--answer-tokens", type=int, default=8, help="(%(default)s)")
    return result


async def one_round(run, prompts, args, number_of_round):
    prefix = prompts.new(args.prefix_tokens)
    for i in range(args.requests):
        # Their lengths differ, too: the shared part must not depend on where a prompt ends.
        tail = prompts.new(1 + i % args.other_tokens)
        await run.complete(prefix + tail, args.answer_tokens, label=f"round {number_of_round}")


def figures_of(samples):
    """Of one round, in order."""
    first, later = samples[0], samples[1:]
    cached = [sample.cached_tokens for sample in later if sample.cached_tokens is not None]
    later_ttft = summary(ttfts(later))
    return {"answered": sum(sample.complete for sample in samples), "first_ttft_s": ttft(first),
            "later_ttft_s": later_ttft, "first_cached_tokens": first.cached_tokens,
            "later_cached_tokens_min": min(cached, default=None), "later_cached_tokens_median": median(cached),
            "first_to_later": ratio(ttft(first), median(ttfts(later))),
            "cached_share": ratio(sum(cached), sum(sample.prompt_tokens for sample in later))}


def draw(axes, rounds):
    for name, samples in rounds.items():
        values = [None if (t := ttft(sample)) is None else t * 1000 for sample in samples]
        axes[0].plot(range(1, len(values) + 1), values, marker="o", label=name)
    axes[0].set(xlabel="request of the round", ylabel="TTFT, ms", yscale="log")
    axes[0].legend()


async def main(argv=None):
    args, report, prompts = cli.start("prefix", arguments(), argv)
    with serving(args, {}, report.log_path("server")) as server:
        report.note_server(server)
        async with Run("prefix", server, args, cli.new_salt()) as run:
            for i in range(args.rounds):
                await one_round(run, prompts, args, i + 1)
        rounds = {f"round {i + 1}": run.labelled(f"round {i + 1}") for i in range(args.rounds)}
    rows = {name: figures_of(samples) for name, samples in rounds.items()}
    figures = {"rounds": rows, "first_to_later_median": median([row["first_to_later"] for row in rows.values()])}
    print_table(f"{args.requests} requests a round, {args.prefix_tokens} tokens shared",
                ["", "answered", "first TTFT ms", "later P50 ms", "later P99 ms", "first / later", "cached tokens P50",
                 "of their prompts"],
                [[name, row["answered"], ms(row["first_ttft_s"]), ms(row["later_ttft_s"]["p50"]),
                  ms(row["later_ttft_s"]["p99"]), number(row["first_to_later"]),
                  number(row["later_cached_tokens_median"], 0), percent(row["cached_share"])]
                 for name, row in rows.items()])
    print(f"first / later, median of the rounds: {number(figures['first_to_later_median'])}")
    report.write(figures, [run.to_json(figures)])
    report.plot(1, lambda axes: draw(axes, rounds), height_in=4)


if __name__ == "__main__":
    cli.run(main)
