"""The command line that all programs have."""
import argparse
import asyncio
import secrets
import signal

from .prompts import Prompts
from .report import Report


def parser(description):
    result = argparse.ArgumentParser(description=description.strip(),
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    server = result.add_argument_group("the server")
    server.add_argument("--url", default="http://127.0.0.1:8000", help="one that runs (%(default)s)")
    server.add_argument("--pid", type=int, help="of the one that runs: then its memory is watched")
    server.add_argument("--sluiced", metavar="BINARY", help="start this one with the scenario's settings instead")
    server.add_argument("--model", metavar="FILE.gguf", help="what --sluiced serves")
    server.add_argument("--serve", metavar="FLAGS", default="",
                        help="more flags for --sluiced, in one string; they win over the scenario's")
    server.add_argument("--model-name", help="the model's name in requests (none: the server's only one)")
    server.add_argument("--token-ids", metavar="LOW:HIGH", default="1000:30000",
                        help="prompts are made of these ids (%(default)s)")
    result.add_argument("--seed", type=int, help="of prompts and arrivals (a new one each time)")
    result.add_argument("--out", metavar="DIR", default="build/loadtest", help="for JSON, plot, logs (%(default)s)")
    result.add_argument("--no-plot", action="store_true")
    return result


def start(scenario, command_line, argv=None):
    """(arguments, report, prompts); prints the seed."""
    args = command_line.parse_args(argv)
    if args.sluiced and not args.model:
        command_line.error("--sluiced needs --model")
    if args.seed is None:
        args.seed = secrets.randbelow(1_000_000)
    low, _, high = args.token_ids.partition(":")
    print(f"{scenario}: seed {args.seed}")
    return args, Report(scenario, args), Prompts(args.seed, int(low), int(high))


def new_salt():
    return f"loadtest-{secrets.token_hex(8)}"


def run(main):
    """Runs the coroutine function; an interrupt or SIGTERM ends it quietly, and servers that it started with it."""
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        raise SystemExit(130) from None
