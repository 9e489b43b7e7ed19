#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "server/models/served_model.h"
#include "tests/server/support/scripted_executor.h"

namespace sluice::testing {

// The vocabulary of the server's tests: 0..255 are the bytes, then control tokens, then words.
inline constexpr int32_t kTurnStart = 256;  // <|im_start|>
inline constexpr int32_t kTurnEnd = 257;    // <|im_end|>, ends an answer
inline constexpr int32_t kBos = 258;        // <|bos|>
inline constexpr int32_t kFirstWord = 259;
inline const std::vector<std::string> kWords = {"ab", "cd", "ef", "gh", "Paris", "stop!"};

struct ChatModelOptions {
  std::string name = "test-model";
  int32_t context_tokens = 2048;
  int32_t waiting_max = 1024;
  bool add_bos = false;
  bool template_prints_bos = false;
  std::string chat_template;  // empty: ChatMl
};

std::shared_ptr<const engine::Tokenizer> ChatTokenizer(bool add_bos = false);
// ChatML, as many model files have it. Refuses a message "refuse me", as templates may.
std::shared_ptr<const engine::ChatTemplate> ChatMl(bool prints_bos = false);
std::shared_ptr<server::ServedModel> MakeChatModel(const ChatModelOptions& options = {});

// Ids of the words and bytes of `text`: a word of kWords where one begins, else the byte.
std::vector<int32_t> ScriptOf(std::string_view text);

// What a prompt says, control tokens shown.
std::string PromptText(const std::vector<int32_t>& prompt);

// The script of the tests' model: a prompt that contains "say:TEXT;" is answered with TEXT and the
// end of the turn; "loop:TEXT;" repeats TEXT for ever; "nan:K;" has NaNs after K tokens; any other
// prompt is answered with letters that are a hash of prompt, seed and choice, for ever.
int32_t NextOfScript(const ScriptedExecutor::Row& row);

}  // namespace sluice::testing
