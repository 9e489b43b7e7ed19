#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "engine/plan/step_plan.h"
#include "engine/request.h"
#include "engine/scheduler/scheduler.h"

// The format of flight records. A file is kMagic, then records: a kind, a length (varint), so many
// bytes. Numbers are LEB128 varints, signed ones in zigzag; texts are a length and bytes; times are
// nanoseconds of the engine's clock. A reader treats the bytes as hostile.
namespace sluice::engine::record {

inline constexpr std::string_view kMagic = "SLUICE-FLIGHT-2\n";

enum class Kind : uint8_t {
  kOptions = 'O',    // limits and options; the first record of a file
  kDropped = 'D',    // the records before here are gone
  kAdd = 'A',        // Scheduler::Add
  kFinish = 'F',     // Finish
  kFinishAll = 'X',  // FinishAll
  kExpire = 'E',     // Expire
  kPlan = 'P',       // Plan, with a digest of what came out
  kCommit = 'C',     // Commit
};

class Writer {
 public:
  explicit Writer(std::string* out) : out_(out) {}
  void Unsigned(uint64_t value);
  void Signed(int64_t value);
  void Double(double value);
  void Text(std::string_view text);
  void Time(Clock::time_point time) { Signed(time.time_since_epoch().count()); }

 private:
  std::string* out_;
};

// After the first read beyond the end or of a number out of range, all reads give 0 and ok() is
// false.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  uint64_t Unsigned();
  int64_t Signed();
  double Double();
  std::string Text();
  // A number in [low, high].
  int32_t Int(int32_t low, int32_t high);
  bool Bool() { return Unsigned() != 0; }
  // A time that can be subtracted from any other.
  Clock::time_point Time();
  // Such a time, or the greatest there is.
  Clock::time_point Deadline();

  bool ok() const { return ok_; }
  bool at_end() const { return bytes_.empty(); }
  size_t left() const { return bytes_.size(); }
  std::string_view Take(size_t bytes);

 private:
  std::string_view bytes_;
  bool ok_ = true;
};

void WriteOptions(const ExecutorLimits& limits, const Scheduler::Options& options, Writer* out);
bool ReadOptions(Reader* in, ExecutorLimits* limits, Scheduler::Options* options);

// Of a request, what planning depends on; neither its sampling nor its stop strings.
void WriteRequest(const GenerateRequest& request, Writer* out);
bool ReadRequest(Reader* in, const ExecutorLimits& limits, GenerateRequest* request);

void WriteResult(const StepResult& result, Writer* out);
bool ReadResult(Reader* in, StepResult* result);

// Equal for equal plans; 64 bits of it.
uint64_t DigestOf(const StepPlan& plan);

}  // namespace sluice::engine::record
