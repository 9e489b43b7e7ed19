#include "server/lifecycle/replay_command.h"

#include <cstdio>

#include "engine/record/replay.h"

namespace sluice::server {

int RunReplay(const std::string& path) {
  const auto record = engine::ReadRecordFile(path);
  if (!record.ok()) {
    std::fprintf(stderr, "sluiced replay: %s\n", engine::Message(record.status()).c_str());
    return 2;
  }
  const auto report = engine::Replay(*record);
  if (!report.ok()) {
    std::fprintf(stderr, "sluiced replay: %s: %s\n", path.c_str(),
                 engine::Message(report.status()).c_str());
    return 2;
  }
  std::printf("%lld answers, %lld steps of %lld tokens in %.3f s\n",
              static_cast<long long>(report->sequences), static_cast<long long>(report->steps),
              static_cast<long long>(report->tokens), report->seconds);
  if (report->different == 0) {
    std::printf("every plan came out as recorded\n");
    return 0;
  }
  std::printf("%lld plans came out otherwise, the first at %s\n",
              static_cast<long long>(report->different), report->first_difference.c_str());
  return 1;
}

}  // namespace sluice::server
