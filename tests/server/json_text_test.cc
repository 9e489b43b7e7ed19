#include "server/http/json_text.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <random>

namespace sluice::server {
namespace {

std::string Escaped(std::string_view text) {
  std::string out;
  AppendJsonString(out, text);
  return out;
}

TEST(JsonText, EscapesWhatJsonMust) {
  EXPECT_EQ(Escaped("a\"b\\c\n\r\t\x01\x1f\x7f"), "\"a\\\"b\\\\c\\n\\r\\t\\u0001\\u001f\x7f\"");
  EXPECT_EQ(Escaped(std::string_view("\0", 1)), "\"\\u0000\"");
  EXPECT_EQ(Escaped("né日🦙"), "\"né日🦙\"");
}

TEST(JsonText, InvalidBytesBecomeReplacementCharacters) {
  const std::string replacement = "\xEF\xBF\xBD";
  EXPECT_EQ(Escaped("a\xFF"
                    "b"),
            "\"a" + replacement + "b\"");
  EXPECT_EQ(Escaped("\xE6\xAD"), "\"" + replacement + replacement + "\"");
  EXPECT_EQ(Escaped("\xED\xA0\x80"), "\"" + replacement + replacement + replacement + "\"");
  EXPECT_EQ(Escaped("\xC0\xAF"), "\"" + replacement + replacement + "\"");
  EXPECT_EQ(Escaped("\xF4\x90\x80\x80").find('\xF4'), std::string::npos);
}

TEST(JsonText, AnyBytesGiveValidJson) {
  constexpr unsigned kSeed = 20240;
  std::mt19937 random(kSeed);
  for (int round = 0; round < 5000; ++round) {
    std::string bytes(random() % 24, '\0');
    for (char& c : bytes) {
      c = static_cast<char>(random() % 3 == 0 ? random() % 128 : 128 + random() % 128);
    }
    boost::system::error_code error;
    boost::json::parse(Escaped(bytes), error);
    ASSERT_FALSE(error) << "seed " << kSeed << " round " << round << ": " << error.message();
  }
}

}  // namespace
}  // namespace sluice::server
