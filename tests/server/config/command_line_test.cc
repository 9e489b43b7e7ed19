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

TEST(SimulateOptions, ReadsFlags) {
  const auto parsed = ParseCommandLine({"simulate",
                                        "--trace",
                                        "t",
                                        "--cost=1,2.5,0.25,8,0.5",
                                        "--format",
                                        "azure",
                                        "--duration",
                                        "90s",
                                        "--requests",
                                        "5",
                                        "--speed",
                                        "2",
                                        "--kv-blocks",
                                        "100",
                                        "--share-prefixes",
                                        "false",
                                        "--inter-token-target",
                                        "0",
                                        "--itl-target",
                                        "50ms",
                                        "--seed",
                                        "7",
                                        "--no-scatter",
                                        "--json"});
  ASSERT_TRUE(std::holds_alternative<SimulateOptions>(parsed))
      << std::get<PrintAndExit>(parsed).text;
  const SimulateOptions& o = std::get<SimulateOptions>(parsed);
  EXPECT_EQ(o.trace_path, "t");
  EXPECT_EQ(o.trace.format, engine::TraceFormat::kAzure);
  EXPECT_EQ(o.trace.seconds_max, 90);
  EXPECT_EQ(o.trace.requests_max, 5);
  EXPECT_EQ(o.speed, 2);
  ASSERT_TRUE(o.cost.has_value());
  EXPECT_DOUBLE_EQ(o.cost->step, 1e-6);
  EXPECT_DOUBLE_EQ(o.cost->token, 2.5e-6);
  EXPECT_DOUBLE_EQ(o.cost->position, 0.25e-6);
  EXPECT_DOUBLE_EQ(o.cost->sequence, 8e-6);
  EXPECT_EQ(o.kv_blocks, 100);
  EXPECT_EQ(o.running_max, std::nullopt);
  EXPECT_EQ(o.share_prefixes, false);
  EXPECT_EQ(o.inter_token_target, 0) << "none, whatever the record has";
  EXPECT_EQ(o.targets.first_token, 1);
  EXPECT_EQ(o.targets.inter_token, 0.05);
  EXPECT_EQ(o.seed, 7u);
  EXPECT_FALSE(o.scatter);
  EXPECT_TRUE(o.json);
}

TEST(SimulateOptions, RefusesWhatDoesNotGoTogether) {
  const auto text = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "simulate");
    const PrintAndExit print = Refused(arguments);
    EXPECT_EQ(print.code, 2) << print.text;
    return print.text;
  };
  EXPECT_NE(text({}).find("one of --trace FILE and --arrivals-from-record"), std::string::npos);
  EXPECT_NE(text({"--trace", "t"}).find("one of --record FILE and --cost"), std::string::npos);
  EXPECT_NE(
      text({"--trace", "t", "--record", "r", "--arrivals-from-record"}).find("one of --trace"),
      std::string::npos);
  EXPECT_NE(text({"--record", "r", "--arrivals-from-record", "--requests", "5"})
                .find("load.requests is of a trace"),
            std::string::npos);
  EXPECT_NE(text({"--trace", "t", "--cost", "1,1,1,1,1", "--think-time-max", "50ms"})
                .find("--think-time-max: needs --arrivals-from-record"),
            std::string::npos);
  EXPECT_NE(text({"--trace", "t", "--cost", "1,1,1,1,1", "--config", "c"}).find("no configuration"),
            std::string::npos);
  EXPECT_EQ(Refused({"simulate", "--help"}).code, 0);
}

}  // namespace
}  // namespace sluice::server
