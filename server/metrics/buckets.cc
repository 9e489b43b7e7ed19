#include "server/metrics/buckets.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

namespace sluice::server {
namespace {

// 0.0005, 0.00075, 0.001, 0.0015 ... 75, and `more`.
std::vector<double> Ladder(std::initializer_list<double> more) {
  // Tenths: each decade has steps of at most 1.5.
  constexpr int kRungs[] = {10, 15, 20, 25, 30, 40, 50, 75};
  std::vector<double> edges = more;
  for (int decade = -4; decade <= 1; ++decade) {
    for (const int rung : kRungs) {
      // One division of whole numbers gives the double nearest to the decimal number, which then
      // prints as it was meant.
      const double edge =
          decade < 1 ? rung / std::pow(10.0, 1 - decade) : static_cast<double>(rung);
      if (edge >= 0.0005) edges.push_back(edge);
    }
  }
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  return edges;
}

}  // namespace

std::vector<double> FirstTokenEdges() { return Ladder({.06, .08, 80, 160, 640, 2560}); }

std::vector<double> InterTokenEdges() { return Ladder({80}); }

std::vector<double> RequestEdges() { return Ladder({.8, 60, 120, 240, 480, 960, 1920, 7680}); }

std::vector<double> StepEdges() { return Ladder({}); }

std::vector<double> TokenCountEdges(int most) {
  std::vector<double> edges;
  for (double decade = 1;; decade *= 10) {
    for (const double rung : {1.0, 2.0, 5.0}) {
      edges.push_back(decade * rung);
      if (edges.back() >= most) return edges;
    }
  }
}

std::vector<double> StepTokenEdges() {
  return {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
}

std::vector<double> StepSequenceEdges() {
  return {1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096};
}

std::vector<double> AnswerCountEdges() { return {1, 2, 5, 10, 20}; }

}  // namespace sluice::server
