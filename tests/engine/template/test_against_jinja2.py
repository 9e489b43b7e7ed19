"""Renders chat templates with Sluice's interpreter and with Jinja2, set up as Hugging Face does, and
compares byte for byte: whole templates over many conversations, then random small templates from
fixed seeds.

The interpreter is the program template_render_tool; SLUICE_TEMPLATE_TOOL names it.
"""

import copy
import datetime
import json
import os
import pathlib
import random
import subprocess

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox
import pytest

from random_templates import random_template
from random_words import VARIABLES

# Jinja2 compiles templates to Python, which warns about constant subscripts such as (1)[2:].
pytestmark = pytest.mark.filterwarnings("ignore::SyntaxWarning")

HERE = pathlib.Path(__file__).parent
TOOL = os.environ.get(
    "SLUICE_TEMPLATE_TOOL",
    str(HERE.parents[2] / "build/release/tests/engine/template/template_render_tool"),
)


class GenerationBlocks(jinja2.ext.Extension):
    """{% generation %}: marks what the model wrote; renders as its body."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_render")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


def make_environment():
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationBlocks, jinja2.ext.loopcontrols]
    )

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(
            value,
            ensure_ascii=ensure_ascii,
            indent=indent,
            separators=separators,
            sort_keys=sort_keys,
        )

    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    return environment


ENVIRONMENT = make_environment()


def jinja2_render(template, variables):
    """("text", output) or ("error", message)."""
    try:
        # A copy: the filter indent adds to a list that it is given by mistake.
        text = ENVIRONMENT.from_string(template).render(**copy.deepcopy(variables))
        text.encode()
        return "text", text
    except Exception as error:  # a template can make any Python error
        return "error", f"{type(error).__name__}: {error}"


def sluice_render(requests):
    """The answers to a list of (template, variables), from one run of the program."""
    lines = "".join(json.dumps({"template": t, "variables": v}) + "\n" for t, v in requests)
    result = subprocess.run(
        [TOOL], input=lines.encode(), stdout=subprocess.PIPE, check=True, timeout=600
    )
    answers = [json.loads(line) for line in result.stdout.decode().split("\n")[:-1]]
    assert len(answers) == len(requests)
    return [
        ("text", a["output"]) if "output" in a else ("error", a.get("error", str(a)))
        for a in answers
    ]


def tool(name, properties, required=None, description="Does it."):
    parameters = {"type": "object", "properties": properties}
    if required is not None:
        parameters["required"] = required
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }


TOOLS = [
    tool(
        "get_weather",
        {
            "city": {"type": "string", "description": "Where, e.g. \"Zürich\" <CH>"},
            "days": {"type": "integer", "minimum": 1, "default": 3},
        },
        ["city"],
        "Weather of a city.\nTwo lines, it's & <that>.",
    ),
    tool(
        "sum",
        {
            "values": {"type": "array", "items": {"type": "number"}},
            "scale": {"type": ["number", "null"], "default": 1.5},
        },
        ["values"],
    ),
    tool("now", {}),
]


def call(name, arguments, call_id="abcdefghi"):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def conversations():
    user, assistant, system = (
        lambda c: {"role": "user", "content": c},
        lambda c: {"role": "assistant", "content": c},
        lambda c: {"role": "system", "content": c},
    )
    yield "one", [user("Hello?")]
    yield "system", [system("Be brief."), user("Hi"), assistant("Yes."), user(" And  now?\n")]
    yield "system_only", [system("Alone")]
    yield "none", []
    yield "unicode", [
        system("日本語で。"),
        user("Grüße 🎉 — \u00a0«ça»\u2028x"),
        assistant("İstanbul ß Ω\t\"q\" 'p'"),
        user("e\u0301 \U0001f469\u200d\U0001f680 <|im_end|>"),
    ]
    yield "empty", [user(""), assistant(""), user("  ")]
    yield "missing", [user("a"), {"role": "assistant"}, {"role": "user", "content": None}]
    yield "not_alternating", [user("a"), user("b"), assistant("c")]
    yield "odd_role", [user("a"), {"role": "critic", "content": "b"}]
    yield "parts", [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": " What is this? "},
                {"type": "image"},
                {"type": "image_url", "image_url": {"url": "data:x"}},
                {"type": "audio"},
                {"type": "text", "text": "And this?"},
                {"type": "text", "text": "never"},
            ],
        }
    ]
    yield "tools", [
        user("Weather?"),
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                call(
                    "get_weather", {"city": "Zürich", "days": 2, "x": [1, 2.0, None, True], "y": {}}
                )
            ],
        },
        {"role": "tool", "content": "{\"t\": 21.5}", "tool_call_id": "abcdefghi"},
        assistant("21.5 °C"),
        user("Thanks"),
    ]
    yield "two_calls", [
        user("Both"),
        {
            "role": "assistant",
            "content": "Let me see.",
            "tool_calls": [call("now", {}), call("sum", {"values": [1e22, 0.1, -3]}, "x")],
        },
        {"role": "tool", "name": "now", "content": "12:00"},
        {"role": "tool", "name": "sum", "content": 3},
        {"role": "assistant", "content": "Done"},
    ]
    yield "thinking", [
        user("1+1"),
        assistant("<think>\nOne and one.\n</think>\n\nTwo."),
        user("2+2"),
        {"role": "assistant", "content": "Four.", "reasoning_content": "\nDouble it.\n"},
    ]
    yield "tool_last", [
        user("x"),
        {"role": "assistant", "content": "", "tool_calls": [call("now", "{}")]},
        {"role": "tool", "content": {"a": [1, "ü"]}},
        {"role": "tool", "content": "second"},
    ]
    yield "thinking_switch", [
        system("Careful. /no_think"),
        user("a /think"),
        {"role": "assistant", "content": None, "reasoning_content": None, "tool_calls": None},
        user([]),
        {"role": "assistant", "content": [{"type": "text", "text": "x"}], "tool_calls": []},
    ]
    yield "call_ids", [
        user("a"),
        {"role": "assistant", "tool_calls": [call("now", "", "1"), call("sum", {"s": "\"<&>'\n"}, "")]},
        {"role": "tool", "content": [{"output": "1", "type": "text", "text": "t"}], "tool_call_id": "1"},
        {"role": "tool", "content": None, "tool_call_id": "unknown"},
        {"role": "tool", "content": "", "name": "sum"},
        assistant("done </think> and <response>done</response>"),
    ]
    yield "long", [system("s")] + [
        message
        for i in range(60)
        for message in (user(f"{i}? " + "wörd " * (i % 7)), assistant(f"\n{i}!" + "\n" * (i % 3)))
    ]


SETTINGS = {
    "plain": {},
    "prompt": {"add_generation_prompt": True},
    "tools": {"add_generation_prompt": True, "tools": TOOLS},
    "null_tools": {"tools": None, "add_generation_prompt": False, "enable_thinking": False},
    "more": {
        "tools": TOOLS[1:2],
        "documents": [{"text": "One."}, {"title": "t"}],
        "enable_thinking": False,
        "add_generation_prompt": True,
        "date_string": "1 Jan 2025",
        "controls": {"length": "short", "n": 1},
    },
}

TEMPLATES = sorted(path.name for path in (HERE / "templates").glob("*.jinja"))


def test_there_are_enough_templates():
    assert len(TEMPLATES) >= 30


@pytest.mark.parametrize("name", TEMPLATES)
def test_model_template(name):
    source = (HERE / "templates" / name).read_text()
    cases = []
    for conversation, messages in conversations():
        for setting, more in SETTINGS.items():
            variables = {"bos_token": "<s>", "eos_token": "</s>", "messages": messages, **more}
            cases.append((f"{conversation}/{setting}", variables))
    answers = sluice_render([(source, variables) for _, variables in cases])
    rendered = 0
    for (case, variables), got in zip(cases, answers):
        want = jinja2_render(source, variables)
        if want[0] == "error":
            assert (
                got[0] == "error"
            ), f"{name} {case}: Jinja2 fails with {want[1]!r}, we give {got[1]!r}"
            assert "line " in got[1] and "column " in got[1], f"{name} {case}: {got[1]!r}"
            if want[1].startswith(
                "TemplateError: "
            ):  # raised by the template: the message is its own
                assert want[1].removeprefix("TemplateError: ") in got[1]
        else:
            assert got == want, f"{name} {case}"
            rendered += 1
    assert rendered >= len(SETTINGS)


def is_known_difference(want, got):
    """Differences that are meant: what these templates show has no use in a chat template."""
    # Objects that show their address in Python, and generators and methods among them.
    shown = want[1].lower()
    if want[0] == "text" and (
        " at 0x" in shown or "<built-in" in shown or "<bound method" in shown
    ):
        return True
    return got[0] == "error" and (
        "64 bits" in got[1]  # integers are not unlimited
        or "unhashable type: 'tuple'" in got[1]  # tuples are no keys
        or "unhashable type: 'generator'" in got[1]  # nor are generators
        # Jinja2 computes constant expressions beforehand, and takes their failing slices as undefined.
        or "can't be sliced" in got[1]
    )


def compare_random(seed, count):
    rng = random.Random(seed)
    templates = [random_template(rng) for _ in range(count)]
    answers = sluice_render([(template, VARIABLES) for template in templates])
    differences, texts = [], 0
    for template, got in zip(templates, answers):
        want = jinja2_render(template, VARIABLES)
        texts += want[0] == "text"
        if is_known_difference(want, got):
            continue
        if got[0] != want[0] or (got[0] == "text" and got[1] != want[1]):
            differences.append(f"{template!r}\n  jinja2: {want}\n  sluice: {got}")
    return differences, texts


# SLUICE_TEST_SEED starts elsewhere: what is found then need not be an error (is_known_difference does not
# see through what a template makes of a printed address).
FIRST_SEED = int(os.environ.get("SLUICE_TEST_SEED", "1"))


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + 6))
def test_random_templates(seed):
    differences, texts = compare_random(seed, 1000)
    assert texts > 300, "most random templates fail: they show nothing"
    assert not differences, f"seed {seed}: {len(differences)} differ\n" + "\n".join(
        differences[:10]
    )
