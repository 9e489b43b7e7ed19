// What the template language gives, piece by piece. The expected texts are what Jinja2 gives;
// test_against_jinja2.py compares with Jinja2 itself, over far more.
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/template/render.h"

namespace sluice::engine {
namespace {

using ::testing::HasSubstr;

struct Case {
  const char* source;
  const char* expected;
};

constexpr char kVariables[] = R"({
  "s": "Hello", "u": "Straße é", "n": 7, "f": 2.5, "yes": true, "nil": null, "l": [3, 1, 2],
  "d": {"b": 1, "a": [1, "x"], "items": "own"}, "ld": [{"k": "x", "v": 2}, {"k": "y", "v": 1}]})";

void Check(std::initializer_list<Case> cases) {
  for (const Case& one : cases) {
    EXPECT_EQ(RenderText(one.source, kVariables), one.expected) << "of " << one.source;
  }
}

TEST(TemplateLanguage, ValuesPrintAsPythonPrintsThem) {
  Check({{"{{ nil }} {{ yes }} {{ n }} {{ f }} {{ missing }}|", "None True 7 2.5 |"},
         {"{{ [1, 'a', \"it's\", none, 2.0, {'k': (1,)}] }}",
          "[1, 'a', \"it's\", None, 2.0, {'k': (1,)}]"},
         {"{{ 1e22 }} {{ 1e15 }} {{ 1e16 }} {{ 0.1 }} {{ 1e-5 }} {{ -0.0 }}",
          "1e+22 1000000000000000.0 1e+16 0.1 1e-05 -0.0"},
         {"{{ ['\\n\\t\\\\ \\x00 \\u00a0é'] }}", "['\\n\\t\\\\ \\x00 \\xa0é']"},
         {"{{ d }}", "{'b': 1, 'a': [1, 'x'], 'items': 'own'}"},
         {"{{ range(3) }} {{ range(1, 9, 2)[1:] }} {{ d.keys() }}",
          "range(0, 3) range(3, 9, 2) dict_keys(['b', 'a', 'items'])"}});
}

TEST(TemplateLanguage, OperatorsFollowPython) {
  Check({{"{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 3 ** 2 }} {{ 7.5 // 2 }}",
          "3 -4 2 3.5 64 3.0"},
         {"{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 == true }} {{ '1' == 1 }}",
          "True False True False"},
         {"{{ 'a' ~ 1 ~ none ~ missing }}{{ 'ab' * 2 }}{{ [1] + [2] }}", "a1Noneabab[1, 2]"},
         {"{{ 'el' in s }} {{ 'b' in d }} {{ 9 not in l }} {{ not yes or n }}", "True True True 7"},
         {"{{ l[-1] }}{{ l[1:] }}{{ l[::-1] }}{{ s[1:-1] }}{{ u[4] }}{{ u[::-2] }}",
          "2[1, 2][2, 1, 3]ellßéeat"},
         {"{{ 'a' if n > 5 else 'b' }}{{ 'c' if n > 9 }}", "a"},
         {"{{ \"%s is %05.2f|%-4d|%x\" % (s, f, n, 255) }}", "Hello is 02.50|7   |ff"},
         {"{{ 'a' 'b' \"c\" }}{{ 1_000 + 0x10 }}", "abc1016"}});
}

TEST(TemplateLanguage, AttributesAndItemsAreLookedUpAsTheSandboxDoes) {
  Check({{"{{ d.b }}{{ d['b'] }}{{ d.items is callable }}{{ d['items'] }}{{ l.1 }}", "11Trueown1"},
         {"{{ d.nothing is defined }}{{ l[9] }}{{ l.append is defined }}", "FalseFalse"},
         {"{{ l.append(1) }}",
          "error: line 1, column 6: access to attribute 'append' of 'list' object is unsafe."},
         {"{{ d.x.y }}", "error: line 1, column 8: 'dict object' has no attribute 'x'"}});
}

TEST(TemplateLanguage, WhiteSpaceIsTrimmedAsJinjaDoes) {
  Check({{"a\n  {% if yes %}\n  b\n  {% endif %}\nc\n", "a\n  b\nc"},
         {"a \n {{- ' x ' -}} \n b", "a x b"},
         {"  {%+ if yes %}x{% endif +%}\ny", "  x\ny"},
         {"a\n  {# comment #}\nb {#- c -#} d",
          "a\nb"
          "d"},
         {"{% raw -%}  {{ x }} {%- endraw %}\n!", "{{ x }}!"},
         {"a\r\nb\rc\n\n", "a\nb\nc\n"},
         {"x {% if yes %} y {% endif %} z", "x  y  z"}});
}

TEST(TemplateLanguage, LoopsKnowWhereTheyAre) {
  Check({{"{% for x in l %}{{ loop.index }}/{{ loop.length }}:{{ x }}{{ ',' if not loop.last }}{% "
          "endfor %}",
          "1/3:3,2/3:1,3/3:2"},
         {"{% for x in l if x > 1 %}{{ loop.revindex }}{{ x }}{{ loop.previtem }} {% endfor %}",
          "23 123 "},
         {"{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "b=1;a=[1, 'x'];items=own;"},
         {"{% for x in [] %}{% else %}none{% endfor %}", "none"},
         {"{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% break %}{% endfor %}",
          "3"},
         {"{% for x in l %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }}{{ loop.nextitem }} "
          "{% endfor %}",
          "aTrue1 bTrue2 aTrue "},
         {"{% for x in [1, [2, [3]]] recursive %}{{ loop(x) if x is sequence else x }}@{{ "
          "loop.depth }} {% endfor %}",
          "1@1 2@2 3@3 @2 @1 "}});
}

TEST(TemplateLanguage, ScopesEndWithTheirBlocks) {
  Check({{"{% set x = 1 %}{% for i in l %}{{ x }}{% set x = i %}{% endfor %}{{ x }}", "1111"},
         {"{% set ns = namespace(c=0) %}{% for i in l %}{% set ns.c = ns.c + i %}{% endfor %}{{ "
          "ns.c }}",
          "6"},
         {"{% if yes %}{% set x = 5 %}{% endif %}{{ x }}", "5"},
         {"{% set a, b = 1, 2 %}{{ b }}{% with a = 3, c = a %}{{ a }}{{ c }}{% endwith %}{{ a }}",
          "2311"},
         {"{% set t | upper %}a{{ s }}{% endset %}{{ t }}", "AHELLO"},
         {"{% filter replace('l', 'L') %}{{ s }}{% endfilter %}", "HeLLo"},
         {"{% generation %}{% set q = 1 %}{{ q }}{% endgeneration %}{{ q }}", "1"}});
}

TEST(TemplateLanguage, MacrosTakeArgumentsAndCallers) {
  Check({{"{% macro m(a, b='B', c=a) %}{{ a }}{{ b }}{{ c }};{% endmacro %}{{ m(1) }}{{ m(1, c=2) "
          "}}{{ m() }}",
          "1B1;1B2;B;"},
         {"{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, k=2) }}", "(1,){'k': 2}"},
         {"{% macro box() %}[{{ caller('x') }}]{% endmacro %}{% call(t) box() %}{{ t }}{{ s }}{% "
          "endcall %}",
          "[xHello]"},
         {"{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}",
          "error: line 1, column 35: macro 'm' takes not more than 1 argument(s)"},
         {"{% macro f(n) %}{{ n }}{% if n %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}",
          "3210"}});
}

TEST(TemplateLanguage, DefaultsSeeTheParametersBefore) {
  EXPECT_EQ(RenderText("{% macro m(a, b=a, c=n) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}",
                       R"({"n": 7})"),
            "117");
  EXPECT_EQ(
      RenderText("{% macro m(a=n, n=2) %}[{{ a }}{{ n }}]{% endmacro %}{{ m() }}", R"({"n": 7})"),
      "[2]");
  EXPECT_EQ(RenderText("{% macro m(a, b=1) %}{% endmacro %}{{ m.name }}{{ m.arguments }}"),
            "m('a', 'b')");
}

TEST(TemplateLanguage, FiltersAndTests) {
  Check({{"{{ d | tojson }}", R"({"b": 1, "a": [1, "x"], "items": "own"})"},
         {"{{ {'a': [1, {}], 'é<&': none} | tojson(indent=2) }}",
          "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"é<&\": null\n}"},
         {"{{ ld | map(attribute='k') | join('-') }}{{ ld | selectattr('v', 'gt', 1) | list | "
          "length }}",
          "x-y1"},
         {"{{ ld | sort(attribute='v') | map(attribute='k') | list }}{{ d | dictsort | first }}",
          "['y', 'x']('a', [1, 'x'])"},
         {"{{ u | upper }}{{ 'ΑΣ' | lower }}{{ 'ÀÉ жЯ' | title }}{{ u | length }}",
          "STRASSE Éας"
          "Àé Жя8"},
         {"{{ missing | default('d') }}{{ '' | d('e', true) }}{{ nil | default('x') }}", "deNone"},
         {"{{ '  a b ' | trim }}{{ 'a\nb\n\nc' | indent(2) }}",
          "a b"
          "a\n  b\n\n  c"},
         {"{{ 2.5 | round }}{{ 7 | round }}{{ '3.9' | int }}{{ 'x' | int(9) }}{{ '1_0' | float }}",
          "2.07"
          "3910.0"},
         {"{{ n is odd }}{{ n is divisibleby 7 }}{{ d is mapping }}{{ s is string }}{{ nil is none "
          "}}",
          "TrueTrueTrueTrueTrue"},
         {"{{ n is not defined }}{{ l is iterable }}{{ 1 is in [1] }}{{ yes is sameas true }}",
          "FalseTrueTrueTrue"}});
}

TEST(TemplateLanguage, CyclersGoRound) {
  EXPECT_EQ(RenderText("{% set c = cycler('a', 2) %}{{ c.next() }}{{ c.next() }}{{ c.next() }}"
                       "{{ c.current }}{{ c.reset() }}{{ c.current }}"),
            "a2a2Nonea");
  EXPECT_EQ(RenderText("{{ cycler() }}"),
            "error: line 1, column 10: at least one item has to be provided");
  // A ring of a cycler and a namespace is taken apart at the end (seen by the leak checker).
  EXPECT_EQ(
      RenderText("{% set n = namespace() %}{% set n.c = cycler(n) %}{{ n.c.next is defined }}"),
      "True");
}

TEST(TemplateLanguage, SafeTextEscapesWhatIsAddedToIt) {
  EXPECT_EQ(RenderText("{{ '<a>' + ('<b>'|safe) }}"), "&lt;a&gt;<b>");
  EXPECT_EQ(RenderText("{{ (' <b> '|safe).strip() + '&' }}"), "<b>&amp;");
  EXPECT_EQ(RenderText("{{ '<a>' ~ ('<b>'|safe) }}"), "<a><b>");
}

TEST(TemplateLanguage, AttrFindsNoItems) {
  EXPECT_EQ(RenderText("{{ {'a': 1}|attr('a') }}{{ namespace(a=2)|attr('a') }}"), "2");
}

TEST(TemplateLanguage, StringMethods) {
  Check({{"{{ 'a</think>b'.split('</think>')[-1] }}{{ ' x '.strip() }}{{ 'xxaxx'.strip('x') }}",
          "bxa"},
         {"{{ 'a b  c'.split() }}{{ 'a-b-c'.rsplit('-', 1) }}{{ 'a\nb'.splitlines() }}",
          "['a', 'b', 'c']['a-b', 'c']['a', 'b']"},
         {"{{ s.startswith(('x', 'He')) }}{{ s.find('l') }}{{ s.rfind('l') }}{{ u.index('é') }}",
          "True237"},
         {"{{ '-'.join(['a', 'b']) }}{{ 'aXbX'.replace('X', '', 1) }}{{ '{}-{x:>3}'.format(1, x=2) "
          "}}",
          "a-babX1-  2"}});
}

TEST(TemplateLanguage, ErrorsSayWhereAndWhatWasExpected) {
  Check({{"a\n{% if yes %}\n",
          "error: line 2, column 13: expected {% elif %} or {% else %} or {% endif %}, "
          "got the end of the template"},
         {"{{ 1 + }}", "error: line 1, column 8: expected an expression, got '}}'"},
         {"{{ 'é' ! }}", "error: line 1, column 8: unexpected character '!'"},
         {"{% foo %}", "error: line 1, column 4: unknown tag 'foo'"},
         {"{{ s | nosuch }}", "error: line 1, column 8: no filter named 'nosuch'"},
         {"{% break %}", "error: line 1, column 4: 'break' outside a for loop"},
         {"\n\n  {{ raise_exception('no ' ~ s) }}", "error: line 3, column 21: no Hello"},
         {"{{ n + s }}",
          "error: line 1, column 6: unsupported operand type(s) for +: 'int' and 'str'"},
         {"{{ 9223372036854775807 + 1 }}",
          "error: line 1, column 24: the integer result of + does not fit 64 bits"}});
}

TEST(TemplateLanguage, UnicodeIsCountedInCharacters) {
  EXPECT_EQ(
      RenderText("{{ x | length }}{{ x[1] }}{{ x[::-1] }}{{ x.find('b') }}", R"({"x": "a🎉b"})"),
      "3🎉b🎉a2");
  EXPECT_THAT(RenderText("\xff{{ 1 }}"), HasSubstr("not valid UTF-8"));
}

TEST(TemplateLanguage, StrftimeNowFormatsTheDate) {
  const std::string year = RenderText("{{ strftime_now('%Y') }}");
  EXPECT_EQ(year.size(), 4u);
  EXPECT_GE(std::stoi(year), 2025);
}

std::string ReadTemplate(const std::string& name) {
  std::ifstream file(std::string(SLUICE_TEMPLATE_DATA_DIR) + "/" + name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(TemplateLanguage, DefaultModelsTemplate) {
  const std::string source = ReadTemplate("smollm2.jinja");
  ASSERT_FALSE(source.empty());
  EXPECT_EQ(
      RenderText(
          source,
          R"({"add_generation_prompt": true, "messages": [{"role": "user", "content": "Hi"}]})"),
      "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
      "Face<|im_end|>\n"
      "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(RenderText(source, R"({"messages": [{"role": "system", "content": "S"}]})"),
            "<|im_start|>system\nS<|im_end|>\n");
}

TEST(TemplateLanguage, OneTemplateRendersOnManyThreads) {
  auto compiled = ChatTemplate::Compile(ReadTemplate("llama3_tools.jinja"));
  ASSERT_TRUE(compiled.ok());
  const boost::json::object variables =
      boost::json::parse(R"({"bos_token": "<s>", "messages": [{"role": "user", "content": "Hi"}],
                             "tools": [{"a": 1}], "add_generation_prompt": true})")
          .as_object();
  const std::string expected = (*compiled)->Render(variables).value();
  std::vector<std::thread> threads;
  std::vector<int> equal(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) equal[t] += *(*compiled)->Render(variables) == expected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(equal, ::testing::Each(50));
}

}  // namespace
}  // namespace sluice::engine
