// The text of a configuration file. What is accepted, printed and read again means the same.
//
// Input: the YAML text.

#include <string>
#include <vector>

#include "server/config/settings/effective.h"
#include "server/config/settings/print.h"
#include "server/config/settings/schema.h"
#include "server/config/settings/yaml_file.h"
#include "sluice/v1/config.pb.h"
#include "tests/fuzz/input.h"

namespace sluice::testing {
namespace {

using namespace server::config;

const Schema& ConfigSchema() {
  static const auto schema = Schema::Of(v1::Config::descriptor());
  Require(schema.ok(), "the schema is sound", engine::Message(schema.status()));
  return *schema;
}

std::string Joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

}  // namespace
}  // namespace sluice::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice::testing;
  const Schema& schema = ConfigSchema();
  Reading reading = ReadYaml(schema, {reinterpret_cast<const char*>(data), size}, "fuzz.yaml");
  Effective effective(&schema);
  effective.Apply(reading.assignments, &reading.errors);
  effective.CheckRelations(&reading.errors);
  for (const std::string& error : reading.errors) {
    Require(!error.empty() && error.find('\n') == std::string::npos, "errors are one line", error);
  }
  if (!reading.errors.empty()) return 0;
  const std::string printed = PrintEffective(effective);
  Reading again = ReadYaml(schema, printed, "printed.yaml");
  Effective same(&schema);
  same.Apply(again.assignments, &again.errors);
  Require(again.errors.empty(), "what is printed can be read", Joined(again.errors) + printed);
  for (size_t i = 0; i < schema.settings().size(); ++i) {
    if (schema.settings()[i].secret) continue;
    Require(same.value(i) == effective.value(i), "what is printed means the same",
            schema.settings()[i].path + "\n" + printed);
  }
  return 0;
}
