// Traces of all known forms are read; anything else is told what is wrong with it, and where.
#include "engine/simulate/trace/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "engine/simulate/trace/line_reader.h"

namespace sluice::testing {
namespace {

using engine::Trace;
using engine::TraceFormat;
using engine::TraceOptions;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<Trace> Read(const std::string& text, const TraceOptions& options = {}) {
  std::istringstream in(text);
  return engine::ReadTrace(&in, "t", options);
}

std::string ErrorOf(const std::string& text, const TraceOptions& options = {}) {
  const auto trace = Read(text, options);
  return trace.ok() ? "accepted" : engine::Message(trace.status());
}

void ExpectRequest(const engine::TraceRequest& request, double seconds, int32_t prompt,
                   int32_t output) {
  EXPECT_NEAR(request.seconds, seconds, 1e-6);
  EXPECT_EQ(request.prompt_tokens, prompt);
  EXPECT_EQ(request.output_tokens, output);
}

constexpr char kAzure[] =
    "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    "2023-11-16 18:17:03.9799600,4808,10\n"
    "2023-11-16 18:17:04.0319600,3180,8\r\n";
constexpr char kBurst[] =
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5,ChatGPT,472,18,490,Conversation log\n"
    "45,GPT-4,100,0,100,API log\n"
    "118.5,ChatGPT,1087,230,1317,Conversation log\n";
constexpr char kMooncake[] =
    "{\"timestamp\": 27482, \"input_length\": 6955, \"output_length\": 52, \"hash_ids\": [46, "
    "47]}\n"
    "\n"
    "{\"timestamp\": 30535, \"input_length\": 6472, \"output_length\": 26}";

TEST(TraceTest, ReadsMooncake) {
  const auto trace = Read(kMooncake);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->format, TraceFormat::kMooncake);
  ASSERT_EQ(trace->requests.size(), 2u);
  ExpectRequest(trace->requests[0], 0, 6955, 52);
  EXPECT_THAT(trace->requests[0].blocks, ElementsAre(46, 47));
  ExpectRequest(trace->requests[1], 3.053, 6472, 26);
  EXPECT_TRUE(trace->requests[1].blocks.empty());
}

TEST(TraceTest, ReadsAzure) {
  const auto trace = Read(kAzure);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->format, TraceFormat::kAzure);
  ASSERT_EQ(trace->requests.size(), 2u);
  ExpectRequest(trace->requests[0], 0, 4808, 10);
  ExpectRequest(trace->requests[1], 0.052, 3180, 8);
}

TEST(TraceTest, ReadsAzureWithOffsets) {
  const auto trace = Read(
      "\xef\xbb\xbfTIMESTAMP,ContextTokens,GeneratedTokens\n"
      "2024-05-10 00:00:00.009930+00:00,2162,5\n"
      "2024-05-10 00:00:01+00:00,2399,6\n"
      "2024-05-10T02:00:02.5+02:00,76,15\n");
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_EQ(trace->requests.size(), 3u);
  ExpectRequest(trace->requests[1], 0.99007, 2399, 6);
  ExpectRequest(trace->requests[2], 2.49007, 76, 15);
}

TEST(TraceTest, ReadsBurstGptAndCountsFailures) {
  const auto trace = Read(kBurst);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->format, TraceFormat::kBurstGpt);
  EXPECT_EQ(trace->skipped, 1);
  ASSERT_EQ(trace->requests.size(), 2u);
  ExpectRequest(trace->requests[1], 113.5, 1087, 230);
}

TEST(TraceTest, FindsColumnsByTheirNames) {
  const auto trace = Read(
      "\"Session, ID\",Elapsed,Response tokens , Request tokens,Timestamp\n"
      "\"a, \"\"b\"\"\",0.5,7,11,100\n");
  ASSERT_TRUE(trace.ok()) << trace.status();
  ExpectRequest(trace->requests[0], 0, 11, 7);
}

TEST(TraceTest, OrdersByArrival) {
  const auto trace = Read("Timestamp,Request tokens,Response tokens\n9,1,1\n7,2,1\n8,3,1\n");
  ASSERT_TRUE(trace.ok()) << trace.status();
  ExpectRequest(trace->requests[0], 0, 2, 1);
  ExpectRequest(trace->requests[1], 1, 3, 1);
  ExpectRequest(trace->requests[2], 2, 1, 1);
}

TEST(TraceTest, CutsByNumberAndTime) {
  TraceOptions options;
  options.requests_max = 1;
  EXPECT_EQ(Read(kBurst, options)->requests.size(), 1u);
  // What comes behind the requests asked for is not looked at.
  EXPECT_TRUE(Read(std::string(kAzure) + "rubbish\n", options).ok());
  options = {};
  options.seconds_max = 113;
  EXPECT_EQ(Read(kBurst, options)->requests.size(), 1u);
  options.seconds_max = 113.5;
  EXPECT_EQ(Read(kBurst, options)->requests.size(), 2u);
}

TEST(TraceTest, AFormatAskedForIsTheOnlyOne) {
  TraceOptions options;
  options.format = TraceFormat::kAzure;
  EXPECT_TRUE(Read(kAzure, options).ok());
  EXPECT_THAT(ErrorOf(kBurst, options), HasSubstr("t:1: the header has no column \"TIMESTAMP\""));
  options.format = TraceFormat::kMooncake;
  EXPECT_THAT(ErrorOf(kAzure, options), HasSubstr("t:1: not JSON"));
}

TEST(TraceTest, ErrorsNameLineFieldAndValue) {
  const std::string azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  const std::string burst = "Timestamp,Request tokens,Response tokens\n1,1,1\n";
  struct Case {
    std::string text;
    const char* error;
  };
  const Case cases[] = {
      {"", "t: empty"},
      {"\n \n\r\n", "t: empty"},
      {"hello\n", "t:1: neither Mooncake's JSON lines, nor"},
      {azure, "t: no request with an answer"},
      {azure + "2023-11-16 18:17:03,1\n", "t:2: 2 fields where the header has 3"},
      {azure + "2023-11-16 18:17:03,1,1,1\n", "t:2: 4 fields"},
      {azure + "yesterday,1,1\n", "t:2: TIMESTAMP: \"yesterday\" is not a time like"},
      {azure + "infinite-future,1,1\n", "TIMESTAMP: \"infinite-future\""},
      {azure + "1800-01-01 00:00:00,1,1\n", "TIMESTAMP: \"1800-01-01 00:00:00\""},
      {azure + "2023-02-30 00:00:00,1,1\n", "TIMESTAMP: \"2023-02-30"},
      {azure + "2023-11-16 18:17:03,-1,1\n", "ContextTokens: \"-1\" is not a number in [0, 1e+09]"},
      {azure + "2023-11-16 18:17:03,1,1e10\n", "GeneratedTokens: \"1e10\""},
      {azure + "2023-11-16 18:17:03,nan,1\n", "ContextTokens: \"nan\""},
      {azure + "2023-11-16 18:17:03,1.5,1\n", "ContextTokens: \"1.5\" is not a whole number"},
      {burst + "2,,1\n", "t:3: Request tokens: \"\" is not a number"},
      {burst + "inf,1,1\n", "t:3: Timestamp: \"inf\""},
      {burst + "2,\"1,1\n", "t:3: a quote is not closed"},
      {burst + "2,1\x01,1\n", "Request tokens: \"1\\x01\""},
      {burst + "2," + std::string(100, '9') + ",1\n",
       "\"9999999999999999999999999999999999999999"
       "...\" is not a number"},
      {"{", "t:1: not JSON"},
      {"{\"timestamp\": 1}", "t:1: no \"input_length\""},
      {"{\"timestamp\": \"1\"}", "timestamp: \"\\\"1\\\"\" is not a number"},
      {"{\"timestamp\": -1}", "timestamp: \"-1\" is not a number in [0"},
      {"{\"timestamp\": 1, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": 5}",
       "hash_ids: \"5\" is not a list"},
      {"{\"timestamp\": 1, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": [1, 1.5]}",
       "hash_ids[1]: \"1.5E0\" is not a whole number"},
      {"{}\n", "no \"timestamp\""},
      {"{\"a\":" + std::string(100, '['), "t:1: not JSON"},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(ErrorOf(c.text), HasSubstr(c.error)) << c.text;
    EXPECT_EQ(ErrorOf(c.text).find('\n'), std::string::npos);
  }
}

TEST(TraceTest, LinesAreBounded) {
  const std::string burst = "Timestamp,Request tokens,Response tokens\n";
  const std::string row = "1,1,1";
  const size_t most = engine::LineReader::kLineBytesMax;
  EXPECT_TRUE(Read(burst + row + std::string(most - row.size(), ' ') + "\n2,1,1\n").ok());
  EXPECT_THAT(ErrorOf(burst + row + std::string(most - row.size() + 1, ' ') + "\n"),
              HasSubstr("t:2: longer than 1048576 bytes"));
}

TEST(TraceTest, AFolderIsNoTrace) {
  std::istringstream in("x");
  in.setstate(std::ios::badbit);
  EXPECT_FALSE(engine::ReadTrace(&in, "t", {}).ok());
}

}  // namespace
}  // namespace sluice::testing
