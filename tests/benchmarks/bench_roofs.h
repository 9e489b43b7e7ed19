#pragma once

#include <cstddef>
#include <string>

// What the machine allows, measured in the same minute as the figures that stand beside it.
namespace sluice::bench {

std::string ProcessorName();

// Read bandwidth in GB/s (1e9) of `bytes` swept by `threads` threads: the median of `repeats`
// sweeps.
double ReadBandwidth(size_t bytes, int threads, int repeats);

}  // namespace sluice::bench
