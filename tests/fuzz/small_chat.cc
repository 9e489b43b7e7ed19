#include "tests/fuzz/small_chat.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "tests/engine/tokenizer/small_spec.h"
#include "tests/fuzz/input.h"

namespace sluice::testing {
namespace {

using server::ServedModel;

constexpr char kChatMl[] =
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{{ message.content | trim }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

template <class T>
std::shared_ptr<const T> Must(absl::StatusOr<std::unique_ptr<const T>> made) {
  Require(made.ok(), "the fixture is sound", engine::Message(made.status()));
  return std::move(*made);
}

ServedModel::Facts MakeFacts() {
  SmallSpec small("llama-bpe");
  small.AddMerge("a", "b");
  small.AddMerge("<", "|");
  small.AddNamed("<|im_start|>");
  small.spec.eos_id = small.AddNamed("<|im_end|>");
  small.spec.bos_id = small.AddNamed("<s>");
  small.spec.end_ids = {small.spec.eos_id};
  ServedModel::Facts facts;
  facts.name = "m";
  facts.context_tokens = 4096;
  facts.waiting_max = 16;
  facts.tokenizer = Must(engine::Tokenizer::Create(std::move(small.spec)));
  facts.chat_template = Must(engine::ChatTemplate::Compile(kChatMl));
  facts.bos_token = "<s>";
  facts.eos_token = "<|im_end|>";
  return facts;
}

}  // namespace

const ServedModel& SmallChatModel() {
  static const ServedModel model(MakeFacts());
  return model;
}

void RequireTemplatesControlTokens(const server::ChatPrompt& prompt,
                                   const std::vector<int32_t>& ids) {
  const engine::Tokenizer& tokenizer = *SmallChatModel().facts.tokenizer;
  const auto controls = static_cast<size_t>(
      std::count_if(ids.begin(), ids.end(), [&](int32_t id) { return tokenizer.IsControl(id); }));
  size_t wanted = 2 * prompt.messages.size();
  if (prompt.add_generation_prompt && !prompt.continue_final_message) ++wanted;
  // What is gone on with loses the end of its turn.
  if (prompt.continue_final_message) --wanted;
  Require(controls == wanted, "control tokens are the template's", tokenizer.Decode(ids, false));
}

}  // namespace sluice::testing
