#include "engine/model/gguf_parser.h"

#include <bit>
#include <cstring>
#include <iterator>
#include <limits>

namespace sluice::engine {
namespace {

using kernels::DType;

constexpr uint64_t kKeyBytesMin = 8 + 1 + 4 + 1;  // length, a byte, type, value
constexpr uint64_t kTensorBytesMin =
    8 + 1 + 4 + 8 + 4 + 8;  // length, a byte, rank, one dim, type, offset

// Bytes of a scalar; 0 for strings, arrays and numbers that are no type.
uint64_t ScalarBytes(GgufType type) {
  static constexpr uint8_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  const auto index = static_cast<uint32_t>(type);
  return index < std::size(kBytes) ? kBytes[index] : 0;
}

struct TensorTypeInfo {
  uint32_t number;
  std::string_view name;
  bool supported;
  DType dtype;
};
// ggml's tensor types. Those without support are listed so that a message can name them.
constexpr TensorTypeInfo kTensorTypes[] = {
    {0, "F32", true, DType::kF32},       {1, "F16", true, DType::kF16},
    {2, "Q4_0", true, DType::kQ4_0},     {3, "Q4_1", true, DType::kQ4_1},
    {6, "Q5_0", true, DType::kQ5_0},     {7, "Q5_1", true, DType::kQ5_1},
    {8, "Q8_0", true, DType::kQ8_0},     {9, "Q8_1", false, DType::kF32},
    {10, "Q2_K", false, DType::kF32},    {11, "Q3_K", false, DType::kF32},
    {12, "Q4_K", true, DType::kQ4_K},    {13, "Q5_K", true, DType::kQ5_K},
    {14, "Q6_K", true, DType::kQ6_K},    {15, "Q8_K", false, DType::kF32},
    {16, "IQ2_XXS", false, DType::kF32}, {17, "IQ2_XS", false, DType::kF32},
    {18, "IQ3_XXS", false, DType::kF32}, {19, "IQ1_S", false, DType::kF32},
    {20, "IQ4_NL", false, DType::kF32},  {21, "IQ3_S", false, DType::kF32},
    {22, "IQ2_S", false, DType::kF32},   {23, "IQ4_XS", false, DType::kF32},
    {24, "I8", false, DType::kF32},      {25, "I16", false, DType::kF32},
    {26, "I32", false, DType::kF32},     {27, "I64", false, DType::kF32},
    {28, "F64", false, DType::kF32},     {29, "IQ1_M", false, DType::kF32},
    {30, "BF16", true, DType::kBF16},    {34, "TQ1_0", false, DType::kF32},
    {35, "TQ2_0", false, DType::kF32},   {39, "MXFP4", false, DType::kF32},
};
constexpr std::string_view kSupportedTensorTypes =
    "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K";

const TensorTypeInfo* FindTensorType(uint32_t number) {
  for (const TensorTypeInfo& info : kTensorTypes) {
    if (info.number == number) return &info;
  }
  return nullptr;
}

}  // namespace

absl::Status GgufParser::Error(std::string_view what) const {
  return InvalidArgument(file_.name_ + ": " + where_ + " at byte " + std::to_string(at_) + ": " +
                         std::string(what));
}

absl::Status GgufParser::TooFew(std::string_view what, uint64_t needed) const {
  return Error(std::string(what) + " needs " + std::to_string(needed) + " bytes, but " +
               std::to_string(remaining()) + " remain in the file");
}

template <typename T>
absl::StatusOr<T> GgufParser::Read(std::string_view what) {
  if (remaining() < sizeof(T)) return TooFew(what, sizeof(T));
  T value;
  std::memcpy(&value, file_.bytes_.data() + at_, sizeof value);
  at_ += sizeof value;
  return value;
}

absl::StatusOr<std::string_view> GgufParser::ReadString(std::string_view what, uint64_t bytes_max) {
  SLUICE_ASSIGN_OR_RETURN(const uint64_t length, Read<uint64_t>(what));
  if (length > bytes_max) {
    return Error(std::string(what) + " has length " + std::to_string(length) + ", the limit is " +
                 std::to_string(bytes_max));
  }
  if (length > remaining()) return TooFew(what, length);
  const std::string_view text(reinterpret_cast<const char*>(file_.bytes_.data() + at_), length);
  at_ += length;
  return text;
}

// A count of things that take at least `bytes_each` bytes of the file each.
absl::StatusOr<uint64_t> GgufParser::ReadCount(std::string_view what, uint64_t bytes_each,
                                               uint64_t count_max) {
  SLUICE_ASSIGN_OR_RETURN(const uint64_t count, Read<uint64_t>(what));
  if (count > count_max) {
    return Error(std::string(what) + " is " + std::to_string(count) + ", the limit is " +
                 std::to_string(count_max));
  }
  if (count > remaining() / bytes_each) {
    return Error(std::string(what) + " is " + std::to_string(count) + ", but the " +
                 std::to_string(remaining()) + " bytes that remain in the file hold at most " +
                 std::to_string(remaining() / bytes_each));
  }
  return count;
}

absl::StatusOr<GgufType> GgufParser::ReadType(std::string_view what) {
  SLUICE_ASSIGN_OR_RETURN(const uint32_t number, Read<uint32_t>(what));
  if (number > static_cast<uint32_t>(GgufType::kF64)) {
    return Error(std::string(what) + " is " + std::to_string(number) + ", the highest known is 12");
  }
  return static_cast<GgufType>(number);
}

absl::Status GgufParser::Run() {
  if (remaining() < 4 || std::memcmp(file_.bytes_.data(), "GGUF", 4) != 0) {
    return Error("not a GGUF file: it does not start with 'GGUF'");
  }
  at_ = 4;
  SLUICE_ASSIGN_OR_RETURN(file_.version_, Read<uint32_t>("version"));
  if (file_.version_ != 2 && file_.version_ != 3) {
    const bool swapped = file_.version_ == 0x02000000u || file_.version_ == 0x03000000u;
    return Error("version " + std::to_string(file_.version_) + " is not supported" +
                 (swapped ? " (a big-endian file)" : "") + "; supported are 2 and 3");
  }
  // Held against the limit now and against the remaining bytes when the tensor table is reached.
  SLUICE_ASSIGN_OR_RETURN(const uint64_t tensors,
                          ReadCount("tensor count", kTensorBytesMin, limits_.tensors_max));
  SLUICE_ASSIGN_OR_RETURN(const uint64_t keys,
                          ReadCount("key count", kKeyBytesMin, limits_.keys_max));
  for (uint64_t i = 0; i < keys; ++i) {
    where_ = "key " + std::to_string(i);
    SLUICE_RETURN_IF_ERROR(ParseKey());
  }
  for (uint64_t i = 0; i < tensors; ++i) {
    where_ = "tensor " + std::to_string(i);
    SLUICE_RETURN_IF_ERROR(ParseTensor());
  }
  return PlaceTensors();
}

absl::Status GgufParser::ParseKey() {
  SLUICE_ASSIGN_OR_RETURN(const std::string_view key, ReadString("key", limits_.key_bytes_max));
  if (key.empty()) return Error("key has length 0");
  where_ = "key " + Quoted(key);
  GgufValue value;
  SLUICE_ASSIGN_OR_RETURN(value.type, ReadType("value type"));
  value.element = value.type;
  value.count = 1;
  value.offset = at_;
  if (value.type == GgufType::kArray) {
    SLUICE_RETURN_IF_ERROR(ParseArray(value));
  } else if (value.type == GgufType::kString) {
    SLUICE_ASSIGN_OR_RETURN(const std::string_view text,
                            ReadString("string", limits_.string_bytes_max));
    value.data = std::as_bytes(std::span(text.data(), text.size()));
  } else {
    const uint64_t size = ScalarBytes(value.type);
    if (remaining() < size) return TooFew("value", size);
    value.data = file_.bytes_.subspan(at_, size);
    at_ += size;
  }
  if (!file_.metadata_.emplace(key, value).second) return Error("the key appears twice");
  return absl::OkStatus();
}

absl::Status GgufParser::ParseArray(GgufValue& value) {
  SLUICE_ASSIGN_OR_RETURN(value.element, ReadType("array element type"));
  if (value.element == GgufType::kArray) return Error("arrays of arrays are not supported");
  const bool strings = value.element == GgufType::kString;
  const uint64_t bytes_min = strings ? sizeof(uint64_t) : ScalarBytes(value.element);
  SLUICE_ASSIGN_OR_RETURN(value.count,
                          ReadCount("array count", bytes_min, limits_.array_elements_max));
  const uint64_t begin = at_;
  if (strings) {
    for (uint64_t i = 0; i < value.count; ++i) {
      const absl::Status status = ReadString("string", limits_.string_bytes_max).status();
      if (!status.ok()) {
        return InvalidArgument(Message(status) + " (array element " + std::to_string(i) + ")");
      }
    }
  } else {
    at_ += value.count * bytes_min;  // ReadCount has shown that they fit
  }
  value.data = file_.bytes_.subspan(begin, at_ - begin);
  return absl::OkStatus();
}

absl::Status GgufParser::ParseTensor() {
  GgufTensor tensor;
  SLUICE_ASSIGN_OR_RETURN(tensor.name, ReadString("name", limits_.tensor_name_bytes_max));
  if (tensor.name.empty()) return Error("name has length 0");
  where_ = "tensor " + Quoted(tensor.name);
  SLUICE_ASSIGN_OR_RETURN(const uint32_t rank, Read<uint32_t>("dimension count"));
  if (rank == 0 || rank > limits_.dimensions_max) {
    return Error("dimension count is " + std::to_string(rank) + ", it must be 1 to " +
                 std::to_string(limits_.dimensions_max));
  }
  tensor.rank = static_cast<int>(rank);
  for (uint32_t i = 0; i < rank; ++i) {
    SLUICE_ASSIGN_OR_RETURN(const uint64_t dim, Read<uint64_t>("dimension"));
    if (dim == 0 || dim > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return Error("dimension " + std::to_string(i) + " is " + std::to_string(dim) +
                   ", it must be 1 to 2^63 - 1");
    }
    tensor.dims[i] = static_cast<int64_t>(dim);
  }
  SLUICE_ASSIGN_OR_RETURN(const uint32_t number, Read<uint32_t>("tensor type"));
  const TensorTypeInfo* type = FindTensorType(number);
  if (type == nullptr || !type->supported) {
    return Error("type " + (type ? std::string(type->name) : std::to_string(number)) +
                 " is not supported; supported are " + std::string(kSupportedTensorTypes));
  }
  tensor.dtype = type->dtype;
  SLUICE_RETURN_IF_ERROR(ParseDimensions(tensor));
  SLUICE_ASSIGN_OR_RETURN(tensor.offset, Read<uint64_t>("offset"));
  if (!file_.tensor_index_.emplace(tensor.name, file_.tensors_.size()).second) {
    return Error("the tensor appears twice");
  }
  file_.tensors_.push_back(tensor);
  return absl::OkStatus();
}

// Fills in the tensor's size. No tensor is larger than the file, so the product of the dimensions
// is bounded by it at every step.
absl::Status GgufParser::ParseDimensions(GgufTensor& tensor) {
  const kernels::DTypeInfo& info = kernels::InfoOf(tensor.dtype);
  if (tensor.dims[0] % info.block_elements != 0) {
    return Error("first dimension " + std::to_string(tensor.dims[0]) + " is not a multiple of " +
                 std::to_string(info.block_elements) + ", the block of " + std::string(info.name));
  }
  const auto file_bytes = static_cast<int64_t>(file_.bytes_.size());
  int64_t bytes = 0;
  bool fits =
      !__builtin_mul_overflow(tensor.dims[0] / info.block_elements, info.block_bytes, &bytes) &&
      bytes <= file_bytes;
  for (size_t i = 1; fits && i < tensor.dims.size(); ++i) {
    fits = !__builtin_mul_overflow(bytes, tensor.dims[i], &bytes) && bytes <= file_bytes;
  }
  if (!fits) {
    std::string shape;
    for (int i = 0; i < tensor.rank; ++i) {
      shape += (i ? ", " : "") + std::to_string(tensor.dims[static_cast<size_t>(i)]);
    }
    return Error("shape [" + shape + "] of " + std::string(info.name) + " needs more than the " +
                 std::to_string(file_bytes) + " bytes of the file");
  }
  tensor.bytes = bytes;
  return absl::OkStatus();
}

// Turns the tensors' offsets, counted from the start of the data, into places in the file.
absl::Status GgufParser::PlaceTensors() {
  where_ = "key 'general.alignment'";
  uint64_t alignment = 32;
  SLUICE_ASSIGN_OR_RETURN(const auto stated, file_.FindInt("general.alignment"));
  if (stated) {
    if (*stated < 1 || static_cast<uint64_t>(*stated) > limits_.alignment_max ||
        !std::has_single_bit(static_cast<uint64_t>(*stated))) {
      return Error("alignment is " + std::to_string(*stated) +
                   ", it must be a power of two up to " + std::to_string(limits_.alignment_max));
    }
    alignment = static_cast<uint64_t>(*stated);
  }
  const uint64_t size = file_.bytes_.size();
  const uint64_t data_begin = (at_ + alignment - 1) / alignment * alignment;  // at_ <= size: exact
  for (GgufTensor& tensor : file_.tensors_) {
    where_ = "tensor " + Quoted(tensor.name);
    if (tensor.offset % alignment != 0) {
      return Error("offset " + std::to_string(tensor.offset) +
                   " is not a multiple of the alignment " + std::to_string(alignment));
    }
    const auto bytes = static_cast<uint64_t>(tensor.bytes);
    if (data_begin > size || tensor.offset > size - data_begin ||
        bytes > size - data_begin - tensor.offset) {
      return Error("data of " + std::to_string(bytes) + " bytes at offset " +
                   std::to_string(tensor.offset) + " of the data, which begins at byte " +
                   std::to_string(data_begin) + ", reaches past the file's end at " +
                   std::to_string(size));
    }
    tensor.offset += data_begin;
    tensor.data = file_.bytes_.data() + tensor.offset;
  }
  return absl::OkStatus();
}

}  // namespace sluice::engine
