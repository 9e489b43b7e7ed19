#include "server/grpc/generate_call.h"

#include <algorithm>
#include <ctime>
#include <exception>
#include <utility>

#include "engine/base/log.h"
#include "server/base/request_id.h"
#include "server/grpc/error_status.h"
#include "server/models/checks.h"
#include "server/models/finish_name.h"
#include "server/models/prompt_log.h"
#include "server/models/prompt_tokens.h"

namespace sluice::server::rpc {
namespace {

using engine::FinishReason;
using Clock = std::chrono::steady_clock;

constexpr int32_t kDefaultMaxTokens = 16;  // for prompts that are not chats, as OpenAI's API has it

wire::FinishReason ToWire(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return wire::FINISH_REASON_STOP;
    case FinishReason::kLength:
      return wire::FINISH_REASON_LENGTH;
    default:
      return wire::FINISH_REASON_UNSPECIFIED;
  }
}

// Whether a call that was cancelled just now was so for its deadline's sake. A client whose time is
// over cancels on its own, and usually before the deadline that the server knows: that one begins
// when the call arrives, and is rounded up on its way by up to a hundredth.
bool IsLate(Clock::time_point deadline, Clock::time_point arrival) {
  if (deadline == Clock::time_point::max()) return false;
  const Clock::duration total = deadline - arrival;
  const Clock::duration margin = std::chrono::milliseconds(50) + total / 64;
  return Clock::now() >= deadline - std::min(margin, total / 2);
}

// On the steady clock.
Clock::time_point DeadlineOf(const grpc::CallbackServerContext& context) {
  const auto deadline = context.deadline();
  const auto now = std::chrono::system_clock::now();
  // No deadline is one beyond all times.
  if (deadline - std::chrono::hours(24 * 365) > now) return Clock::time_point::max();
  return Clock::now() + (deadline - now);
}

}  // namespace

struct GenerateCall::Record {
  CallFacts facts;
  std::string engine_id;
  std::string model;
  int32_t n = 1;
  size_t prompt_tokens = 0;
  std::shared_ptr<InFlight::Ticket> ticket;

  void Log(const std::vector<AnswerProgress>& progress, const absl::Status& status) const;
};

void GenerateCall::Record::Log(const std::vector<AnswerProgress>& progress,
                               const absl::Status& status) const {
  double queued = -1;
  double first = -1;
  int64_t generated = 0;
  std::string reasons;
  const auto earliest = [this](double* best, Clock::time_point at) {
    if (at == Clock::time_point{}) return;
    const double ms = std::chrono::duration<double, std::milli>(at - facts.arrival).count();
    if (*best < 0 || ms < *best) *best = ms;
  };
  for (const AnswerProgress& answer : progress) {
    earliest(&queued, answer.times.scheduled);
    earliest(&first, answer.times.first_token);
    generated += answer.generated;
    const std::string word(FinishName(answer.finish));
    if (reasons.find(word) == std::string::npos) reasons += (reasons.empty() ? "" : ",") + word;
  }
  SLUICE_LOG_EVENT(kInfo, "request")
      .Word("id", engine_id)
      .Word("http_id", facts.id)
      .Text("model", model)
      .Word("rpc", facts.method)
      .Number("prompts", 1)
      .Number("n", n)
      .Number("prompt_tokens", prompt_tokens)
      .Number("generated", generated)
      .Number("queue_ms", queued, 1)
      .Number("ttft_ms", first, 1)
      .Number("total_ms",
              std::chrono::duration<double, std::milli>(Clock::now() - facts.arrival).count(), 1)
      .Word("finish", reasons)
      .Word("status", CodeName(ToGrpcStatus(status, 0).error_code()));
}

GenerateCall::GenerateCall(const ServiceParts* parts, grpc::CallbackServerContext* context,
                           const wire::GenerateRequest* request)
    : parts_(parts),
      context_(context),
      request_(request),
      deadline_(DeadlineOf(*context)),
      record_(std::make_shared<Record>()) {
  record_->facts = ReceiveCall(context, "Generate");
  AnswerStream::Options options;
  options.backlog_bytes = parts->backlog_bytes;
  options.on_ended = [pool = parts->pool, record = record_](
                         const std::vector<AnswerProgress>& progress, const absl::Status& status) {
    // Writing to a log takes a while, and the output thread serves all.
    pool->Post([record, progress, status] { record->Log(progress, status); });
  };
  stream_ = std::make_shared<AnswerStream>(static_cast<StreamWire*>(this), std::move(options));
}

GenerateCall* GenerateCall::Start(const ServiceParts* parts, grpc::CallbackServerContext* context,
                                  const wire::GenerateRequest* request) {
  auto* call = new GenerateCall(parts, context, request);
  const std::shared_ptr<AnswerStream> stream = call->stream_;
  const Readiness::Snapshot now = parts->readiness->snapshot();
  if (const absl::Status status = CheckReady(now); !status.ok()) {
    call->reason_ = StateName(now.state);
    call->Refuse(stream, status);
    return call;
  }
  auto ticket = parts->in_flight->Enter();
  if (!ticket.ok()) {
    call->reason_ = "requests_full";
    call->Refuse(stream, ticket.status());
    return call;
  }
  call->record_->ticket = std::move(*ticket);
  if (!parts->pool->TryPost([call, stream] { call->Prepare(stream); })) {
    call->Refuse(stream,
                 engine::ResourceExhausted("too many requests wait to be read, at most " +
                                           std::to_string(parts->pool->queue_max()) + " may"));
  }
  return call;
}

void GenerateCall::Prepare(const std::shared_ptr<AnswerStream>& stream) {
  if (!stream->Begin()) return Refuse(stream, absl::CancelledError("the client is gone"));
  absl::Status status;
  try {
    status = Submit(stream);
  } catch (const std::exception& error) {
    status = engine::Internal(std::string("internal error: ") + error.what());
  }
  if (!status.ok()) Refuse(stream, status);
}

void GenerateCall::Refuse(const std::shared_ptr<AnswerStream>& stream, const absl::Status& status) {
  LogRefused(record_->facts, status);
  stream->Refuse(status);
}

absl::StatusOr<std::vector<int32_t>> GenerateCall::PromptIds(const GenerateFields& fields) const {
  if (const auto* chat = std::get_if<ChatPrompt>(&fields.prompt)) {
    return ChatPromptIds(*model_, *chat);
  }
  if (const auto* text = std::get_if<std::string>(&fields.prompt)) {
    return TextPromptIds(*model_, *text, "text", fields.add_special_tokens);
  }
  return CheckedPromptIds(*model_, std::get<std::vector<int32_t>>(fields.prompt), "token_ids");
}

absl::Status GenerateCall::Submit(const std::shared_ptr<AnswerStream>& stream) {
  SLUICE_ASSIGN_OR_RETURN(GenerateFields fields, ReadGenerate(*request_, parts_->caps));
  SLUICE_ASSIGN_OR_RETURN(model_, FindModel(*parts_->registry, fields.model));
  SLUICE_RETURN_IF_ERROR(CheckRoom(*model_, fields.n));
  SLUICE_ASSIGN_OR_RETURN(std::vector<int32_t> prompt, PromptIds(fields));
  const auto tokens = static_cast<int64_t>(prompt.size()) * fields.n;
  if (const absl::Status full = record_->ticket->AddPromptTokens(tokens); !full.ok()) {
    if (absl::IsResourceExhausted(full)) reason_ = "prompt_tokens_full";
    return full;
  }

  auto request = std::make_shared<engine::GenerateRequest>();
  request->id = "gen-" + RandomHexId();
  request->n = fields.n;
  request->arrival = record_->facts.arrival;
  request->sampling = std::move(fields.sampling);
  request->sampling.seed = fields.seed.value_or(RandomBits());
  request->stop = std::move(fields.stop);
  SLUICE_RETURN_IF_ERROR(ReadTargetHeaders(
      MetadataOf(*context_, std::string(kFirstTokenTargetHeader)),
      MetadataOf(*context_, std::string(kInterTokenTargetHeader)), &fields.terms));
  ApplyTerms(fields.terms, MetadataOf(*context_, parts_->caps.tenant_header), request.get());
  request->deadline = deadline_;
  const bool chat = std::holds_alternative<ChatPrompt>(fields.prompt);
  request->stop.max_tokens = fields.max_tokens.value_or(
      chat ? model_->facts.context_tokens - static_cast<int32_t>(prompt.size())
           : kDefaultMaxTokens);

  record_->engine_id = request->id;
  record_->model = model_->facts.name;
  record_->n = fields.n;
  record_->prompt_tokens = prompt.size();
  start_.set_id(request->id);
  start_.set_model(model_->facts.name);
  start_.set_created(std::time(nullptr));
  if (fields.return_prompt_token_ids) {
    start_.mutable_prompt_token_ids()->Assign(prompt.begin(), prompt.end());
  }
  LogPrompt(*model_, request->id, record_->facts.id, prompt);
  request->prompt = std::move(prompt);

  engine::Engine* const engine = model_->engine.load();
  std::function<void()> cancel = [engine, id = request->id] { engine->Cancel(id); };
  stream->Expect(fields.n);
  SLUICE_RETURN_IF_ERROR(engine->Submit(std::move(request), stream));
  stream->Accept(std::move(cancel));
  return absl::OkStatus();
}

void GenerateCall::Write(AnswerDelta delta, int64_t generated) {
  response_.Clear();
  if (!std::exchange(started_, true)) response_.mutable_start()->Swap(&start_);
  response_.set_index(delta.index);
  response_.set_text(std::move(delta.text));
  response_.mutable_token_ids()->Assign(delta.token_ids.begin(), delta.token_ids.end());
  response_.set_finish_reason(ToWire(delta.finish));
  if (const auto* token = std::get_if<int32_t>(&delta.stop_reason)) {
    response_.set_stop_token_id(*token);
  } else if (auto* text = std::get_if<std::string>(&delta.stop_reason)) {
    response_.set_stop_string(std::move(*text));
  }
  if (generated >= 0) {
    response_.mutable_usage()->set_prompt_tokens(static_cast<int64_t>(record_->prompt_tokens));
    response_.mutable_usage()->set_completion_tokens(generated);
    response_.mutable_usage()->set_cached_prompt_tokens(delta.cached_tokens);
  }
  StartWrite(&response_);
}

void GenerateCall::Finish(const absl::Status& status) {
  grpc::ServerWriteReactor<wire::GenerateResponse>::Finish(
      EndCall(record_->facts, parts_->on_call, context_,
              {status, RetryAfterSeconds(status, model_.get()), reason_}));
}

void GenerateCall::OnWriteDone(bool ok) {
  const std::shared_ptr<AnswerStream> stream = stream_;
  stream->OnWritten(ok);
}

void GenerateCall::OnCancel() {
  const std::shared_ptr<AnswerStream> stream = stream_;
  stream->OnGone(IsLate(deadline_, record_->facts.arrival)
                     ? absl::DeadlineExceededError("the call's deadline has passed")
                     : absl::CancelledError("the client cancelled the call"));
}

}  // namespace sluice::server::rpc
