#include "engine/record/flight_recorder.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace sluice::engine {

using record::Kind;
using record::Writer;

namespace {

constexpr size_t kSegmentBytes = size_t{256} << 10;

void AppendRecord(Kind kind, std::string_view payload, std::string* out) {
  out->push_back(static_cast<char>(kind));
  Writer(out).Text(payload);
}

}  // namespace

FlightRecorder::FlightRecorder(size_t bytes_max, const ExecutorLimits& limits,
                               const Scheduler::Options& options)
    : bytes_max_(bytes_max) {
  if (!on()) return;
  std::string payload;
  Writer writer(&payload);
  record::WriteOptions(limits, options, &writer);
  AppendRecord(Kind::kOptions, payload, &options_);
}

Writer FlightRecorder::Begin() {
  scratch_.clear();
  return Writer(&scratch_);
}

void FlightRecorder::End(Kind kind) {
  if (segments_.empty() || segments_.back().size() >= kSegmentBytes) {
    segments_.emplace_back();
    segments_.back().reserve(kSegmentBytes + scratch_.size());
  }
  std::string& segment = segments_.back();
  const size_t before = segment.size();
  AppendRecord(kind, scratch_, &segment);
  bytes_ += segment.size() - before;
  while (bytes_ > bytes_max_ && segments_.size() > 1) {
    bytes_ -= segments_.front().size();
    segments_.pop_front();
    dropped_ = true;
  }
}

void FlightRecorder::OnAdd(uint64_t id, const GenerateRequest& request, int32_t choice) {
  if (!on()) return;
  Writer writer = Begin();
  writer.Unsigned(id);
  writer.Signed(choice);
  record::WriteRequest(request, &writer);
  End(Kind::kAdd);
}

void FlightRecorder::OnFinish(uint64_t id, FinishReason reason, Clock::time_point now) {
  if (!on()) return;
  Writer writer = Begin();
  writer.Unsigned(id);
  writer.Signed(static_cast<int64_t>(reason));
  writer.Time(now);
  End(Kind::kFinish);
}

void FlightRecorder::OnFinishAll(FinishReason reason, Clock::time_point now) {
  if (!on()) return;
  Writer writer = Begin();
  writer.Signed(static_cast<int64_t>(reason));
  writer.Time(now);
  End(Kind::kFinishAll);
}

void FlightRecorder::OnExpire(Clock::time_point now) {
  if (!on()) return;
  Begin().Time(now);
  End(Kind::kExpire);
}

void FlightRecorder::OnPlan(const StepPlan& plan, Clock::time_point now) {
  if (!on()) return;
  Writer writer = Begin();
  writer.Time(now);
  writer.Unsigned(plan.step);
  writer.Unsigned(plan.slices.size());
  writer.Unsigned(plan.tokens.size());
  writer.Unsigned(record::DigestOf(plan));
  End(Kind::kPlan);
}

void FlightRecorder::OnCommit(const StepResult& result, Clock::time_point now) {
  if (!on()) return;
  Writer writer = Begin();
  writer.Time(now);
  record::WriteResult(result, &writer);
  End(Kind::kCommit);
}

std::string FlightRecorder::Contents() const {
  std::string contents(record::kMagic);
  contents += options_;
  if (dropped_) AppendRecord(Kind::kDropped, "", &contents);
  for (const std::string& segment : segments_) contents += segment;
  return contents;
}

absl::Status FlightRecorder::WriteTo(const std::string& path) const {
  const std::string contents = Contents();
  const std::string part = path + ".part";
  std::FILE* file = std::fopen(part.c_str(), "wb");
  bool good = file != nullptr;
  if (good) {
    good = std::fwrite(contents.data(), 1, contents.size(), file) == contents.size();
    good = std::fclose(file) == 0 && good;
  }
  good = good && std::rename(part.c_str(), path.c_str()) == 0;
  if (good) return absl::OkStatus();
  const std::string why = std::strerror(errno);
  std::remove(part.c_str());
  return Internal("can't write " + path + ": " + why);
}

}  // namespace sluice::engine
