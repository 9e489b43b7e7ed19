#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

// The reference data of tests/golden that is about logits and greedy steps: made by a float32
// program in numpy with every weight dequantised.
namespace sluice::testing {

struct GreedyCase {
  int id = 0;
  std::vector<int32_t> prompt;
  std::vector<int32_t> ids;     // greedy continuation, eos included when reached
  std::vector<double> margins;  // per step: highest logit minus the second
};
std::vector<GreedyCase> ReadGreedyCases();

inline constexpr size_t kProjections = 64;
struct LogitsCase {
  int id = 0;
  std::vector<int32_t> prompt;
  std::vector<std::pair<int32_t, double>> top;  // 50 highest: id, logit
  double mean = 0;
  double logsumexp = 0;
  std::array<double, kProjections> projection{};
};
std::vector<LogitsCase> ReadLogitsCases();

// text.txt, and the reference's perplexity of it in windows of n tokens.
struct PerplexityCase {
  std::string text;
  int tokens = 0;
  std::vector<std::pair<int, double>> by_window;  // n, perplexity
};
PerplexityCase ReadPerplexityCase();

// What a row of logits is compared by.
struct RowSummary {
  int32_t best = -1;
  double margin = 0;  // highest minus second
  double mean = 0;
  double logsumexp = 0;
};
RowSummary Summarise(std::span<const float> logits);
// p[r] = (1 / sqrt(V)) sum over v of s(v, r) * logit[v], s = +-1 by bit r of SplitMix64(v).
std::array<double, kProjections> Project(std::span<const float> logits);
// The same of the constant 1: what a common shift of all logits adds to each projection.
std::array<double, kProjections> ProjectOnes(size_t vocabulary);

}  // namespace sluice::testing
