#include "engine/record/record_codec.h"

#include <bit>
#include <cstring>

namespace sluice::engine::record {
namespace {

constexpr int32_t kIntMax = INT32_MAX;

void WriteShare(const TenantShare& share, Writer* out) {
  out->Double(share.weight);
  out->Signed(share.running_max);
  out->Signed(share.open_max);
  out->Double(share.kv_fraction);
  out->Double(share.first_token_target);
  out->Double(share.inter_token_target);
}

void ReadShare(Reader* in, TenantShare* share) {
  share->weight = in->Double();
  share->running_max = in->Int(0, kIntMax);
  share->open_max = in->Int(0, kIntMax);
  share->kv_fraction = in->Double();
  share->first_token_target = in->Double();
  share->inter_token_target = in->Double();
}

void WriteInts(const std::vector<int32_t>& values, Writer* out) {
  out->Unsigned(values.size());
  for (const int32_t value : values) out->Signed(value);
}

// Each takes a byte at least, so the bytes left bound their number.
void ReadInts(Reader* in, int32_t low, int32_t high, std::vector<int32_t>* values) {
  const uint64_t count = in->Unsigned();
  if (count > in->left()) {
    in->Take(in->left() + 1);
    return;
  }
  values->resize(count);
  for (int32_t& value : *values) value = in->Int(low, high);
}

class Digest {
 public:
  void Add(int64_t value) {
    hash_ = (hash_ ^ static_cast<uint64_t>(value)) * 0x9e3779b97f4a7c15u;
    hash_ ^= hash_ >> 29;
  }
  template <typename Values>
  void AddAll(const Values& values) {
    Add(static_cast<int64_t>(values.size()));
    for (const auto value : values) Add(value);
  }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 0x2545f4914f6cdd1du;
};

}  // namespace

void Writer::Unsigned(uint64_t value) {
  for (; value >= 0x80; value >>= 7) out_->push_back(static_cast<char>(value | 0x80));
  out_->push_back(static_cast<char>(value));
}

void Writer::Signed(int64_t value) {
  Unsigned((static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63));
}

void Writer::Double(double value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out_->append(bytes, sizeof value);
}

void Writer::Text(std::string_view text) {
  Unsigned(text.size());
  out_->append(text);
}

std::string_view Reader::Take(size_t bytes) {
  if (!ok_ || bytes > bytes_.size()) {
    ok_ = false;
    bytes_ = {};
    return {};
  }
  const std::string_view taken = bytes_.substr(0, bytes);
  bytes_.remove_prefix(bytes);
  return taken;
}

uint64_t Reader::Unsigned() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const std::string_view byte = Take(1);
    if (byte.empty()) return 0;
    const auto bits = static_cast<uint8_t>(byte[0]);
    value |= static_cast<uint64_t>(bits & 0x7f) << shift;
    if (bits < 0x80) return value;
  }
  Take(bytes_.size() + 1);
  return 0;
}

int64_t Reader::Signed() {
  const uint64_t value = Unsigned();
  return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
}

double Reader::Double() {
  double value = 0;
  const std::string_view bytes = Take(sizeof value);
  if (!bytes.empty()) std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

Clock::time_point Reader::Time() {
  constexpr int64_t kMost = int64_t{1} << 61;
  const int64_t value = Signed();
  if (value > -kMost && value < kMost) return Clock::time_point(Clock::duration(value));
  Take(bytes_.size() + 1);
  return {};
}

Clock::time_point Reader::Deadline() {
  Reader ahead = *this;
  if (ahead.Signed() != Clock::time_point::max().time_since_epoch().count()) return Time();
  *this = ahead;
  return Clock::time_point::max();
}

std::string Reader::Text() { return std::string(Take(Unsigned())); }

int32_t Reader::Int(int32_t low, int32_t high) {
  const int64_t value = Signed();
  if (value >= low && value <= high) return static_cast<int32_t>(value);
  Take(bytes_.size() + 1);
  return low > 0 ? low : 0;
}

void WriteOptions(const ExecutorLimits& limits, const Scheduler::Options& options, Writer* out) {
  for (const int32_t value : {limits.slots, limits.step_tokens, limits.kv_blocks, limits.block_size,
                              limits.context_tokens, limits.vocabulary, options.running_max,
                              options.step_tokens, options.prefills_max, options.prefill_tokens_min,
                              options.line.tenants_max, int32_t{options.share_prefixes}})
    out->Signed(value);
  for (const double value :
       {options.inter_token_target, options.first_token_target, options.line.patience_seconds,
        options.line.generated_weight, options.line.saved_service})
    out->Double(value);
  WriteInts(options.end_ids, out);
  WriteShare(options.line.other, out);
  out->Unsigned(options.line.tenants.size());
  for (const auto& [name, share] : options.line.tenants) {
    out->Text(name);
    WriteShare(share, out);
  }
}

bool ReadOptions(Reader* in, ExecutorLimits* limits, Scheduler::Options* options) {
  constexpr int32_t kSizeMax = 1 << 26;  // blocks, slots: what a scheduler's tables may be made of
  limits->slots = in->Int(1, 1 << 16);
  limits->step_tokens = in->Int(1, kSizeMax);
  limits->kv_blocks = in->Int(1, kSizeMax);
  limits->block_size = in->Int(1, 1 << 12);
  limits->context_tokens = in->Int(2, kIntMax);
  limits->vocabulary = in->Int(1, kIntMax);
  options->running_max = in->Int(1, kIntMax);
  options->step_tokens = in->Int(1, kIntMax);
  options->prefills_max = in->Int(1, kIntMax);
  options->prefill_tokens_min = in->Int(0, kIntMax);
  options->line.tenants_max = in->Int(1, 1 << 20);
  options->share_prefixes = in->Int(0, 1) != 0;
  options->inter_token_target = in->Double();
  options->first_token_target = in->Double();
  options->line.patience_seconds = in->Double();
  options->line.generated_weight = in->Double();
  options->line.saved_service = in->Double();
  ReadInts(in, 0, kIntMax, &options->end_ids);
  ReadShare(in, &options->line.other);
  for (uint64_t left = in->Unsigned(); left > 0 && in->ok(); --left) {
    const std::string name = in->Text();
    ReadShare(in, &options->line.tenants[name]);
  }
  // The tables' memory: tokens of all blocks.
  return in->ok() && int64_t{limits->kv_blocks} * limits->block_size <= (int64_t{1} << 30);
}

void WriteRequest(const GenerateRequest& request, Writer* out) {
  WriteInts(request.prompt, out);
  out->Signed(request.stop.max_tokens);
  out->Signed(request.stop.min_tokens);
  out->Unsigned(request.stop.ignore_eos ? 1 : 0);
  WriteInts(request.stop.token_ids, out);
  out->Signed(request.n);
  out->Unsigned(request.sampling.UsesPenalties() ? 1 : 0);
  out->Text(request.cache_salt);
  out->Text(request.tenant);
  out->Signed(request.priority);
  out->Double(request.first_token_target);
  out->Double(request.inter_token_target);
  out->Time(request.arrival);
  out->Time(request.deadline);
}

bool ReadRequest(Reader* in, const ExecutorLimits& limits, GenerateRequest* request) {
  ReadInts(in, 0, limits.vocabulary - 1, &request->prompt);
  request->stop.max_tokens = in->Int(1, kIntMax);
  request->stop.min_tokens = in->Int(0, kIntMax);
  request->stop.ignore_eos = in->Bool();
  ReadInts(in, 0, kIntMax, &request->stop.token_ids);
  request->n = in->Int(1, 1 << 16);
  if (in->Bool()) request->sampling.frequency_penalty = 1;
  request->cache_salt = in->Text();
  request->tenant = in->Text();
  request->priority = in->Int(INT32_MIN, kIntMax);
  request->first_token_target = in->Double();
  request->inter_token_target = in->Double();
  request->arrival = in->Time();
  request->deadline = in->Deadline();
  return in->ok();
}

void WriteResult(const StepResult& result, Writer* out) {
  out->Unsigned(result.step);
  out->Double(result.seconds);
  out->Unsigned(result.slices.size());
  for (const SliceResult& slice : result.slices) {
    out->Signed(slice.slot);
    out->Signed(slice.token);
    out->Unsigned(static_cast<uint64_t>(slice.status));
  }
}

bool ReadResult(Reader* in, StepResult* result) {
  result->step = in->Unsigned();
  result->seconds = in->Double();
  result->slices.clear();
  for (uint64_t left = in->Unsigned(); left > 0 && in->ok(); --left) {
    SliceResult slice;
    slice.slot = in->Int(0, kIntMax);
    slice.token = in->Int(-1, kIntMax);
    slice.status = in->Bool() ? SliceStatus::kNonFinite : SliceStatus::kOk;
    result->slices.push_back(slice);
  }
  return in->ok();
}

uint64_t DigestOf(const StepPlan& plan) {
  Digest digest;
  digest.Add(static_cast<int64_t>(plan.step));
  digest.AddAll(plan.releases);
  for (const SlotStart& start : plan.starts) {
    digest.Add(start.slot);
    digest.Add(start.prompt_tokens);
    digest.AddAll(start.history);
  }
  for (const BlockAppend& append : plan.appends) {
    for (const int32_t value : {append.slot, append.begin, append.count}) digest.Add(value);
  }
  for (const BlockCopy& copy : plan.copies) {
    for (const int32_t value : {copy.from, copy.to}) digest.Add(value);
  }
  for (const PlanSlice& slice : plan.slices) {
    for (const int32_t value : {slice.slot, slice.first_position, slice.token_begin, slice.count,
                                static_cast<int32_t>(slice.output), slice.generated})
      digest.Add(value);
  }
  digest.AddAll(plan.blocks);
  digest.AddAll(plan.tokens);
  return digest.value();
}

}  // namespace sluice::engine::record
