#include "server/config/settings/effective.h"

namespace sluice::server::config {

Effective::Effective(const Schema* schema) : schema_(schema) {
  for (const Setting& setting : schema->settings()) {
    entries_.push_back({setting.fallback, "default"});
  }
}

void Effective::Apply(const std::vector<Assignment>& assignments,
                      std::vector<std::string>* errors) {
  for (const Assignment& assignment : assignments) {
    const Setting& setting = schema_->settings()[assignment.setting];
    absl::StatusOr<Value> value = ParseValue(setting, assignment.text);
    if (!value.ok()) {
      errors->push_back(assignment.place + ": " + engine::Message(value.status()) + " (" +
                        setting.path + ")");
      continue;
    }
    entries_[assignment.setting] = {*std::move(value), assignment.origin};
  }
}

std::string Effective::Told(size_t setting) const {
  const Setting& s = schema_->settings()[setting];
  return s.path + " = " + (s.secret ? "(secret)" : PrintValue(s, value(setting))) + " (" +
         origin(setting) + ")";
}

void Effective::CheckRelations(std::vector<std::string>* errors) const {
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Setting& setting = schema_->settings()[i];
    if (setting.at_least.empty()) continue;
    const size_t other = schema_->FindPath(setting.at_least);
    if (value(i) < value(other)) {
      errors->push_back(Told(i) + " may not be less than " + Told(other));
    }
  }
}

void Effective::CheckRequired(std::vector<std::string>* errors) const {
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Setting& setting = schema_->settings()[i];
    if (!setting.required || value(i) != Value(std::string())) continue;
    errors->push_back(setting.path + " has no value: give it by --" + setting.flag + " " +
                      setting.value_name + ", " + setting.variable + " or in the file");
  }
}

}  // namespace sluice::server::config
