#include "server/config/bindings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "server/config/settings/environment.h"
#include "tests/server/config/round_trip.h"

namespace sluice::server::config {
namespace {

std::string Shown(const Setting& setting, const Value& value) { return PrintValue(setting, value); }

TEST(Bindings, EverySettingHasOnePlace) {
  std::set<std::string> bound;
  for (const Binding& binding : Bindings()) {
    EXPECT_GE(ServeSchema().FindPath(binding.path), 0) << binding.path;
    EXPECT_TRUE(bound.insert(binding.path).second) << binding.path;
  }
  for (const Setting& setting : ServeSchema().settings()) {
    EXPECT_TRUE(bound.contains(setting.path)) << setting.path << " sets nothing";
  }
}

// Code that builds the structs without a configuration (tests, tools) sees the same defaults.
TEST(Bindings, TheStructsDefaultsAreThoseOfTheConfiguration) {
  for (const Binding& binding : Bindings()) {
    const Setting& setting = ServeSchema().settings()[ServeSchema().FindPath(binding.path)];
    const Value value = binding.get(ServeOptions());
    EXPECT_EQ(value, setting.fallback)
        << binding.path << ": the struct's default is " << Shown(setting, value)
        << ", config.proto's " << Shown(setting, setting.fallback);
  }
}

// Also shows that the fields hold all that the range allows, and that no two settings share one.
TEST(Bindings, WhatIsSetIsThereAndNothingElseChanges) {
  for (const Binding& binding : Bindings()) {
    const Setting& setting = ServeSchema().settings()[ServeSchema().FindPath(binding.path)];
    std::vector<Value> values;
    if (setting.min) values.push_back(*setting.min);
    if (setting.max) values.push_back(*setting.max);
    for (const std::string& word : setting.allowed) values.emplace_back(word);
    if (values.empty() && setting.kind == Kind::kText)
      values.emplace_back(std::string("some text"));
    if (setting.kind == Kind::kList) values = {Value(std::vector<std::string>{"a", "b"})};
    if (values.empty() && setting.kind == Kind::kBool) values = {Value(true), Value(false)};
    ASSERT_FALSE(values.empty()) << binding.path << " has no limits";
    for (const Value& value : values) {
      ServeOptions options;
      binding.set(value, &options);
      EXPECT_EQ(binding.get(options), value) << binding.path << " = " << Shown(setting, value);
      for (const Binding& other : Bindings()) {
        if (other.path == binding.path) continue;
        EXPECT_EQ(other.get(options), other.get(ServeOptions()))
            << binding.path << " changes " << other.path;
      }
    }
  }
}

TEST(Bindings, EverySettingIsExplainedAndBounded) {
  for (const Setting& setting : ServeSchema().settings()) {
    EXPECT_FALSE(setting.help.empty()) << setting.path;
    const bool number =
        setting.kind != Kind::kText && setting.kind != Kind::kBool && setting.kind != Kind::kList;
    EXPECT_TRUE(!number || (setting.min && setting.max)) << setting.path;
  }
  for (const SchemaSection& section : ServeSchema().sections()) {
    EXPECT_FALSE(section.title.empty()) << section.path;
  }
}

// But for NAME_PORT, whose value tells, no setting may have a name that Kubernetes gives out.
TEST(Bindings, NoSettingIsMistakenForAServiceLink) {
  for (const Setting& setting : ServeSchema().settings()) {
    EXPECT_EQ(ReadEnvironment(ServeSchema(), {setting.variable + "=1"}).assignments.size(), 1u)
        << setting.variable;
  }
}

TEST(RoundTrip, OfTheServersSettings) { CheckRoundTrips(ServeSchema(), 300); }

TEST(RoundTrip, TheDocumentedFileIsTheDefaults) {
  const Schema& schema = ServeSchema();
  const Reading reading = ReadYaml(schema, PrintDocumented(schema), "documented");
  ASSERT_TRUE(reading.errors.empty()) << reading.errors[0];
  EXPECT_EQ(reading.assignments.size(), schema.settings().size());
  Effective effective(&schema);
  std::vector<std::string> errors;
  effective.Apply(reading.assignments, &errors);
  EXPECT_TRUE(errors.empty());
  for (size_t s = 0; s < schema.settings().size(); ++s) {
    EXPECT_EQ(effective.value(s), schema.settings()[s].fallback) << schema.settings()[s].path;
  }
}

}  // namespace
}  // namespace sluice::server::config
