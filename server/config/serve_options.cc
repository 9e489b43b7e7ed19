#include "server/config/serve_options.h"

#include <boost/program_options.hpp>
#include <sstream>
#include <utility>

#include "sluice_version.h"

namespace sluice::server {
namespace {

namespace po = boost::program_options;

constexpr unsigned kHelpWidth = 100;

constexpr char kUsage[] =
    "Sluice serves language models over HTTP, in the dialect of OpenAI's API.\n"
    "\n"
    "  sluiced serve --model FILE.gguf [options]   load a model and serve it\n"
    "  sluiced serve --help                        all options\n"
    "  sluiced version                             print the version\n"
    "\n"
    "Exit codes: 0 ended by a signal after finishing what ran, 1 could not start or the engine\n"
    "failed, 2 wrong usage, 128+n a second signal n.\n";

// Values as they are written on the command line, before they get their types.
struct Raw {
  std::string activations = "int8";
  std::string kv_dtype = "f16";
  std::string backend = "auto";
  std::string log_level = "info";
  int port = 8000;
  double grace_seconds = 30;
  double header_seconds = 10;
  double body_seconds = 60;
  double idle_seconds = 75;
  double stall_seconds = 30;
};

po::options_description ModelGroup(ServeOptions* o, Raw* raw) {
  engine::ModelOptions& m = o->model;
  po::options_description group("Model", kHelpWidth, kHelpWidth / 2);
  group.add_options()("model,m", po::value(&m.path)->value_name("FILE")->required(),
                      "the model, a GGUF file");
  group.add_options()("served-model-name", po::value(&m.name)->value_name("NAME"),
                      "its name in requests; default: the file's own");
  group.add_options()("context-length",
                      po::value(&m.context_tokens)->value_name("N")->default_value(0),
                      "most tokens of prompt and answer together; 0: the model's own");
  group.add_options()("activations",
                      po::value(&raw->activations)->value_name("int8|f32")->default_value("int8"),
                      "arithmetic of quantised products: int8 is fast, f32 exact");
  group.add_options()("kv-dtype",
                      po::value(&raw->kv_dtype)->value_name("f16|f32")->default_value("f16"),
                      "how keys and values are kept");
  return group;
}

po::options_description EngineGroup(ServeOptions* o, Raw* raw) {
  engine::ModelOptions& m = o->model;
  po::options_description group("Engine", kHelpWidth, kHelpWidth / 2);
  group.add_options()(
      "backend", po::value(&raw->backend)->value_name("auto|cpu|reference")->default_value("auto"),
      "what computes");
  group.add_options()("isa",
                      po::value(&m.isa)->value_name("auto|avx2|avx512")->default_value("auto"),
                      "CPU instruction set");
  group.add_options()("threads", po::value(&m.threads)->value_name("N")->default_value(0),
                      "compute threads; 0: as the cgroup's quota and the affinity allow");
  group.add_options()("max-running",
                      po::value(&m.engine.running_max)->value_name("N")->default_value(64),
                      "answers computed at once");
  group.add_options()("step-tokens",
                      po::value(&m.engine.step_tokens)->value_name("N")->default_value(256),
                      "token budget of one step");
  group.add_options()("max-waiting",
                      po::value(&m.engine.waiting_max)->value_name("N")->default_value(1024),
                      "answers that may wait; more get 429");
  group.add_options()("block-size", po::value(&m.block_size)->value_name("N")->default_value(16),
                      "tokens in a KV block");
  group.add_options()("kv-bytes", po::value(&m.kv_bytes)->value_name("N")->default_value(0),
                      "memory for keys and values; 0: computed from the limits");
  group.add_options()("memory-fraction",
                      po::value(&m.memory_fraction)->value_name("X")->default_value(0.8, "0.8"),
                      "share of the memory limit to use");
  return group;
}

po::options_description HttpGroup(ServeOptions* o, Raw* raw) {
  HttpServerOptions& h = o->front.http;
  po::options_description group("HTTP", kHelpWidth, kHelpWidth / 2);
  const auto seconds = [](double* out, const char* text) {
    return po::value(out)->value_name("S")->default_value(*out, text);
  };
  group.add_options()("host", po::value(&h.host)->value_name("ADDR")->default_value(h.host),
                      "address to listen on");
  group.add_options()("http-port", po::value(&raw->port)->value_name("N")->default_value(8000),
                      "port; 0: one that is free");
  group.add_options()("io-threads", po::value(&h.io_threads)->value_name("N")->default_value(1),
                      "threads for the network");
  group.add_options()("frontend-threads",
                      po::value(&o->front.frontend_threads)->value_name("N")->default_value(2),
                      "threads for reading requests, templates and tokenising");
  group.add_options()("max-connections",
                      po::value(&h.limits.connections)->value_name("N")->default_value(4096),
                      "connections at once; more get 503");
  group.add_options()("max-header-bytes",
                      po::value(&h.limits.header_bytes)->value_name("N")->default_value(32 << 10),
                      "of a request; more: 431");
  group.add_options()("max-body-bytes",
                      po::value(&h.limits.body_bytes)->value_name("N")->default_value(8 << 20),
                      "of a request; more: 413");
  group.add_options()("max-backlog-bytes",
                      po::value(&h.limits.backlog_bytes)->value_name("N")->default_value(256 << 10),
                      "of a stream that wait for a slow reader; more: cancelled");
  group.add_options()("header-timeout", seconds(&raw->header_seconds, "10"),
                      "seconds for a request's headers");
  group.add_options()("body-timeout", seconds(&raw->body_seconds, "60"),
                      "seconds for a request's body");
  group.add_options()("idle-timeout", seconds(&raw->idle_seconds, "75"),
                      "seconds between two requests");
  group.add_options()("stall-timeout", seconds(&raw->stall_seconds, "30"),
                      "seconds that a write may make no progress");
  return group;
}

po::options_description LifeGroup(Raw* raw) {
  po::options_description group("Life", kHelpWidth, kHelpWidth / 2);
  group.add_options()(
      "grace-seconds",
      po::value(&raw->grace_seconds)->value_name("S")->default_value(raw->grace_seconds, "30"),
      "on SIGTERM, time for what runs to finish");
  group.add_options()(
      "log-level",
      po::value(&raw->log_level)->value_name("debug|info|warning|error")->default_value("info"),
      "lines below it are left out");
  group.add_options()("help,h", "print this");
  return group;
}

// One word of a closed list to a value; or which words there are.
template <class T>
absl::Status Choose(const char* flag, const std::string& word,
                    const std::vector<std::pair<const char*, T>>& choices, T* out) {
  std::string all;
  for (const auto& [name, value] : choices) {
    if (word == name) {
      *out = value;
      return absl::OkStatus();
    }
    all += (all.empty() ? "" : ", ") + std::string(name);
  }
  return engine::InvalidArgument("--" + std::string(flag) + ": \"" + word + "\" is not one of " +
                                 all);
}

absl::Status InRange(const char* flag, double value, double low, double high) {
  if (value >= low && value <= high) return absl::OkStatus();
  std::ostringstream text;
  text << "--" << flag << ": " << value << " is not in [" << low << ", " << high << "]";
  return engine::InvalidArgument(text.str());
}

std::chrono::milliseconds Milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

absl::Status CheckEngine(const engine::ModelOptions& m) {
  SLUICE_RETURN_IF_ERROR(InRange("context-length", m.context_tokens, 0, 1 << 24));
  SLUICE_RETURN_IF_ERROR(InRange("threads", m.threads, 0, 1024));
  SLUICE_RETURN_IF_ERROR(InRange("max-running", m.engine.running_max, 1, 4096));
  SLUICE_RETURN_IF_ERROR(InRange("step-tokens", m.engine.step_tokens, 1, 65536));
  SLUICE_RETURN_IF_ERROR(InRange("max-waiting", m.engine.waiting_max, 0, 1 << 20));
  SLUICE_RETURN_IF_ERROR(InRange("block-size", m.block_size, 1, 1024));
  SLUICE_RETURN_IF_ERROR(InRange("kv-bytes", static_cast<double>(m.kv_bytes), 0, 0x1p50));
  return InRange("memory-fraction", m.memory_fraction, 0.01, 1);
}

absl::Status CheckHttp(const ServeOptions& o) {
  const HttpLimits& limits = o.front.http.limits;
  SLUICE_RETURN_IF_ERROR(InRange("io-threads", o.front.http.io_threads, 1, 16));
  SLUICE_RETURN_IF_ERROR(InRange("frontend-threads", o.front.frontend_threads, 1, 64));
  SLUICE_RETURN_IF_ERROR(InRange("max-connections", limits.connections, 1, 1 << 20));
  const auto bytes = [](const char* flag, size_t value, double low) {
    return InRange(flag, static_cast<double>(value), low, 0x1p30);
  };
  SLUICE_RETURN_IF_ERROR(bytes("max-header-bytes", limits.header_bytes, 1024));
  SLUICE_RETURN_IF_ERROR(bytes("max-body-bytes", limits.body_bytes, 1024));
  return bytes("max-backlog-bytes", limits.backlog_bytes, 4096);
}

absl::Status Finish(const Raw& raw, ServeOptions* o) {
  using engine::ActivationChoice;
  using engine::BackendChoice;
  using engine::KvDType;
  using engine::LogLevel;
  SLUICE_RETURN_IF_ERROR(Choose<ActivationChoice>(
      "activations", raw.activations,
      {{"int8", ActivationChoice::kInt8}, {"f32", ActivationChoice::kF32}}, &o->model.activations));
  SLUICE_RETURN_IF_ERROR(Choose<KvDType>("kv-dtype", raw.kv_dtype,
                                         {{"f16", KvDType::kF16}, {"f32", KvDType::kF32}},
                                         &o->model.kv_dtype));
  SLUICE_RETURN_IF_ERROR(Choose<BackendChoice>("backend", raw.backend,
                                               {{"auto", BackendChoice::kAuto},
                                                {"cpu", BackendChoice::kCpu},
                                                {"reference", BackendChoice::kReference}},
                                               &o->model.backend));
  SLUICE_RETURN_IF_ERROR(Choose<LogLevel>("log-level", raw.log_level,
                                          {{"debug", LogLevel::kDebug},
                                           {"info", LogLevel::kInfo},
                                           {"warning", LogLevel::kWarning},
                                           {"error", LogLevel::kError}},
                                          &o->log_level));
  SLUICE_RETURN_IF_ERROR(InRange("http-port", raw.port, 0, 65535));
  o->front.http.port = static_cast<uint16_t>(raw.port);
  SLUICE_RETURN_IF_ERROR(CheckEngine(o->model));
  SLUICE_RETURN_IF_ERROR(CheckHttp(*o));
  SLUICE_RETURN_IF_ERROR(InRange("grace-seconds", raw.grace_seconds, 0, 86400));
  o->grace = Milliseconds(raw.grace_seconds);
  HttpLimits& limits = o->front.http.limits;
  const auto seconds = [](const char* flag, double value, std::chrono::milliseconds* out) {
    SLUICE_RETURN_IF_ERROR(InRange(flag, value, 0.01, 86400));
    *out = Milliseconds(value);
    return absl::OkStatus();
  };
  SLUICE_RETURN_IF_ERROR(seconds("header-timeout", raw.header_seconds, &limits.header_timeout));
  SLUICE_RETURN_IF_ERROR(seconds("body-timeout", raw.body_seconds, &limits.body_timeout));
  SLUICE_RETURN_IF_ERROR(seconds("idle-timeout", raw.idle_seconds, &limits.idle_timeout));
  return seconds("stall-timeout", raw.stall_seconds, &limits.stall_timeout);
}

std::variant<ServeOptions, PrintAndExit> ParseServe(const std::vector<std::string>& arguments) {
  ServeOptions options;
  Raw raw;
  po::options_description all("sluiced serve --model FILE [options]", kHelpWidth, kHelpWidth / 2);
  all.add(ModelGroup(&options, &raw))
      .add(HttpGroup(&options, &raw))
      .add(EngineGroup(&options, &raw))
      .add(LifeGroup(&raw));
  try {
    po::variables_map values;
    // No guessing: an abbreviation that works today may be ambiguous tomorrow.
    constexpr int kStyle =
        po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
    po::store(po::command_line_parser(arguments).options(all).style(kStyle).run(), values);
    if (values.count("help") > 0) {
      std::ostringstream text;
      text << all << "\n";
      return PrintAndExit{text.str(), 0};
    }
    po::notify(values);
  } catch (const po::error& error) {
    return PrintAndExit{std::string("sluiced serve: ") + error.what() +
                            " (sluiced serve --help lists the options)\n",
                        2};
  }
  if (const absl::Status status = Finish(raw, &options); !status.ok()) {
    return PrintAndExit{"sluiced serve: " + engine::Message(status) + "\n", 2};
  }
  options.front.version = SLUICE_VERSION;
  return options;
}

}  // namespace

std::variant<ServeOptions, PrintAndExit> ParseCommandLine(
    const std::vector<std::string>& arguments) {
  const std::string command = arguments.empty() ? "" : arguments[0];
  if (command == "serve") return ParseServe({arguments.begin() + 1, arguments.end()});
  if (command == "version" || command == "--version") {
    return PrintAndExit{std::string("sluiced ") + SLUICE_VERSION + "\n", 0};
  }
  if (command == "help" || command == "--help" || command == "-h") return PrintAndExit{kUsage, 0};
  const std::string why = command.empty() ? "" : "sluiced: no command \"" + command + "\"\n\n";
  return PrintAndExit{why + kUsage, 2};
}

}  // namespace sluice::server
