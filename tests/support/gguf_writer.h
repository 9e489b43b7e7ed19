#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::testing {

// Writes GGUF files for tests: valid ones by its named functions, broken ones by Raw and by editing
// what Finish returns. Only what the tests need of the format.
class GgufWriter {
 public:
  explicit GgufWriter(uint32_t version = 3, uint64_t alignment = 32)
      : version_(version), alignment_(alignment) {}

  GgufWriter& U32(std::string_view key, uint32_t value) { return Scalar(key, 4, value); }
  GgufWriter& I32(std::string_view key, int32_t value) { return Scalar(key, 5, value); }
  GgufWriter& U64(std::string_view key, uint64_t value) { return Scalar(key, 10, value); }
  GgufWriter& F32(std::string_view key, float value) { return Scalar(key, 6, value); }
  GgufWriter& F64(std::string_view key, double value) { return Scalar(key, 12, value); }
  GgufWriter& Bool(std::string_view key, bool value) { return Scalar(key, 7, uint8_t{value}); }
  GgufWriter& String(std::string_view key, std::string_view value) {
    Head(key, 8);
    AppendString(keys_, value);
    return *this;
  }
  GgufWriter& Strings(std::string_view key, const std::vector<std::string>& values) {
    Head(key, 9);
    Append(keys_, uint32_t{8});
    Append(keys_, uint64_t{values.size()});
    for (const std::string& value : values) AppendString(keys_, value);
    return *this;
  }
  GgufWriter& I32s(std::string_view key, const std::vector<int32_t>& values) {
    Head(key, 9);
    Append(keys_, uint32_t{5});
    Append(keys_, uint64_t{values.size()});
    for (const int32_t value : values) Append(keys_, value);
    return *this;
  }
  // A key with any type number and any bytes for a value.
  GgufWriter& Raw(std::string_view key, uint32_t type, std::string_view bytes) {
    Head(key, type);
    keys_.append(bytes);
    return *this;
  }
  // `dims` as the file orders them, `type` ggml's number. The data follow the earlier tensors'.
  GgufWriter& Tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type,
                     std::string_view data) {
    const uint64_t offset = data_.size();
    data_.append(data);
    data_.resize((data_.size() + alignment_ - 1) / alignment_ * alignment_);
    return RawTensor(name, dims, type, offset);
  }
  // The table's entry alone, with any offset.
  GgufWriter& RawTensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type,
                        uint64_t offset) {
    AppendString(tensors_, name);
    Append(tensors_, static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) Append(tensors_, dim);
    Append(tensors_, type);
    Append(tensors_, offset);
    ++tensor_count_;
    return *this;
  }

  std::string Finish() const {
    std::string out = "GGUF";
    Append(out, version_);
    Append(out, tensor_count_);
    Append(out, key_count_);
    out += keys_ + tensors_;
    out.resize((out.size() + alignment_ - 1) / alignment_ * alignment_);
    return out + data_;
  }
  void WriteTo(const std::string& path) const {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << Finish();
  }

  template <typename T>
  static void Append(std::string& out, T value) {
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    out.append(bytes, sizeof value);
  }
  static void AppendString(std::string& out, std::string_view text) {
    Append(out, uint64_t{text.size()});
    out.append(text);
  }

 private:
  void Head(std::string_view key, uint32_t type) {
    AppendString(keys_, key);
    Append(keys_, type);
    ++key_count_;
  }
  template <typename T>
  GgufWriter& Scalar(std::string_view key, uint32_t type, T value) {
    Head(key, type);
    Append(keys_, value);
    return *this;
  }

  uint32_t version_;
  uint64_t alignment_;
  uint64_t key_count_ = 0, tensor_count_ = 0;
  std::string keys_, tensors_, data_;
};

}  // namespace sluice::testing
