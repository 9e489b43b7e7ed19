#pragma once

#include <vector>

namespace sluice::server {

// Upper edges in seconds, x1, x1.5, x2, x3, x4 ...: each at most 1.5 times the one before it, from
// `first` to the first edge that reaches `last`.
inline std::vector<double> LatencyBuckets(double first, double last) {
  std::vector<double> edges;
  for (double edge = first; edges.empty() || edges.back() < last; edge *= 2) {
    edges.push_back(edge);
    edges.push_back(edge * 1.5);
  }
  if (edges.size() >= 2 && edges[edges.size() - 2] >= last) edges.pop_back();
  return edges;
}

}  // namespace sluice::server
