#include "server/config/settings/text.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>

#include "engine/tokenizer/utf8.h"

namespace sluice::server::config {
namespace {

constexpr size_t kQuotedMax = 80;
constexpr size_t kWordMax = 100;  // longer ones are no typing errors

char Folded(char c) {
  if (c >= 'A' && c <= 'Z') return static_cast<char>(c - 'A' + 'a');
  return c == '-' || c == '.' ? '_' : c;
}

// Damerau and Levenshtein's distance, restricted: no substring is edited twice.
size_t Distance(std::string_view a, std::string_view b) {
  // Rows i-2, i-1 and i of the table of distances between prefixes.
  std::array<std::vector<size_t>, 3> rows;
  for (auto& row : rows) row.resize(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) rows[1][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    rows[2][0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool same = Folded(a[i - 1]) == Folded(b[j - 1]);
      size_t best = std::min({rows[1][j] + 1, rows[2][j - 1] + 1, rows[1][j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && Folded(a[i - 1]) == Folded(b[j - 2]) &&
          Folded(a[i - 2]) == Folded(b[j - 1])) {
        best = std::min(best, rows[0][j - 2] + 1);
      }
      rows[2][j] = best;
    }
    std::rotate(rows.begin(), rows.begin() + 1, rows.end());
  }
  return rows[1][b.size()];
}

bool IsPlainYaml(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (text.empty() || !(letter(text[0]) || text[0] == '/')) return false;
  for (const char c : text) {
    if (!letter(c) && !(c >= '0' && c <= '9') && c != '/' && c != '_' && c != '-' && c != '.') {
      return false;
    }
  }
  // What some YAML reader takes for a value of another type.
  for (const char* word : {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}) {
    if (std::ranges::equal(text, std::string_view(word), {}, Folded)) return false;
  }
  return true;
}

// Some readers end a line at these, or drop them: U+0085, U+2028, U+2029, U+FEFF.
std::string_view EscapeOf(std::string_view character) {
  if (character == "\xC2\x85") return "\\u0085";
  if (character == "\xE2\x80\xA8") return "\\u2028";
  if (character == "\xE2\x80\xA9") return "\\u2029";
  if (character == "\xEF\xBB\xBF") return "\\uFEFF";
  return {};
}

}  // namespace

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text.substr(0, kQuotedMax)) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\x%02x", static_cast<unsigned char>(c));
      out += escape;
    } else {
      out += c;
    }
  }
  if (text.size() > kQuotedMax) out += "...";
  return engine::ReplaceInvalidUtf8(out) + "\"";
}

std::string YamlScalar(std::string_view text) {
  if (IsPlainYaml(text)) return std::string(text);
  std::string out = "\"";
  while (!text.empty()) {
    const size_t length = engine::NextUtf8(text).length;
    const std::string_view character = text.substr(0, length);
    if (character == "\"" || character == "\\") out += '\\';
    const std::string_view escape = EscapeOf(character);
    out += escape.empty() ? character : escape;
    text.remove_prefix(length);
  }
  return out + "\"";
}

absl::Status CheckText(std::string_view text) {
  if (!engine::IsValidUtf8(text)) return engine::InvalidArgument("is not valid UTF-8");
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      return engine::InvalidArgument("contains a control character");
    }
  }
  return absl::OkStatus();
}

std::string Nearest(std::string_view word, const std::vector<std::string>& candidates) {
  if (word.size() > kWordMax) return "";
  std::string best;
  // A third of the letters may be wrong, but never more than the word has besides.
  size_t limit = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t longer = std::max(word.size(), candidate.size());
    if (longer - std::min(word.size(), candidate.size()) >= limit) continue;
    const size_t distance = Distance(word, candidate);
    if (distance < limit) {
      limit = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace sluice::server::config
