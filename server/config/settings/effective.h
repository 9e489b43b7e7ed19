#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/config/settings/schema.h"

namespace sluice::server::config {

// One value as a source gives it.
struct Assignment {
  size_t setting = 0;  // index into Schema::settings()
  std::string text;
  std::string place;   // for errors: "sluice.yaml:3", "SLUICE_HTTP_PORT", "--http-port"
  std::string origin;  // for people: "sluice.yaml:3", "env SLUICE_HTTP_PORT", "flag --http-port"
};

// What one source says, and what is wrong with it; each error and warning is one line with its
// place.
struct Reading {
  std::vector<Assignment> assignments;
  std::vector<std::string> errors;
  std::vector<std::string> warnings;
};

// The values that hold, each with where it comes from. `schema` outlives it.
class Effective {
 public:
  explicit Effective(const Schema* schema);

  // Later calls override earlier ones: file, then environment, then flags. Every assignment is
  // checked, also one that a later source overrides; errors name place, value, limits and path.
  void Apply(const std::vector<Assignment>& assignments, std::vector<std::string>* errors);
  // What settings demand of each other.
  void CheckRelations(std::vector<std::string>* errors) const;
  // Settings without which there is nothing to serve.
  void CheckRequired(std::vector<std::string>* errors) const;

  const Schema& schema() const { return *schema_; }
  const Value& value(size_t setting) const { return entries_[setting].value; }
  const std::string& origin(size_t setting) const { return entries_[setting].origin; }

 private:
  struct Entry {
    Value value;
    std::string origin;
  };
  std::string Told(size_t setting) const;

  const Schema* schema_;
  std::vector<Entry> entries_;
};

}  // namespace sluice::server::config
