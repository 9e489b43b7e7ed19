// The GGUF reader on small files made here: what is well formed is read, what is not is refused
// with the key or tensor, the byte and the limit.

#include "engine/model/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>

#include "tests/support/gguf_writer.h"

namespace sluice::engine {
namespace {

using sluice::testing::GgufWriter;
using ::testing::AllOf;
using ::testing::HasSubstr;

absl::StatusOr<std::unique_ptr<const GgufFile>> ParseText(const std::string& bytes,
                                                          const GgufLimits& limits = {}) {
  return GgufFile::Parse(std::as_bytes(std::span(bytes.data(), bytes.size())), "test.gguf", limits);
}

std::string ErrorOf(const std::string& bytes, const GgufLimits& limits = {}) {
  const auto file = ParseText(bytes, limits);
  return file.ok() ? "no error" : Message(file.status());
}

template <typename T>
std::string Bytes(T value) {
  std::string out;
  GgufWriter::Append(out, value);
  return out;
}
std::string StringBytes(std::string_view text) {
  std::string out;
  GgufWriter::AppendString(out, text);
  return out;
}
template <typename T>
std::string With(std::string bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
  return bytes;
}

const std::string kFourFloats(16, '\1');

TEST(GgufTest, ReadsEveryValueType) {
  for (const uint32_t version : {2u, 3u}) {
    const std::string bytes = GgufWriter(version)
                                  .Raw("u8", 0, Bytes(uint8_t{200}))
                                  .Raw("i8", 1, Bytes(int8_t{-5}))
                                  .Raw("u16", 2, Bytes(uint16_t{60000}))
                                  .Raw("i16", 3, Bytes(int16_t{-3000}))
                                  .U32("u32", 4'000'000'000u)
                                  .I32("i32", -7)
                                  .F32("f32", 1.5f)
                                  .Bool("yes", true)
                                  .String("text", "hello")
                                  .Strings("texts", {"a", "", "ccc"})
                                  .I32s("ints", {1, -2, 3})
                                  .U64("u64", uint64_t{1} << 40)
                                  .Raw("i64", 11, Bytes(int64_t{-1} << 40))
                                  .F64("f64", 2.25)
                                  .Finish();
    const auto file = ParseText(bytes);
    ASSERT_TRUE(file.ok()) << Message(file.status());
    const GgufFile& f = **file;
    EXPECT_EQ(f.version(), version);
    EXPECT_EQ(*f.FindInt("u8"), 200);
    EXPECT_EQ(*f.FindInt("i8"), -5);
    EXPECT_EQ(*f.FindInt("u16"), 60000);
    EXPECT_EQ(*f.FindInt("i16"), -3000);
    EXPECT_EQ(*f.FindInt("u32"), 4'000'000'000);
    EXPECT_EQ(*f.FindInt("i32"), -7);
    EXPECT_EQ(*f.FindInt("u64"), int64_t{1} << 40);
    EXPECT_EQ(*f.FindInt("i64"), -(int64_t{1} << 40));
    EXPECT_EQ(*f.FindFloat("f32"), 1.5);
    EXPECT_EQ(*f.FindFloat("f64"), 2.25);
    EXPECT_EQ(*f.FindFloat("i32"), -7.0);
    EXPECT_EQ(*f.FindBool("yes"), true);
    EXPECT_EQ(*f.FindString("text"), "hello");
    EXPECT_EQ(*f.FindStrings("texts"), (std::vector<std::string>{"a", "", "ccc"}));
    EXPECT_EQ(*f.FindInts("ints"), (std::vector<int64_t>{1, -2, 3}));
    EXPECT_EQ(*f.FindInt("absent"), std::nullopt);
  }
}

TEST(GgufTest, SaysWhenAValueIsOfAnotherKind) {
  const std::string bytes = GgufWriter()
                                .String("text", "hello")
                                .U64("huge", UINT64_MAX)
                                .F32("float", 1)
                                .Strings("texts", {"a"})
                                .Finish();
  const auto file = ParseText(bytes);
  ASSERT_TRUE(file.ok()) << Message(file.status());
  EXPECT_THAT(Message((*file)->FindInt("text").status()),
              HasSubstr("key 'text' at byte 40: expected an integer up to 2^63 - 1, found string"));
  EXPECT_THAT(Message((*file)->FindInt("huge").status()), HasSubstr("found u64"));
  EXPECT_THAT(Message((*file)->FindInt("float").status()), HasSubstr("found f32"));
  EXPECT_THAT(Message((*file)->FindString("texts").status()),
              HasSubstr("expected string, found array of string"));
  EXPECT_THAT(Message((*file)->FindInts("texts").status()), HasSubstr("found array of string"));
  EXPECT_THAT(Message((*file)->FindBool("float").status()), HasSubstr("expected bool, found f32"));
}

TEST(GgufTest, ReadsTensorsInPlace) {
  for (const uint64_t alignment : {uint64_t{32}, uint64_t{64}, uint64_t{8}}) {
    GgufWriter writer(3, alignment);
    if (alignment != 32) writer.U32("general.alignment", static_cast<uint32_t>(alignment));
    const std::string q8(3 * 2 * 34, '\2');
    const std::string bytes =
        writer.Tensor("a", {4}, 0, kFourFloats).Tensor("b", {64, 3}, 8, q8).Finish();
    const auto file = ParseText(bytes);
    ASSERT_TRUE(file.ok()) << Message(file.status());
    ASSERT_EQ((*file)->tensors().size(), 2u);
    const GgufTensor* b = (*file)->FindTensor("b");
    ASSERT_NE(b, nullptr);
    EXPECT_EQ(b->dtype, kernels::DType::kQ8_0);
    EXPECT_EQ(b->rank, 2);
    EXPECT_EQ(b->cols(), 64);
    EXPECT_EQ(b->rows(), 3);
    EXPECT_EQ(b->bytes, 204);
    EXPECT_EQ(std::memcmp(b->data, q8.data(), q8.size()), 0);
    EXPECT_EQ((*file)->FindTensor("c"), nullptr);
  }
}

TEST(GgufTest, ReadsTheTypesOfTensorsThatItSupports) {
  struct Case {
    uint32_t number;
    kernels::DType dtype;
  };
  for (const Case c : {Case{0, kernels::DType::kF32},
                       {1, kernels::DType::kF16},
                       {30, kernels::DType::kBF16},
                       {8, kernels::DType::kQ8_0},
                       {2, kernels::DType::kQ4_0},
                       {3, kernels::DType::kQ4_1},
                       {6, kernels::DType::kQ5_0},
                       {7, kernels::DType::kQ5_1},
                       {12, kernels::DType::kQ4_K},
                       {13, kernels::DType::kQ5_K},
                       {14, kernels::DType::kQ6_K}}) {
    const auto size = static_cast<size_t>(2 * kernels::BytesOf(c.dtype, 256));
    const std::string bytes =
        GgufWriter().Tensor("t", {256, 2}, c.number, std::string(size, '\0')).Finish();
    const auto file = ParseText(bytes);
    ASSERT_TRUE(file.ok()) << Message(file.status());
    EXPECT_EQ((*file)->tensors()[0].dtype, c.dtype);
    EXPECT_EQ((*file)->tensors()[0].bytes, static_cast<int64_t>(size));
  }
}

TEST(GgufTest, OpensFilesAndSaysWhyNot) {
  const std::string path = ::testing::TempDir() + "gguf_test_" + std::to_string(getpid());
  GgufWriter().U32("k", 1).Tensor("a", {4}, 0, kFourFloats).WriteTo(path);
  const auto file = GgufFile::Open(path);
  ASSERT_TRUE(file.ok()) << Message(file.status());
  const GgufTensor& a = (*file)->tensors()[0];
  (*file)->DropPages(a.data, static_cast<size_t>(a.bytes));
  EXPECT_EQ(std::memcmp(a.data, kFourFloats.data(), 16), 0);  // read again after the drop

  EXPECT_EQ(GgufFile::Open(path + "x").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Message(GgufFile::Open(::testing::TempDir()).status()),
              HasSubstr("not a regular file"));
  std::ofstream(path, std::ios::trunc).close();
  EXPECT_THAT(Message(GgufFile::Open(path).status()), HasSubstr("is empty"));
  unlink(path.c_str());
}

TEST(GgufTest, RefusesWhatIsNoGguf) {
  const std::string good = GgufWriter().U32("k", 1).Finish();
  EXPECT_THAT(ErrorOf(""), HasSubstr("test.gguf: header at byte 0: not a GGUF file"));
  EXPECT_THAT(ErrorOf("GGU"), HasSubstr("not a GGUF file"));
  EXPECT_THAT(ErrorOf(With(good, 0, 'X')), HasSubstr("not a GGUF file"));
  EXPECT_THAT(ErrorOf("GGUF"), HasSubstr("version needs 4 bytes, but 0 remain"));
  EXPECT_THAT(ErrorOf(With(good, 4, uint32_t{1})),
              HasSubstr("version 1 is not supported; supported are 2 and 3"));
  EXPECT_THAT(ErrorOf(With(good, 4, uint32_t{0x03000000})), HasSubstr("a big-endian file"));
}

TEST(GgufTest, RefusesCountsThatCannotBe) {
  const std::string good = GgufWriter().U32("k", 1).Tensor("a", {4}, 0, kFourFloats).Finish();
  EXPECT_THAT(ErrorOf(With(good, 8, uint64_t{65'537})),
              HasSubstr("header at byte 16: tensor count is 65537, the limit is 65536"));
  EXPECT_THAT(ErrorOf(With(good, 8, uint64_t{1000})),
              AllOf(HasSubstr("tensor count is 1000, but the"), HasSubstr("bytes that remain")));
  EXPECT_THAT(ErrorOf(With(good, 16, UINT64_MAX)),
              HasSubstr("key count is 18446744073709551615, the limit is 65536"));
  EXPECT_THAT(ErrorOf(With(good, 16, uint64_t{60'000})), HasSubstr("key count is 60000, but the"));
}

TEST(GgufTest, RefusesBadKeys) {
  EXPECT_THAT(ErrorOf(GgufWriter().U32("", 1).Finish()),
              HasSubstr("key 0 at byte 32: key has length 0"));
  EXPECT_THAT(ErrorOf(GgufWriter().U32("k", 1).U32("k", 2).Finish()),
              HasSubstr("key 'k' at byte 58: the key appears twice"));
  EXPECT_THAT(ErrorOf(GgufWriter().Raw("k", 13, Bytes(uint32_t{1})).Finish()),
              HasSubstr("key 'k' at byte 37: value type is 13, the highest known is 12"));
  EXPECT_THAT(ErrorOf(GgufWriter().Raw("k", UINT32_MAX, "").Finish()), HasSubstr("4294967295"));
  const std::string good = GgufWriter().U32("k", 1).Finish();
  EXPECT_THAT(
      ErrorOf(With(good, 24, UINT64_MAX)),
      HasSubstr("key 0 at byte 32: key has length 18446744073709551615, the limit is 65535"));
  EXPECT_THAT(ErrorOf(With(good, 24, uint64_t{1000})), HasSubstr("key needs 1000 bytes, but"));
  EXPECT_THAT(ErrorOf(GgufWriter().U32("0123456789", 1).Finish().substr(0, 44)),
              HasSubstr("key '0123456789' at byte 42: value type needs 4 bytes, but 2 remain"));
  EXPECT_THAT(ErrorOf(good.substr(0, 39)), HasSubstr("key 'k' at byte 37: value needs 4 bytes"));
  EXPECT_THAT(ErrorOf(GgufWriter().U32("a\n'b", 1).U32("a\n'b", 1).Finish()),
              HasSubstr("key 'a\\x0a\\x27b'"));
}

TEST(GgufTest, RefusesBadStringsAndArrays) {
  const auto array = [](uint32_t element, uint64_t count, const std::string& rest) {
    return GgufWriter().Raw("k", 9, Bytes(element) + Bytes(count) + rest).Finish();
  };
  EXPECT_THAT(ErrorOf(GgufWriter().Raw("k", 8, Bytes(UINT64_MAX)).Finish()),
              HasSubstr("string has length 18446744073709551615, the limit is 16777216"));
  EXPECT_THAT(ErrorOf(GgufWriter().Raw("k", 8, Bytes(uint64_t{500})).Finish()),
              HasSubstr("string needs 500 bytes, but"));
  EXPECT_THAT(ErrorOf(array(9, 1, Bytes(uint32_t{4}) + Bytes(uint64_t{0}))),
              HasSubstr("key 'k' at byte 41: arrays of arrays are not supported"));
  EXPECT_THAT(ErrorOf(array(99, 1, "")), HasSubstr("array element type is 99"));
  EXPECT_THAT(ErrorOf(array(4, UINT64_MAX, "")), HasSubstr("the limit is 16777216"));
  EXPECT_THAT(ErrorOf(array(4, 1000, "")), HasSubstr("array count is 1000, but the"));
  EXPECT_THAT(ErrorOf(array(10, uint64_t{1} << 61, "")), HasSubstr("the limit is 16777216"));
  EXPECT_THAT(ErrorOf(array(8, 2, StringBytes("ab") + Bytes(uint64_t{900}) + "cd")),
              AllOf(HasSubstr("string needs 900 bytes"), HasSubstr("(array element 1)")));
  GgufLimits limits;
  limits.string_bytes_max = 3;
  EXPECT_THAT(ErrorOf(GgufWriter().String("k", "abcd").Finish(), limits),
              HasSubstr("string has length 4, the limit is 3"));
}

TEST(GgufTest, RefusesBadTensors) {
  const auto table = [](const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset = 0) {
    return ErrorOf(GgufWriter().RawTensor("t", dims, type, offset).Finish() + kFourFloats);
  };
  EXPECT_THAT(table({}, 0), HasSubstr("tensor 't' at byte"));
  EXPECT_THAT(table({}, 0), HasSubstr("dimension count is 0, it must be 1 to 4"));
  EXPECT_THAT(table({1, 1, 1, 1, 1}, 0), HasSubstr("dimension count is 5, it must be 1 to 4"));
  EXPECT_THAT(table({4, 0}, 0), HasSubstr("dimension 1 is 0, it must be 1 to 2^63 - 1"));
  EXPECT_THAT(table({uint64_t{1} << 63}, 0), HasSubstr("dimension 0 is 9223372036854775808"));
  EXPECT_THAT(table({4}, 999), HasSubstr("type 999 is not supported; supported are F32, F16"));
  EXPECT_THAT(table({256}, 10), HasSubstr("tensor 't' at byte 49: type Q2_K is not supported"));
  EXPECT_THAT(table({4}, 4), HasSubstr("type 4 is not supported"));
  EXPECT_THAT(table({33}, 8),
              HasSubstr("first dimension 33 is not a multiple of 32, the block of Q8_0"));
  // Products that wrap around 64 bits.
  EXPECT_THAT(table({uint64_t{1} << 62, 4}, 0),
              HasSubstr("shape [4611686018427387904, 4] of F32 needs more than the"));
  EXPECT_THAT(table({uint64_t{1} << 62, 2}, 0), HasSubstr("needs more than the"));
  EXPECT_THAT(table({(uint64_t{1} << 42) + 1, 1024}, 0), HasSubstr("needs more than the"));
  EXPECT_THAT(table({4, uint64_t{1} << 62}, 0), HasSubstr("needs more than the"));
  EXPECT_THAT(table({4, 4, 4, uint64_t{1} << 62}, 0), HasSubstr("needs more than the"));
  EXPECT_THAT(table({5}, 0), HasSubstr("reaches past the file's end at 80"));
  EXPECT_THAT(table({4}, 0, 32), HasSubstr("data of 16 bytes at offset 32"));
  EXPECT_THAT(table({4}, 0, 1), HasSubstr("offset 1 is not a multiple of the alignment 32"));
  EXPECT_THAT(table({4}, 0, UINT64_MAX - 31), HasSubstr("reaches past the file's end"));
  EXPECT_THAT(table({4}, 0, uint64_t{1} << 63), HasSubstr("reaches past the file's end"));
  EXPECT_EQ(table({4}, 0), "no error");
}

TEST(GgufTest, RefusesBadTensorNamesAndAlignments) {
  EXPECT_THAT(ErrorOf(GgufWriter().Tensor("", {4}, 0, kFourFloats).Finish()),
              HasSubstr("tensor 0 at byte 32: name has length 0"));
  EXPECT_THAT(ErrorOf(GgufWriter().Tensor(std::string(257, 'n'), {4}, 0, kFourFloats).Finish()),
              HasSubstr("name has length 257, the limit is 256"));
  EXPECT_THAT(
      ErrorOf(
          GgufWriter().Tensor("t", {4}, 0, kFourFloats).Tensor("t", {4}, 0, kFourFloats).Finish()),
      HasSubstr("the tensor appears twice"));
  for (const uint32_t alignment : {0u, 3u, 48u, 1u << 17, UINT32_MAX}) {
    EXPECT_THAT(ErrorOf(GgufWriter().U32("general.alignment", alignment).Finish()),
                HasSubstr("alignment is " + std::to_string(alignment) +
                          ", it must be a power of two up to 65536"));
  }
  EXPECT_THAT(ErrorOf(GgufWriter().String("general.alignment", "32").Finish()),
              HasSubstr("expected an integer"));
}

// Every prefix of a file is refused or, where only padding and data are missing that no tensor
// needs, read; none is read beyond its end (which the sanitizers would see).
TEST(GgufTest, RefusesEveryTruncation) {
  const std::string bytes = GgufWriter()
                                .Strings("texts", {"a", "bb"})
                                .I32s("ints", {1, 2})
                                .String("text", "hello")
                                .Tensor("t", {4, 2}, 0, kFourFloats + kFourFloats)
                                .Finish();
  for (size_t n = 0; n < bytes.size(); ++n) {
    const std::string cut(bytes.data(), n);
    EXPECT_NE(ErrorOf(cut), "no error") << n << " of " << bytes.size();
  }
  EXPECT_EQ(ErrorOf(bytes), "no error");
}

}  // namespace
}  // namespace sluice::engine
