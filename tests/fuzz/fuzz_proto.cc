// Requests of the gRPC dialect: bytes to message to fields to prompt tokens.
//
// Input: a serialized GenerateRequest.

#include <string>
#include <variant>

#include "server/grpc/request_fields.h"
#include "server/models/prompt_tokens.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/small_chat.h"

namespace sluice::testing {
namespace {

using server::ServedModel;

void CheckError(const absl::Status& status) {
  Require(absl::IsInvalidArgument(status) || absl::IsOutOfRange(status) ||
              absl::IsResourceExhausted(status),
          "errors are the caller's", engine::Message(status));
  Require(!status.message().empty(), "errors say what is wrong");
}

void Use(const server::rpc::GenerateFields& fields) {
  const ServedModel& model = SmallChatModel();
  absl::StatusOr<std::vector<int32_t>> ids;
  if (const auto* chat = std::get_if<server::ChatPrompt>(&fields.prompt)) {
    ids = server::ChatPromptIds(model, *chat);
    if (ids.ok()) RequireTemplatesControlTokens(*chat, *ids);
  } else if (const auto* text = std::get_if<std::string>(&fields.prompt)) {
    ids = server::TextPromptIds(model, *text, "text", fields.add_special_tokens);
  } else {
    ids =
        server::CheckedPromptIds(model, std::get<std::vector<int32_t>>(fields.prompt), "token_ids");
  }
  if (!ids.ok()) return CheckError(ids.status());
  Require(!ids->empty() && ids->size() < static_cast<size_t>(model.facts.context_tokens),
          "prompts leave room for an answer");
  for (const int32_t id : *ids) {
    Require(id >= 0 && id < model.facts.tokenizer->vocab_size(), "ids are in the vocabulary");
  }
}

}  // namespace
}  // namespace sluice::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice::testing;
  // Protobuf writes a line about each string that is not UTF-8.
  static auto* const logger = google::protobuf::SetLogHandler(nullptr);
  (void)logger;
  sluice::v1::GenerateRequest request;
  if (!request.ParseFromArray(data, static_cast<int>(size))) return 0;
  const auto fields = sluice::server::rpc::ReadGenerate(request, {});
  if (fields.ok()) {
    Use(*fields);
  } else {
    CheckError(fields.status());
  }
  return 0;
}
