#pragma once

#include "engine/base/status.h"
#include "engine/model/gguf.h"
#include "engine/tokenizer/tokenizer.h"

namespace sluice::engine {

// The vocabulary that a model file states (keys tokenizer.ggml.*). End ids are the file's eos, eot
// and eom tokens and the control tokens that by their text end a turn in a known chat format.
// InvalidArgument names the key and the value that is missing or out of range.
absl::StatusOr<TokenizerSpec> TokenizerSpecFromGguf(const GgufFile& file);

// The file's chat template (tokenizer.chat_template); empty when there is none.
absl::StatusOr<std::string_view> ChatTemplateFromGguf(const GgufFile& file);

}  // namespace sluice::engine
