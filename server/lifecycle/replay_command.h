#pragma once

#include <string>

namespace sluice::server {

// `sluiced replay FILE`: plans again what a flight record holds and prints what came of it. Returns
// the exit code: 0 when every plan came out as recorded, 1 when not, 2 for what is no record.
int RunReplay(const std::string& path);

}  // namespace sluice::server
