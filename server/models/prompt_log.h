#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/base/log.h"
#include "server/models/served_model.h"

namespace sluice::server {

// Logs the beginning of a prompt, when the log was asked to show prompts. `id` is the engine's,
// `http_id` the caller's.
inline void LogPrompt(const ServedModel& model, std::string_view id, std::string_view http_id,
                      const std::vector<int32_t>& prompt) {
  if (!engine::LogsPrompts()) return;
  constexpr size_t kBytesMax = 1024;  // and no more tokens than may be needed for them
  const std::vector<int32_t> head(
      prompt.begin(), prompt.begin() + static_cast<int64_t>(std::min(prompt.size(), kBytesMax)));
  SLUICE_LOG_EVENT(kInfo, "prompt")
      .Word("id", id)
      .Word("http_id", http_id)
      .Number("tokens", prompt.size())
      .Text("text", model.facts.tokenizer->Decode(head, false), kBytesMax);
}

}  // namespace sluice::server
