#include "server/config/settings/text.h"

#include <gtest/gtest.h>

namespace sluice::server::config {
namespace {

TEST(Text, NearestFindsTypingErrors) {
  const std::vector<std::string> names = {"http.port", "http.host", "engine.threads", "log.level"};
  EXPECT_EQ(Nearest("http.prot", names), "http.port");  // a swap
  EXPECT_EQ(Nearest("http.por", names), "http.port");   // a deletion
  EXPECT_EQ(Nearest("HTTP-PORT", names), "http.port");  // another spelling
  EXPECT_EQ(Nearest("engine.thread", names), "engine.threads");
  EXPECT_EQ(Nearest("loglevel", names), "log.level");
  EXPECT_EQ(Nearest("tokenizer.path", names), "");  // nothing like it
  EXPECT_EQ(Nearest("", names), "");
  EXPECT_EQ(Nearest(std::string(1 << 20, 'x'), names), "");  // and at no cost
}

TEST(Text, QuotedIsFitForATerminal) {
  EXPECT_EQ(Quoted("a\x1b[1mb\n"), "\"a\\x1b[1mb\\x0a\"");
  EXPECT_EQ(Quoted(std::string(500, 'x')).size(), 85u);
  EXPECT_EQ(Quoted("\xff"), "\"\xEF\xBF\xBD\"");
}

TEST(Text, ScalarsThatOthersWouldMisreadAreQuoted) {
  EXPECT_EQ(YamlScalar("SmolLM2-135M.gguf"), "SmolLM2-135M.gguf");
  EXPECT_EQ(YamlScalar("/models/a_b.gguf"), "/models/a_b.gguf");
  for (const char* text :
       {"",   "true", "No", "null", "8000", "1e3", "::1", "127.0.0.1", "a: b", "*a", "&a",
        "!x", "a #b", " a", "a ",   "~",    "-",   "@",   "%",         "{",    "'"}) {
    EXPECT_EQ(YamlScalar(text), "\"" + std::string(text) + "\"");
  }
  EXPECT_EQ(YamlScalar("a\"b\\c"), "\"a\\\"b\\\\c\"");
  EXPECT_EQ(YamlScalar("a\xE2\x80\xA8"), "\"a\\u2028\"");
}

TEST(Text, ControlCharactersAndBrokenUtf8AreRefused) {
  EXPECT_TRUE(CheckText("Grüße").ok());
  for (const std::string& text : {std::string("a\0b", 3), std::string("a\nb"), std::string("\t"),
                                  std::string("\x7f"), std::string("\xC0\x80")}) {
    EXPECT_FALSE(CheckText(text).ok());
  }
}

}  // namespace
}  // namespace sluice::server::config
