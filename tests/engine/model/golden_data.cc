#include "tests/engine/model/golden_data.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>

#include "boost/json.hpp"
#include "tests/support/test_paths.h"

namespace sluice::testing {
namespace {

std::ifstream OpenGolden(const std::string& name) {
  const std::string path = GoldenDir() + "/" + name;
  std::ifstream in(path);
  if (!in) {
    std::fprintf(stderr, "cannot read %s (set SLUICE_GOLDEN_DIR)\n", path.c_str());
    std::abort();
  }
  return in;
}

boost::json::value ParseGolden(const std::string& name) {
  std::ifstream in = OpenGolden(name);
  return boost::json::parse(std::string(std::istreambuf_iterator<char>(in), {}));
}

template <typename T>
std::vector<T> Numbers(const boost::json::value& array) {
  std::vector<T> out;
  for (const auto& value : array.as_array()) out.push_back(value.to_number<T>());
  return out;
}

uint64_t SplitMix64(uint64_t v) {
  uint64_t z = (v + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

template <typename ValueOf>
std::array<double, kProjections> ProjectBy(size_t vocabulary, const ValueOf& value_of) {
  std::array<double, kProjections> p{};
  for (size_t v = 0; v < vocabulary; ++v) {
    const uint64_t bits = SplitMix64(v);
    const double value = value_of(v);
    for (size_t r = 0; r < kProjections; ++r) p[r] += (bits >> r) & 1 ? value : -value;
  }
  for (double& x : p) x /= std::sqrt(static_cast<double>(vocabulary));
  return p;
}

}  // namespace

std::vector<GreedyCase> ReadGreedyCases() {
  std::ifstream in = OpenGolden("greedy.jsonl");
  std::vector<GreedyCase> cases;
  for (std::string line; std::getline(in, line);) {
    const boost::json::object object = boost::json::parse(line).as_object();
    GreedyCase& c = cases.emplace_back();
    c.id = object.at("id").to_number<int>();
    c.prompt = Numbers<int32_t>(object.at("prompt_ids"));
    c.ids = Numbers<int32_t>(object.at("ids"));
    c.margins = Numbers<double>(object.at("margins"));
  }
  return cases;
}

std::vector<LogitsCase> ReadLogitsCases() {
  std::vector<LogitsCase> cases;
  const boost::json::value file = ParseGolden("logits.json");
  for (const auto& value : file.as_array()) {
    const boost::json::object& object = value.as_object();
    LogitsCase& c = cases.emplace_back();
    c.id = object.at("id").to_number<int>();
    c.prompt = Numbers<int32_t>(object.at("prompt_ids"));
    for (const auto& pair : object.at("top").as_array()) {
      c.top.emplace_back(pair.at(0).to_number<int32_t>(), pair.at(1).to_number<double>());
    }
    c.mean = object.at("mean").to_number<double>();
    c.logsumexp = object.at("logsumexp").to_number<double>();
    const auto projection = Numbers<double>(object.at("projection"));
    std::copy(projection.begin(), projection.end(), c.projection.begin());
  }
  return cases;
}

PerplexityCase ReadPerplexityCase() {
  const boost::json::value value = ParseGolden("perplexity.json");
  PerplexityCase c;
  std::ifstream text = OpenGolden("text.txt");
  c.text.assign(std::istreambuf_iterator<char>(text), {});
  c.tokens = value.at("tokens").to_number<int>();
  for (const auto& result : value.at("results").as_array()) {
    c.by_window.emplace_back(result.at("n_ctx").to_number<int>(),
                             result.at("ppl").to_number<double>());
  }
  return c;
}

RowSummary Summarise(std::span<const float> logits) {
  RowSummary row;
  double best = -std::numeric_limits<double>::infinity(), second = best;
  for (size_t v = 0; v < logits.size(); ++v) {
    const double l = logits[v];
    row.mean += l;
    if (l > best) {
      second = best;
      best = l;
      row.best = static_cast<int32_t>(v);
    } else if (l > second) {
      second = l;
    }
  }
  row.mean /= static_cast<double>(logits.size());
  row.margin = best - second;
  double sum = 0;
  for (const float l : logits) sum += std::exp(l - best);
  row.logsumexp = best + std::log(sum);
  return row;
}

std::array<double, kProjections> Project(std::span<const float> logits) {
  return ProjectBy(logits.size(), [&](size_t v) { return double{logits[v]}; });
}

std::array<double, kProjections> ProjectOnes(size_t vocabulary) {
  return ProjectBy(vocabulary, [](size_t) { return 1.0; });
}

}  // namespace sluice::testing
