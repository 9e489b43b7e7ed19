#include "server/config/command_line.h"

#include <set>
#include <utility>

#include "server/config/bindings.h"
#include "server/config/settings/environment.h"
#include "server/config/settings/flags.h"
#include "server/config/settings/print.h"
#include "server/config/settings/yaml_file.h"
#include "server/config/tenants.h"
#include "sluice_version.h"

namespace sluice::server {
namespace {

using config::Effective;
using config::Flags;
using config::Reading;

constexpr char kUsage[] =
    "Sluice serves language models over HTTP, in the dialect of OpenAI's API, and gRPC.\n"
    "\n"
    "  sluiced serve --model FILE.gguf [options]   load a model and serve it\n"
    "  sluiced serve --help                        all options, and where else they can be set\n"
    "  sluiced config [options]                    print the configuration that serve would use\n"
    "  sluiced config --defaults                   print a configuration file with every setting\n"
    "  sluiced replay FILE                         plan again what a flight record holds\n"
    "  sluiced simulate --help                     what a server would do with a load\n"
    "  sluiced version                             print the version\n"
    "\n";

constexpr char kExitCodes[] =
    "Exit codes:\n"
    "  0      ended by SIGTERM or SIGINT\n"
    "  1      could not load the model or open a port, or the engine failed\n"
    "  2      wrong usage or configuration; nothing was loaded\n"
    "  128+n  ended at once by a second signal n\n";

constexpr char kSources[] =
    "Where a setting comes from, the first that has it:\n"
    "  flags         --http-port 9000, or --set http.port=9000 for any setting\n"
    "  environment   SLUICE_ and the path in upper case: SLUICE_HTTP_PORT=9000; empty: not set\n"
    "  file          --config FILE or SLUICE_CONFIG, YAML: the sections and names that\n"
    "                sluiced config --defaults prints\n"
    "  the default\n"
    "\n"
    "SIZE is a number of bytes, or with a unit: 64KiB, 8MiB, 1.5GiB, 2GB. TIME is a number of\n"
    "seconds, or with a unit: 500ms, 30s, 5m, 1h. TEXT has no control characters.\n"
    "\n";

std::string GeneralOptions(bool prints) {
  std::string out = "General:\n";
  out += config::OptionLine("--config FILE", "a configuration file, YAML");
  out += config::OptionLine("--set PATH=VALUE", "any setting by its path; may be given often");
  if (prints) {
    out += config::OptionLine("--defaults",
                              "print a file of all settings with their meaning and defaults");
  }
  out += config::OptionLine("-h, --help", "print this");
  return out + "\n";
}

std::string Help(bool prints) {
  std::string out =
      prints
          ? "sluiced config [options]\n\nPrints the configuration that `sluiced serve` would use "
            "with the same options and environment,\nas YAML that it can read, with where each "
            "value comes from. Secrets are not shown.\n\n"
          : "sluiced serve --model FILE [options]\n\n";
  out += GeneralOptions(prints) + config::PrintOptions(config::ServeSchema()) + kSources;
  return out + kExitCodes;
}

// All sources, in the order of their weight.
Effective Merge(const Flags& flags, const std::vector<std::string>& environment,
                std::vector<std::string>* errors, std::vector<std::string>* warnings) {
  const config::Schema& schema = config::ServeSchema();
  std::string file = flags.config_file;
  if (file.empty()) file = config::VariableIn(environment, config::kConfigVariable);
  Effective effective(&schema);
  const auto apply = [&](const Reading& reading) {
    errors->insert(errors->end(), reading.errors.begin(), reading.errors.end());
    warnings->insert(warnings->end(), reading.warnings.begin(), reading.warnings.end());
    effective.Apply(reading.assignments, errors);
  };
  if (!file.empty()) apply(config::ReadYamlFile(schema, file));
  apply(config::ReadEnvironment(schema, environment));
  apply(flags.reading);
  if (errors->empty()) effective.CheckRelations(errors);
  return effective;
}

std::variant<ServeOptions, PrintAndExit> ParseServe(const std::vector<std::string>& arguments,
                                                    const std::vector<std::string>& environment) {
  const Flags flags = config::ReadFlags(config::ServeSchema(), arguments, {"help"});
  if (flags.switches.contains("help")) return PrintAndExit{Help(false), 0, ""};
  std::vector<std::string> errors;
  ServeOptions options;
  const Effective effective = Merge(flags, environment, &errors, &options.warnings);
  if (errors.empty()) effective.CheckRequired(&errors);
  if (!errors.empty()) return UsageError("serve", errors);
  for (const config::Binding& binding : config::Bindings()) {
    binding.set(effective.value(effective.schema().FindPath(binding.path)), &options);
  }
  engine::EngineOptions& engine = options.model.engine;
  const absl::Status tenants =
      config::ParseTenants(options.tenants, &engine.tenants, &engine.other_tenants);
  if (!tenants.ok()) return UsageError("serve", {engine::Message(tenants)});
  // Headers come in lower case, and gRPC's metadata has no other.
  for (char& c : options.front.caps.tenant_header) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  options.front.version = SLUICE_VERSION;
  return options;
}

PrintAndExit ParseConfig(const std::vector<std::string>& arguments,
                         const std::vector<std::string>& environment) {
  const config::Schema& schema = config::ServeSchema();
  const Flags flags = config::ReadFlags(schema, arguments, {"help", "defaults"});
  if (flags.switches.contains("help")) return {Help(true), 0, ""};
  std::vector<std::string> errors;
  std::vector<std::string> warnings;
  const Effective effective = Merge(flags, environment, &errors, &warnings);
  if (!errors.empty()) return UsageError("config", errors);
  if (flags.switches.contains("defaults")) {
    return {
        "# Every setting of sluiced with its default, as `sluiced config --defaults` prints it."
        "\n# A file needs only what differs: sluiced serve --config FILE\n" +
            config::PrintDocumented(schema),
        0, ""};
  }
  return {std::string("# sluiced ") + SLUICE_VERSION +
              ": the configuration that holds, and where each value comes from\n" +
              config::PrintEffective(effective),
          0, Lines("warning: ", warnings)};
}

}  // namespace

std::variant<ServeOptions, ReplayFile, SimulateOptions, PrintAndExit> ParseCommandLine(
    const std::vector<std::string>& arguments, const std::vector<std::string>& environment) {
  const std::string command = arguments.empty() ? "" : arguments[0];
  const std::vector<std::string> rest(arguments.begin() + (arguments.empty() ? 0 : 1),
                                      arguments.end());
  if (command == "serve") {
    auto parsed = ParseServe(rest, environment);
    if (auto* options = std::get_if<ServeOptions>(&parsed)) return std::move(*options);
    return std::get<PrintAndExit>(std::move(parsed));
  }
  if (command == "config") return ParseConfig(rest, environment);
  if (command == "replay") {
    if (rest.size() == 1 && rest[0][0] != '-') return ReplayFile{rest[0]};
    return PrintAndExit{"sluiced replay: one FILE is due\n", 2, ""};
  }
  if (command == "simulate") {
    auto parsed = ParseSimulate(rest);
    if (auto* options = std::get_if<SimulateOptions>(&parsed)) return std::move(*options);
    return std::get<PrintAndExit>(std::move(parsed));
  }
  if (command == "version" || command == "--version") {
    return PrintAndExit{std::string("sluiced ") + SLUICE_VERSION + "\n", 0, ""};
  }
  const std::string usage = std::string(kUsage) + kExitCodes;
  if (command == "help" || command == "--help" || command == "-h") {
    return PrintAndExit{usage, 0, ""};
  }
  const std::string why = command.empty() ? "" : "sluiced: no command \"" + command + "\"\n\n";
  return PrintAndExit{why + usage, 2, ""};
}

}  // namespace sluice::server
