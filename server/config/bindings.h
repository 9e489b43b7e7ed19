#pragma once

#include <functional>
#include <string>
#include <vector>

#include "server/config/serve_options.h"
#include "server/config/settings/schema.h"

namespace sluice::server::config {

// Where one setting of config.proto lies in ServeOptions.
struct Binding {
  std::string path;  // "http.port"
  std::function<void(const Value&, ServeOptions*)> set;
  std::function<Value(ServeOptions)> get;
};

// One for each setting, in any order. The structs' own defaults are those of config.proto: a test
// compares them.
const std::vector<Binding>& Bindings();

// The settings of sluice.v1.Config.
const Schema& ServeSchema();

}  // namespace sluice::server::config
