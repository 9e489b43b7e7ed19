#pragma once

#include <cstdint>

namespace sluice::server {

// What /proc says of this process; zeros where it says nothing.
struct ProcessStats {
  int64_t resident_bytes = 0;
  int64_t virtual_bytes = 0;
  double cpu_seconds = 0;
  double start_time_seconds = 0;  // Unix time
  int64_t open_fds = 0;
  int64_t max_fds = 0;  // that this process may open
  int64_t threads = 0;
};

ProcessStats ReadProcessStats();

}  // namespace sluice::server
