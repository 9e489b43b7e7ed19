#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/request.h"

namespace sluice::server::openai {

enum class Endpoint { kChat, kCompletions };

// What every chunk and answer of one request repeats.
struct AnswerFacts {
  Endpoint endpoint = Endpoint::kChat;
  std::string id;
  int64_t created = 0;
  std::string model;
  std::string fingerprint;
  bool include_usage = false;
  bool continuous_usage = false;
  bool return_token_ids = false;
};

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t cached_tokens = 0;  // of the prompts': found in memory
};

using engine::StopReason;

// One complete answer.
struct Choice {
  int32_t index = 0;
  std::string text;
  std::vector<int32_t> token_ids;
  engine::FinishReason finish = engine::FinishReason::kNone;
  StopReason stop_reason;
  const std::vector<int32_t>* prompt_ids = nullptr;  // set when token ids were asked for
};

// Renders the wire forms of answers: JSON bodies, and events of a stream. What does not change from
// token to token is rendered once, since a stream's event is made for each token. Not thread-safe.
class AnswerWriter {
 public:
  explicit AnswerWriter(AnswerFacts facts);

  // Each appends one whole event to *out.
  // `prompt_ids`: null, or what return_token_ids promises of the prompt.
  void Role(std::string* out, int32_t index, const std::vector<int32_t>* prompt_ids,
            const Usage& usage) const;
  void Text(std::string* out, int32_t index, std::string_view text,
            const std::vector<int32_t>& token_ids, const Usage& usage) const;
  void Finish(std::string* out, int32_t index, engine::FinishReason reason, const StopReason& stop,
              const std::vector<int32_t>& token_ids, const Usage& usage) const;
  void FinalUsage(std::string* out, const Usage& usage) const;
  static void Error(std::string* out, std::string_view error_json);
  static void Done(std::string* out);

  // The body of an answer that is not streamed.
  std::string Body(const std::vector<Choice>& choices, const Usage& usage) const;

 private:
  void Open(std::string* out, int32_t index) const;
  void Close(std::string* out, const Usage& usage) const;

  const AnswerFacts facts_;
  std::string head_;        // {"id":...,"model":...,"choices":
  std::string event_head_;  // data: {...,"choices":[{"index":
};

}  // namespace sluice::server::openai
