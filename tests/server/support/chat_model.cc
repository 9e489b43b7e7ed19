#include "tests/server/support/chat_model.h"

#include <cstdlib>
#include <iostream>
#include <optional>
#include <utility>

#include "engine/tokenizer/byte_alphabet.h"

namespace sluice::testing {
namespace {

constexpr char kChatMl[] =
    "{% for message in messages %}"
    "{% if message['content'] == 'refuse me' %}{{ raise_exception('I take no such thing') }}"
    "{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

template <class T>
std::shared_ptr<const T> Must(absl::StatusOr<std::unique_ptr<const T>> made) {
  if (!made.ok()) {
    std::cerr << made.status() << "\n";
    std::abort();
  }
  return std::move(*made);
}

// The argument of "verb:ARGUMENT;" in `text`.
std::optional<std::string> Argument(const std::string& text, const std::string& verb) {
  const size_t at = text.find(verb + ":");
  if (at == std::string::npos) return std::nullopt;
  const size_t begin = at + verb.size() + 1;
  const size_t end = text.find(';', begin);
  if (end == std::string::npos) return std::nullopt;
  return text.substr(begin, end - begin);
}

}  // namespace

std::shared_ptr<const engine::Tokenizer> ChatTokenizer(bool add_bos) {
  engine::TokenizerSpec spec;
  spec.model = "gpt2";
  spec.pre = "gpt-2";
  for (int byte = 0; byte < 256; ++byte) {
    spec.tokens.push_back(engine::ByteToSymbol(static_cast<uint8_t>(byte)));
  }
  for (const char* name : {"<|im_start|>", "<|im_end|>", "<|bos|>"}) spec.tokens.push_back(name);
  for (const std::string& word : kWords) spec.tokens.push_back(word);
  spec.types.assign(spec.tokens.size(), engine::TokenType::kNormal);
  for (const int32_t id : {kTurnStart, kTurnEnd, kBos}) {
    spec.types[static_cast<size_t>(id)] = engine::TokenType::kControl;
  }
  spec.bos_id = kBos;
  spec.eos_id = kTurnEnd;
  spec.end_ids = {kTurnEnd};
  spec.add_bos = add_bos;
  return Must(engine::Tokenizer::Create(std::move(spec)));
}

std::shared_ptr<const engine::ChatTemplate> ChatMl(bool prints_bos) {
  return Must(
      engine::ChatTemplate::Compile((prints_bos ? "{{ bos_token }}" : "") + std::string(kChatMl)));
}

std::shared_ptr<server::ServedModel> MakeChatModel(const ChatModelOptions& options) {
  server::ServedModel::Facts facts;
  facts.name = options.name;
  facts.created = 1;
  facts.context_tokens = options.context_tokens;
  facts.waiting_max = options.waiting_max;
  facts.tokenizer = ChatTokenizer(options.add_bos);
  facts.chat_template = options.chat_template.empty()
                            ? ChatMl(options.template_prints_bos)
                            : Must(engine::ChatTemplate::Compile(options.chat_template));
  facts.bos_token = "<|bos|>";
  facts.eos_token = "<|im_end|>";
  return std::make_shared<server::ServedModel>(std::move(facts));
}

std::vector<int32_t> ScriptOf(std::string_view text) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < text.size();) {
    size_t length = 1;
    int32_t id = static_cast<unsigned char>(text[i]);
    for (size_t w = 0; w < kWords.size(); ++w) {
      if (!text.substr(i).starts_with(kWords[w])) continue;
      id = kFirstWord + static_cast<int32_t>(w);
      length = kWords[w].size();
    }
    ids.push_back(id);
    i += length;
  }
  return ids;
}

std::string PromptText(const std::vector<int32_t>& prompt) {
  static const std::shared_ptr<const engine::Tokenizer> tokenizer = ChatTokenizer();
  return tokenizer->Decode(prompt, false);
}

int32_t NextOfScript(const ScriptedExecutor::Row& row) {
  const std::string text = PromptText(row.prompt);
  const auto at = static_cast<size_t>(row.generated);
  if (const auto fault = Argument(text, "nan")) {
    return row.generated >= std::atoi(fault->c_str()) ? ScriptedExecutor::kNonFinite : 'n';
  }
  if (const auto words = Argument(text, "say")) {
    const std::vector<int32_t> ids = ScriptOf(*words);
    return at < ids.size() ? ids[at] : kTurnEnd;
  }
  if (const auto words = Argument(text, "loop")) {
    const std::vector<int32_t> ids = ScriptOf(*words);
    return ids[at % ids.size()];
  }
  uint64_t hash = 14695981039346656037u + static_cast<uint64_t>(row.generated);
  const auto mix = [&hash](uint64_t value) { hash = (hash ^ value) * 1099511628211u; };
  for (const int32_t token : row.prompt) mix(static_cast<uint64_t>(token));
  if (row.sampling.temperature > 0) {
    mix(row.sampling.seed);
    mix(row.sampling.choice);
  }
  return static_cast<int32_t>('a' + hash % 26);
}

}  // namespace sluice::testing
