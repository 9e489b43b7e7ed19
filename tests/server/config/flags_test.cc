#include "server/config/settings/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/config/sample_schema.h"

namespace sluice::server::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Flags Read(const std::vector<std::string>& arguments) {
  return ReadFlags(SampleSchema(), arguments, {"help", "defaults"});
}

// "place=text" of each assignment.
std::vector<std::string> Given(const std::vector<std::string>& arguments) {
  const Flags flags = Read(arguments);
  EXPECT_THAT(flags.reading.errors, IsEmpty());
  std::vector<std::string> out;
  for (const Assignment& a : flags.reading.assignments) out.push_back(a.place + "=" + a.text);
  return out;
}

TEST(Flags, AllFormsOfAFlag) {
  EXPECT_THAT(Given({"--web-port", "81", "--host=a=b"}),
              ElementsAre("--web-port=81", "--host=a=b"));
  EXPECT_THAT(Given({"-p", "81"}), ElementsAre("-p=81"));
  EXPECT_THAT(Given({"-p81"}), ElementsAre("-p=81"));
  EXPECT_THAT(Given({"--web-port", "-1"}), ElementsAre("--web-port=-1"));
  EXPECT_THAT(Given({"--host="}), ElementsAre("--host="));
  EXPECT_THAT(Given({"--set", "web.body=1KiB", "--set=web.mode=exact"}),
              ElementsAre("--set web.body=1KiB", "--set web.mode=exact"));
  // A truth value needs no word.
  EXPECT_THAT(Given({"--open", "--wait", "1s"}), ElementsAre("--open=true", "--wait=1s"));
  EXPECT_THAT(Given({"--open=false"}), ElementsAre("--open=false"));
  EXPECT_THAT(Given({"--open", "false"}), ElementsAre("--open=false"));
  const Flags flags = Read({"-h", "--config", "x.yaml", "--defaults"});
  EXPECT_THAT(flags.switches, ElementsAre("defaults", "help"));
  EXPECT_EQ(flags.config_file, "x.yaml");
}

TEST(Flags, RefusalsNameTheFlagAndTheNearest) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"--web-prot", "1"}, "\"--web-prot\": no such option; did you mean --web-port?"},
      {{"--port", "1"}, "did you mean --web-port?"},
      {{"--mode", "exact"}, "did you mean --set web.mode=VALUE?"},
      {{"--nonsense"}, "\"--nonsense\": no such option"},
      {{"--web", "1"}, "no such option"},  // no abbreviations
      {{"-x"}, "\"-x\": no such option"},
      {{"word"}, "\"word\" is not an option"},
      {{"--"}, "\"--\" is not an option"},
      {{"-"}, "\"-\" is not an option"},
      {{""}, "\"\" is not an option"},
      {{"--host"}, "--host: needs a value"},
      {{"--host", "--wait", "1s"}, "--host: needs a value"},
      {{"--help=1"}, "--help: takes no value"},
      {{"--host", "a", "--host", "b"}, "--host: web.host is given twice"},
      {{"--host", "a", "--set", "web.host=b"}, "--set web.host: web.host is given twice"},
      {{"--set", "web.port"}, "is not PATH=VALUE"},
      {{"--set", "web.prot=1"}, "no setting \"web.prot\"; did you mean web.port?"},
      {{"--config"}, "--config: needs a value"},
      {{"--config="}, "--config: needs a file"},
      {{"--config", "a", "--config", "b"}, "--config: given twice"},
  };
  for (const auto& [arguments, part] : cases) {
    const Flags flags = Read(arguments);
    ASSERT_FALSE(flags.reading.errors.empty()) << part;
    EXPECT_THAT(flags.reading.errors[0], HasSubstr(part));
  }
}

}  // namespace
}  // namespace sluice::server::config
