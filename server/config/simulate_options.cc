#include "server/config/simulate_options.h"

#include <array>
#include <charconv>
#include <utility>

#include "engine/base/check.h"
#include "server/config/settings/flags.h"
#include "server/config/settings/print.h"
#include "sluice/v1/simulate.pb.h"

namespace sluice::server {
namespace {

using config::Effective;
using config::Schema;

constexpr char kHelp[] =
    "sluiced simulate --trace FILE (--record FILE | --cost S,T,P,Q,C) [options]\n"
    "sluiced simulate --record FILE --arrivals-from-record [options]\n"
    "\n"
    "Says what a server would do with a load: runs the requests of a trace through the scheduler "
    "on\n"
    "a virtual clock and prints throughput, latencies and memory use. A flight record\n"
    "(engine.flight_record_path, SIGUSR1) of a real server tells its limits and how long its "
    "steps\n"
    "take; options override the limits. With --arrivals-from-record the record's own requests are\n"
    "simulated, and what it measured is printed beside.\n"
    "\n";

constexpr char kEnd[] =
    "TIME is a number of seconds, or with a unit: 500ms, 30s, 5m, 1h. Latencies are the engine's,\n"
    "without the network. Answers of a trace are as long as it says.\n"
    "\n"
    "Exit codes:\n"
    "  0  simulated\n"
    "  2  wrong usage, or a file that can't be read\n";

const Schema& SimulateSchema() {
  static const Schema schema = [] {
    auto made = Schema::Of(v1::Simulation::descriptor());
    ENGINE_CHECK(made.ok()) << "simulate.proto: " << engine::Message(made.status());
    return *std::move(made);
  }();
  return schema;
}

std::string Help() {
  std::string out = kHelp;
  out += "General:\n";
  out += config::OptionLine("--no-scatter", "every step takes the mean time of its like");
  out += config::OptionLine("--json", "print JSON");
  out += config::OptionLine("-h, --help", "print this");
  return out + "\n" + config::PrintOptions(SimulateSchema()) + kEnd;
}

// Values by path.
class Values {
 public:
  explicit Values(const Effective& effective) : effective_(effective) {}

  const std::string& Text(const char* path) const { return Get<std::string>(path); }
  int64_t Whole(const char* path) const { return Get<int64_t>(path); }
  double Seconds(const char* path) const { return static_cast<double>(Whole(path)) / 1e3; }
  double Real(const char* path) const { return Get<double>(path); }
  bool Truth(const char* path) const { return Get<bool>(path); }
  bool IsSet(const char* path) const { return effective_.origin(IndexOf(path)) != "default"; }
  // Zero stands for none.
  std::optional<int32_t> Count(const char* path) const {
    const int64_t value = Whole(path);
    if (value == 0) return std::nullopt;
    return static_cast<int32_t>(value);
  }

 private:
  size_t IndexOf(const char* path) const {
    const int index = effective_.schema().FindPath(path);
    ENGINE_CHECK(index >= 0) << path;
    return static_cast<size_t>(index);
  }
  template <class T>
  const T& Get(const char* path) const {
    return std::get<T>(effective_.value(IndexOf(path)));
  }

  const Effective& effective_;
};

// Five numbers of microseconds, none below zero and not all zero.
std::optional<engine::StepCost> ReadCost(const std::string& text) {
  constexpr double kMost = 1e9;
  std::array<double, engine::kStepTerms> terms{};
  const char* next = text.data();
  const char* end = next + text.size();
  double sum = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    if (i > 0 && (next == end || *next++ != ',')) return std::nullopt;
    const auto [stop, error] = std::from_chars(next, end, terms[i]);
    if (error != std::errc() || !(terms[i] >= 0 && terms[i] <= kMost)) return std::nullopt;
    sum += terms[i];
    next = stop;
  }
  if (next != end || sum == 0) return std::nullopt;
  return engine::StepCost{terms[0] * 1e-6, terms[1] * 1e-6, terms[2] * 1e-6, terms[3] * 1e-6,
                          terms[4] * 1e-6};
}

engine::TraceFormat FormatNamed(const std::string& name) {
  using engine::TraceFormat;
  for (const TraceFormat format :
       {TraceFormat::kMooncake, TraceFormat::kAzure, TraceFormat::kBurstGpt}) {
    if (name == NameOf(format)) return format;
  }
  return TraceFormat::kAuto;
}

void ReadServer(const Values& values, SimulateOptions* options) {
  options->record_path = values.Text("server.record");
  options->running_max = values.Count("server.max_running");
  options->step_tokens = values.Count("server.step_tokens");
  options->kv_blocks = values.Count("server.kv_blocks");
  options->block_size = values.Count("server.block_tokens");
  options->context_tokens = values.Count("server.context_tokens");
  options->prefills_max = values.Count("server.max_prefills");
  options->steps_in_flight = values.Count("server.steps_in_flight");
  // No target is a choice, too.
  if (values.IsSet("server.inter_token_target"))
    options->inter_token_target = values.Seconds("server.inter_token_target");
  if (const std::string& share = values.Text("server.share_prefixes"); share != "auto")
    options->share_prefixes = share == "true";
  options->waiting_max = static_cast<int32_t>(values.Whole("server.max_waiting"));
}

void ReadLoad(const Values& values, SimulateOptions* options, std::vector<std::string>* errors) {
  options->trace_path = values.Text("load.trace");
  options->trace.format = FormatNamed(values.Text("load.format"));
  options->trace.requests_max = values.Whole("load.requests");
  if (values.Whole("load.duration") > 0)
    options->trace.seconds_max = values.Seconds("load.duration");
  options->speed = values.Real("load.speed");
  options->think_time_max = values.Seconds("load.think_time_max");
  const bool recorded = values.Truth("load.recorded");
  if (recorded == !options->trace_path.empty())
    errors->push_back("one of --trace FILE and --arrivals-from-record is due");
  if (recorded && options->record_path.empty())
    errors->push_back("--arrivals-from-record: needs --record FILE");
  for (const char* path : {"load.requests", "load.duration", "load.format"}) {
    if (recorded && values.IsSet(path))
      errors->push_back(std::string(path) + " is of a trace, not of a record");
  }
  if (!recorded && values.IsSet("load.think_time_max"))
    errors->push_back("--think-time-max: needs --arrivals-from-record");
}

}  // namespace

std::variant<SimulateOptions, PrintAndExit> ParseSimulate(
    const std::vector<std::string>& arguments) {
  const Schema& schema = SimulateSchema();
  const config::Flags flags = config::ReadFlags(schema, arguments, {"help", "json", "no-scatter"});
  if (flags.switches.contains("help")) return PrintAndExit{Help(), 0, ""};
  std::vector<std::string> errors = flags.reading.errors;
  if (!flags.config_file.empty()) errors.push_back("--config: simulate reads no configuration");
  Effective effective(&schema);
  effective.Apply(flags.reading.assignments, &errors);
  if (!errors.empty()) return UsageError("simulate", errors);

  const Values values(effective);
  SimulateOptions options;
  ReadServer(values, &options);
  ReadLoad(values, &options, &errors);
  const std::string& cost = values.Text("time.cost");
  if (!cost.empty()) {
    options.cost = ReadCost(cost);
    if (!options.cost)
      errors.push_back("--cost: \"" + cost +
                       "\" is not five numbers of microseconds from 0 to 1e9, parted by commas");
  } else if (options.record_path.empty()) {
    errors.push_back("one of --record FILE and --cost S,T,P,Q,C is due");
  }
  options.seed = static_cast<uint64_t>(values.Whole("time.seed"));
  options.scatter = !flags.switches.contains("no-scatter");
  options.json = flags.switches.contains("json");
  options.targets.first_token = values.Seconds("targets.first_token");
  options.targets.inter_token = values.Seconds("targets.inter_token");
  if (!errors.empty()) return UsageError("simulate", errors);
  return options;
}

}  // namespace sluice::server
