#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// GPT-2's alphabet: each byte is written as one printable character, so that a vocabulary of bytes
// is a vocabulary of text. Printable Latin-1 bytes stand for themselves (! to ~, U+00A1 to U+00AC,
// U+00AE to U+00FF); the other 68 are U+0100, U+0101... in the order of their values.
namespace sluice::engine {

// The byte's character in UTF-8 (1 or 2 bytes).
std::string ByteToSymbol(uint8_t byte);

// The bytes that a text in the alphabet stands for; nothing when a character is not of the
// alphabet.
std::optional<std::string> SymbolsToBytes(std::string_view symbols);

}  // namespace sluice::engine
