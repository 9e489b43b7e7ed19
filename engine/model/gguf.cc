#include "engine/model/gguf.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "engine/model/gguf_parser.h"

namespace sluice::engine {

static_assert(std::endian::native == std::endian::little, "GGUF is read in place, little-endian");

std::string_view NameOf(GgufType type) {
  static constexpr std::string_view kNames[] = {"u8",  "i8",  "u16",  "i16",    "u32",
                                                "i32", "f32", "bool", "string", "array",
                                                "u64", "i64", "f64"};
  const auto index = static_cast<uint32_t>(type);
  return index < std::size(kNames) ? kNames[index] : "unknown";
}

std::string Quoted(std::string_view text) {
  constexpr size_t kShown = 96;
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "'";
  for (const char c : text.substr(0, kShown)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f || c == '\'' || c == '\\') {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  out += text.size() > kShown ? "...'" : "'";
  return out;
}

namespace {

template <typename T>
T ReadAt(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

// The element at `data` as an integer; empty when the type is none, or the value is above int64's
// range.
std::optional<int64_t> AsInt(GgufType type, const std::byte* data) {
  switch (type) {
    case GgufType::kU8:
      return ReadAt<uint8_t>(data);
    case GgufType::kI8:
      return ReadAt<int8_t>(data);
    case GgufType::kU16:
      return ReadAt<uint16_t>(data);
    case GgufType::kI16:
      return ReadAt<int16_t>(data);
    case GgufType::kU32:
      return ReadAt<uint32_t>(data);
    case GgufType::kI32:
      return ReadAt<int32_t>(data);
    case GgufType::kI64:
      return ReadAt<int64_t>(data);
    case GgufType::kU64: {
      const uint64_t value = ReadAt<uint64_t>(data);
      if (value > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<const GgufFile>> GgufFile::Open(const std::string& path,
                                                               const GgufLimits& limits) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const std::string why = "cannot open model file '" + path + "': " + std::strerror(errno);
    return errno == ENOENT || errno == ENOTDIR ? NotFound(why) : InvalidArgument(why);
  }
  struct stat info {};
  const bool stat_ok = fstat(fd, &info) == 0;
  if (!stat_ok || !S_ISREG(info.st_mode) || info.st_size <= 0) {
    close(fd);
    return InvalidArgument("model file '" + path + "' is " +
                           (stat_ok && S_ISREG(info.st_mode) ? "empty" : "not a regular file"));
  }
  const auto size = static_cast<size_t>(info.st_size);
  void* map = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  const int map_errno = errno;
  close(fd);
  if (map == MAP_FAILED) {
    return InvalidArgument("cannot map model file '" + path + "' of " + std::to_string(size) +
                           " bytes: " + std::strerror(map_errno));
  }
  auto file = std::unique_ptr<GgufFile>(new GgufFile);
  file->name_ = path;
  file->bytes_ = {static_cast<const std::byte*>(map), size};
  file->mapped_ = true;
  SLUICE_RETURN_IF_ERROR(GgufParser(*file, limits).Run());
  return std::unique_ptr<const GgufFile>(std::move(file));
}

absl::StatusOr<std::unique_ptr<const GgufFile>> GgufFile::Parse(std::span<const std::byte> bytes,
                                                                std::string name,
                                                                const GgufLimits& limits) {
  auto file = std::unique_ptr<GgufFile>(new GgufFile);
  file->name_ = std::move(name);
  file->bytes_ = bytes;
  SLUICE_RETURN_IF_ERROR(GgufParser(*file, limits).Run());
  return std::unique_ptr<const GgufFile>(std::move(file));
}

GgufFile::~GgufFile() {
  if (mapped_) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

const GgufTensor* GgufFile::FindTensor(std::string_view name) const {
  const auto it = tensor_index_.find(name);
  return it == tensor_index_.end() ? nullptr : &tensors_[it->second];
}

absl::Status GgufFile::WrongType(std::string_view key, const GgufValue& value,
                                 std::string_view wanted) const {
  std::string found(NameOf(value.type));
  if (value.type == GgufType::kArray) found += " of " + std::string(NameOf(value.element));
  return InvalidArgument(name_ + ": key " + Quoted(key) + " at byte " +
                         std::to_string(value.offset) + ": expected " + std::string(wanted) +
                         ", found " + found);
}

absl::StatusOr<std::optional<int64_t>> GgufFile::FindInt(std::string_view key) const {
  const auto it = metadata_.find(key);
  if (it == metadata_.end()) return std::optional<int64_t>();
  const auto value = AsInt(it->second.type, it->second.data.data());
  if (!value) return WrongType(key, it->second, "an integer up to 2^63 - 1");
  return value;
}

absl::StatusOr<std::optional<double>> GgufFile::FindFloat(std::string_view key) const {
  const auto it = metadata_.find(key);
  if (it == metadata_.end()) return std::optional<double>();
  const GgufValue& value = it->second;
  if (value.type == GgufType::kF32) return std::optional<double>(ReadAt<float>(value.data.data()));
  if (value.type == GgufType::kF64) return std::optional<double>(ReadAt<double>(value.data.data()));
  const auto integer = AsInt(value.type, value.data.data());
  if (!integer) return WrongType(key, value, "a number");
  return std::optional<double>(static_cast<double>(*integer));
}

absl::StatusOr<std::optional<bool>> GgufFile::FindBool(std::string_view key) const {
  const auto it = metadata_.find(key);
  if (it == metadata_.end()) return std::optional<bool>();
  if (it->second.type != GgufType::kBool) return WrongType(key, it->second, "bool");
  return std::optional<bool>(it->second.data[0] != std::byte{0});
}

absl::StatusOr<std::optional<std::string_view>> GgufFile::FindString(std::string_view key) const {
  const auto it = metadata_.find(key);
  if (it == metadata_.end()) return std::optional<std::string_view>();
  if (it->second.type != GgufType::kString) return WrongType(key, it->second, "string");
  return std::optional<std::string_view>(std::string_view(
      reinterpret_cast<const char*>(it->second.data.data()), it->second.data.size()));
}

absl::StatusOr<std::optional<std::vector<std::string>>> GgufFile::FindStrings(
    std::string_view key) const {
  const auto it = metadata_.find(key);
  if (it == metadata_.end()) return std::optional<std::vector<std::string>>();
  const GgufValue& value = it->second;
  if (value.type != GgufType::kArray || value.element != GgufType::kString) {
    return WrongType(key, value, "array of string");
  }
  std::vector<std::string> out;
  out.reserve(value.count);  // at most the value's bytes / 8
  const std::byte* at = value.data.data();
  for (uint64_t i = 0; i < value.count; ++i) {
    const auto length = ReadAt<uint64_t>(at);
    out.emplace_back(reinterpret_cast<const char*>(at + sizeof length), length);
    at += sizeof length + length;
  }
  return std::optional(std::move(out));
}

absl::StatusOr<std::optional<std::vector<int64_t>>> GgufFile::FindInts(std::string_view key) const {
  const auto it = metadata_.find(key);
  if (it == metadata_.end()) return std::optional<std::vector<int64_t>>();
  const GgufValue& value = it->second;
  std::vector<int64_t> out;
  if (value.type == GgufType::kArray) {
    const uint64_t size = value.count ? value.data.size() / value.count : 0;
    out.reserve(value.count);
    for (uint64_t i = 0; i < value.count; ++i) {
      const auto element = AsInt(value.element, value.data.data() + i * size);
      if (!element) return WrongType(key, value, "array of integers up to 2^63 - 1");
      out.push_back(*element);
    }
  } else {
    return WrongType(key, value, "array of integers");
  }
  return std::optional(std::move(out));
}

void GgufFile::DropPages(const std::byte* data, size_t bytes) const {
  if (!mapped_ || bytes == 0) return;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = reinterpret_cast<uintptr_t>(data) / page * page;
  const uintptr_t end = reinterpret_cast<uintptr_t>(data) + bytes;
  // A private read-only mapping: dropped pages come back from the file. Advice may be refused.
  (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace sluice::engine
