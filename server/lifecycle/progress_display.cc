#include "server/lifecycle/progress_display.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "engine/base/log.h"

namespace sluice::server {

ProgressDisplay::ProgressDisplay()
    : terminal_(isatty(STDERR_FILENO) == 1 &&
                engine::CurrentLogFormat() == engine::LogFormat::kText) {}

void ProgressDisplay::Show(const engine::LoadProgress& progress) {
  const int percent = static_cast<int>(std::clamp(progress.fraction, 0.0, 1.0) * 100);
  const bool new_stage = progress.stage != stage_;
  if (new_stage) {
    End();
    stage_ = progress.stage;
    quarter_ = -1;
    percent_ = -1;
  }
  if (!terminal_) {
    if (percent / 25 == quarter_) return;
    quarter_ = percent / 25;
    SLUICE_LOG(kInfo) << "loading: " << stage_ << " " << percent << "%";
    return;
  }
  if (percent == percent_) return;
  percent_ = percent;
  constexpr int kWidth = 40;
  const int full = percent * kWidth / 100;
  const std::string bar = std::string(static_cast<size_t>(full), '#') +
                          std::string(static_cast<size_t>(kWidth - full), '.');
  std::fprintf(stderr, "\r  %-10s [%s] %3d%%", stage_.c_str(), bar.c_str(), percent);
  std::fflush(stderr);
  open_ = true;
}

void ProgressDisplay::End() {
  if (open_) std::fputc('\n', stderr);
  open_ = false;
}

}  // namespace sluice::server
