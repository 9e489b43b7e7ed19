#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "engine/base/log_text.h"
#include "engine/engine.h"
#include "engine/template/chat_template.h"
#include "engine/tokenizer/tokenizer.h"
#include "server/models/control_strings.h"

namespace sluice::server {

// What the dialects know of one model. All but `engine` is constant from the moment that the
// model's header has been read.
struct ServedModel {
  struct Facts {
    std::string name;
    int64_t created = 0;  // Unix time, seconds
    int32_t context_tokens = 0;
    int32_t waiting_max = 0;  // of EngineOptions
    std::shared_ptr<const engine::Tokenizer> tokenizer;
    std::shared_ptr<const engine::ChatTemplate> chat_template;  // may be null
    std::string bos_token;
    std::string eos_token;
    std::string cache_dtype;  // how keys and values are kept, as "f16"; for the metrics
  };
  explicit ServedModel(Facts f) : facts(Sound(std::move(f))), control(*facts.tokenizer) {}

  const Facts facts;
  const ControlStrings control;
  // Null while the weights load. Outlives every use: the daemon ends the front before the engine.
  std::atomic<engine::Engine*> engine{nullptr};

 private:
  // Names may be those of files, which are any bytes; what goes to clients is UTF-8.
  static Facts Sound(Facts f) {
    f.name = engine::ValidUtf8(f.name);
    return f;
  }
};

}  // namespace sluice::server
