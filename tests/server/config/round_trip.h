#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "server/config/settings/flags.h"
#include "server/config/settings/print.h"
#include "server/config/settings/yaml_file.h"

namespace sluice::server::config {

using Random = std::mt19937_64;

inline std::string RandomText(Random* random) {
  static const char* const kPieces[] = {"a",
                                        "Z",
                                        "0",
                                        " ",
                                        ":",
                                        "#",
                                        "\"",
                                        "\\",
                                        "'",
                                        "-",
                                        "{",
                                        "}",
                                        "[",
                                        "]",
                                        "*",
                                        "&",
                                        "!",
                                        "%",
                                        "@",
                                        "`",
                                        "~",
                                        "null",
                                        "|",
                                        ">",
                                        "?",
                                        ",",
                                        "=",
                                        "\xC3\xA9",
                                        "<<",
                                        "---",
                                        "\xC2\x85",
                                        "\xE2\x80\xA8",
                                        "\xEF\xBB\xBF",
                                        "\xF0\x9F\x98\x80",
                                        "\\n",
                                        "true",
                                        "1e5",
                                        "0x1",
                                        "/",
                                        "."};
  std::string text;
  for (uint64_t i = (*random)() % 8; i > 0; --i) text += kPieces[(*random)() % std::size(kPieces)];
  return text;
}

inline Value RandomValue(const Setting& setting, Random* random) {
  if (!setting.allowed.empty()) return setting.allowed[(*random)() % setting.allowed.size()];
  switch (setting.kind) {
    case Kind::kBool:
      return (*random)() % 2 == 0;
    case Kind::kText:
      return RandomText(random);
    case Kind::kReal:
      return std::uniform_real_distribution<double>(std::get<double>(*setting.min),
                                                    std::get<double>(*setting.max))(*random);
    case Kind::kList: {
      std::vector<std::string> items;
      for (uint64_t i = (*random)() % 4; i > 0; --i) {
        std::string item = "x" + RandomText(random) + "x";
        std::erase(item, ',');
        items.push_back(item);
      }
      return items;
    }
    default:
      break;
  }
  const int64_t low = setting.min ? std::get<int64_t>(*setting.min) : -1000;
  const int64_t high = setting.max ? std::get<int64_t>(*setting.max) : 1000;
  int64_t value = std::uniform_int_distribution<int64_t>(low, high)(*random);
  // Round numbers too, which are printed with a unit.
  if ((*random)() % 2 == 0) value = value / 1024 * 1024;
  if (setting.multiple_of > 0) value = value / setting.multiple_of * setting.multiple_of;
  return std::clamp(value, low, high);
}

// Random values go in by flags, come out as YAML, go in as a file, and are the same.
inline void CheckRoundTrips(const Schema& schema, int rounds) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  for (int i = 0; i < rounds; ++i) {
    Effective first(&schema);
    std::vector<std::string> arguments;
    for (const Setting& setting : schema.settings()) {
      if (setting.secret || random() % 3 == 0) continue;
      const Value value = RandomValue(setting, &random);
      arguments.push_back("--set=" + setting.path + "=" + PrintValue(setting, value));
    }
    std::vector<std::string> errors;
    first.Apply(ReadFlags(schema, arguments, {}).reading.assignments, &errors);
    const std::string printed = PrintEffective(first);
    const Reading reading = ReadYaml(schema, printed, "printed");
    errors.insert(errors.end(), reading.errors.begin(), reading.errors.end());
    Effective second(&schema);
    second.Apply(reading.assignments, &errors);
    ASSERT_TRUE(errors.empty()) << errors[0] << "\n" << printed;
    for (size_t s = 0; s < schema.settings().size(); ++s) {
      ASSERT_EQ(first.value(s), second.value(s)) << schema.settings()[s].path << "\n" << printed;
    }
    // Nothing is left out; a secret that is not set is shown as such.
    ASSERT_EQ(reading.assignments.size(), schema.settings().size());
  }
}

}  // namespace sluice::server::config
