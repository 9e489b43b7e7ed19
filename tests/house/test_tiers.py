"""The walls of the house: which folder may include which, and what no file may say.

Folder = target = namespace, includes point down only:
  kernels < engine < server; inside engine: base < plan, then two towers that may not see each other
  (planning: tokenizer, output, kv, scheduler, record, simulate; executing: model, sample, exec).
"""
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)', re.M)

# Folder -> prefixes of own headers it may include, besides its own folder's.
PLANNING_ROOT = ["engine/request", "engine/sequence", "engine/state", "engine/stats", "engine/tenant"]
ALLOWED = {
    "kernels": [],
    "kernels/reference": ["kernels/"],
    "kernels/cpu": ["kernels/"],
    "engine/base": [],
    "engine/plan": ["engine/base/"],
    "engine/tokenizer": ["engine/base/"],
    "engine/template": ["engine/base/"],
    "engine/output": ["engine/base/", "engine/tokenizer/"],
    "engine/kv": ["engine/base/", "engine/plan/"],
    "engine/scheduler": ["engine/base/", "engine/plan/", "engine/kv/", *PLANNING_ROOT],
    "engine/record": ["engine/base/", "engine/plan/", "engine/kv/", "engine/scheduler/", *PLANNING_ROOT],
    "engine/simulate": ["engine/base/", "engine/plan/", "engine/scheduler/", "engine/record/", *PLANNING_ROOT],
    "engine/model": ["engine/base/", "kernels/"],
    "engine/sample": ["engine/base/", "engine/plan/", "kernels/"],
    "engine/exec": ["engine/base/", "engine/plan/", "engine/model/", "engine/sample/", "kernels/"],
    "server": ["engine/", "server/", "sluice_version.h"],
}
# The one place that builds an engine from both towers.
COMPOSITION_ROOT = re.compile(r"engine/load(_\w+)?\.(h|cc)$|engine/load/.*$")
FORBIDDEN_LIBRARIES = {
    "kernels": ["absl/", "boost/", "grpc", "google/protobuf", "prometheus/", "pcre2"],
    "engine": ["grpc", "google/protobuf", "prometheus/", "boost/asio", "boost/beast"],
}


def sources(*tops):
    for top in tops:
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix in {".h", ".cc", ".cpp", ".cu", ".cuh", ".inc"}:
                yield path


def includes(path):
    for match in INCLUDE.finditer(path.read_text()):
        yield match.group(1) or match.group(2)


def rule_for(folder):
    while folder and folder not in ALLOWED:
        folder = folder.rpartition("/")[0]
    return folder


def violations():
    for path in sources("kernels", "engine", "server"):
        rel = path.relative_to(ROOT).as_posix()
        folder = path.parent.relative_to(ROOT).as_posix()
        top = rel.split("/")[0]
        for inc in includes(path):
            for library in FORBIDDEN_LIBRARIES.get(top, []):
                if inc.startswith(library):
                    yield f"{rel} includes {inc}: {top}/ may not use that library"
            own = inc.split("/")[0] in {"kernels", "engine", "server", "tests", "loadtest"}
            if not own:
                continue
            if inc.startswith("tests/"):
                yield f"{rel} includes {inc}: nothing includes from tests/"
                continue
            if COMPOSITION_ROOT.search(rel) and inc.split("/")[0] in {"kernels", "engine"}:
                continue
            if folder == "engine":  # the planning half's own files
                if re.match(r"kernels/|engine/(model|sample|exec)/", inc) or inc.startswith("server/"):
                    yield f"{rel} includes {inc}: the planning half knows no tensors"
                continue
            rule = rule_for(folder)
            if inc.startswith(rule + "/"):
                if rule == "kernels" and inc.count("/") > 1:
                    yield f"{rel} includes {inc}: kernels/ may not know its backends"
                continue
            if not any(inc.startswith(p) for p in ALLOWED[rule]):
                yield f"{rel} includes {inc}: {rule}/ may include only {ALLOWED[rule] or 'itself'}"


def test_includes_point_down_only():
    assert list(violations()) == []


def test_every_folder_has_a_rule():
    folders = {p.parent.relative_to(ROOT).as_posix() for p in sources("kernels", "engine", "server")}
    assert not [f for f in folders if f != "engine" and not rule_for(f)]


def folder_graph(top):
    graph = {}
    for path in sources(top):
        folder = path.parent.relative_to(ROOT).as_posix()
        for inc in includes(path):
            other = inc.rpartition("/")[0]
            # The top folder's own files join the folders together: they are judged by the rules above.
            if inc.startswith(top + "/") and top not in (folder, other) and other != folder:
                graph.setdefault(folder, set()).add(other)
    return graph


@pytest.mark.parametrize("top", ["engine", "server"])
def test_folders_make_no_cycle(top):
    graph = folder_graph(top)
    done, path = set(), []

    def visit(node):
        assert node not in path, " -> ".join([*path, node])
        if node in done:
            return
        path.append(node)
        for other in sorted(graph.get(node, ())):
            visit(other)
        path.pop()
        done.add(node)

    for node in sorted(graph):
        visit(node)


def test_files_stay_small():
    too_long = []
    for path in sources("kernels", "engine", "server", "tests"):
        lines = path.read_text().count("\n")
        if lines > 500 and not path.stem.endswith("_tables"):  # data, not code
            too_long.append(f"{path.relative_to(ROOT)}: {lines} lines (500 at most)")
    assert too_long == []


def test_the_project_stands_alone():
    words = re.compile(r"\.\./shared|/work/(main|shared)|\.library")
    bad = []
    for path in sorted(ROOT.rglob("*")):
        rel = path.relative_to(ROOT).as_posix()
        if not path.is_file() or rel == ".git" or rel.startswith((".git/", "build/", "tests/golden/")) or path == pathlib.Path(__file__):
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        if words.search(text):
            bad.append(rel)
    assert bad == []
