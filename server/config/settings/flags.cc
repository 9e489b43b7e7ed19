#include "server/config/settings/flags.h"

#include <optional>
#include <string_view>
#include <utility>

#include "server/config/settings/text.h"

namespace sluice::server::config {
namespace {

class FlagReader {
 public:
  FlagReader(const Schema& schema, const std::vector<std::string>& arguments,
             const std::set<std::string>& switches)
      : schema_(schema), arguments_(arguments), switches_(switches) {}

  Flags Run() {
    while (next_ < arguments_.size()) {
      const std::string& argument = arguments_[next_++];
      if (argument.starts_with("--") && argument.size() > 2) {
        Long(argument);
      } else if (argument.starts_with("-") && argument.size() > 1 && argument[1] != '-') {
        Short(argument);
      } else {
        Error(Quoted(argument) + " is not an option");
      }
    }
    return std::move(flags_);
  }

 private:
  void Error(std::string text) { flags_.reading.errors.push_back(std::move(text)); }

  // The value after "=", or the next argument unless that looks like a flag.
  std::optional<std::string> Value(const std::string& flag, std::optional<std::string> attached) {
    if (attached) return attached;
    if (next_ < arguments_.size() && !arguments_[next_].starts_with("--")) {
      return arguments_[next_++];
    }
    Error(flag + ": needs a value (" + flag + "=VALUE if it begins with --)");
    return std::nullopt;
  }

  bool NextIsTruth() const {
    return next_ < arguments_.size() &&
           (arguments_[next_] == "true" || arguments_[next_] == "false");
  }

  void Long(const std::string& argument) {
    const size_t equals = argument.find('=');
    const std::string flag = argument.substr(0, equals);
    const std::string name = flag.substr(2);
    std::optional<std::string> attached;
    if (equals != std::string::npos) attached = argument.substr(equals + 1);
    if (switches_.contains(name)) {
      if (attached) return Error(flag + ": takes no value");
      flags_.switches.insert(name);
      return;
    }
    if (name == "config") return Config(flag, std::move(attached));
    if (name == "set") return Set(flag, std::move(attached));
    const int setting = schema_.FindFlag(name);
    if (setting < 0) return Unknown(flag);
    const bool truth = schema_.settings()[setting].kind == Kind::kBool;
    if (truth && !attached && !NextIsTruth()) attached = "true";
    if (auto value = Value(flag, std::move(attached))) Assign(setting, *value, flag);
  }

  void Short(const std::string& argument) {
    if (argument == "-h" && switches_.contains("help")) {
      flags_.switches.insert("help");
      return;
    }
    const std::string flag = argument.substr(0, 2);
    const int setting = schema_.FindLetter(flag[1]);
    if (setting < 0) return Error(Quoted(argument) + ": no such option");
    std::optional<std::string> attached;
    if (argument.size() > 2) attached = argument.substr(2);
    if (auto value = Value(flag, std::move(attached))) Assign(setting, *value, flag);
  }

  void Config(const std::string& flag, std::optional<std::string> attached) {
    auto value = Value(flag, std::move(attached));
    if (!value) return;
    if (value->empty()) return Error("--config: needs a file");
    if (!flags_.config_file.empty()) return Error("--config: given twice");
    flags_.config_file = *std::move(value);
  }

  void Set(const std::string& flag, std::optional<std::string> attached) {
    const auto pair = Value(flag, std::move(attached));
    if (!pair) return;
    const size_t equals = pair->find('=');
    if (equals == std::string::npos) {
      return Error("--set " + Quoted(*pair) + ": is not PATH=VALUE");
    }
    const std::string path = pair->substr(0, equals);
    const int setting = schema_.FindPath(path);
    if (setting < 0) {
      const std::string nearest = schema_.NearestPath(path);
      return Error("--set: no setting " + Quoted(path) +
                   (nearest.empty() ? "" : "; did you mean " + nearest + "?"));
    }
    Assign(setting, pair->substr(equals + 1), "--set " + path);
  }

  void Assign(int setting, const std::string& value, const std::string& place) {
    if (!given_.insert(setting).second) {
      return Error(place + ": " + schema_.settings()[setting].path + " is given twice");
    }
    flags_.reading.assignments.push_back(
        {static_cast<size_t>(setting), value, place, "flag " + place});
  }

  void Unknown(const std::string& flag) {
    std::vector<std::string> known = {"--config", "--set"};
    for (const std::string& name : switches_) known.push_back("--" + name);
    for (const Setting& setting : schema_.settings()) {
      if (!setting.flag.empty()) known.push_back("--" + setting.flag);
    }
    // First a setting's own name, which is no typing error at all; last, its path.
    std::string nearest = SettingNamed(flag.substr(2), /*exactly=*/true);
    if (nearest.empty()) nearest = Nearest(flag, known);
    if (nearest.empty()) nearest = SettingNamed(flag.substr(2), /*exactly=*/false);
    Error(Quoted(flag) + ": no such option" +
          (nearest.empty() ? "" : "; did you mean " + nearest + "?"));
  }

  std::string SettingNamed(std::string name, bool exactly) const {
    for (char& c : name) c = c == '-' ? '_' : c;
    const std::string path = schema_.NearestPath(name);
    if (exactly && path != name && !path.ends_with("." + name)) return "";
    const int setting = schema_.FindPath(path);
    if (setting < 0) return "";
    const std::string& flag = schema_.settings()[setting].flag;
    return flag.empty() ? "--set " + path + "=VALUE" : "--" + flag;
  }

  const Schema& schema_;
  const std::vector<std::string>& arguments_;
  const std::set<std::string>& switches_;
  size_t next_ = 0;
  std::set<int> given_;
  Flags flags_;
};

}  // namespace

Flags ReadFlags(const Schema& schema, const std::vector<std::string>& arguments,
                const std::set<std::string>& switches) {
  return FlagReader(schema, arguments, switches).Run();
}

}  // namespace sluice::server::config
