#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "engine/model/gguf.h"

namespace sluice::engine {

// Walks a GGUF file once, from the magic to the tensor table, and fills in a GgufFile. Used by
// GgufFile alone. The layout, all little-endian:
//   "GGUF", u32 version, u64 tensors, u64 keys;
//   keys times:    string key, u32 type, value   (string: u64 length, bytes; array: u32 element
//                  type, u64 count, elements)
//   tensors times: string name, u32 dimensions, u64 each, u32 type, u64 offset from the data's
//                  start;
//   padding up to general.alignment (32 when absent), then the data.
class GgufParser {
 public:
  GgufParser(GgufFile& file, const GgufLimits& limits) : file_(file), limits_(limits) {}
  absl::Status Run();

 private:
  uint64_t remaining() const { return file_.bytes_.size() - at_; }
  // "FILE: <where_> at byte N: <what>"
  absl::Status Error(std::string_view what) const;
  absl::Status TooFew(std::string_view what, uint64_t needed) const;

  template <typename T>
  absl::StatusOr<T> Read(std::string_view what);
  absl::StatusOr<std::string_view> ReadString(std::string_view what, uint64_t bytes_max);
  absl::StatusOr<uint64_t> ReadCount(std::string_view what, uint64_t bytes_each,
                                     uint64_t count_max);
  absl::StatusOr<GgufType> ReadType(std::string_view what);

  absl::Status ParseKey();
  absl::Status ParseArray(GgufValue& value);
  absl::Status ParseTensor();
  absl::Status ParseDimensions(GgufTensor& tensor);
  absl::Status PlaceTensors();

  GgufFile& file_;
  const GgufLimits& limits_;
  uint64_t at_ = 0;               // byte read next
  std::string where_ = "header";  // what is being read, for messages
};

}  // namespace sluice::engine
