#!/usr/bin/env python3
"""Shows that the tests of the planning half find the faults that matter: plants one at a time in a copy of
the sources, builds the scheduler's and the KV manager's tests there, and expects one of them to fail.

  tests/engine/scheduler/planted_faults.py [NAME...]
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
TESTS = ["kv_test", "scheduler_test", "scheduler_property_test"]

# Name -> (file, what stands there, what is put in its place)
FAULTS = {
    "a block leaked on cancel": (
        "engine/kv/kv_manager.cc",
        "    if (index_.Contains(block)) index_.Remove(block);\n    pool_.Return(block);",
        "    if (index_.Contains(block)) { index_.Remove(block); continue; }\n    pool_.Return(block);"),
    "a block released twice": (
        "engine/kv/kv_manager.cc",
        "      index_.SetIdle(block);\n      continue;",
        "      index_.SetIdle(block);\n      pool_.Return(block);\n      continue;"),
    "a holder too many after copy-on-write": (
        "engine/kv/kv_manager.cc",
        "  if (match->copy_from >= 0) {\n",
        "  if (match->copy_from >= 0) {\n    ++holders_[static_cast<size_t>(match->copy_from)];\n"),
    "a prefix published before it is computed": (
        "engine/scheduler/scheduler_plan.cc",
        "    kv_.Announce(&sequence->table,",
        "    kv_.Publish(&sequence->table,"),
    "a hash collision taken for a hit": (
        "engine/kv/prefix_index.cc",
        "    if (node.hash != hash || node.parent != parent) continue;",
        "    if (node.parent == parent) return id;"),
    "a budget overrun by one": (
        "engine/scheduler/scheduler_plan.cc",
        "const int32_t count = std::min(sequence->pending(), budget);",
        "const int32_t count = std::min(sequence->pending(), budget + 1);"),
    "a victim preempted for ever": (
        "engine/scheduler/scheduler_plan.cc",
        "  for (size_t i = 1; i < running.size(); ++i) {\n    Sequence* sequence = running[i];",
        "  for (size_t i = 0; i < running.size(); ++i) {\n    Sequence* sequence = running[i];\n"
        "    if (sequence->preemptions > 0 && may_go(sequence)) return sequence;"),
    "a token committed after the stop, two steps in flight": (
        "engine/scheduler/scheduler.cc",
        "if (sequence->state != SequenceState::kRetiring)",
        "if (true)"),
    "a starved low priority": (
        "engine/scheduler/waiting_line.cc",
        "> options_.patience_seconds;",
        "> 1e12;"),
    "a quota counted twice": (
        "engine/scheduler/scheduler_plan.cc",
        "  line_.CountRunning(*sequence, 1);",
        "  line_.CountRunning(*sequence, 2);"),
}


def run(command, **options):
    return subprocess.run(command, capture_output=True, text=True, **options)


def main():
    names = sys.argv[1:] or list(FAULTS)
    copy = pathlib.Path(tempfile.mkdtemp(prefix="planted."))
    for part in ("CMakeLists.txt", "cmake", "engine", "kernels", "tests", "CMakePresets.json"):
        source = ROOT / part
        (shutil.copytree if source.is_dir() else shutil.copy)(source, copy / part)
    build = copy / "build"
    configure = run(["cmake", "-S", copy, "-B", build, "-G", "Ninja", "-DSLUICE_BUILD_SERVER=OFF",
                     "-DSLUICE_BUILD_BENCHMARKS=OFF"])
    assert configure.returncode == 0, configure.stdout + configure.stderr
    missed = []
    for name in ["nothing", *names]:
        path, old, new = FAULTS.get(name, ("engine/kv/kv_manager.cc", "", ""))
        text = (copy / path).read_text()
        assert old in text, f"{name}: the place in {path} is not there any more"
        (copy / path).write_text(text.replace(old, new, 1) if old else text)
        compiled = run(["ninja", "-C", build, *TESTS])
        assert compiled.returncode == 0, compiled.stdout[-3000:]
        found = []
        for test in TESTS:
            program = next(p for p in build.rglob(test) if p.is_file())
            try:
                result = run([program], timeout=300)
                if result.returncode != 0:
                    lines = [line for line in result.stdout.splitlines() if "[  FAILED  ]" in line]
                    found.append(f"{test} ({lines[0].split()[3] if lines else 'ended by a check'})")
            except subprocess.TimeoutExpired:
                found.append(f"{test} (no end)")
        (copy / path).write_text(text)
        print(f"{name}: " + (", ".join(found) or "NOT FOUND"), flush=True)
        if bool(found) == (name == "nothing"):
            missed.append(name)
    shutil.rmtree(copy)
    print("all found" if not missed else f"wrong: {missed}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
