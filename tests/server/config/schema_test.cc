#include "server/config/settings/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/config/settings/effective.h"
#include "server/config/settings/print.h"
#include "tests/server/config/sample_schema.h"

namespace sluice::server::config {
namespace {

using Field = google::protobuf::FieldDescriptorProto;
using ::testing::HasSubstr;
using ::testing::Not;

// The values after `pairs` of path and text, as if given by flags.
std::vector<std::string> Errors(const std::vector<std::pair<std::string, std::string>>& pairs,
                                Effective* effective) {
  std::vector<std::string> errors;
  std::vector<Assignment> assignments;
  for (const auto& [path, text] : pairs) {
    const auto setting = static_cast<size_t>(SampleSchema().FindPath(path));
    assignments.push_back({setting, text, "--" + path, "flag --" + path});
  }
  effective->Apply(assignments, &errors);
  effective->CheckRelations(&errors);
  return errors;
}

std::string FirstError(const std::vector<std::pair<std::string, std::string>>& pairs) {
  Effective effective(&SampleSchema());
  const auto errors = Errors(pairs, &effective);
  return errors.empty() ? "" : errors[0];
}

TEST(Schema, ReadsWhatFieldsSay) {
  const Schema& schema = SampleSchema();
  const Setting& port = schema.settings()[schema.FindPath("web.port")];
  EXPECT_EQ(port.variable, "SLUICE_WEB_PORT");
  EXPECT_EQ(port.letter, 'p');
  EXPECT_EQ(port.fallback, Value(int64_t{80}));
  EXPECT_EQ(*port.max, Value(int64_t{65535}));
  EXPECT_EQ(schema.FindFlag("web-port"), schema.FindPath("web.port"));
  EXPECT_EQ(schema.FindVariable("SLUICE_WEB_PORT"), schema.FindPath("web.port"));
  EXPECT_EQ(schema.settings()[schema.FindPath("web.body")].kind, Kind::kBytes);
  EXPECT_TRUE(schema.IsSection("web"));
  EXPECT_FALSE(schema.IsSection("web.port"));
  EXPECT_EQ(schema.NearestPath("web.prot"), "web.port");
  EXPECT_EQ(schema.NearestPath("mode"), "web.mode");         // without its section
  EXPECT_EQ(schema.NearestPath("door.share"), "web.share");  // in another section
  EXPECT_EQ(schema.NearestPath("qqqqqqqqqq"), "");
}

TEST(Schema, ContradictionsInTheDescriptionAreFound) {
  const auto why = [](auto fill) {
    SampleMessage message;
    message.Add("a", "first", Field::TYPE_INT32)->set_flag("first");
    fill(&message);
    const auto built = message.Build();
    return built.ok() ? "" : engine::Message(built.status());
  };
  EXPECT_EQ(why([](auto*) {}), "");
  EXPECT_THAT(why([](SampleMessage* m) {
                auto* option = m->Add("a", "x", Field::TYPE_INT32);
                option->set_default_("7");
                option->set_max("6");
              }),
              HasSubstr("a.x: 7 is not in [..., 6]"));
  EXPECT_THAT(why([](SampleMessage* m) { m->Add("a", "x", Field::TYPE_INT32)->set_flag("first"); }),
              HasSubstr("taken"));
  // a.b_c and a_b.c would share the variable SLUICE_A_B_C.
  EXPECT_THAT(why([](SampleMessage* m) {
                m->Add("a", "b_c", Field::TYPE_INT32);
                m->Add("a_b", "c", Field::TYPE_INT32);
              }),
              HasSubstr("SLUICE_A_B_C is taken"));
  EXPECT_THAT(
      why([](SampleMessage* m) { m->Add("a", "x", Field::TYPE_INT32)->set_at_least("a.nowhere"); }),
      HasSubstr("can't be compared"));
  EXPECT_THAT(why([](SampleMessage* m) { m->Add("a", "x", Field::TYPE_FLOAT); }),
              HasSubstr("type"));
  EXPECT_THAT(why([](SampleMessage* m) {
                m->Add("a", "x", Field::TYPE_INT32);
                m->file()->mutable_message_type(1)->mutable_field(1)->clear_options();
              }),
              HasSubstr("a.x"));
}

TEST(Settings, RefusalsNamePlaceValueLimitsAndPath) {
  EXPECT_EQ(FirstError({{"web.port", "70000"}}),
            "--web.port: 70000 is not in [0, 65535] (web.port)");
  EXPECT_EQ(FirstError({{"web.body", "2GiB"}}),
            "--web.body: 2GiB is not in [1KiB, 1GiB] (web.body)");
  EXPECT_EQ(FirstError({{"web.wait", "5ms"}}), "--web.wait: 5ms is not in [10ms, 1h] (web.wait)");
  EXPECT_EQ(FirstError({{"web.share", "1.5"}}), "--web.share: 1.5 is not in [0, 1] (web.share)");
  EXPECT_EQ(FirstError({{"web.mode", "quick"}}),
            "--web.mode: \"quick\" is not one of fast, exact (web.mode)");
  EXPECT_EQ(FirstError({{"web.open", "yes"}}),
            "--web.open: \"yes\" is not true or false (web.open)");
  EXPECT_EQ(FirstError({{"web.port", "80.5"}}),
            "--web.port: \"80.5\" is not a whole number (web.port)");
  EXPECT_EQ(FirstError({{"web.most", "12"}}), "--web.most: 12 is not a multiple of 5 (web.most)");
  EXPECT_EQ(FirstError({{"web.host", "a\nb"}}),
            "--web.host: contains a control character (web.host)");
}

TEST(Settings, ListsAreSplitAtCommas) {
  Effective effective(&SampleSchema());
  EXPECT_TRUE(Errors({{"web.names", " a b,,c ,"}}, &effective).empty());
  const auto names = static_cast<size_t>(SampleSchema().FindPath("web.names"));
  EXPECT_EQ(effective.value(names), Value(std::vector<std::string>{"a b", "c"}));
  EXPECT_THAT(PrintEffective(effective), HasSubstr("  names: [\"a b\", c] "));
}

TEST(Settings, RelationsNameBothValuesAndTheirOrigins) {
  EXPECT_EQ(FirstError({{"web.few", "11"}}),
            "web.most = 10 (default) may not be less than web.few = 11 (flag --web.few)");
  EXPECT_EQ(FirstError({{"web.few", "11"}, {"web.most", "15"}}), "");
}

TEST(Settings, WhatIsRequiredIsAskedForByAllItsNames) {
  Effective effective(&SampleSchema());
  std::vector<std::string> errors;
  effective.CheckRequired(&errors);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0],
            "web.host has no value: give it by --host TEXT, SLUICE_WEB_HOST or in the file");
}

// A secret shows in no output, neither when it is valid nor when it is not.
TEST(Settings, SecretsAreNeverPrinted) {
  Effective effective(&SampleSchema());
  EXPECT_TRUE(Errors({{"door.key", "hunter2"}, {"door.pin", "1234"}}, &effective).empty());
  const std::string shown = PrintEffective(effective);
  EXPECT_THAT(shown, Not(HasSubstr("hunter2")));
  EXPECT_THAT(shown, Not(HasSubstr("1234")));
  EXPECT_THAT(shown, HasSubstr("# key: a secret, not shown"));
  for (const char* text : {"123456", "x987654"}) {
    const std::string error = FirstError({{"door.pin", text}});
    EXPECT_THAT(error, HasSubstr("door.pin"));
    EXPECT_THAT(error, Not(HasSubstr(text)));
  }
  EXPECT_THAT(FirstError({{"door.key", "hun\nter2"}}), Not(HasSubstr("hun")));
}

TEST(Settings, EachValueIsShownWithItsOrigin) {
  Effective effective(&SampleSchema());
  EXPECT_TRUE(Errors({{"web.body", "1048576"}, {"web.wait", "0.5"}}, &effective).empty());
  const std::string shown = PrintEffective(effective);
  EXPECT_THAT(shown, HasSubstr("  port: 80                              # default\n"));
  EXPECT_THAT(shown, HasSubstr("  body: 1MiB                            # flag --web.body\n"));
  EXPECT_THAT(shown, HasSubstr("  wait: 500ms                           # flag --web.wait\n"));
}

}  // namespace
}  // namespace sluice::server::config
