#include "server/config/settings/yaml_file.h"

#include <fcntl.h>
#include <unistd.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <set>
#include <sstream>

#include "engine/tokenizer/utf8.h"
#include "server/config/settings/text.h"

namespace sluice::server::config {
namespace {

constexpr size_t kErrorsMax = 20;

// Follows the parser's events with a stack of open collections, and notes what they assign. Uses
// events, not yaml-cpp's nodes: those merge keys that are given twice and follow aliases.
class Reader : public YAML::EventHandler {
 public:
  Reader(const Schema& schema, const std::string& name, Reading* out)
      : schema_(schema), name_(name), out_(*out) {}

  bool fatal() const { return fatal_; }

  void Error(int line, const std::string& text) {
    if (fatal_) return;
    fatal_ = out_.errors.size() + 1 >= kErrorsMax;
    out_.errors.push_back(name_ + ":" + std::to_string(line) + ": " + text +
                          (fatal_ ? " (and perhaps more)" : ""));
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0) Fatal(LineOf(mark), "a second YAML document begins");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (!frames_.empty() && frames_.back().list >= 0) return Item(mark, "", anchor, "");
    const Node node = Begin(mark, "", anchor, Shape::kNull);
    if (node.ignored || node.path.empty() || schema_.IsSection(node.path)) return;
    if (schema_.FindPath(node.path) < 0) return Unknown(node);
    Error(node.line, Quoted(node.path) + " has no value: leave the key out for the default");
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { Anchored(mark); }
  void OnAnchor(const YAML::Mark& mark, const std::string&) override { Anchored(mark); }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (WantsKey()) return Key(mark, tag, anchor, value);
    if (!frames_.empty() && frames_.back().list >= 0) return Item(mark, tag, anchor, value);
    const Node node = Begin(mark, tag, anchor, Shape::kScalar);
    if (node.ignored) return;
    if (node.path.empty()) return Error(node.line, "the file is not a mapping of sections");
    const int setting = schema_.FindPath(node.path);
    if (setting >= 0) {
      Assign(setting, value, node.line);
    } else if (schema_.IsSection(node.path)) {
      Error(node.line, Quoted(node.path) + " is a section: its settings go under it");
    } else {
      Unknown(node);
    }
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    const Node node = Begin(mark, tag, anchor, Shape::kCollection);
    const int setting = node.ignored ? -1 : schema_.FindPath(node.path);
    const bool list = setting >= 0 && schema_.settings()[setting].kind == Kind::kList;
    if (!node.ignored && !list) {
      if (node.path.empty()) {
        Error(node.line, "the file is a list, not a mapping of sections");
      } else if (schema_.FindPath(node.path) >= 0 || schema_.IsSection(node.path)) {
        Error(node.line, Quoted(node.path) + " is not a list");
      } else {
        Unknown(node);
      }
    }
    Open(node, /*skip=*/!list);
    frames_.back().list = list ? setting : -1;
  }
  void OnSequenceEnd() override {
    if (!frames_.empty() && frames_.back().list >= 0) {
      const Frame& frame = frames_.back();
      Assign(frame.list, frame.items, frame.key_line);
    }
    Close();
  }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    const Node node = Begin(mark, tag, anchor, Shape::kCollection);
    bool skip = node.ignored;
    if (!skip && !node.path.empty() && !schema_.IsSection(node.path)) {
      skip = true;
      if (schema_.FindPath(node.path) >= 0) {
        Error(node.line, Quoted(node.path) + " is one value, not a mapping");
      } else {
        Unknown(node);
      }
    }
    Open(node, skip);
    frames_.back().mapping = true;
  }
  void OnMapEnd() override { Close(); }

 private:
  enum class Shape { kNull, kScalar, kCollection };

  struct Frame {
    std::string path;      // of the section; empty: the file
    bool skip = false;     // its error is noted
    bool mapping = false;  // else a list
    bool has_key = false;  // a key was read, its value comes next
    bool bad_key = false;  // and an error about it is noted
    int key_line = 0;
    int list = -1;      // the setting whose list this is
    std::string items;  // of it, each with a comma after it
    std::string key;
    std::set<std::string> keys;
  };

  // A value, or a key that is no scalar.
  struct Node {
    std::string path;
    int line = 0;
    bool ignored = false;
  };

  bool WantsKey() const {
    return !frames_.empty() && frames_.back().mapping && !frames_.back().has_key;
  }

  int LineOf(const YAML::Mark& mark) const {
    if (mark.line >= 0) return mark.line + 1;
    return frames_.empty() ? 1 : frames_.back().key_line;
  }

  void Fatal(int line, const std::string& text) {
    Error(line, text);
    fatal_ = true;
  }

  void Anchored(const YAML::Mark& mark) {
    Fatal(LineOf(mark),
          "anchors (&name) and aliases (*name) are not allowed; quote a value that "
          "begins with & or *");
  }

  // "?" and "!" stand for plain and quoted text without a tag.
  void CheckMarks(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (anchor != 0) Anchored(mark);
    if (!tag.empty() && tag != "?" && tag != "!") {
      Fatal(LineOf(mark), "tags (" + Quoted(tag) + ") are not allowed");
    }
  }

  void Unknown(const Node& node) {
    if (fatal_) return;  // the nearest name costs time
    const std::string nearest = schema_.NearestPath(node.path);
    Error(node.line, "no setting " + Quoted(node.path) +
                         (nearest.empty() ? "" : "; did you mean " + nearest + "?"));
  }

  void Key(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
           const std::string& value) {
    CheckMarks(mark, tag, anchor);
    Frame& frame = frames_.back();
    frame.has_key = true;
    frame.bad_key = false;
    frame.key = value;
    frame.key_line = LineOf(mark);
    if (!frame.skip && !frame.keys.insert(value).second) {
      frame.bad_key = true;
      Error(frame.key_line, Quoted(PathOf(frame)) + " is given twice");
    }
  }

  void Item(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            const std::string& value) {
    CheckMarks(mark, tag, anchor);
    if (value.empty() || value.find(',') != std::string::npos) {
      Error(LineOf(mark), "an item of a list may not be empty or contain a comma");
    }
    frames_.back().items += value + ",";
  }

  void Assign(int setting, const std::string& text, int line) {
    const std::string place = name_ + ":" + std::to_string(line);
    out_.assignments.push_back({static_cast<size_t>(setting), text, place, place});
  }

  static std::string PathOf(const Frame& frame) {
    return frame.path.empty() ? frame.key : frame.path + "." + frame.key;
  }

  Node Begin(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Shape shape) {
    CheckMarks(mark, tag, anchor);
    Node node;
    node.line = LineOf(mark);
    if (frames_.empty()) {
      node.ignored = fatal_;
      return node;
    }
    Frame& frame = frames_.back();
    node.ignored = fatal_ || frame.skip || !frame.mapping;
    if (frame.list >= 0) Error(node.line, "an item of a list is one value");
    if (!frame.mapping) return node;
    if (frame.has_key) {
      frame.has_key = false;
      node.path = PathOf(frame);
      node.ignored = node.ignored || frame.bad_key;
      // A value's mark may be where the next line begins.
      if (shape != Shape::kScalar) node.line = frame.key_line;
    } else {
      // A key that is empty, a list or a mapping; its value follows.
      if (!node.ignored) Error(node.line, "a key is not a name");
      node.ignored = true;
      frame.has_key = true;
      frame.bad_key = true;
      frame.key_line = node.line;
    }
    return node;
  }

  void Open(const Node& node, bool skip) {
    if (frames_.size() >= kYamlDepthMax) {
      Fatal(node.line, "nested deeper than " + std::to_string(kYamlDepthMax) + " levels");
    }
    Frame frame;
    frame.path = node.path;
    frame.skip = skip;
    frame.key_line = node.line;
    frames_.push_back(std::move(frame));
  }

  void Close() {
    if (!frames_.empty()) frames_.pop_back();
  }

  const Schema& schema_;
  const std::string& name_;
  Reading& out_;
  std::vector<Frame> frames_;
  int documents_ = 0;
  bool fatal_ = false;
};

int LineAt(std::string_view text, size_t offset) {
  return 1 + static_cast<int>(std::count(text.begin(), text.begin() + offset, '\n'));
}

// Text without what YAML readers disagree on; the error's line, or 0.
int FirstBadLine(std::string_view text) {
  const size_t valid = engine::ValidUtf8Prefix(text);
  if (valid != text.size()) return LineAt(text, valid);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if ((c < 0x20 && c != '\n' && c != '\r' && c != '\t') || c == 0x7f) return LineAt(text, i);
  }
  return 0;
}

void Parse(std::string_view text, Reader* reader) {
  try {
    // yaml-cpp lets the end of the text close a quote that is open, but not the end of a document.
    std::istringstream stream{std::string(text) + "\n...\n"};
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(*reader)) return;  // nothing but comments
    if (!reader->fatal()) parser.HandleNextDocument(*reader);
  } catch (const YAML::Exception& error) {
    reader->Error(std::max(0, error.mark.line) + 1, "not valid YAML: " + error.msg);
  } catch (const std::exception& error) {
    reader->Error(1, std::string("can't be read: ") + error.what());
  }
}

}  // namespace

Reading ReadYaml(const Schema& schema, std::string_view text, const std::string& name) {
  Reading out;
  if (text.size() > kYamlBytesMax) {
    out.errors.push_back(name + ": has more than " + std::to_string(kYamlBytesMax) + " bytes");
    return out;
  }
  Reader reader(schema, name, &out);
  if (const int line = FirstBadLine(text); line != 0) {
    reader.Error(line, "not a text: a byte that is not UTF-8, or a control character");
    return out;
  }
  Parse(text, &reader);
  return out;
}

Reading ReadYamlFile(const Schema& schema, const std::string& path) {
  Reading failed;
  const auto fail = [&](int error) {
    failed.errors.push_back("--config " + path + ": " + std::strerror(error));
    return failed;
  };
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return fail(errno);
  std::string text(kYamlBytesMax + 1, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = read(file, text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      const int error = errno;
      close(file);
      return fail(error);
    }
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  close(file);
  text.resize(size);
  return ReadYaml(schema, text, path);
}

}  // namespace sluice::server::config
