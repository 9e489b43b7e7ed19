"""Model files that are made to harm: the daemon refuses them, soon, with the place, or gets over them."""
import pathlib
import shutil
import struct
import subprocess
import time

import pytest

from servers import SLUICED, model_path

pytestmark = pytest.mark.alone

FRANCE = [{"role": "user", "content": "What is the capital of France?"}]


def text(string):
    return struct.pack("<Q", len(string)) + string.encode()


def key(name, kind, value):
    return text(name) + struct.pack("<I", kind) + value


def tensor(dims, kind=0, offset=0, rank=None, name="t"):
    return text(name) + struct.pack("<I", len(dims) if rank is None else rank) + b"".join(
        struct.pack("<Q", dim) for dim in dims) + struct.pack("<IQ", kind, offset)


def gguf(keys=(), tensors=(), counts=None):
    tensor_count, key_count = counts or (len(tensors), len(keys))
    head = b"GGUF" + struct.pack("<IQQ", 3, tensor_count, key_count) + b"".join(keys) + b"".join(tensors)
    return head + bytes(-len(head) % 32) + bytes(64)


HOSTILE = {
    "a product of 2^64": gguf(tensors=[tensor([2**62, 4])]),
    "a dimension of 2^63": gguf(tensors=[tensor([2**63, 2])]),
    "a product just beyond": gguf(tensors=[tensor([2**42 + 1, 1024])]),
    "an offset that wraps": gguf(tensors=[tensor([4], offset=2**64 - 32)]),
    "an offset beyond the end": gguf(tensors=[tensor([4], offset=4096)]),
    "no dimensions": gguf(tensors=[tensor([], rank=0)]),
    "a dimension of 0": gguf(tensors=[tensor([4, 0])]),
    "5 dimensions": gguf(tensors=[tensor([1] * 5)]),
    "2^32 - 1 dimensions": gguf(tensors=[tensor([1], rank=2**32 - 1)]),
    "a tensor of type 999": gguf(tensors=[tensor([4], kind=999)]),
    "two tensors of one name": gguf(tensors=[tensor([4]), tensor([4])]),
    "a key of type 99": gguf(keys=[key("k", 99, b"")]),
    "a key without a name": gguf(keys=[key("", 4, bytes(4))]),
    "an array of arrays": gguf(keys=[key("k", 9, struct.pack("<IQIQ", 9, 1, 4, 0))]),
    "an array of 2^61": gguf(keys=[key("k", 9, struct.pack("<IQ", 10, 2**61))]),
    "a text longer than the file": gguf(keys=[key("k", 8, struct.pack("<Q", 10_000))]),
    "a text of 2^64 - 1": gguf(keys=[key("k", 8, struct.pack("<Q", 2**64 - 1))]),
    "2^64 - 1 keys": gguf(counts=(0, 2**64 - 1)),
    "2^40 tensors": gguf(counts=(2**40, 0)),
    "an alignment of 0": gguf(keys=[key("general.alignment", 4, struct.pack("<I", 0))]),
    "nothing in it": gguf(),
    "half a header": gguf()[:20],
    "another format": b"PK\x03\x04" + bytes(100),
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_file_ends_with_1_and_the_place(tmp_path, content):
    path = tmp_path / "hostile.gguf"
    path.write_bytes(content)
    done = subprocess.run([str(SLUICED), "serve", "--model", str(path), "--http-port", "0", "--grpc-port", "0"],
                          capture_output=True, text=True, timeout=30)
    assert done.returncode == 1, done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert "hostile.gguf" in last and ("at byte" in last or "key '" in last), last


def with_template(path, source):
    """The default model with another chat template of the same length."""
    shutil.copyfile(model_path(), path)
    with open(path, "r+b") as file:
        head = file.read(8 << 20)
        at = head.index(b"tokenizer.chat_template") + len("tokenizer.chat_template") + 4
        length = struct.unpack_from("<Q", head, at)[0]
        assert len(source) <= length - 4
        file.seek(at + 8)
        file.write((source + "{#" + " " * (length - len(source) - 4) + "#}").encode())
    return str(path)


@pytest.mark.parametrize("source,limit", [
    ("{% for i in range(10**9) %}x{% endfor %}", "100000"),
    ("{{ '%' * 10**8 }}", "larger than"),
    ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "steps"),
    ("{% set ns = namespace(s='ab') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}", "larger than"),
], ids=["range", "repeated", "loops", "doubled"])
def test_a_hostile_template_costs_its_own_requests_alone(new_daemon, tmp_path, source, limit):
    server = new_daemon(model=with_template(tmp_path / "model.gguf", source))
    assert server.post("/v1/completions", {"prompt": "x", "max_tokens": 1}).status_code == 200
    resident = server.resident_bytes()
    for _ in range(3):
        begin = time.monotonic()
        refused = server.post("/v1/chat/completions", {"messages": FRANCE, "max_tokens": 1})
        assert refused.status_code == 400
        assert limit in refused.json()["error"]["message"], refused.text
        assert time.monotonic() - begin < 10
    assert server.resident_bytes() - resident < 64 << 20
    assert server.post("/v1/completions", {"prompt": "x", "max_tokens": 1}).status_code == 200
    pathlib.Path(tmp_path / "model.gguf").unlink()
