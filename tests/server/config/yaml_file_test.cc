#include "server/config/settings/yaml_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <random>

#include "tests/server/config/sample_schema.h"

namespace sluice::server::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Reading Read(const std::string& text) { return ReadYaml(SampleSchema(), text, "c.yaml"); }

// "line path=text" of each assignment.
std::vector<std::string> Given(const std::string& text) {
  const Reading reading = Read(text);
  EXPECT_THAT(reading.errors, IsEmpty()) << text;
  std::vector<std::string> out;
  for (const Assignment& a : reading.assignments) {
    out.push_back(a.place + " " + SampleSchema().settings()[a.setting].path + "=" + a.text);
  }
  return out;
}

TEST(YamlFile, ReadsSectionsWithLines) {
  EXPECT_THAT(
      Given("# comment\nweb:\n  port: 81\n  host: \"a b\"\n\ndoor: {key: 'x', port: 0x1}\n"),
      ElementsAre("c.yaml:3 web.port=81", "c.yaml:4 web.host=a b", "c.yaml:6 door.key=x",
                  "c.yaml:6 door.port=0x1"));
}

TEST(YamlFile, ScalarsAreTakenAsWritten) {
  // YAML 1.1 would make these a truth value, a number in base 60 and a date.
  EXPECT_THAT(Given("web: {host: no}"), ElementsAre("c.yaml:1 web.host=no"));
  EXPECT_THAT(Given("web: {host: 1:30}"), ElementsAre("c.yaml:1 web.host=1:30"));
  EXPECT_THAT(Given("web: {host: 2024-01-01}"), ElementsAre("c.yaml:1 web.host=2024-01-01"));
  EXPECT_THAT(Given("web:\n  port: '81'\n"), ElementsAre("c.yaml:2 web.port=81"));
  EXPECT_THAT(Given("web:\n  host: \"null\"\n"), ElementsAre("c.yaml:2 web.host=null"));
}

TEST(YamlFile, ListsAreSequencesOrHaveCommas) {
  EXPECT_THAT(Given("web:\n  names: [a b, \"*\"]\n"), ElementsAre("c.yaml:2 web.names=a b,*,"));
  EXPECT_THAT(Given("web:\n  names:\n    - a\n    - b\n"), ElementsAre("c.yaml:2 web.names=a,b,"));
  EXPECT_THAT(Given("web:\n  names: []\n"), ElementsAre("c.yaml:2 web.names="));
  EXPECT_THAT(Given("web:\n  names: a, b\n"), ElementsAre("c.yaml:2 web.names=a, b"));
}

TEST(YamlFile, FilesThatSayNothingAreFine) {
  for (const char* text :
       {"", "\n\n", "# only\n# comments\n", "---\n", "web:\n", "web: {}\n",
        "web:\n  # port: 1\ndoor:\n", "\xEF\xBB\xBFweb: {}\n", "---\nweb: {}\n...\n", "{}"}) {
    EXPECT_THAT(Given(text), IsEmpty()) << text;
  }
  EXPECT_THAT(Given("web:\r\n  port: 1\r\n"), ElementsAre("c.yaml:2 web.port=1"));
}

TEST(YamlFile, RefusalsNameLineAndReason) {
  const std::pair<const char*, const char*> cases[] = {
      {"web:\n  prot: 1\n", "c.yaml:2: no setting \"web.prot\"; did you mean web.port?"},
      {"\nwbe:\n  port: 1\n", "c.yaml:2: no setting \"wbe\"; did you mean web?"},
      {"mode: fast\n", "c.yaml:1: no setting \"mode\"; did you mean web.mode?"},
      {"door:\n  share: 1\n", "c.yaml:2: no setting \"door.share\"; did you mean web.share?"},
      {"qqqqqqqqq: 1\n", "c.yaml:1: no setting \"qqqqqqqqq\""},
      {"qqqqqqqqq: {a: 1}\n", "c.yaml:1: no setting \"qqqqqqqqq\""},
      {"qqqqqqqqq: [1]\n", "c.yaml:1: no setting \"qqqqqqqqq\""},
      {"qqqqqqqqq:\n", "c.yaml:1: no setting \"qqqqqqqqq\""},
      {"web:\n  port: 1\n  port: 2\n", "c.yaml:3: \"web.port\" is given twice"},
      {"web: {}\ndoor: {}\nweb: {}\n", "c.yaml:3: \"web\" is given twice"},
      {"web:\n  port: {a: 1}\n", "c.yaml:2: \"web.port\" is one value, not a mapping"},
      {"web:\n  port:\n    - 1\n", "c.yaml:2: \"web.port\" is not a list"},
      {"web: [1]\n", "c.yaml:1: \"web\" is not a list"},
      {"web:\n  names: [a,\n  [b]]\n", "c.yaml:3: an item of a list is one value"},
      {"web:\n  names: [a, {b: c}]\n", "c.yaml:2: an item of a list is one value"},
      {"web:\n  names: [\"a,b\"]\n", "c.yaml:2: an item of a list may not be empty"},
      {"web:\n  names:\n    -\n    - b\n", "an item of a list may not be empty"},
      {"web:\n  names: {a: b}\n", "c.yaml:2: \"web.names\" is one value, not a mapping"},
      {"web: 1\n", "c.yaml:1: \"web\" is a section: its settings go under it"},
      {"web:\n  port:\n  host: a\n", "c.yaml:2: \"web.port\" has no value"},
      {"web:\n  port: ~\n", "c.yaml:2: \"web.port\" has no value"},
      {"- a\n", "c.yaml:1: the file is a list"},
      {"hello\n", "c.yaml:1: the file is not a mapping"},
      {"web: &a {port: 1}\n", "c.yaml:1: anchors"},
      {"web:\n  host: &a b\n", "c.yaml:2: anchors"},
      {"door: {}\nweb: *a\n", "c.yaml:2"},
      {"web:\n  host: !!str b\n", "c.yaml:2: tags (\"tag:yaml.org,2002:str\")"},
      {"web: !x {}\n", "c.yaml:1: tags"},
      {"web:\n  <<: 1\n", "c.yaml:2: no setting \"web.<<\""},
      {"? [a]\n: 1\n", "c.yaml:1: a key is not a name"},
      {"? {a: b}\n: 1\n", "c.yaml:1: a key is not a name"},
      {"~: 1\n", "c.yaml:1: a key is not a name"},
      {"web: {}\n---\ndoor: {}\n", "a second YAML document begins"},
      {"web: {port: 1\n", "not valid YAML"},
      {"web:\n\tport: 1\n", "c.yaml:2: "},
      {"web:\n  host: \"a\n", "not valid YAML"},
      {"web:\n  host: \xff\n", "c.yaml:2: not a text"},
      {"web:\n  host: \x01\n", "c.yaml:2: not a text"},
  };
  for (const auto& [text, part] : cases) {
    const Reading reading = Read(text);
    ASSERT_FALSE(reading.errors.empty()) << text;
    EXPECT_THAT(reading.errors[0], HasSubstr(part)) << text;
  }
  EXPECT_THAT(Read(std::string("web: {}\n\0", 9)).errors,
              ElementsAre(HasSubstr("c.yaml:2: not a")));
}

TEST(YamlFile, AllMistakesAreToldAtOnceWithinReason) {
  EXPECT_THAT(Read("web:\n  a1: 1\n  b1: {x: [1, {y: 2}]}\n  port: 1\nzz: 1\n").errors,
              ElementsAre(HasSubstr("c.yaml:2"), HasSubstr("c.yaml:3"), HasSubstr("c.yaml:5")));
  std::string many = "web:\n";
  for (int i = 0; i < 1000; ++i) many += "  x" + std::to_string(i) + ": 1\n";
  EXPECT_EQ(Read(many).errors.size(), 20u);
}

TEST(YamlFile, DeepWideAndLargeFilesAreRefusedByName) {
  std::string deep = "web: ";
  for (int i = 0; i < 100'000; ++i) deep += "[";
  EXPECT_THAT(Read(deep).errors[0], HasSubstr("c.yaml:1"));
  std::string deep_maps;
  for (int i = 0; i < 300; ++i) deep_maps += std::string(i, ' ') + "a:\n";
  EXPECT_FALSE(Read(deep_maps).errors.empty());
  // A billion laughs: one anchor is enough to refuse.
  EXPECT_THAT(Read("a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n").errors[0],
              HasSubstr("c.yaml:1"));
  EXPECT_THAT(Read(std::string(kYamlBytesMax + 1, '#')).errors,
              ElementsAre("c.yaml: has more than 262144 bytes"));
  EXPECT_THAT(Read(std::string(kYamlBytesMax, '#')).errors, IsEmpty());
}

TEST(YamlFile, FilesThatAreNoFilesAreRefused) {
  EXPECT_THAT(ReadYamlFile(SampleSchema(), "/nonexistent/x.yaml").errors,
              ElementsAre("--config /nonexistent/x.yaml: No such file or directory"));
  EXPECT_THAT(ReadYamlFile(SampleSchema(), "/").errors, ElementsAre(HasSubstr("Is a directory")));
  EXPECT_THAT(ReadYamlFile(SampleSchema(), "/dev/zero").errors,
              ElementsAre(HasSubstr("more than")));
  EXPECT_THAT(ReadYamlFile(SampleSchema(), "/dev/null").errors, IsEmpty());
}

// Damaged files end in an error or a reading, never in a crash, and soon.
TEST(YamlFile, MutationsEndSoon) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const std::string valid =
      "# comment\nweb:\n  port: 81  # why\n  host: \"a \\u00e9 b\"\n  body: 8MiB\n"
      "  mode: 'exact'\ndoor: {key: x, port: 1}\n";
  const std::string pieces[] = {"&a ", "*a",    "!!str ",      "? ",           ": ",  "- ",   "[",
                                "]",   "{",     "}",           "\n",           "  ",  "|\n ", "\"",
                                "'",   "#",     "%YAML 1.2\n", "---\n",        "<<",  ",",    "\\x",
                                "~",   "...\n", ">-\n",        "\xEF\xBB\xBF", "\xff"};
  for (int i = 0; i < 20'000; ++i) {
    std::string text = valid;
    for (uint64_t edits = 1 + random() % 6; edits > 0; --edits) {
      const size_t at = random() % (text.size() + 1);
      switch (random() % 3) {
        case 0:
          text.insert(at, pieces[random() % std::size(pieces)]);
          break;
        case 1:
          text.erase(at, random() % 8);
          break;
        default:
          if (at < text.size()) text[at] = static_cast<char>(random());
      }
    }
    const Reading reading = Read(text);
    EXPECT_LE(reading.errors.size(), 21u);
  }
}

// The parser's worst cases within the size limit.
TEST(YamlFile, RepeatedPiecesAreReadInBoundedTime) {
  for (const char* piece :
       {"[",     "{",     "? ",     "- ",     "a: ",  "&a ",     "*a ", "! ",
        "\"",    "'",     "|\n",    "a: b\n", "a,",   "- - a\n", "\n",  "? a\n",
        "{a: [", "a:\n ", "%A B\n", "---\n",  "# \n", "a: &a\n", "x\n", "[a]: b\n"}) {
    std::string text;
    while (text.size() + 8 < kYamlBytesMax) text += piece;
    const auto begin = std::chrono::steady_clock::now();
    Read(text);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    EXPECT_LT(took.count(), 20) << piece;
    if (took.count() > 0.5) std::printf("%.1f s for %s\n", took.count(), piece);
  }
}

}  // namespace
}  // namespace sluice::server::config
