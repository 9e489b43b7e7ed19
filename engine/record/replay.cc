#include "engine/record/replay.h"

#include <fstream>
#include <iterator>
#include <memory>
#include <unordered_set>
#include <vector>

#include "engine/record/record_codec.h"

namespace sluice::engine {
namespace {

using record::Kind;
using record::Reader;

class Replayer {
 public:
  explicit Replayer(ReplayWatcher* watcher) : watcher_(*watcher) {}
  absl::StatusOr<ReplayReport> Run(std::string_view bytes);

 private:
  absl::Status Apply(Kind kind, Reader in);
  absl::Status ApplyAdd(Reader* in);
  absl::Status ApplyPlan(Reader* in);
  absl::Status ApplyCommit(Reader* in);
  void See(Clock::time_point time);
  static absl::Status Malformed(const std::string& what) { return InvalidArgument(what); }

  ReplayWatcher& watcher_;
  ExecutorLimits limits_;
  std::unique_ptr<Scheduler> scheduler_;
  std::vector<SequenceEvent> events_;
  std::unordered_set<uint64_t> ids_;
  ReplayReport report_;
  Clock::time_point first_, last_;
  bool seen_time_ = false;
};

void Replayer::See(Clock::time_point time) {
  if (!seen_time_) first_ = time;
  seen_time_ = true;
  last_ = time;
}

absl::Status Replayer::ApplyAdd(Reader* in) {
  const uint64_t id = in->Unsigned();
  const int32_t choice = in->Int(0, 1 << 16);
  auto request = std::make_shared<GenerateRequest>();
  if (!record::ReadRequest(in, limits_, request.get())) return Malformed("a request is cut off");
  const auto prompt = static_cast<int64_t>(request->prompt.size());
  if (prompt == 0 || prompt >= scheduler_->context_tokens())
    return Malformed("a prompt of " + std::to_string(prompt) + " tokens");
  if (!ids_.insert(id).second) return Malformed("sequence " + std::to_string(id) + " twice");
  ++report_.sequences;
  watcher_.OnAdd(id, request, choice);
  scheduler_->Add(id, std::move(request), choice);
  return absl::OkStatus();
}

absl::Status Replayer::ApplyPlan(Reader* in) {
  const Clock::time_point now = in->Time();
  const uint64_t step = in->Unsigned(), slices = in->Unsigned(), tokens = in->Unsigned();
  const uint64_t digest = in->Unsigned();
  if (!in->ok()) return Malformed("a plan is cut off");
  See(now);
  const StepPlan plan = scheduler_->Plan(now);
  watcher_.OnPlan(plan, now, *scheduler_);
  if (plan.step != 0) ++report_.steps;
  report_.tokens += static_cast<int64_t>(plan.tokens.size());
  if (record::DigestOf(plan) == digest) return absl::OkStatus();
  if (report_.different++ == 0) {
    report_.first_difference = "step " + std::to_string(step) + ": recorded " +
                               std::to_string(slices) + " slices of " + std::to_string(tokens) +
                               " tokens, now " + std::to_string(plan.slices.size()) + " of " +
                               std::to_string(plan.tokens.size());
  }
  return absl::OkStatus();
}

absl::Status Replayer::ApplyCommit(Reader* in) {
  const Clock::time_point now = in->Time();
  StepResult result;
  if (!record::ReadResult(in, &result)) return Malformed("a result is cut off");
  See(now);
  // After a difference the recorded result may not fit the plan any more.
  SLUICE_RETURN_IF_ERROR(scheduler_->Commit(result, now, &events_));
  watcher_.OnCommit(result, now, *scheduler_);
  return absl::OkStatus();
}

absl::Status Replayer::Apply(Kind kind, Reader in) {
  if ((scheduler_ == nullptr) != (kind == Kind::kOptions))
    return Malformed("the options are not first, or not alone");
  switch (kind) {
    case Kind::kOptions: {
      Scheduler::Options options;
      if (!record::ReadOptions(&in, &limits_, &options)) return Malformed("the options are broken");
      watcher_.OnOptions(limits_, options);
      scheduler_ = std::make_unique<Scheduler>(limits_, options);
      return absl::OkStatus();
    }
    case Kind::kDropped:
      return absl::FailedPreconditionError(
          "the record's beginning was dropped: raise the bytes kept, or write the file earlier");
    case Kind::kAdd:
      return ApplyAdd(&in);
    case Kind::kFinish: {
      const uint64_t id = in.Unsigned();
      const auto reason = static_cast<FinishReason>(in.Int(0, 5));
      const Clock::time_point now = in.Time();
      if (!in.ok()) return Malformed("an end is cut off");
      scheduler_->Finish(id, reason, now, &events_);
      return absl::OkStatus();
    }
    case Kind::kFinishAll: {
      const auto reason = static_cast<FinishReason>(in.Int(0, 5));
      const Clock::time_point now = in.Time();
      if (!in.ok()) return Malformed("an end is cut off");
      scheduler_->FinishAll(reason, nullptr, now, &events_);
      return absl::OkStatus();
    }
    case Kind::kExpire: {
      const Clock::time_point now = in.Time();
      if (!in.ok()) return Malformed("a time is cut off");
      See(now);
      scheduler_->Expire(now, &events_);
      return absl::OkStatus();
    }
    case Kind::kPlan:
      return ApplyPlan(&in);
    case Kind::kCommit:
      return ApplyCommit(&in);
  }
  return Malformed("an unknown kind of record");
}

absl::StatusOr<ReplayReport> Replayer::Run(std::string_view bytes) {
  if (bytes.substr(0, record::kMagic.size()) != record::kMagic)
    return InvalidArgument("this is no flight record: it does not begin with SLUICE-FLIGHT-1");
  const size_t size = bytes.size();
  Reader in(bytes.substr(record::kMagic.size()));
  while (!in.at_end()) {
    const size_t offset = size - in.left();
    const std::string_view kind = in.Take(1);
    const uint64_t length = in.Unsigned();
    const std::string_view payload = in.Take(length);
    if (!in.ok()) return InvalidArgument("offset " + std::to_string(offset) + ": cut off");
    const absl::Status status = Apply(static_cast<Kind>(kind[0]), Reader(payload));
    if (status.ok() && !events_.empty()) watcher_.OnEvents(events_);
    events_.clear();
    if (status.ok()) continue;
    if (report_.different > 0) break;
    return absl::Status(status.code(), absl::string_view("offset " + std::to_string(offset) + ": " +
                                                         Message(status)));
  }
  if (scheduler_ == nullptr) return InvalidArgument("the record is empty");
  report_.seconds = Seconds(last_ - first_);
  return report_;
}

}  // namespace

absl::StatusOr<std::string> ReadRecordFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  if (!file || file.bad()) return InvalidArgument("can't read " + path);
  return bytes;
}

absl::StatusOr<ReplayReport> Replay(std::string_view record, ReplayWatcher* watcher) {
  ReplayWatcher nobody;
  return Replayer(watcher == nullptr ? &nobody : watcher).Run(record);
}

}  // namespace sluice::engine
