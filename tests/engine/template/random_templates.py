"""Random small Jinja templates: expressions over variables of every type, and statements around them."""

VARIABLES = {
    "n": 7,
    "z": 0,
    "neg": -3,
    "f": 2.5,
    "big": 12345678901234567,
    "s": "Hello, World",
    "e": "",
    "u": "Straße Ωmega é",
    "ws": "  two  words\n\ttab ",
    "yes": True,
    "no": False,
    "nil": None,
    "l": [3, 1, 2, 1],
    "ls": ["b", "A", "c", "a"],
    "le": [],
    "d": {"a": 1, "b": [1, 2], "items": "own", "c d": None},
    "de": {},
    "ld": [{"k": "x", "v": 2}, {"k": "y", "v": 1, "w": {"q": 5}}, {"k": "x", "v": 3}],
    "mix": [1, "two", None, 2.0, True, [1], {"k": "'q\""}],
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Hé"}, {"type": "image"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"function": {"name": "f", "arguments": {"a": [1, "<x>"]}}}],
        },
        {"role": "tool", "content": "{\"t\": 1}"},
        {"role": "user", "content": " thanks </think> ok\n"},
    ],
}
NAMES = list(VARIABLES) + ["missing"]
STRINGS = [
    "'a'",
    "\"it's\"",
    "'l'",
    "' '",
    "''",
    "'x\\n\\'y\\''",
    "'ß\\u00e9'",
    "'o, W'",
    "'%s|%d'",
    "'%5.1f'",
]
ATTRIBUTES = ["a", "k", "v", "items", "keys", "missing", "w", "0", "upper", "append", "index"]
BINARY = [
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "~",
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "in",
    "not in",
    "and",
    "or",
    "+",
    "~",
]
TESTS = [
    "defined",
    "undefined",
    "none",
    "string",
    "number",
    "integer",
    "float",
    "boolean",
    "true",
    "false",
    "mapping",
    "sequence",
    "iterable",
    "callable",
    "odd",
    "even",
    "upper",
    "lower",
    "divisibleby(2)",
    "divisibleby 3",
    "sameas(nil)",
    "eq(1)",
    "ne 1",
    "lt(3)",
    "ge 2",
    "in([1, 'a'])",
    "equalto('a')",
    "escaped",
]
FILTERS = [
    "trim",
    "upper",
    "lower",
    "title",
    "capitalize",
    "length",
    "first",
    "last",
    "list",
    "join",
    "join(', ')",
    "reverse",
    "sort",
    "sort(reverse=true)",
    "sort(attribute='v')",
    "sort(case_sensitive=true)",
    "unique",
    "string",
    "int",
    "int(-1)",
    "float",
    "abs",
    "round",
    "round(1)",
    "round(1, 'floor')",
    "round(-1)",
    "tojson",
    "tojson(indent=2)",
    "tojson(ensure_ascii=true)",
    "tojson(sort_keys=true)",
    "default('D')",
    "d('D', true)",
    "replace('l', 'L')",
    "replace('a', '', 1)",
    "items",
    "dictsort",
    "dictsort(by='value')",
    "dictsort(reverse=true)",
    "map('upper')",
    "map(attribute='k')",
    "map(attribute='w.q', default='-')",
    "select",
    "select('odd')",
    "select('string')",
    "reject('none')",
    "selectattr('v', 'gt', 1)",
    "rejectattr('w')",
    "selectattr('k', 'equalto', 'x')",
    "sum",
    "sum(attribute='v')",
    "min",
    "max",
    "max(attribute='v')",
    "batch(2)",
    "batch(3, 'x')",
    "slice(2)",
    "groupby('k')",
    "indent",
    "indent(2, true)",
    "indent(width='> ', blank=true)",
    "truncate(6)",
    "truncate(5, true, '…', 0)",
    "wordcount",
    "center(14)",
    "escape",
    "e",
    "safe",
    "format(1, 2)",
    "count",
    "trim('Hd')",
    "attr('upper')",
    "attr('k')",
    "map(attribute='content')",
    "map(attribute='role')",
    "selectattr('role', 'in', ['user', 'tool'])",
    "rejectattr('content', 'none')",
    "selectattr('tool_calls', 'defined')",
    "map('trim')",
    "map('default', '-')",
    "map('tojson')",
    "select('mapping')",
    "tojson(indent=4, sort_keys=true)",
    "tojson(separators=(',', ':'))",
]
METHODS = [
    "strip()",
    "strip(' H')",
    "lstrip()",
    "rstrip('d')",
    "split()",
    "split(',')",
    "split('l', 1)",
    "rsplit(' ', 1)",
    "rsplit(None, 1)",
    "splitlines()",
    "splitlines(true)",
    "startswith('H')",
    "startswith(('x', 'He'))",
    "endswith('d')",
    "endswith('l', 0, 4)",
    "replace('l', 'LL')",
    "replace('', '-')",
    "replace('l', 'x', 1)",
    "upper()",
    "lower()",
    "title()",
    "capitalize()",
    "swapcase()",
    "find('o')",
    "find('o', 5)",
    "rfind('o')",
    "index('W')",
    "rindex('l')",
    "count('l')",
    "count('')",
    "join(['a', 'b'])",
    "join(ls)",
    "isdigit()",
    "isalpha()",
    "isupper()",
    "islower()",
    "isspace()",
    "istitle()",
    "isalnum()",
    "partition(',')",
    "rpartition('l')",
    "removeprefix('He')",
    "removesuffix('ld')",
    "zfill(15)",
    "center(15, '*')",
    "ljust(14)",
    "rjust(14, '.')",
    "format(1)",
    "get('a')",
    "get('zz', 5)",
    "items()",
    "keys()",
    "values()",
    "count(1)",
    "index(1)",
    "append(1)",
    "pop()",
    "update({})",
    "copy()",
    "nothing()",
]
SUBSCRIPTS = [
    "[0]",
    "[-1]",
    "[9]",
    "['a']",
    "['k']",
    "['items']",
    "[1:]",
    "[:2]",
    "[::-1]",
    "[-2:]",
    "[1:9:2]",
    "[5:1:-2]",
    "[nil]",
    "['upper']",
    "[z]",
    "[true]",
    "[:-1]",
    "[:nil]",
    "[s]",
    "[1.0]",
]


def expression(rng, depth):
    if depth <= 0 or rng.random() < 0.12:
        kind = rng.random()
        if kind < 0.6:
            return rng.choice(NAMES)
        if kind < 0.75:
            return rng.choice(STRINGS)
        return rng.choice(
            [
                "0",
                "1",
                "2",
                "-1",
                "10",
                "1.5",
                "2.0",
                "1e3",
                "0.1",
                "1e-7",
                "1_000",
                "true",
                "None",
                "[]",
            ]
        )
    inner = lambda: expression(rng, depth - 1)  # noqa: E731
    kind = rng.randrange(18)
    if kind == 16:
        return rng.choice(
            [
                f"messages[{rng.randrange(-6, 6)}].{rng.choice(['role', 'content', 'tool_calls'])}",
                f"messages[{rng.choice(['1:', '::-1', ':-1', '::2'])}]",
                f"('%s|%s' % ({inner()}, {inner()}))",
                f"('%5.5s' % {inner()})",
                f"'{{}}:{{0}}'.format({inner()})",
                f"'{{!r:>8}}'.format({inner()})",
            ]
        )
    if kind == 17:
        return rng.choice(
            [
                f"(messages|last).content.split('</think>')[{rng.choice(['0', '-1', '1', '2'])}]",
                f"({inner()}).get('content', {inner()})",
                f"({inner()} in messages|map(attribute='role'))",
                f"', '.join({inner()}|map('string'))",
                f"{{'user': 'u', 'tool': {inner()}}}.get({inner()}, 'x')",
                f"namespace(a={inner()}).a",
                f"[{inner()}] + [{inner()}]",
                f"({inner()} or {inner()})",
            ]
        )
    if kind < 4:
        return f"{inner()} {rng.choice(BINARY)} {inner()}"
    if kind < 7:
        return f"{inner()}|{rng.choice(FILTERS)}"
    if kind == 7:
        return f"({inner()}).{rng.choice(METHODS)}"
    if kind == 8:
        return f"{rng.choice(['s', 'u', 'ws', 'd', 'l', 'ls', 'e', inner()])}.{rng.choice(METHODS)}"
    if kind == 9:
        return f"({inner()}){rng.choice(SUBSCRIPTS)}"
    if kind == 10:
        return f"({inner()}).{rng.choice(ATTRIBUTES)}"
    if kind == 11:
        return f"{inner()} is {rng.choice(['', 'not '])}{rng.choice(TESTS)}"
    if kind == 12:
        return (
            f"({inner()} if {inner()} else {inner()})"
            if rng.random() < 0.7
            else f"({inner()} if {inner()})"
        )
    if kind == 13:
        return rng.choice(
            [
                f"[{inner()}, {inner()}]",
                f"({inner()},)",
                f"({inner()}, {inner()})",
                f"{{'k': {inner()}, 2: {inner()}}}",
                f"dict(a={inner()})",
                f"range({inner()})|list",
                f"range({rng.randrange(-3, 9)}, {rng.randrange(-3, 9)}, {rng.choice([-2, -1, 1, 3])})",
            ]
        )
    if kind == 14:
        return rng.choice([f"not {inner()}", f"-{inner()}", f"({inner()})", f"+{inner()}"])
    return f"({inner()} {rng.choice(['<', '==', '<='])} {inner()} {rng.choice(['<', '!=', '>'])} {inner()})"


def space(rng):
    return rng.choice(["", "", " ", "\n", "\n  ", "  \n\t", "x", " y\n", "\r\n"])


def tag(rng, text):
    return f"{{%{rng.choice(['', '', '', '-', '+'])} {text} {rng.choice(['', '', '', '-', '+'])}%}}"


def statement(rng, depth):
    body = lambda: block(rng, depth - 1)  # noqa: E731
    expr = lambda: expression(rng, 2)  # noqa: E731
    kind = rng.randrange(16) if depth > 0 else 0
    if kind < 4:
        return f"{{{{{rng.choice(['', '-', '+'])} {expr()} {rng.choice(['', '-'])}}}}}"
    if kind == 4:
        middle = rng.choice(
            [
                "",
                tag(rng, "else") + body(),
                tag(rng, f"elif {expr()}") + body() + tag(rng, "else") + body(),
            ]
        )
        return tag(rng, f"if {expr()}") + body() + middle + tag(rng, "endif")
    if kind == 5:
        show = rng.choice(
            [
                "loop.index",
                "loop.last",
                "loop.revindex0",
                "loop.length",
                "loop.previtem",
                "loop.nextitem",
                "x",
                "loop.cycle('a', 'b')",
                "loop.changed(x)",
                "loop.first ~ loop.depth",
                "n",
            ]
        )
        control = rng.choice(
            [
                "",
                "",
                "{% if loop.index > 1 %}{% break %}{% endif %}",
                "{% if x == 1 %}{% continue %}{% endif %}",
                "{{ n }}{% set n = x %}",
            ]
        )
        condition = rng.choice(["", "", " if x", f" if {expr()}"])
        otherwise = rng.choice(["", tag(rng, "else") + body()])
        iterable = rng.choice(["l", "ls", "mix", "d", "ld", "s[:3]", "range(3)", expr()])
        return (
            tag(rng, f"for x in {iterable}{condition}")
            + f"{{{{ {show} }}}}"
            + control
            + body()
            + otherwise
            + tag(rng, "endfor")
        )
    if kind == 6:
        return (
            tag(
                rng,
                f"for k, v in {rng.choice(['d.items()', 'd|items', 'ld|groupby(0)', 'd|dictsort', expr()])}",
            )
            + "{{ k }}={{ v }};"
            + body()
            + tag(rng, "endfor")
        )
    if kind == 7:
        # Jinja2 takes a name that a block sets as unset in the loops before, unless the block itself
        # reads it first: so it does.
        return (
            "{{ n }}{{ s|length }}"
            + tag(rng, f"set {rng.choice(['n', 'y', 's', 'a, b'])} = {expr()}")
            + "{{ n }}{{ y }}{{ b }}"
        )
    if kind == 8:
        return (
            tag(rng, f"set y{rng.choice(['', ' | upper', ' | trim'])}")
            + body()
            + tag(rng, "endset")
            + "[{{ y }}]"
        )
    if kind == 9:
        return (
            "{% set ns = namespace(c=0, m=s) %}"
            + tag(rng, "for i in l")
            + f"{{% set ns.c = ns.c + {rng.choice(['i', '1', 'loop.index', expr()])} %}}"
            + tag(rng, "endfor")
            + "{{ ns.c }}{{ ns.m }}{{ ns.nothing }}"
        )
    if kind == 10:
        arguments = rng.choice(["", "1", "1, 2", "b=3", "a=1, b=2", "1, a=2", "1, 2, 3", expr()])
        extra = rng.choice(["", "", "{{ varargs }}", "{{ kwargs }}", "{{ caller is defined }}"])
        return (
            tag(rng, f"macro m(a, b={expr()})")
            + "<{{ a }}{{ b }}"
            + extra
            + body()
            + ">"
            + tag(rng, "endmacro")
            + f"{{{{ m({arguments}) }}}}"
        )
    if kind == 11:
        return rng.choice(
            [
                tag(rng, "filter upper") + body() + tag(rng, "endfilter"),
                "{# " + space(rng) + rng.choice(["#}", "-#}"]),
                tag(rng, "raw") + "{{ x }}" + space(rng) + tag(rng, "endraw"),
                tag(rng, "generation") + body() + tag(rng, "endgeneration"),
                tag(rng, f"with y = {expr()}, q = 1") + "{{ y }}" + body() + tag(rng, "endwith"),
            ]
        )
    if kind == 13:
        test = rng.choice(
            [
                "message.role == 'user'",
                "message['content'] is string",
                "message.content is none",
                "message.tool_calls",
                "loop.previtem is defined and loop.previtem.role != message.role",
                expr(),
            ]
        )
        return (
            tag(rng, f"for message in {rng.choice(['messages', 'messages[::-1]', 'messages[1:]'])}")
            + tag(rng, f"if {test}")
            + rng.choice(["{{ message.role }}", "{{ message.content|tojson }}", "{{ loop.index0 }}", body()])
            + tag(rng, "else")
            + body()
            + tag(rng, "endif")
            + rng.choice(["", "{% if loop.index > 2 %}{% break %}{% endif %}", tag(rng, "continue") + "x"])
            + tag(rng, "endfor")
        )
    if kind == 14:
        return (
            "{% set c = cycler('a', 1, none) %}"
            + tag(rng, f"for x in {rng.choice(['l', 'mix', 'ls'])}")
            + rng.choice(["{{ c.next() }}", "{{ c.current }}{{ c.reset() }}", "{{ c.next() ~ c.current }}"])
            + tag(rng, "endfor")
        )
    if kind == 15:
        return (
            tag(rng, f"for x in {rng.choice(['[[1, [2]], [3]]', 'ld', expr()])} recursive")
            + rng.choice(["{{ loop.depth }}", "{{ loop(x) if x is sequence and x is not string else x }}"])
            + tag(rng, "endfor")
        )
    return (
        "{% macro w(t) %}({{ caller(t) }}){% endmacro %}"
        + tag(rng, f"call(q) w({expr()})")
        + "{{ q }}"
        + body()
        + tag(rng, "endcall")
    )


def block(rng, depth):
    return "".join(
        space(rng) + statement(rng, depth) + space(rng) for _ in range(rng.choice([1, 1, 2]))
    )


def random_template(rng):
    if rng.random() < 0.6:
        return f"{{{{ {expression(rng, rng.choice([1, 2, 2, 3]))} }}}}"
    return block(rng, rng.choice([1, 2, 2]))
