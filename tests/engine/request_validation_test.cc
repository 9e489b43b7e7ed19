// A request out of range is refused with the field's wire name, the value and the limit.
#include "engine/request_validation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

namespace sluice::engine {
namespace {

constexpr ValidationLimits kLimits = {.vocabulary = 100, .context_tokens = 10};

std::string Refusal(const std::function<void(GenerateRequest&)>& change) {
  GenerateRequest request;
  request.prompt = {1, 2, 3};
  change(request);
  const absl::Status status = ValidateRequest(request, kLimits);
  if (status.ok()) return "";
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return Message(status);
}

template <typename Field>
void ExpectRange(const char* name, Field SamplingParams::*field, std::vector<Field> good,
                 std::vector<Field> bad) {
  for (const Field value : good)
    EXPECT_EQ(Refusal([&](GenerateRequest& r) { r.sampling.*field = value; }), "") << name << value;
  for (const Field value : bad)
    EXPECT_EQ(Refusal([&](GenerateRequest& r) {
                r.sampling.*field = value;
              }).find(std::string(name) + ": "),
              0u)
        << name << " " << value;
}

TEST(RequestValidationTest, TheDefaultsAreValid) {
  EXPECT_EQ(Refusal([](GenerateRequest&) {}), "");
}

TEST(RequestValidationTest, SamplingParametersHaveRanges) {
  const float nan = std::nanf("");
  const float inf = std::numeric_limits<float>::infinity();
  ExpectRange<float>("temperature", &SamplingParams::temperature, {0, 0.7f, 2},
                     {-0.01f, 2.01f, nan, inf, -inf});
  ExpectRange<float>("top_p", &SamplingParams::top_p, {1e-6f, 1}, {0, -1, 1.0001f, nan, inf});
  ExpectRange<float>("min_p", &SamplingParams::min_p, {0, 1}, {-0.1f, 1.1f, nan});
  ExpectRange<float>("presence_penalty", &SamplingParams::presence_penalty, {-2, 0, 2},
                     {-2.1f, 2.1f, nan, inf});
  ExpectRange<float>("frequency_penalty", &SamplingParams::frequency_penalty, {-2, 0, 2},
                     {-2.1f, 2.1f, nan, inf});
  ExpectRange<float>("repetition_penalty", &SamplingParams::repetition_penalty, {0.1f, 1, 10},
                     {0, -1, 10.1f, nan, inf});
  ExpectRange<int32_t>("top_k", &SamplingParams::top_k, {0, 1, 1000000}, {-1, -100});
}

TEST(RequestValidationTest, MessagesNameValueAndLimit) {
  EXPECT_EQ(Refusal([](GenerateRequest& r) { r.sampling.temperature = 3; }),
            "temperature: 3 is not in [0, 2]");
  EXPECT_EQ(Refusal([](GenerateRequest& r) { r.sampling.top_p = 0; }), "top_p: 0 is not in (0, 1]");
  EXPECT_EQ(Refusal([](GenerateRequest& r) { r.n = 9; }), "n: 9 is not in [1, 8]");
  EXPECT_EQ(Refusal([](GenerateRequest& r) { r.stop.max_tokens = 0; }),
            "max_tokens: 0 is less than 1");
  EXPECT_EQ(Refusal([](GenerateRequest& r) { r.stop.min_tokens = 17; }),
            "min_tokens: 17 is more than max_tokens, which is 16");
  EXPECT_EQ(Refusal([](GenerateRequest& r) { r.stop.min_tokens = -1; }),
            "min_tokens: -1 is less than 0");
  EXPECT_EQ(Refusal([](GenerateRequest& r) { r.prompt.assign(10, 1); }),
            "prompt: 10 tokens, but the context holds 10 (of which at least 1 is for the answer)");
  EXPECT_EQ(Refusal([](GenerateRequest& r) { r.prompt.clear(); }), "prompt: it is empty");
  EXPECT_EQ(Refusal([](GenerateRequest& r) {
              r.prompt = {1, 100};
            }),
            "prompt: token 100 is not in the vocabulary of 100");
  EXPECT_EQ(Refusal([](GenerateRequest& r) { r.prompt = {std::numeric_limits<int32_t>::min()}; }),
            "prompt: token -2147483648 is not in the vocabulary of 100");
  EXPECT_EQ(Refusal([](GenerateRequest& r) {
              r.sampling.logit_bias = {{100, 1.0f}};
            }),
            "logit_bias: token 100 is not in the vocabulary of 100");
  EXPECT_EQ(Refusal([](GenerateRequest& r) {
              r.sampling.logit_bias = {{1, 100.5f}};
            }),
            "logit_bias: 100.5 is not in [-100, 100]");
  EXPECT_EQ(Refusal([](GenerateRequest& r) {
              r.sampling.logit_bias = {{1, 1.f}, {1, 2.f}};
            }),
            "logit_bias: token 1 is named twice");
  EXPECT_EQ(Refusal([](GenerateRequest& r) { r.stop.token_ids = {-1}; }),
            "stop_token_ids: token -1 is not in the vocabulary of 100");
  EXPECT_EQ(Refusal([](GenerateRequest& r) { r.stop.strings.assign(17, "x"); }),
            "stop: 17 entries, at most 16");
  EXPECT_EQ(Refusal([](GenerateRequest& r) {
              r.stop.strings = {"a", ""};
            }),
            "stop: an entry is empty");
  EXPECT_EQ(Refusal([](GenerateRequest& r) { r.stop.strings = {std::string(1025, 'x')}; }),
            "stop: an entry has 1025 bytes, at most 1024");
}

TEST(RequestValidationTest, WhatJustFitsIsAccepted) {
  EXPECT_EQ(Refusal([](GenerateRequest& r) { r.prompt.assign(9, 99); }), "");
  EXPECT_EQ(Refusal([](GenerateRequest& r) { r.n = 8; }), "");
  EXPECT_EQ(Refusal([](GenerateRequest& r) { r.stop.max_tokens = 2147483647; }), "")
      << "the context ends the answer";
  EXPECT_EQ(Refusal([](GenerateRequest& r) { r.stop.strings.assign(16, std::string(1024, 'x')); }),
            "");
  EXPECT_EQ(Refusal([](GenerateRequest& r) {
              for (int32_t token = 0; token < 100; ++token)
                r.sampling.logit_bias.emplace_back(token, token % 2 ? 100.0f : -100.0f);
            }),
            "");
}

TEST(RequestValidationTest, HugeListsAreRefusedBeforeTheyAreRead) {
  EXPECT_EQ(Refusal([](GenerateRequest& r) {
              r.sampling.logit_bias.assign(1025, {-5, std::nanf("")});
            }),
            "logit_bias: 1025 entries, at most 1024");
  EXPECT_EQ(Refusal([](GenerateRequest& r) { r.stop.token_ids.assign(1000000, -1); }),
            "stop_token_ids: 1000000 entries, at most 256");
}

}  // namespace
}  // namespace sluice::engine
