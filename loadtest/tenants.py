"""Does a busy tenant spoil a quiet one's answers, and is a full server shared by weight?

First: a light tenant alone, then beside a heavy one that sends ten times as much, more than the server can do: the
light one's time to first token should hardly change. Then: both keep more requests waiting than can run; what each
is served should follow the weights. With --sluiced this is done for several weights, with a server for each;
without, the server's own weights hold, and --weights tells what they are. Both tenants send the same kind of
request, so the shares are the same in prompt tokens, generated tokens or any weighting of the two.
"""
import asyncio
import random

from .common import arrivals, cli
from .common.client import clock
from .common.report import ms, number, percent, print_table
from .common.run import Run
from .common.server import serving
from .common.stats import generated, prefilled, ratio, statuses, summary, waits

TIMES_HEAVIER = 10
WINDOW_S = 1.0


def arguments():
    result = cli.parser(__doc__)
    result.add_argument("--header", default="X-Tenant", help="that names the tenant (%(default)s)")
    result.add_argument("--weights", default="1:1,1:3", help="light:heavy, one after another with --sluiced; "
                        "else the first is what the server has (%(default)s)")
    result.add_argument("--prompt", type=int, default=64, help="tokens (%(default)s)")
    result.add_argument("--answer", type=int, default=32, help="tokens (%(default)s)")
    result.add_argument("--clients", type=int, default=24,
                        help="of each tenant when both fill the server; more than it runs at once (%(default)s)")
    result.add_argument("--max-running", type=int, default=8, help="with --sluiced (%(default)s)")
    result.add_argument("--capacity", type=float, help="requests/s, if known: then it is not measured")
    result.add_argument("--light-share", type=float, default=0.15, help="of the capacity (%(default)s)")
    result.add_argument("--probe-seconds", type=float, default=8, help="for the capacity (%(default)s)")
    result.add_argument("--seconds", type=float, default=30, help="of each part (%(default)s)")
    result.add_argument("--settle-seconds", type=float, default=4, help="left out at its begin (%(default)s)")
    return result


class Tenants:
    """Sends for the two tenants within one run."""

    def __init__(self, run, prompts, args):
        self.run, self._prompts, self._args = run, prompts, args

    async def send(self, tenant, part, due_s=None):
        return await self.run.complete(self._prompts.new(self._args.prompt), self._args.answer, due_s=due_s,
                                       label=f"{part} {tenant}", headers={self._args.header: tenant})

    def samples(self, part, tenant):
        return self.run.labelled(f"{part} {tenant}")

    async def full(self, part, tenants, seconds):
        """Both keep their clients busy; (begin, end)."""
        begin_s = clock()
        await asyncio.gather(*(arrivals.closed_loop(self._args.clients, begin_s + seconds,
                                                    lambda _, tenant=tenant: self.send(tenant, part))
                               for tenant in tenants))
        return begin_s, begin_s + seconds

    async def open(self, part, rates, source, seconds):
        """Poisson arrivals of each; what the heavy one has not got at the end is cancelled, the light one's is
        waited for."""
        async def one(tenant, rate):
            times = arrivals.poisson(source, rate, seconds)
            return await arrivals.open_loop(times, lambda _, due_s: self.send(tenant, part, due_s))

        begin_s = clock()
        tasks = dict(zip(rates, await asyncio.gather(*(one(*item) for item in rates.items()))))
        await arrivals.sleep_until(begin_s + seconds)
        await arrivals.finish(tasks["light"], seconds)
        for tenant in tasks:
            await arrivals.stop(tasks[tenant])
        return begin_s, begin_s + seconds


async def drive(tenants, args, source):
    """Part -> (begin, end)."""
    capacity = args.capacity
    if not capacity:
        begin_s, end_s = await tenants.full("probe", ["light"], args.probe_seconds)
        tokens = generated(tenants.run.samples, begin_s, end_s)
        capacity = max(tokens / args.probe_seconds / args.answer, 0.1)
    light = capacity * args.light_share
    print(f"capacity about {number(capacity)} requests/s; light sends {number(light)}, heavy "
          f"{number(light * TIMES_HEAVIER)}", flush=True)
    spans = {"alone": await tenants.open("alone", {"light": light}, source, args.seconds)}
    rates = {"light": light, "heavy": light * TIMES_HEAVIER}
    spans["beside"] = await tenants.open("beside", rates, source, args.seconds)
    spans["full"] = await tenants.full("full", ["light", "heavy"], args.seconds)
    return capacity, spans


def figures_of(tenants, spans, weights, capacity, args):
    figures = {"weights": weights, "capacity_per_s": capacity}
    for part in ("alone", "beside"):
        figures[part] = {}
        for tenant in ("light", "heavy"):
            samples = tenants.samples(part, tenant)
            if samples:
                figures[part][tenant] = {"sent": len(samples), "answered": sum(s.complete for s in samples),
                                         "statuses": statuses(samples), "ttft_s": summary(waits(samples))}
    figures["light_ttft_p99_ratio"] = ratio(figures["beside"]["light"]["ttft_s"]["p99"],
                                            figures["alone"]["light"]["ttft_s"]["p99"])
    figures["full"] = full_figures(tenants, spans["full"], weights, args)
    return figures


def full_figures(tenants, span, weights, args):
    begin_s, end_s = span[0] + args.settle_seconds, span[1]
    served = {}
    for tenant in ("light", "heavy"):
        samples = tenants.samples("full", tenant)
        tokens = generated(samples, begin_s, end_s)
        served[tenant] = {"generated": tokens, "tokens": tokens + prefilled(samples, begin_s, end_s),
                          "ttft_s": summary(waits(samples))}
    all_generated = sum(row["generated"] for row in served.values())
    all_tokens = sum(row["tokens"] for row in served.values())
    for tenant, row in served.items():
        row["due_share"] = weights[tenant] / sum(weights.values())
        row["generated_share"] = ratio(row["generated"], all_generated)
        row["tokens_share"] = ratio(row["tokens"], all_tokens)
    return served


def print_figures(name, figures):
    print_table(f"weights {name}: a light tenant beside a heavy one",
                ["", "sent", "answered", "TTFT P50 ms", "P95", "P99"],
                [[f"{tenant}, {part}", row["sent"], row["answered"],
                  *(ms(row["ttft_s"][q]) for q in ("p50", "p95", "p99"))]
                 for part in ("alone", "beside") for tenant, row in figures[part].items()])
    print(f"light's P99, beside / alone: {number(figures['light_ttft_p99_ratio'])}")
    print_table(f"weights {name}: both fill the server", ["", "due", "generated", "share", "all tokens", "share"],
                [[tenant, percent(row["due_share"]), row["generated"], percent(row["generated_share"]),
                  row["tokens"], percent(row["tokens_share"])] for tenant, row in figures["full"].items()])


def draw(axes, results):
    """For each weights: the light one's TTFT in both parts, and the shares second by second."""
    for i, (name, (tenants, spans, figures)) in enumerate(results.items()):
        first, second = axes[2 * i], axes[2 * i + 1]
        for part in ("alone", "beside"):
            samples = [s for s in tenants.samples(part, "light") if s.first_s is not None]
            first.plot([s.due_s - spans[part][0] for s in samples], [(s.first_s - s.due_s) * 1000 for s in samples],
                       ".-", linewidth=0.5, label=f"light, {part}")
        first.set(title=f"weights {name}", xlabel="due, s of the part", ylabel="TTFT, ms", yscale="log")
        first.legend(fontsize="small")
        begin_s, end_s = spans["full"]
        for tenant, color in (("light", "tab:blue"), ("heavy", "tab:orange")):
            samples = tenants.samples("full", tenant)
            windows = [begin_s + n * WINDOW_S for n in range(int((end_s - begin_s) / WINDOW_S))]
            rates = [generated(samples, at, at + WINDOW_S) / WINDOW_S for at in windows]
            second.plot([at - begin_s + WINDOW_S / 2 for at in windows], rates, color=color, label=tenant)
        due = figures["full"]["light"]["due_share"]
        second.set(xlabel=f"s with both filling the server (due: {due:.0%} to {1 - due:.0%})", ylabel="generated/s",
                   ylim=(0, None))
        second.legend(fontsize="small")


def weights_of(text):
    light, _, heavy = text.partition(":")
    return {"light": float(light), "heavy": float(heavy)}


async def main(argv=None):
    args, report, prompts = cli.start("tenants", arguments(), argv)
    source = random.Random(args.seed)
    names = args.weights.split(",")
    results, runs = {}, []
    for name in names if args.sluiced else names[:1]:
        weights = weights_of(name)
        tenants_flag = ",".join(f"{tenant} weight={weight:g}" for tenant, weight in weights.items())
        flags = {"tenant-header": args.header, "tenants": tenants_flag, "max-running": str(args.max_running)}
        with serving(args, flags, report.log_path("server-" + name.replace(":", "-"))) as server:
            report.note_server(server)
            async with Run(f"weights {name}", server, args, cli.new_salt()) as run:
                tenants = Tenants(run, prompts, args)
                capacity, spans = await drive(tenants, args, source)
        figures = figures_of(tenants, spans, weights, capacity, args)
        print_figures(name, figures)
        results[name] = (tenants, spans, figures)
        runs.append(run.to_json(figures))
    report.write({name: figures for name, (_, _, figures) in results.items()}, runs)
    report.plot(2 * len(results), lambda axes: draw(axes, results))


if __name__ == "__main__":
    cli.run(main)
