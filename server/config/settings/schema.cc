#include "server/config/settings/schema.h"

#include <google/protobuf/descriptor.h>

#include <utility>

#include "server/config/settings/text.h"
#include "sluice/v1/settings.pb.h"

namespace sluice::server::config {
namespace {

using engine::InvalidArgument;
using google::protobuf::FieldDescriptor;

constexpr std::string_view kVariablePrefix = "SLUICE_";

absl::StatusOr<Kind> KindOf(const FieldDescriptor& field, v1::Unit unit) {
  if (field.is_repeated()) {
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) return Kind::kList;
    return InvalidArgument("a list can only be of strings");
  }
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return Kind::kBool;
    case FieldDescriptor::CPPTYPE_STRING:
      return Kind::kText;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return Kind::kReal;
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_INT64:
      if (unit == v1::UNIT_BYTES) return Kind::kBytes;
      if (unit == v1::UNIT_MILLISECONDS) return Kind::kMilliseconds;
      return Kind::kInteger;
    default:
      return InvalidArgument("its type has no form in the configuration");
  }
}

std::string VariableOf(std::string_view path) {
  std::string name(kVariablePrefix);
  for (const char c : path) {
    name += c == '.' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return name;
}

std::string ValueNameOf(const Setting& setting) {
  if (!setting.allowed.empty()) {
    std::string words;
    for (const std::string& word : setting.allowed) words += (words.empty() ? "" : "|") + word;
    return words;
  }
  switch (setting.kind) {
    case Kind::kBool:
      return "true|false";
    case Kind::kReal:
      return "X";
    case Kind::kText:
      return "TEXT";
    case Kind::kBytes:
      return "SIZE";
    case Kind::kMilliseconds:
      return "TIME";
    case Kind::kList:
      return "TEXT,...";
    case Kind::kInteger:
      break;
  }
  return "N";
}

// Limits and default go through the same reader as the user's values.
absl::Status ReadValues(const v1::Setting& option, Setting* setting) {
  const auto limit = [&](const std::string& text, std::optional<Value>* out) -> absl::Status {
    if (text.empty()) return absl::OkStatus();
    SLUICE_ASSIGN_OR_RETURN(*out, ParseValue(*setting, text));
    return absl::OkStatus();
  };
  std::optional<Value> min;
  std::optional<Value> max;
  SLUICE_RETURN_IF_ERROR(limit(option.min(), &min));
  SLUICE_RETURN_IF_ERROR(limit(option.max(), &max));
  setting->min = std::move(min);
  setting->max = std::move(max);
  std::string text = option.default_();
  const bool number = setting->kind != Kind::kText && setting->kind != Kind::kList;
  if (text.empty() && number) {
    text = setting->kind == Kind::kBool ? "false" : "0";
  }
  SLUICE_ASSIGN_OR_RETURN(setting->fallback, ParseValue(*setting, text));
  return absl::OkStatus();
}

absl::StatusOr<Setting> ReadSetting(const std::string& path, const FieldDescriptor& field) {
  if (!field.options().HasExtension(v1::setting)) {
    return InvalidArgument("has no (sluice.v1.setting)");
  }
  const v1::Setting& option = field.options().GetExtension(v1::setting);
  Setting setting;
  setting.path = path;
  setting.flag = option.flag();
  if (option.letter().size() > 1) return InvalidArgument("its letter is not one");
  if (!option.letter().empty()) setting.letter = option.letter()[0];
  setting.variable = VariableOf(path);
  SLUICE_ASSIGN_OR_RETURN(setting.kind, KindOf(field, option.unit()));
  setting.allowed.assign(option.allowed().begin(), option.allowed().end());
  setting.multiple_of = option.multiple_of();
  setting.help = option.help();
  setting.required = option.required();
  setting.secret = option.secret();
  setting.at_least = option.at_least();
  setting.value_name = option.value_name().empty() ? ValueNameOf(setting) : option.value_name();
  SLUICE_RETURN_IF_ERROR(ReadValues(option, &setting));
  return setting;
}

absl::Status At(std::string_view path, const absl::Status& status) {
  return InvalidArgument(std::string(path) + ": " + engine::Message(status));
}

}  // namespace

absl::StatusOr<Schema> Schema::Of(const google::protobuf::Descriptor* message) {
  Schema schema;
  for (int i = 0; i < message->field_count(); ++i) {
    const FieldDescriptor& field = *message->field(i);
    if (field.message_type() == nullptr || field.is_repeated()) {
      return At(field.name(), InvalidArgument("is not a section"));
    }
    SchemaSection section;
    section.path = field.name();
    section.title = field.options().GetExtension(v1::section).title();
    section.begin = schema.settings_.size();
    for (int j = 0; j < field.message_type()->field_count(); ++j) {
      const FieldDescriptor& inner = *field.message_type()->field(j);
      const std::string path = field.name() + "." + inner.name();
      absl::StatusOr<Setting> setting = ReadSetting(path, inner);
      if (!setting.ok()) return At(path, setting.status());
      SLUICE_RETURN_IF_ERROR(schema.Add(*std::move(setting)));
    }
    section.end = schema.settings_.size();
    schema.sections_.push_back(std::move(section));
  }
  SLUICE_RETURN_IF_ERROR(schema.CheckRelations());
  return schema;
}

absl::Status Schema::Add(Setting setting) {
  const size_t index = settings_.size();
  const auto add = [&](Names* names, std::string name) -> absl::Status {
    if (name.empty() || names->emplace(name, index).second) return absl::OkStatus();
    return At(setting.path, InvalidArgument("the name " + name + " is taken"));
  };
  SLUICE_RETURN_IF_ERROR(add(&paths_, setting.path));
  SLUICE_RETURN_IF_ERROR(add(&flags_, setting.flag));
  SLUICE_RETURN_IF_ERROR(add(&letters_, std::string(setting.letter == 0 ? 0 : 1, setting.letter)));
  SLUICE_RETURN_IF_ERROR(add(&variables_, setting.variable));
  settings_.push_back(std::move(setting));
  return absl::OkStatus();
}

absl::Status Schema::CheckRelations() const {
  for (const Setting& setting : settings_) {
    if (setting.at_least.empty()) continue;
    const int other = FindPath(setting.at_least);
    if (other < 0 || settings_[other].kind != setting.kind) {
      return At(setting.path, InvalidArgument("can't be compared with " + setting.at_least));
    }
  }
  return absl::OkStatus();
}

int Schema::Find(const Names& names, std::string_view name) {
  const auto found = names.find(name);
  return found == names.end() ? -1 : static_cast<int>(found->second);
}

bool Schema::IsSection(std::string_view path) const {
  for (const SchemaSection& section : sections_) {
    if (section.path == path) return true;
  }
  return false;
}

std::string Schema::NearestPath(std::string_view path) const {
  const std::string_view last = path.substr(path.rfind('.') + 1);  // npos + 1 is 0
  std::vector<std::string> candidates;
  for (const Setting& setting : settings_) {
    if (setting.path.substr(setting.path.rfind('.') + 1) == last || setting.flag == last) {
      return setting.path;
    }
    candidates.push_back(setting.path);
  }
  for (const SchemaSection& section : sections_) candidates.push_back(section.path);
  return Nearest(path, candidates);
}

}  // namespace sluice::server::config
