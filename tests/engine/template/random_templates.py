"""Random small Jinja templates: expressions over variables of every type, and statements around them."""

from random_words import (
    ATTRIBUTES,
    BINARY,
    FILTERS,
    METHODS,
    NAMES,
    STRINGS,
    SUBSCRIPTS,
    TESTS,
)


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
