#include "server/config/settings/print.h"

#include <algorithm>
#include <string_view>

namespace sluice::server::config {
namespace {

constexpr size_t kWidth = 100;
constexpr size_t kTextColumn = 44;
constexpr size_t kCommentColumn = 40;

// Breaks at spaces; each line after `first` columns of the first begins with `indent`.
std::string Wrapped(std::string_view text, size_t first, const std::string& indent) {
  std::string out;
  size_t column = first;
  bool begin = true;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (!begin && column + 1 + end > kWidth) {
      out += "\n" + indent;
      column = indent.size();
      begin = true;
    }
    if (!begin) {
      out += ' ';
      ++column;
    }
    out += text.substr(0, end);
    column += end;
    begin = false;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::string KeyOf(const Setting& setting) {
  return setting.path.substr(setting.path.rfind('.') + 1);
}

std::string FlagsOf(const Setting& setting) {
  if (setting.flag.empty()) return "--set " + setting.path + "=" + setting.value_name;
  std::string flags = "--" + setting.flag;
  if (setting.letter != 0) flags = "-" + std::string(1, setting.letter) + ", " + flags;
  return flags + (setting.kind == Kind::kBool ? "[=false]" : " " + setting.value_name);
}

bool HasDefault(const Setting& setting) { return !PrintValue(setting, setting.fallback).empty(); }

}  // namespace

std::string PrintEffective(const Effective& effective) {
  const Schema& schema = effective.schema();
  std::string out;
  for (const SchemaSection& section : schema.sections()) {
    out += section.path + ":\n";
    for (size_t i = section.begin; i < section.end; ++i) {
      const Setting& setting = schema.settings()[i];
      const Value& value = effective.value(i);
      std::string line = "  " + KeyOf(setting) + ": ";
      if (setting.secret && value != setting.fallback) {
        line = "  # " + KeyOf(setting) + ": a secret, not shown";
      } else {
        line += PrintYaml(setting, value);
      }
      line.resize(std::max(line.size() + 2, kCommentColumn), ' ');
      out += line + "# " + effective.origin(i) + "\n";
    }
  }
  return out;
}

std::string PrintDocumented(const Schema& schema) {
  std::string out;
  for (const SchemaSection& section : schema.sections()) {
    out += "\n# " + section.title + ".\n" + section.path + ":\n";
    for (size_t i = section.begin; i < section.end; ++i) {
      const Setting& setting = schema.settings()[i];
      std::string about = setting.help;
      const std::string range = setting.required ? "required" : DescribeRange(setting);
      if (!range.empty()) about += " [" + range + "]";
      if (!setting.flag.empty()) about += " (--" + setting.flag + ")";
      out += "  # " + Wrapped(about, 4, "  # ") + "\n";
      out += "  " + KeyOf(setting) + ": " + PrintYaml(setting, setting.fallback) + "\n";
    }
  }
  return out;
}

std::string OptionLine(const std::string& name, const std::string& text) {
  std::string out = "  " + name;
  const std::string indent(kTextColumn, ' ');
  if (out.size() + 2 > kTextColumn) {
    out += "\n" + indent;
  } else {
    out.resize(kTextColumn, ' ');
  }
  return out + Wrapped(text, kTextColumn, indent) + "\n";
}

std::string PrintOptions(const Schema& schema) {
  std::string out;
  for (const SchemaSection& section : schema.sections()) {
    out += section.title + ":\n";
    for (size_t i = section.begin; i < section.end; ++i) {
      const Setting& setting = schema.settings()[i];
      std::string about = setting.help;
      std::string facts = setting.allowed.empty() ? DescribeRange(setting) : "";
      if (HasDefault(setting)) {
        facts += (facts.empty() ? "" : "; ") + ("default " + PrintValue(setting, setting.fallback));
      }
      if (setting.required) facts = "required";
      if (!facts.empty()) about += " [" + facts + "]";
      out += OptionLine(FlagsOf(setting), about);
    }
    out += "\n";
  }
  return out;
}

}  // namespace sluice::server::config
