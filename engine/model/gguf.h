#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "kernels/tensor.h"

namespace sluice::engine {

// Value types of GGUF metadata, with the format's numbers.
enum class GgufType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};
std::string_view NameOf(GgufType type);

// More than any real file has; what exceeds them is refused before anything is allocated for it.
struct GgufLimits {
  uint64_t keys_max = 65'536;
  uint64_t tensors_max = 65'536;
  uint64_t key_bytes_max = 65'535;
  uint64_t tensor_name_bytes_max = 256;
  uint64_t string_bytes_max = 16 << 20;
  uint64_t array_elements_max = 16 << 20;
  uint64_t alignment_max = 64 << 10;
  uint32_t dimensions_max = 4;
};

// One metadata value: a checked view of the file's bytes. A scalar has count 1 and element == type;
// a string's data are its bytes; a string array's data are its elements, each with its length.
struct GgufValue {
  GgufType type = GgufType::kU8;
  GgufType element = GgufType::kU8;
  uint64_t count = 0;
  std::span<const std::byte> data;
  uint64_t offset = 0;  // of the value in the file, for messages
};

struct GgufTensor {
  std::string_view name;
  kernels::DType dtype = kernels::DType::kF32;
  int rank = 0;
  std::array<int64_t, 4> dims{1, 1, 1, 1};  // as the file orders them: the contiguous one first
  const std::byte* data = nullptr;          // `bytes` of them, within the file
  int64_t bytes = 0;
  uint64_t offset = 0;  // of the data in the file, for messages

  int64_t cols() const { return dims[0]; }
  int64_t rows() const { return dims[1] * dims[2] * dims[3]; }
};

// A GGUF file of version 2 or 3 (the format of ggml's specification), mapped into memory and
// checked as a whole: after Open every view it gives lies within the file. The file is hostile
// input: all arithmetic is checked, every length is held against the bytes that remain, and memory
// taken is at most a small multiple of the metadata's size. Immutable; may be read from any number
// of threads at once. The views live as long as this object. The file must not be cut short by
// others while it is mapped.
class GgufFile {
 public:
  // NotFound: no such file. InvalidArgument: what is wrong, in which key or tensor, at which byte,
  // against which limit.
  static absl::StatusOr<std::unique_ptr<const GgufFile>> Open(const std::string& path,
                                                              const GgufLimits& limits = {});
  // The same over bytes that the caller keeps alive. `name` stands in messages.
  static absl::StatusOr<std::unique_ptr<const GgufFile>> Parse(std::span<const std::byte> bytes,
                                                               std::string name,
                                                               const GgufLimits& limits = {});
  ~GgufFile();
  GgufFile(const GgufFile&) = delete;
  GgufFile& operator=(const GgufFile&) = delete;

  const std::string& name() const { return name_; }
  uint32_t version() const { return version_; }
  uint64_t bytes() const { return bytes_.size(); }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }  // in the file's order
  const GgufTensor* FindTensor(std::string_view name) const;           // null when absent
  const std::map<std::string_view, GgufValue>& metadata() const { return metadata_; }

  // Each is empty when the key is absent and InvalidArgument, naming key, offset and both types,
  // when the value is of another kind or out of range. Integers of every width are integers; floats
  // are F32 or F64, or integers.
  absl::StatusOr<std::optional<int64_t>> FindInt(std::string_view key) const;
  absl::StatusOr<std::optional<double>> FindFloat(std::string_view key) const;
  absl::StatusOr<std::optional<bool>> FindBool(std::string_view key) const;
  absl::StatusOr<std::optional<std::string_view>> FindString(std::string_view key) const;
  absl::StatusOr<std::optional<std::vector<std::string>>> FindStrings(std::string_view key) const;
  absl::StatusOr<std::optional<std::vector<int64_t>>> FindInts(std::string_view key) const;

  // Gives back the memory of the pages that the bytes touch; they are read again when used again.
  void DropPages(const std::byte* data, size_t bytes) const;

 private:
  friend class GgufParser;
  GgufFile() = default;
  absl::Status WrongType(std::string_view key, const GgufValue& value,
                         std::string_view wanted) const;

  std::string name_;
  std::span<const std::byte> bytes_;
  bool mapped_ = false;
  uint32_t version_ = 0;
  std::map<std::string_view, GgufValue> metadata_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string_view, size_t> tensor_index_;
};

// A name from a file for a message: quoted, unprintable bytes escaped, long ones cut.
std::string Quoted(std::string_view text);

}  // namespace sluice::engine
