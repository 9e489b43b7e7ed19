#!/usr/bin/env python3
"""Writes unicode_tables.cc: the character properties and case mappings that Python's str methods use.

Usage: make_unicode_tables.py > unicode_tables.cc
The data is that of the running Python's Unicode version, which the header line of the output names.
"""
import sys
import unicodedata

CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]


def ranges(test):
    """[lo, hi, stride] triples; a stride of 2 covers alternating upper and lower case letters."""
    out = []
    for c in CODE_POINTS:
        if not test(chr(c)):
            continue
        if out:
            lo, hi, stride = out[-1]
            if c - hi == stride or (lo == hi and c - hi in (1, 2)):
                out[-1] = (lo, c, c - hi)
                continue
        out.append((c, c, 1))
    return out


def emit_ranges(name, test):
    print(f"const CodePointRange k{name}[] = {{")
    line = ""
    for lo, hi, stride in ranges(test):
        item = f"{{0x{lo:x},0x{hi:x},{stride}}},"
        if len(line) + len(item) > 100:
            print(line)
            line = ""
        line += item
    print(line)
    print("};")
    print(f"const size_t k{name}Size = sizeof(k{name}) / sizeof(k{name}[0]);\n")


def emit_mapping(name, mapping):
    out, special = [], []
    for c in CODE_POINTS:
        mapped = mapping(chr(c))
        if mapped == chr(c):
            continue
        if len(mapped) != 1:
            special.append((c, mapped))
            continue
        delta = ord(mapped) - c
        if out:
            lo, hi, old_delta, stride = out[-1]
            if delta == old_delta and (c - hi == stride or (lo == hi and c - hi in (1, 2))):
                out[-1] = (lo, c, delta, c - hi)
                continue
        out.append((c, c, delta, 1))
    print(f"const CaseRange k{name}[] = {{")
    line = ""
    for lo, hi, delta, stride in out:
        item = f"{{0x{lo:x},0x{hi:x},{delta},{stride}}},"
        if len(line) + len(item) > 100:
            print(line)
            line = ""
        line += item
    print(line)
    print("};")
    print(f"const size_t k{name}Size = sizeof(k{name}) / sizeof(k{name}[0]);\n")
    print(f"const CaseExpansion k{name}Expansions[] = {{")
    line = ""
    for c, mapped in special:
        escaped = "".join(f"\\x{b:02x}" for b in mapped.encode())
        item = f'{{0x{c:x},"{escaped}"}},'
        if len(line) + len(item) > 100:
            print(line)
            line = ""
        line += item
    print(line)
    print("};")
    print(f"const size_t k{name}ExpansionsSize = "
          f"sizeof(k{name}Expansions) / sizeof(k{name}Expansions[0]);\n")


def main():
    print("// Written by make_unicode_tables.py from Unicode "
          f"{unicodedata.unidata_version}. Do not edit.")
    print('#include "engine/template/value/unicode_tables.h"\n')
    print("namespace sluice::engine::jinja {\n// clang-format off\n")
    emit_ranges("NotPrintable", lambda c: not c.isprintable())
    emit_ranges("Alphabetic", str.isalpha)
    emit_ranges("Numeric", str.isnumeric)
    emit_ranges("Digit", str.isdigit)
    emit_ranges("Decimal", str.isdecimal)
    emit_ranges("Uppercase", str.isupper)
    emit_ranges("Lowercase", str.islower)
    emit_ranges("Titlecase", lambda c: c.istitle() and not c.isupper())
    emit_mapping("ToUpper", str.upper)
    emit_mapping("ToLower", str.lower)
    emit_mapping("ToTitle", str.title)
    print("// clang-format on\n}  // namespace sluice::engine::jinja")


if __name__ == "__main__":
    sys.exit(main())
