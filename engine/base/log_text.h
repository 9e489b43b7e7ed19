#pragma once

#include <string>
#include <string_view>

namespace sluice::engine {

// Text from anywhere made fit for one line of a log, whatever its bytes: a caller can neither
// begin a new line, nor break out of a quoted value, nor send a control sequence to a terminal.

// `text` with each byte that belongs to no well-formed UTF-8 sequence replaced by U+FFFD.
std::string ValidUtf8(std::string_view text);

// Appends `text`, valid UTF-8 in the end, with everything escaped that moves the cursor: C0 and C1
// controls, DEL, and Unicode's line and paragraph separators and direction marks (\n, \t, \x1b,
// \u2028). Backslashes and, if `quotes`, double quotes too, so that the value between quotes can
// be read back.
void AppendLogText(std::string* out, std::string_view text, bool quotes);

// Appends `text` as the inside of a JSON string.
void AppendLogJson(std::string* out, std::string_view text);

// `text` cut to at most `bytes_max` bytes, between characters, with "..." behind it if it was cut.
std::string ClipLogText(std::string_view text, size_t bytes_max);

}  // namespace sluice::engine
