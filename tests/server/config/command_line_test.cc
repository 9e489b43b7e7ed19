#include "server/config/command_line.h"

#include <gtest/gtest.h>

namespace sluice::server {
namespace {

PrintAndExit Refused(const std::vector<std::string>& arguments) {
  const auto parsed = ParseCommandLine(arguments);
  const auto* print = std::get_if<PrintAndExit>(&parsed);
  return print != nullptr ? *print : PrintAndExit{"accepted", -1, ""};
}

TEST(ServeOptions, ReadsFlags) {
  const auto parsed = ParseCommandLine({"serve",
                                        "--model",
                                        "m.gguf",
                                        "--served-model-name",
                                        "x",
                                        "--http-port",
                                        "0",
                                        "--host",
                                        "::1",
                                        "--activations",
                                        "f32",
                                        "--kv-dtype=f32",
                                        "--threads",
                                        "3",
                                        "--context-length",
                                        "100",
                                        "--kv-bytes",
                                        "5000000000",
                                        "--max-running",
                                        "7",
                                        "--step-tokens",
                                        "11",
                                        "--max-waiting",
                                        "13",
                                        "--grace-seconds",
                                        "0.5",
                                        "--backend",
                                        "reference",
                                        "--max-body-bytes",
                                        "4096"});
  ASSERT_TRUE(std::holds_alternative<ServeOptions>(parsed)) << std::get<PrintAndExit>(parsed).text;
  const ServeOptions& o = std::get<ServeOptions>(parsed);
  EXPECT_EQ(o.model.path, "m.gguf");
  EXPECT_EQ(o.model.name, "x");
  EXPECT_EQ(o.front.http.port, 0);
  EXPECT_EQ(o.front.http.host, "::1");
  EXPECT_EQ(o.model.activations, engine::ActivationChoice::kF32);
  EXPECT_EQ(o.model.kv_dtype, engine::KvDType::kF32);
  EXPECT_EQ(o.model.backend, engine::BackendChoice::kReference);
  EXPECT_EQ(o.model.kv_bytes, 5000000000);
  EXPECT_EQ(o.model.engine.running_max, 7);
  EXPECT_EQ(o.model.engine.step_tokens, 11);
  EXPECT_EQ(o.model.engine.waiting_max, 13);
  EXPECT_EQ(o.grace.count(), 500);
  EXPECT_EQ(o.front.http.limits.body_bytes, 4096u);
}

TEST(ServeOptions, DefaultsAreTheDocumentedOnes) {
  const auto parsed = ParseCommandLine({"serve", "-m", "m.gguf"});
  ASSERT_TRUE(std::holds_alternative<ServeOptions>(parsed));
  const ServeOptions& o = std::get<ServeOptions>(parsed);
  EXPECT_EQ(o.front.http.port, 8000);
  EXPECT_EQ(o.front.http.host, "127.0.0.1");
  EXPECT_EQ(o.grace.count(), 30000);
}

TEST(ServeOptions, RefusalsNameFlagValueAndLimit) {
  struct Case {
    std::vector<std::string> arguments;
    const char* part;
  };
  const Case cases[] = {
      {{"serve"}, "--model"},
      {{"serve", "--model", "m", "--http-port", "70000"},
       "--http-port: 70000 is not in [0, 65535]"},
      {{"serve", "--model", "m", "--activations", "int4"}, "\"int4\" is not one of int8, f32"},
      {{"serve", "--model", "m", "--max-running", "0"}, "--max-running: 0 is not in [1"},
      {{"serve", "--model", "m", "--threads", "x"}, "--threads"},
      {{"serve", "--model", "m", "--thread", "2"}, "--thread"},
      {{"serve", "--model", "m", "--nonsense"}, "--nonsense"},
      {{"dance"}, "no command \"dance\""},
      {{}, "sluiced serve"},
  };
  for (const Case& c : cases) {
    const PrintAndExit print = Refused(c.arguments);
    EXPECT_EQ(print.code, 2) << c.part;
    EXPECT_NE(print.text.find(c.part), std::string::npos) << print.text;
  }
}

TEST(ServeOptions, HelpAndVersionEndWell) {
  EXPECT_EQ(Refused({"version"}).code, 0);
  EXPECT_EQ(Refused({"--help"}).code, 0);
  const PrintAndExit help = Refused({"serve", "--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_NE(help.text.find("--grace-seconds"), std::string::npos);
}

}  // namespace
}  // namespace sluice::server
