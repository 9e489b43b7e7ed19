#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "server/config/settings/setting.h"

namespace google::protobuf {
class Descriptor;
}

namespace sluice::server::config {

struct SchemaSection {
  std::string path;   // "http"
  std::string title;  // "HTTP"
  size_t begin = 0;   // settings()[begin, end) are its own
  size_t end = 0;
};

// All that can be set, read from a message's descriptor and the options of sluice/v1/settings.proto
// on its fields. Sections are its message fields, one level; settings are their scalar fields and
// lists of strings. Immutable.
class Schema {
 public:
  // InvalidArgument, naming the field, when the description contradicts itself: no option, a
  // default out of range, two settings with one flag or variable. That is an error of the program.
  static absl::StatusOr<Schema> Of(const google::protobuf::Descriptor* message);

  const std::vector<Setting>& settings() const { return settings_; }
  const std::vector<SchemaSection>& sections() const { return sections_; }

  // Index into settings(), or -1.
  int FindPath(std::string_view path) const { return Find(paths_, path); }
  int FindFlag(std::string_view flag) const { return Find(flags_, flag); }
  int FindLetter(char letter) const { return Find(letters_, std::string_view(&letter, 1)); }
  int FindVariable(std::string_view name) const { return Find(variables_, name); }
  bool IsSection(std::string_view path) const;

  // The path that a wrong one was probably meant to be; empty when none is near. A setting of that
  // very name in another section counts as near.
  std::string NearestPath(std::string_view path) const;

 private:
  using Names = std::map<std::string, size_t, std::less<>>;

  static int Find(const Names& names, std::string_view name);
  absl::Status Add(Setting setting);
  absl::Status CheckRelations() const;

  std::vector<Setting> settings_;
  std::vector<SchemaSection> sections_;
  Names paths_;
  Names flags_;
  Names letters_;
  Names variables_;
};

}  // namespace sluice::server::config
