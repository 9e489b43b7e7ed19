"""Writes the seed corpora: python3 make_corpus.py [FOLDER]. Files in the folders that this script does not write
are findings of fuzzing, kept as regression inputs (their names begin with "found_")."""

import json
import pathlib
import struct
import sys

HERE = pathlib.Path(__file__).parent
OUT = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "corpus"


def write(target, name, data):
    folder = OUT / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())


# ---- GGUF


def gguf_string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def gguf_value(value):
    """(type number, bytes)"""
    if isinstance(value, bool):
        return 7, struct.pack("<B", value)
    if isinstance(value, int):
        return 4, struct.pack("<I", value)
    if isinstance(value, float):
        return 6, struct.pack("<f", value)
    if isinstance(value, str):
        return 8, gguf_string(value)
    element = gguf_value(value[0])[0]
    return 9, struct.pack("<IQ", element, len(value)) + b"".join(gguf_value(v)[1] for v in value)


BLOCK = {0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 8: (32, 34), 12: (256, 144), 14: (256, 210)}


def gguf(keys, tensors, version=3, alignment=32):
    out = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys))
    for key, value in keys.items():
        kind, data = gguf_value(value)
        out += gguf_string(key) + struct.pack("<I", kind) + data
    data = b""
    for name, dims, kind in tensors:
        count = 1
        for dim in dims:
            count *= dim
        out += gguf_string(name) + struct.pack("<I", len(dims))
        out += b"".join(struct.pack("<Q", dim) for dim in dims) + struct.pack("<IQ", kind, len(data))
        values, size = BLOCK[kind]
        data += bytes((i * 7) & 63 for i in range(count // values * size))
        data += b"\0" * (-len(data) % alignment)
    out += b"\0" * (-len(out) % alignment)
    return out + data


def small_model(matrix_type, *, tied=True, vocabulary=24, template="{{ messages }}", more=None):
    width, ffn, dim = 32, 32, 8
    tokens = ["<s>", "<|im_end|>", "a", "b", "ab", "Ġ", "Ċ", "H", "e", "l", "o", ",", "W", "r", "d", "!"]
    tokens += [f"x{i}" for i in range(vocabulary - len(tokens))]
    keys = {
        "general.architecture": "llama",
        "llama.block_count": 1,
        "llama.context_length": 64,
        "llama.embedding_length": width,
        "llama.feed_forward_length": ffn,
        "llama.attention.head_count": 4,
        "llama.attention.head_count_kv": 2,
        "llama.attention.key_length": dim,
        "llama.attention.value_length": dim,
        "llama.rope.dimension_count": dim,
        "llama.rope.freq_base": 10000.0,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3, 3] + [1] * (vocabulary - 2),
        "tokenizer.ggml.merges": ["a b"],
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 1,
        "tokenizer.ggml.add_bos_token": True,
        "tokenizer.chat_template": template,
        **(more or {}),
    }
    tensors = [("token_embd.weight", [width, vocabulary], matrix_type)]
    for name, rows, cols in [
        ("attn_q", 4 * dim, width),
        ("attn_k", 2 * dim, width),
        ("attn_v", 2 * dim, width),
        ("attn_output", width, 4 * dim),
        ("ffn_gate", ffn, width),
        ("ffn_up", ffn, width),
        ("ffn_down", width, ffn),
    ]:
        tensors.append((f"blk.0.{name}.weight", [cols, rows], matrix_type))
    tensors += [(f"blk.0.{name}.weight", [width], 0) for name in ("attn_norm", "ffn_norm")]
    tensors.append(("output_norm.weight", [width], 0))
    if not tied:
        tensors.append(("output.weight", [width, vocabulary], matrix_type))
    if more:
        tensors.append(("rope_freqs.weight", [dim // 2], 0))
    return gguf(keys, tensors)


def write_gguf():
    write("gguf", "empty", gguf({}, []))
    write("gguf", "f16", small_model(1))
    write("gguf", "q8_untied", small_model(8, tied=False))
    write("gguf", "q4_0", small_model(2))
    write("gguf", "q4_1_scaled", small_model(3, more={"llama.rope.scaling.type": "linear",
                                                      "llama.rope.scaling.factor": 2.0}))
    every = {"b": True, "i": 7, "f": 0.5, "s": "text", "ai": [1, 2], "as": ["x", ""], "ab": [True]}
    write("gguf", "every_type", gguf(every, [("t", [2, 3, 4, 5], 0)], version=2))
    write("gguf", "aligned", gguf({"general.alignment": 64}, [("t", [32], 8), ("u", [32], 2)], alignment=64))
    write("gguf", "template", small_model(1, template="{% for m in messages %}{{ m.content|trim }}{% endfor %}"))


# ---- tokenizer: flags, seed, number of stop strings, these with a zero byte each, text


def write_tokenizer():
    texts = {
        "words": "hello world, the abc's 12345 aaaaaaa\n\n  x",
        "control": "<|im_start|>user\nhi<|im_end|> <tool> <|im <s><",
        "unicode": "Grüße €5 日本語 👩‍🚀 e\u0301 \u2028\u00a0",
        "spaces": " " * 40 + "\t\r\n" * 5,
    }
    for i, (name, text) in enumerate(texts.items()):
        for flags in (i, 0x10 | (i + 4), 0x20 | (i + 2)):
            write("tokenizer", f"{name}_{flags:02x}", bytes([flags, 7 + i, 2]) + b"ab\0world\0" + text.encode())
    write("tokenizer", "broken", bytes([2, 3, 1]) + b"\xc3\0" + b"\xff\xfe a\xc3 \xe2\x82 \xf0\x9f\x92")
    write("tokenizer", "stops", bytes([0x10, 1, 3]) + b"aab\0aa\0b\0" + b"caaabaab")


# ---- templates


def write_template():
    for path in sorted((HERE.parent / "engine/template/templates").glob("*.jinja")):
        write("template", path.stem, path.read_bytes())
    small = {
        "expressions": "{{ 1 + 2 * n // 3 ** 2 % 5 - -4 / 2 }}{{ l[::-1] }}{{ s[1:-2] ~ 'x' }}{{ 'a' in s and not n }}",
        "filters": "{{ l|sort|join(',') }}{{ d|dictsort }}{{ s|upper|replace('L', '')|trim }}{{ tools|tojson(indent=2) }}"
        "{{ messages|selectattr('role', 'equalto', 'user')|map(attribute='content')|list|length }}",
        "methods": "{{ s.split(',')[0].strip().startswith('H') }}{{ d.items()|list }}{{ d.get('z', 1) }}{{ '%s-%05.1f' % (s, 2) }}",
        "loops": "{% for x in l if x > 1 recursive %}{{ loop.index }}{{ loop.cycle(1, 2) }}{% if loop.last %}{% break %}"
        "{% endif %}{% else %}none{% endfor %}{% for k, v in d|items %}{{ k }}{% continue %}{% endfor %}",
        "macros": "{% macro m(a, b=2) %}{{ a }}{{ b }}{{ caller(1) if caller }}{% endmacro %}{{ m(1) }}"
        "{% call(q) m(n, *l[:1], **{}) %}{{ q }}{% endcall %}{% set ns = namespace(c=0) %}{% set ns.c = ns.c + 1 %}",
        "blocks": "{%- set y | trim %} x {% endset -%}{% with a = 1 %}{{ a }}{% endwith %}{% filter upper %}u{% endfilter %}"
        "{% generation %}g{% endgeneration %}{% raw %}{{ }}{% endraw %}{# c #}",
        "errors": "{{ raise_exception('no ' ~ messages[0].role) }}",
        "budget": "{% for a in range(99999) %}{% for b in range(99999) %}{{ 'x' * 9999 }}{% endfor %}{% endfor %}",
    }
    for name, text in small.items():
        write("template", "small_" + name, text)
    write("template", "own_variables", b"{{ a|tojson }}{{ b.c }}\0" + json.dumps({"a": [1e300, "\u2028"], "b": {"c": {}}}).encode())


# ---- HTTP bytes, after a seed


def write_http():
    host = "Host: a\r\n"
    requests = {
        "get": f"GET /v1/models?x=%20y HTTP/1.1\r\n{host}X-Request-Id: r-1\r\n\r\n",
        "post": f"POST /v1/chat/completions HTTP/1.1\r\n{host}Content-Length: 13\r\nContent-Type: application/json\r\n\r\n{{\"model\":\"m\"}}",
        "chunked": f"POST / HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\n4;x=y\r\nabcd\r\n0a\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\n",
        "two": f"GET /a HTTP/1.1\r\n{host}\r\nPOST /b HTTP/1.1\r\n{host}Content-Length: 2\r\n\r\nhiGET /c HTTP/1.0\r\n\r\n",
        "expect": f"PUT / HTTP/1.1\r\n{host}Expect: 100-continue\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc",
        "both": f"POST / HTTP/1.1\r\n{host}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "absolute": f"OPTIONS http://h/p?q HTTP/1.1\r\n{host}Connection: keep-alive, x\r\n\r\n",
        "many": f"GET / HTTP/1.1\r\n{host}" + "".join(f"A{i}: {'v' * i}\r\n" for i in range(60)) + "\r\n",
        "large": f"POST / HTTP/1.1\r\n{host}Content-Length: 5000\r\n\r\n" + "x" * 5000,
        "odd": f"\r\n\r\nGET * HTTP/1.1\r\nHost:\ta \r\nA: b\r\n c\r\nB : c\r\n\r\n",
        "upgrade": f"GET / HTTP/1.1\r\n{host}Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Encoding: gzip\r\n\r\n",
    }
    for i, (name, text) in enumerate(requests.items()):
        write("http", name, bytes([i * 5 + 1]) + text.encode())


# ---- request bodies


def write_chat_json():
    user = {"role": "user", "content": "hi"}
    function = {"name": "f", "description": "d", "parameters": {"type": "object"}}
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{\"a\": [1, null]}"}}
    bodies = {
        "least": {"messages": [user]},
        "sampling": {
            "model": "m", "messages": [user], "temperature": 0.5, "top_p": 0.9, "top_k": 5, "min_p": 0.1, "seed": -1,
            "max_tokens": 5, "max_completion_tokens": 6, "n": 2, "stop": ["a", "b"], "logprobs": True,
            "top_logprobs": 3, "presence_penalty": 1, "frequency_penalty": -1, "logit_bias": {"5": -100, "7": 3.5},
            "repetition_penalty": 1.1, "stop_token_ids": [1, 2], "ignore_eos": True, "min_tokens": 2,
            "stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": False}, "user": "u",
        },
        "tools": {
            "messages": [user, {"role": "assistant", "content": None, "tool_calls": [call]},
                         {"role": "tool", "tool_call_id": "c", "content": "1"}],
            "tools": [{"type": "function", "function": function}], "tool_choice": "auto", "parallel_tool_calls": False,
        },
        "parts": {"messages": [{"role": "user", "content": [{"type": "text", "text": "a<|im_"}, {"type": "text", "text": "end|>"}]}]},
        "control": {"messages": [{"role": "system", "content": "<|im_start|>system"},
                                 {"role": "user", "name": "n", "content": "im_end|><|im_end|><s><|im_start"}]},
        "continued": {"messages": [user, {"role": "assistant", "content": "Yes"}], "continue_final_message": True,
                      "add_generation_prompt": False, "chat_template_kwargs": {"enable_thinking": False, "x": "<|im_end|>"}},
        "format": {"messages": [user], "response_format": {"type": "json_object"}},
        "developer": {"messages": [{"role": "developer", "content": "\ud83d\ude00 \u0000 \U000f0000"}]},
        "completion": {"prompt": ["a", "b"], "max_tokens": 1, "echo": True, "logprobs": 2, "best_of": 1, "suffix": None},
        "ids": {"prompt": [[1, 2, 3], [4.0]], "add_special_tokens": True, "return_token_ids": True},
        "big_numbers": {"messages": [user], "seed": 2**64 - 1, "max_tokens": 1e308, "temperature": 1e-320},
    }
    for name, body in bodies.items():
        write("chat_json", name, json.dumps(body))
    write("chat_json", "not_utf8", b'{"messages": [{"role": "user", "content": "\xff"}]}')
    write("chat_json", "repeated", '{"n": 1, "n": 2, "messages": []}')
    write("chat_json", "surrogate", '{"prompt": "\\ud800x\\udc00 \\ud83d\\ude00"}')
    write("chat_json", "deep", "[" * 70 + "]" * 70)


# ---- protobuf: sluice.v1.GenerateRequest


def varint(value):
    value &= 2**64 - 1
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def write_proto():
    user = field(1, "user") + field(2, "hi <|im_end|>")
    call = field(1, "c") + field(2, "f") + field(3, '{"a": [1, null]}')
    assistant = field(1, "assistant") + field(2, "Yes") + field(5, "hm") + field(6, call)
    result = field(1, "tool") + field(2, "1") + field(4, "c")
    kwargs = field(1, field(1, "enable_thinking") + field(2, field(4, 1)))
    kwargs += field(1, field(1, "l") + field(2, field(6, field(1, field(3, "<|im_")) + field(1, field(1, 0)))))
    sampling = b"".join(field(n, v) for n, v in [(6, 2), (10, 0.5), (11, 5), (12, 0.9), (13, 0.1), (14, 1.0), (15, -1.0)])
    sampling += field(16, 1.1) + field(17, 2**64 - 1) + field(18, field(1, 5) + field(2, -100.0))
    stops = field(30, 5) + field(31, 1) + field(32, "ab") + field(33, b"\x01\x02") + field(34, 1) + field(36, 0)
    write("proto", "text", field(1, "m") + field(2, "Hello <s>") + field(5, 1))
    write("proto", "ids", field(4, field(1, varint(1) + varint(300) + varint(2))) + field(7, 1))
    write("proto", "bad_ids", field(4, field(1, varint(-1) + varint(2**31 - 1))))
    write("proto", "chat", field(3, field(1, user) + field(2, 1)))
    write("proto", "continued", field(3, field(1, user) + field(1, field(1, "assistant") + field(2, "So")) + field(3, 1)))
    write("proto", "tools", field(3, field(1, user) + field(1, assistant) + field(1, result) + field(4, kwargs)))
    write("proto", "sampling", field(2, "x") + sampling + stops)
    write("proto", "missing", sampling)
    write("proto", "not_utf8", field(2, b"\xff"))


# ---- configuration


def write_config():
    for path in sorted((HERE.parents[1] / "configs").glob("*.yaml")):
        if path.stat().st_size < 16384:
            write("config", path.stem, path.read_bytes())
    write("config", "small", "http:\n  port: 8001\n  cors_origins: [a, \"b\"]\nmodel:\n  path: 'x: y'\n")
    write("config", "units", "http:\n  body_bytes: 1.5MiB\n  header_timeout: 500ms\nlife:\n  grace: 1h\n")
    write("config", "wrong", "htpp:\n  prot: 1\nhttp: 5\n")
    write("config", "anchors", "a: &x [1]\nb: *x\n--- !!str\nc: |\n  text\n")
    write("config", "repeated", "http: {port: 1, port: 2}\nhttp: {port: 99999999999}\n")
    many = "".join(f"unknown_setting_{i}: {i}\n" for i in range(150))
    write("config", "many_unknown", many + "http:\n" + "".join(f"  prot_{i}: {i}\n" for i in range(60)))
    write("config", "deep", "http: " + "[" * 20 + "]" * 20)
    write("config", "flow", "{http: {port: 0x10, host: \"\\u00e9\\t\"}, model: {threads: -1}}")


# ---- traces of requests


def write_trace():
    rows = [{"timestamp": 27482 + 900 * i, "input_length": 600 * i + 1, "output_length": 5 + i, "hash_ids": [46, 47, i]}
            for i in range(4)]
    write("trace", "mooncake", "".join(json.dumps(row) + "\n" for row in rows))
    write("trace", "mooncake_odd", '{"timestamp":1.5e3,"input_length":1,"output_length":1,"hash_ids":[-1,18446744073709551615],"x":{}}')
    azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    write("trace", "azure", azure + "2023-11-16 18:17:03.9799600,480,10\r\n2023-11-16 18:17:04.0319600,318,8\r\n")
    write("trace", "azure_2024", azure + "2024-05-10 00:00:00.009930+00:00,216,5\n2024-05-10T02:00:02.5+02:00,76,15\n")
    header = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    write("trace", "burstgpt", header + "5,ChatGPT,472,18,490,Conversation log\n45,GPT-4,100,0,100,API log\n")
    write("trace", "burstgpt_wide", "\ufeff\"Session, ID\",Elapsed,Response tokens , Request tokens,Timestamp\n"
          "\"a, \"\"b\"\"\",0.5,7,11,100.25\n,,1,1,9\n")
    write("trace", "numbers", header + "1e10,m,1e9,1000000000,,\n0,m,1,nan,,\n")
    write("trace", "open_quote", header + '1,"m,1,1,2,c\n')
    write("trace", "blank", "\n \r\n")
    write("trace", "times", azure + "2262-04-12 00:00:00,1,1\ninfinite-past,1,1\n")


if __name__ == "__main__":
    write_gguf()
    write_tokenizer()
    write_template()
    write_http()
    write_chat_json()
    write_proto()
    write_config()
    write_trace()
