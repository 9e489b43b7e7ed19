// Hostile templates end by a budget, soon, and with an error that names it.
#include <chrono>
#include <cstdlib>
#include <random>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/template/render.h"

namespace sluice::engine {
namespace {

using ::testing::HasSubstr;

std::string Repeat(std::string_view text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

void ExpectExhausted(std::string_view source, std::string_view limit) {
  const auto start = std::chrono::steady_clock::now();
  const absl::Status status = RenderStatus(source);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted)
      << source << ": " << Message(status);
  EXPECT_THAT(Message(status), HasSubstr(std::string(limit))) << source;
  EXPECT_LT(took.count(), 60) << source;
}

TEST(TemplateLimits, NestedLoopsEndByTheWorkBudget) {
  ExpectExhausted(Repeat("{% for a in range(100000) %}", 3) + "x" + Repeat("{% endfor %}", 3),
                  "work limit");
  ExpectExhausted(Repeat("{% for a in range(100000) %}", 9) + Repeat("{% endfor %}", 9),
                  "work limit");
  ExpectExhausted(
      "{% for a in range(90000) %}{% for b in range(90000) if b < 0 %}{% endfor %}{% endfor %}",
      "work limit");
}

TEST(TemplateLimits, RangesAreBounded) {
  EXPECT_THAT(RenderText("{{ range(10**9) }}"), HasSubstr("the limit is 100000"));
  EXPECT_THAT(RenderText("{{ range(-9223372036854775807, 9223372036854775807) }}"),
              HasSubstr("range too big"));
  EXPECT_EQ(
      RenderText("{{ range(9223372036854775806, 9223372036854775807, 9223372036854775807)|list }}"),
      "[9223372036854775806]");
}

TEST(TemplateLimits, GrowingValuesEndByTheOutputBudget) {
  ExpectExhausted(
      "{% set ns = namespace(s='ab') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% "
      "endfor %}",
      "output limit");
  ExpectExhausted(
      "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% "
      "endfor %}",
      "output limit");
  for (const char* source :
       {"{{ '%' * 10**8 }}", "{{ [1] * 10**12 }}", "{{ 'x'.center(10**10) }}",
        "{{ 'x' | center(10**9) }}", "{{ 'x'.zfill(10**9) }}", "{{ '%1000000000d' % 1 }}",
        "{{ '%*d' % (10**12, 1) }}", "{{ '{:1000000000}'.format('x') }}",
        "{{ 'a\\nb' | indent(10**9) }}", "{{ [1] | tojson(indent=10**9) }}",
        "{{ ('x' * 4000).replace('', 'x' * 4000) }}", "{{ ('x' * 4000).join('x' * 4000) }}"}) {
    ExpectExhausted(source, "output limit");
  }
  ExpectExhausted("{% for i in range(99999) %}{{ 'x' * 1000 }}{% endfor %}", "limit)");
}

TEST(TemplateLimits, SharedStructureIsNotPrintedWithoutEnd) {
  const std::string doubled =
      "{% set ns = namespace(a=[0], b=[0]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}"
      "{% set ns.b = [ns.b, ns.b] %}{% endfor %}";
  ExpectExhausted(doubled + "{{ ns.a }}", "limit");
  ExpectExhausted(doubled + "{{ ns.a | tojson }}", "limit");
  ExpectExhausted(doubled + "{{ ns.a == ns.b }}", "work limit");
  ExpectExhausted(doubled + "{{ ns.a < ns.b }}", "work limit");
}

TEST(TemplateLimits, DeepValuesAreRefused) {
  ExpectExhausted(
      "{% set ns = namespace(a=[]) %}{% for i in range(9999) %}{% set ns.a = [ns.a] %}{% endfor %}",
      "deeper");
  ExpectExhausted(
      "{% set ns = namespace(a={}) %}{% for i in range(9999) %}{% set ns.a = {1: ns.a} %}{% endfor "
      "%}",
      "deeper");
  ExpectExhausted(
      "{% set ns = namespace(a=[]) %}{% for i in range(9999) %}{% set ns.a = [ns.a].count %}{% "
      "endfor %}",
      "deeper");
  boost::json::value deep = boost::json::array();
  for (int i = 0; i < 2000; ++i) deep = boost::json::array{std::move(deep)};
  EXPECT_EQ(RenderStatus("{{ x }}", {{"x", deep}}).code(), absl::StatusCode::kResourceExhausted);
}

TEST(TemplateLimits, RingsOfNamespacesNeitherHangNorLeak) {
  EXPECT_EQ(
      RenderText(
          "{% set a = namespace() %}{% set a.b = namespace(a=a, l=[a]) %}{{ a.b.a is sameas a }}"),
      "True");
  ExpectExhausted("{% set a = namespace() %}{% set a.a = a %}{{ a }}", "deeper");
  EXPECT_EQ(
      RenderText(
          "{% set o = namespace(x=0) %}{% for i in range(50000) %}{% set o.x = namespace(p=o.x) %}"
          "{% endfor %}ok"),
      "ok");
  EXPECT_EQ(RenderText("{% set o = namespace(x=[]) %}{% for i in range(9000) %}{% for j in [o.x] %}"
                       "{% set o.x = loop %}{% set _ = loop.changed(loop, loop.changed) %}{% "
                       "endfor %}{% endfor %}ok"),
            "ok");
}

TEST(TemplateLimits, RecursionIsBounded) {
  ExpectExhausted("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "deeper");
  ExpectExhausted("{% macro m() %}" + Repeat("{% if true %}", 60) + "{{ (((m()))) ~ 1 }}" +
                      Repeat("{% endif %}", 60) + "{% endmacro %}{{ m() }}",
                  "deeper");
  ExpectExhausted("{% macro m(a=m()) %}{% endmacro %}{{ m() }}", "deeper");
  ExpectExhausted("{% for x in [[1]] recursive %}{{ loop([x]) }}{% endfor %}", "deeper");
}

TEST(TemplateLimits, DeepSourceIsRefused) {
  const int n = 50'000;
  for (const std::string& source :
       {"{{ " + Repeat("(", n), "{{ " + Repeat("[", n), "{{ " + Repeat("{1:", n),
        "{{ " + Repeat("not ", n) + "1 }}", "{{ " + Repeat("-", n) + "1 }}",
        "{{ " + Repeat("f(", n), "{{ " + Repeat("x[", n), Repeat("{% if 1 %}", n / 2),
        "{{ " + Repeat("1 if 1 else ", n / 4) + "1 }}", "{{ 1" + Repeat(" + 1", n) + " }}",
        "{{ 1" + Repeat("|abs", n) + " }}", "{{ x" + Repeat(".a", n) + " }}",
        "{{ x" + Repeat("()", n) + " }}", "{{ 1" + Repeat(" and 1", n / 2) + " }}",
        "{% set " + Repeat("(", n)}) {
    const auto compiled = ChatTemplate::Compile(source);
    ASSERT_FALSE(compiled.ok()) << source.substr(0, 40);
    EXPECT_EQ(compiled.status().code(), absl::StatusCode::kInvalidArgument) << source.substr(0, 40);
    EXPECT_THAT(Message(compiled.status()), HasSubstr("line 1, column ")) << source.substr(0, 40);
  }
  EXPECT_THAT(RenderText(std::string(1 << 20, ' ')), HasSubstr("more than the limit of 262144"));
  EXPECT_EQ(RenderText("{{ 1" + Repeat(" ~ 1", 5000) + " }}").size(), 5001u);
}

TEST(TemplateLimits, SearchesStayLinear) {
  // Quadratic searches in these would take minutes.
  const std::string set = "{% set a = 'a' * 4000000 %}{% set p = 'a' * 2000000 ~ 'b' %}";
  for (const char* use :
       {"{{ p in a }}", "{{ a.find(p) }}", "{{ a.rfind(p) }}", "{{ a.replace(p, '')|length }}",
        "{{ a.split(p)|length }}", "{{ a.rsplit(p)|length }}", "{{ a.count(p) }}",
        "{{ a.strip(a)|length }}"}) {
    const auto start = std::chrono::steady_clock::now();
    RenderText(set + use);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    EXPECT_LT(took.count(), 20) << use;
  }
}

TEST(TemplateLimits, ALoopObjectOutlivesItsLoopHarmlessly) {
  EXPECT_THAT(
      RenderText(
          "{% set o = namespace() %}{% macro m() %}{% for x in [1] recursive %}{% set o.l = loop %}"
          "{% endfor %}{% endmacro %}{{ m() }}{{ o.l.index }}{{ o.l.last }}{{ o.l([1]) }}"),
      HasSubstr("after its loop has ended"));
}

// ---- random damage: nothing crashes, and every answer is a text or an error of the two kinds

constexpr const char* kSeeds[] = {
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m.content | trim }}{% if not "
    "loop.last %}\n{% endif %}{% endfor %}",
    "{%- macro f(a, b=1, c={'k': [1, 2]}) -%}{{ a ~ b }}{{ varargs }}{{ caller() if caller }}{%- "
    "endmacro -%}{% call f(1) %}x{% endcall %}",
    "{% set ns = namespace(a=0, l=[]) %}{% for k, v in d.items() if v %}{% set ns.a = ns.a + "
    "loop.index %}{% set ns.l = ns.l + [v] %}{% else %}-{% endfor %}{{ ns.a }}{{ ns.l | "
    "tojson(indent=2) }}",
    "{{ x[1:-1:2] }}{{ s.split(',', 1)[0].strip('ab').replace('a', 'b') }}{{ '%s-%05.2f' % (s, "
    "1.5) }}{{ '{:>5}{a}'.format(1, a=2) }}",
    "{% set t | upper | replace('A', 'B') %}{% filter indent(2, true) %}a\nb{% endfilter %}{% "
    "endset %}{{ t }}{% with q = 1 %}{{ q if q is odd else 'é' }}{% endwith %}",
    "{% for x in l recursive %}{{ loop(x) if x is iterable and x is not string else x }}{{ "
    "loop.cycle(1, 2) }}{{ loop.changed(x) }}{% break %}{% endfor %}{# c #}{% raw %}{{ }}{% endraw "
    "%}",
    "{{ l | map('upper') | select('string') | list | sort(reverse=true) | unique | join(', ') | "
    "default('x', true) | truncate(5) }}{{ d | dictsort | groupby(0) | batch(2) | first }}",
};

constexpr const char* kPieces[] = {"{{",
                                   "}}",
                                   "{%",
                                   "%}",
                                   "-%}",
                                   "{#",
                                   "#}",
                                   "(",
                                   ")",
                                   "[",
                                   "]",
                                   "{",
                                   "}",
                                   "'",
                                   "\"",
                                   "\\",
                                   "|",
                                   "~",
                                   "**",
                                   "//",
                                   "%",
                                   " if ",
                                   " else ",
                                   " for ",
                                   " in ",
                                   " is ",
                                   " not ",
                                   "loop",
                                   "loop.",
                                   "ns.",
                                   "messages",
                                   "s",
                                   "l",
                                   "d",
                                   "1",
                                   "-1",
                                   "9223372036854775807",
                                   "1e308",
                                   "0.1",
                                   "\n",
                                   "{% endfor %}",
                                   "{% endif %}",
                                   "{% set ns.l = [ns.l, ns] %}",
                                   "[::-1]",
                                   "|tojson",
                                   "|list",
                                   "|map(",
                                   "|sort",
                                   "|items",
                                   ".items()",
                                   ".format(",
                                   "*s",
                                   "**d",
                                   "caller",
                                   "ns",
                                   "\xC3\xA9",
                                   "\xF0\x9F"};

std::string Damage(std::mt19937_64& rng, std::string text) {
  const auto below = [&](size_t n) { return n == 0 ? 0 : rng() % n; };
  for (size_t edits = 1 + below(4); edits > 0; --edits) {
    const size_t at = below(text.size() + 1);
    switch (below(5)) {
      case 0:
        text.insert(at, kPieces[below(std::size(kPieces))]);
        break;
      case 1:
        text.erase(at, below(12));
        break;
      case 2:
        text.insert(at, text.substr(below(text.size()), below(40)));
        break;
      case 3:
        if (at < text.size()) text[at] = static_cast<char>(rng());
        break;
      default:
        text.replace(at, below(6), kPieces[below(std::size(kPieces))]);
    }
  }
  return text;
}

uint64_t FromEnvironment(const char* name, uint64_t fallback) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : fallback;
}

TEST(TemplateFuzz, DamagedTemplatesGiveATextOrAnError) {
  const boost::json::object variables =
      boost::json::parse(
          R"({"messages": [{"role": "user", "content": " hi "}, {"role": "b", "content": "c"}],
        "d": {"a": 1, "b": [1, {"c": null}]}, "s": "aé,b%s{}", "x": "xyz", "l": ["b", "a", [1, [2]], "a"]})")
          .as_object();
  TemplateLimits limits;
  limits.work_max = 20'000;
  limits.output_bytes_max = 1 << 16;
  // A longer hunt: SLUICE_FUZZ_SEED and SLUICE_FUZZ_COUNT.
  const uint64_t kSeed = FromEnvironment("SLUICE_FUZZ_SEED", 20240607);
  const int kCount = static_cast<int>(FromEnvironment("SLUICE_FUZZ_COUNT", 20'000));
  for (const char* seed : kSeeds) {
    EXPECT_EQ(Message(RenderStatus(seed, variables, limits)), "") << seed;
  }
  std::mt19937_64 rng(kSeed);
  int rendered = 0;
  for (int i = 0; i < kCount; ++i) {
    const std::string source = Damage(rng, kSeeds[rng() % std::size(kSeeds)]);
    const absl::Status status = RenderStatus(source, variables, limits);
    rendered += status.ok();
    ASSERT_TRUE(status.ok() || status.code() == absl::StatusCode::kInvalidArgument ||
                status.code() == absl::StatusCode::kResourceExhausted)
        << "seed " << kSeed << ", template " << i << ": " << source << "\n"
        << Message(status);
  }
  EXPECT_GT(rendered, kCount / 50) << "seed " << kSeed << ": almost no damaged template renders";
}

}  // namespace
}  // namespace sluice::engine
