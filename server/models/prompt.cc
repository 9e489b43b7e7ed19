#include "server/models/prompt.h"

#include <boost/json/value.hpp>
#include <functional>
#include <utility>

namespace sluice::server {
namespace {

namespace json = boost::json;
using Borders = ControlStrings::Borders;

std::string_view View(const json::string& text) { return {text.data(), text.size()}; }
std::string_view View(json::string_view text) { return {text.data(), text.size()}; }

using StringVisitor = std::function<void(std::string_view, Borders)>;
using StringRewriter = std::function<std::string(std::string_view, Borders)>;

void VisitStrings(const json::value& value, Borders borders, const StringVisitor& visit) {
  if (const auto* text = value.if_string()) {
    visit(View(*text), borders);
  } else if (const auto* array = value.if_array()) {
    for (const json::value& item : *array) VisitStrings(item, borders, visit);
  } else if (const auto* object = value.if_object()) {
    for (const auto& member : *object) {
      visit(View(member.key()), borders);
      VisitStrings(member.value(), borders, visit);
    }
  }
}

json::value RewriteStrings(const json::value& value, Borders borders,
                           const StringRewriter& rewrite) {
  if (const auto* text = value.if_string()) return json::value(rewrite(View(*text), borders));
  if (const auto* array = value.if_array()) {
    json::array out;
    out.reserve(array->size());
    for (const json::value& item : *array) out.push_back(RewriteStrings(item, borders, rewrite));
    return out;
  }
  if (const auto* object = value.if_object()) {
    json::object out;
    for (const auto& member : *object) {
      out[rewrite(View(member.key()), borders)] = RewriteStrings(member.value(), borders, rewrite);
    }
    return out;
  }
  return value;
}

// A message's own keys and its role are not the caller's text.
json::value RewriteMessage(const json::value& message, const StringRewriter& rewrite) {
  json::object out;
  for (const auto& member : message.get_object()) {
    out[member.key()] = member.key() == "role"
                            ? member.value()
                            : RewriteStrings(member.value(), Borders::kMark, rewrite);
  }
  return out;
}

absl::StatusOr<std::string> ChooseMark(const MarkChooser& chooser) {
  std::string mark = chooser.Choose();
  if (mark.empty())
    return engine::InvalidArgument("messages: every private-use character U+F0000..U+FFFFD occurs");
  return mark;
}

// Puts marks into the callers' texts where control strings need them; returns the mark, or an
// empty string when none was needed.
absl::StatusOr<std::string> MarkControlStrings(const ControlStrings& control, json::array* messages,
                                               json::object* arguments) {
  bool needed = false;
  const auto visit_all = [&](const StringVisitor& visit) {
    for (const json::value& message : *messages) {
      for (const auto& member : message.get_object()) {
        if (member.key() != "role") VisitStrings(member.value(), Borders::kMark, visit);
      }
    }
    for (const auto& member : *arguments) VisitStrings(member.value(), Borders::kLeave, visit);
  };
  visit_all([&](std::string_view text, Borders borders) {
    needed = needed || control.NeedsMarks(text, borders);
  });
  if (!needed) return std::string();

  MarkChooser chooser;
  visit_all([&](std::string_view text, Borders) { chooser.See(text); });
  SLUICE_ASSIGN_OR_RETURN(const std::string mark, ChooseMark(chooser));
  const StringRewriter rewrite = [&](std::string_view text, Borders borders) {
    return control.Mark(text, mark, borders);
  };
  for (json::value& message : *messages) message = RewriteMessage(message, rewrite);
  for (auto& member : *arguments) {
    member.value() = RewriteStrings(member.value(), Borders::kLeave, rewrite);
  }
  return mark;
}

// Behind a mark: a template that trims its messages' texts takes these away, and puts fewer there.
constexpr std::string_view kBlanks = "  ";

// Puts a mark that occurs nowhere else behind the text of the last message, so that it shows where
// the template put that text (Hugging Face's way for continue_final_message). Returns the mark.
absl::StatusOr<std::string> MarkFinalMessage(const json::object& arguments, json::array* messages) {
  MarkChooser chooser;
  const StringVisitor see = [&](std::string_view text, Borders) { chooser.See(text); };
  for (const json::value& message : *messages) VisitStrings(message, Borders::kLeave, see);
  for (const auto& member : arguments) VisitStrings(member.value(), Borders::kLeave, see);
  SLUICE_ASSIGN_OR_RETURN(const std::string mark, ChooseMark(chooser));
  json::string& text = messages->back().as_object()["content"].get_string();
  text.append(mark);
  text.append(json::string_view(kBlanks.data(), kBlanks.size()));
  return mark;
}

// Cuts the mark and what the template put after it.
absl::Status LeaveFinalMessageOpen(const std::string& mark, std::string* rendered) {
  const size_t at = rendered->rfind(mark);
  if (at == std::string::npos) {
    return engine::InvalidArgument(
        "continue_final_message: the chat template does not keep the text of the last message");
  }
  const bool trimmed = rendered->compare(at + mark.size(), kBlanks.size(), kBlanks) != 0;
  rendered->resize(at);
  // But for the mark the template would have taken these, too.
  if (trimmed) rendered->resize(rendered->find_last_not_of(" \t\n\v\f\r\x1C\x1D\x1E\x1F") + 1);
  return absl::OkStatus();
}

void AddBos(const engine::TokenizerSpec& spec, std::optional<bool> add_special_tokens,
            std::vector<int32_t>* ids) {
  if (!spec.add_bos || spec.bos_id < 0 || !add_special_tokens.value_or(true)) return;
  if (ids->empty() || ids->front() != spec.bos_id) ids->insert(ids->begin(), spec.bos_id);
}

}  // namespace

absl::StatusOr<std::vector<int32_t>> EncodeChat(const ServedModel& model, const ChatPrompt& prompt,
                                                size_t max_tokens) {
  if (model.facts.chat_template == nullptr) {
    return engine::InvalidArgument("messages: model " + model.facts.name +
                                   " has no chat template; use /v1/completions");
  }
  json::array messages = prompt.messages;
  json::object variables = prompt.template_arguments;
  SLUICE_ASSIGN_OR_RETURN(const std::string mark,
                          MarkControlStrings(model.control, &messages, &variables));
  std::string end_mark;
  if (prompt.continue_final_message) {
    SLUICE_ASSIGN_OR_RETURN(end_mark, MarkFinalMessage(variables, &messages));
  }
  variables["messages"] = messages;
  variables["add_generation_prompt"] = prompt.add_generation_prompt;
  variables["bos_token"] = model.facts.bos_token;
  variables["eos_token"] = model.facts.eos_token;
  variables["tools"] = nullptr;
  variables["documents"] = nullptr;
  absl::StatusOr<std::string> rendered = model.facts.chat_template->Render(variables);
  if (!rendered.ok()) {
    return engine::InvalidArgument("messages: the chat template refuses them: " +
                                   engine::Message(rendered.status()));
  }
  if (prompt.continue_final_message) {
    SLUICE_RETURN_IF_ERROR(LeaveFinalMessageOpen(end_mark, &*rendered));
  }
  SLUICE_ASSIGN_OR_RETURN(std::vector<int32_t> ids,
                          model.control.Encode(*rendered, mark, max_tokens));
  AddBos(model.facts.tokenizer->spec(), prompt.add_special_tokens, &ids);
  return ids;
}

absl::StatusOr<std::vector<int32_t>> EncodeText(const ServedModel& model, std::string_view text,
                                                std::optional<bool> add_special_tokens,
                                                size_t max_tokens) {
  SLUICE_ASSIGN_OR_RETURN(
      std::vector<int32_t> ids,
      model.facts.tokenizer->Encode(text, engine::ControlTokens::kParse, max_tokens));
  AddBos(model.facts.tokenizer->spec(), add_special_tokens, &ids);
  return ids;
}

}  // namespace sluice::server
