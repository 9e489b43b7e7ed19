#include "server/grpc/generation_service.h"

#include <exception>
#include <utility>

#include "engine/tokenizer/utf8.h"
#include "server/models/checks.h"
#include "server/models/prompt_tokens.h"

namespace sluice::server::rpc {

grpc::ServerUnaryReactor* GenerationService::Work(grpc::CallbackServerContext* context,
                                                  const char* method,
                                                  const google::protobuf::Message* response,
                                                  std::function<absl::Status()> work) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  const CallFacts facts = ReceiveCall(context, method);
  const auto finish = [this, context, reactor, facts](const absl::Status& status) {
    if (!status.ok()) LogRefused(facts, status);
    reactor->Finish(
        EndCall(facts, parts_.on_call, context, {status, RetryAfterSeconds(status, nullptr), ""}));
  };
  const bool accepted =
      parts_.pool->TryPost([this, context, response, finish, work = std::move(work)] {
        if (context->IsCancelled()) return finish(absl::CancelledError("the client is gone"));
        absl::Status status;
        try {
          status = work();
        } catch (const std::exception& error) {
          status = engine::Internal(std::string("internal error: ") + error.what());
        }
        if (status.ok()) status = CheckSize(*response);
        finish(status);
      });
  if (!accepted) {
    finish(engine::ResourceExhausted("too many requests wait to be read, at most " +
                                     std::to_string(parts_.pool->queue_max()) + " may"));
  }
  return reactor;
}

// Clients have a limit, too, and one that is exceeded breaks the call off without a word of why.
absl::Status GenerationService::CheckSize(const google::protobuf::Message& response) const {
  const size_t bytes = response.ByteSizeLong();
  if (bytes <= parts_.message_bytes_max) return absl::OkStatus();
  return engine::OutOfRange("the answer would have " + std::to_string(bytes) +
                            " bytes, but grpc.max_message_bytes is " +
                            std::to_string(parts_.message_bytes_max) +
                            ": ask in parts, or raise it here and in the client");
}

grpc::ServerUnaryReactor* GenerationService::Tokenize(grpc::CallbackServerContext* context,
                                                      const wire::TokenizeRequest* request,
                                                      wire::TokenizeResponse* response) {
  return Work(context, "Tokenize", response,
              [this, request, response] { return DoTokenize(*request, response); });
}

grpc::ServerUnaryReactor* GenerationService::Detokenize(grpc::CallbackServerContext* context,
                                                        const wire::DetokenizeRequest* request,
                                                        wire::DetokenizeResponse* response) {
  return Work(context, "Detokenize", response,
              [this, request, response] { return DoDetokenize(*request, response); });
}

grpc::ServerUnaryReactor* GenerationService::GetModel(grpc::CallbackServerContext* context,
                                                      const wire::GetModelRequest* request,
                                                      wire::Model* response) {
  return Work(context, "GetModel", response, [this, request, response]() -> absl::Status {
    SLUICE_ASSIGN_OR_RETURN(const auto model, FindModel(*parts_.registry, request->model()));
    Describe(*model, response);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* GenerationService::ListModels(grpc::CallbackServerContext* context,
                                                        const wire::ListModelsRequest*,
                                                        wire::ListModelsResponse* response) {
  return Work(context, "ListModels", response, [this, response] {
    for (const auto& model : parts_.registry->models()) Describe(*model, response->add_models());
    return absl::OkStatus();
  });
}

absl::Status GenerationService::DoTokenize(const wire::TokenizeRequest& request,
                                           wire::TokenizeResponse* response) const {
  std::optional<bool> add_special_tokens;
  if (request.has_add_special_tokens()) add_special_tokens = request.add_special_tokens();
  SLUICE_ASSIGN_OR_RETURN(const auto model, FindModel(*parts_.registry, request.model()));
  std::vector<int32_t> ids;
  // Longer than the context is no error here: people ask in order to learn how long a text is.
  switch (request.prompt_case()) {
    case wire::TokenizeRequest::kText: {
      SLUICE_ASSIGN_OR_RETURN(ids,
                              EncodeText(*model, request.text(), add_special_tokens, SIZE_MAX));
      break;
    }
    case wire::TokenizeRequest::kChat: {
      SLUICE_ASSIGN_OR_RETURN(const ChatPrompt chat,
                              ReadChat(request.chat(), parts_.caps, add_special_tokens));
      SLUICE_ASSIGN_OR_RETURN(ids, EncodeChat(*model, chat, SIZE_MAX));
      break;
    }
    case wire::TokenizeRequest::PROMPT_NOT_SET:
      return engine::InvalidArgument("prompt: is missing; one of text and chat is due");
  }
  response->set_context_tokens(model->facts.context_tokens);
  response->mutable_token_ids()->Assign(ids.begin(), ids.end());
  if (!request.return_token_bytes()) return absl::OkStatus();
  for (const int32_t id : ids) {
    response->add_token_bytes(std::string(model->facts.tokenizer->TokenBytes(id)));
  }
  return absl::OkStatus();
}

absl::Status GenerationService::DoDetokenize(const wire::DetokenizeRequest& request,
                                             wire::DetokenizeResponse* response) const {
  SLUICE_ASSIGN_OR_RETURN(const auto model, FindModel(*parts_.registry, request.model()));
  const std::vector<int32_t> ids(request.token_ids().begin(), request.token_ids().end());
  SLUICE_RETURN_IF_ERROR(CheckInVocabulary(*model, ids, "token_ids"));
  // Ids may be cut in the midst of a character, and Protobuf's strings hold whole ones alone.
  response->set_text(engine::ReplaceInvalidUtf8(model->facts.tokenizer->Decode(ids, false)));
  return absl::OkStatus();
}

void GenerationService::Describe(const ServedModel& model, wire::Model* out) const {
  out->set_name(model.facts.name);
  out->set_created(model.facts.created);
  out->set_context_tokens(model.facts.context_tokens);
  out->set_vocabulary_tokens(model.facts.tokenizer->vocab_size());
  out->set_has_chat_template(model.facts.chat_template != nullptr);
  out->set_ready(CheckReady(parts_.readiness->snapshot()).ok());
}

}  // namespace sluice::server::rpc
