"""Runs every fuzz target of a build for a while, starting from its corpus, and writes a JUnit report: a crash, a leak,
a slow or a large input fails.

  run.py BUILD_FOLDER [--seconds 30] [--jobs 2] [--report FILE] [NAME...]
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as et

# The same inputs in the same order: what a run finds is what has changed. Other ones are for longer runs by hand.
SEED = os.environ.get("SLUICE_FUZZ_SEED", "1")
HERE = pathlib.Path(__file__).parent
INPUT_BYTES_MAX = {"gguf": 16384}  # elsewhere 4096
SEED_SECONDS = 120  # for running the corpus and for starting, above the time wished for


def last_number(pattern, text):
    found = re.findall(pattern, text)
    return int(found[-1]) if found else 0


def fuzz(program, seconds):
    """(name, seconds taken, what went wrong or None, one line to print)"""
    name = program.name.removeprefix("fuzz_")
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as work:
        command = [
            str(program),
            f"-max_total_time={seconds}",
            f"-seed={SEED}",
            "-timeout=10",
            "-rss_limit_mb=1024",
            "-malloc_limit_mb=256",
            f"-max_len={INPUT_BYTES_MAX.get(name, 4096)}",
            "-print_final_stats=1",
            f"-artifact_prefix={work}/",
            work,
            str(HERE / "corpus" / name),
        ]
        dictionary = HERE / f"{name}.dict"
        if dictionary.exists():
            command.append(f"-dict={dictionary}")
        try:
            result = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds + SEED_SECONDS
            )
            log, code = result.stdout.decode(errors="replace"), result.returncode
        except subprocess.TimeoutExpired as late:
            log, code = (late.output or b"").decode(errors="replace"), "none: it did not end"
    taken = time.monotonic() - begin
    runs = last_number(r"number_of_executed_units: +(\d+)", log)
    edges, features = last_number(r"cov: (\d+)", log), last_number(r"ft: (\d+)", log)
    rss = last_number(r"peak_rss_mb: +(\d+)", log)
    line = (
        f"fuzz {name}: {taken:.0f} s, {runs:,} runs, {runs / max(taken, 1):,.0f} a second, "
        f"{edges:,} edges, {features:,} features, {rss} MiB"
    )
    if code == 0 and runs > 0:
        return name, taken, None, line
    # The end of the log has the input in base64.
    return name, taken, f"exit code {code}\n{log[-6000:]}", line


def write_report(path, results):
    suite = et.Element("testsuite", name="fuzz", tests=str(len(results)))
    for name, taken, fault, line in results:
        case = et.SubElement(suite, "testcase", classname="fuzz", name=name, time=f"{taken:.1f}")
        if fault:
            et.SubElement(case, "failure", message=line).text = printable(fault)
    et.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)


def printable(text):
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("build", type=pathlib.Path)
    options.add_argument("names", nargs="*")
    options.add_argument("--seconds", type=int, default=30)
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--report", type=pathlib.Path)
    options = options.parse_args()
    programs = [p for p in sorted(options.build.glob("tests/fuzz/fuzz_*")) if p.is_file()]
    if options.names:
        programs = [p for p in programs if p.name.removeprefix("fuzz_") in options.names]
    results = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for done in concurrent.futures.as_completed([pool.submit(fuzz, p, options.seconds) for p in programs]):
            results.append(done.result())
            print(results[-1][3], flush=True)
            if results[-1][2]:
                print(printable(results[-1][2]), flush=True)
    if options.report:
        write_report(options.report, results)
    return 0 if results and not any(fault for _, _, fault, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main())
