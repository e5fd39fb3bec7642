#include "model/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "core/error.h"
#include "model/gguf_test_data.h"

namespace loft {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kF32 = 0;
constexpr uint32_t kQ4_0 = 2;

GgufWriter small_file() {
  GgufWriter w;
  w.text("general.architecture", "llama");
  w.u32("a.count", 7);
  w.f32("a.ratio", 0.5f);
  w.boolean("a.flag", true);
  w.texts("a.words", {"one", "", "three"});
  w.numbers<int32_t>("a.numbers", GgufType::I32, {-1, 2, 3});
  w.numbers<float>("a.scores", GgufType::F32, {0.25f, -1.0f});
  w.tensor("first", kF32, {4, 2}, std::string(32, 'x'));
  w.tensor("second.weight", kQ4_0, {32, 3}, std::string(54, 'y'));
  return w;
}

void expect_error(const std::string& file, Code code, const std::string& part) {
  try {
    GgufFile::parse(as_bytes(file), "x.gguf");
    ADD_FAILURE() << "no error, wanted one with: " << part;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    EXPECT_THAT(std::string(e.what()), HasSubstr(part));
    EXPECT_THAT(std::string(e.what()), HasSubstr("x.gguf"));
  }
}
void expect_corrupt(const GgufWriter& w, const std::string& part) {
  expect_error(w.file(), Code::Corrupt, part);
}

TEST(Gguf, ValuesAndTensorsAreRead) {
  const std::string bytes = small_file().file();
  const GgufFile file = GgufFile::parse(as_bytes(bytes), "x.gguf");
  EXPECT_EQ(file.take_text("general.architecture"), "llama");
  EXPECT_EQ(file.take_int("a.count"), 7);
  EXPECT_EQ(file.take_number("a.ratio"), 0.5);
  EXPECT_EQ(file.find_bool("a.flag"), true);
  EXPECT_THAT(*file.find_texts("a.words"), ::testing::ElementsAre("one", "", "three"));
  EXPECT_THAT(*file.find_ints("a.numbers"), ::testing::ElementsAre(-1, 2, 3));
  EXPECT_THAT(*file.find_numbers("a.scores"), ::testing::ElementsAre(0.25, -1.0));
  EXPECT_EQ(file.find_int("absent"), std::nullopt);
  const GgufTensor& t = file.tensors().at("second.weight");
  EXPECT_EQ(t.n_values, 96u);
  EXPECT_EQ(t.bytes.size(), 54u);
  EXPECT_EQ(t.bytes[0], 'y');
}

TEST(Gguf, EveryValueTypeIsRead) {
  GgufWriter w;
  w.number("u8", GgufType::U8, uint8_t(255));
  w.number("i8", GgufType::I8, int8_t(-1));
  w.number("u16", GgufType::U16, uint16_t(65535));
  w.number("i16", GgufType::I16, int16_t(-2));
  w.number("i32", GgufType::I32, int32_t(-3));
  w.number("i64", GgufType::I64, std::numeric_limits<int64_t>::min());
  w.number("u64", GgufType::U64, uint64_t(1) << 62);
  w.number("f64", GgufType::F64, 1.25);
  const std::string bytes = w.file();
  const GgufFile file = GgufFile::parse(as_bytes(bytes), "x.gguf");
  EXPECT_EQ(file.take_int("u8"), 255);
  EXPECT_EQ(file.take_int("i8"), -1);
  EXPECT_EQ(file.take_int("u16"), 65535);
  EXPECT_EQ(file.take_int("i16"), -2);
  EXPECT_EQ(file.take_int("i32"), -3);
  EXPECT_EQ(file.take_int("i64"), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(file.take_int("u64"), int64_t(1) << 62);
  EXPECT_EQ(file.take_number("f64"), 1.25);
}

TEST(Gguf, AFileCutAnywhereIsCorrupt) {
  const std::string whole = small_file().file();
  for (size_t n = 0; n < whole.size(); ++n) {
    try {
      GgufFile::parse(as_bytes(whole.substr(0, n)), "x.gguf");
      ADD_FAILURE() << "cut at " << n << " of " << whole.size() << ": no error";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::Corrupt) << "cut at " << n << ": " << e.what();
    }
  }
}

TEST(Gguf, OtherVersionsAndByteOrdersAreRefused) {
  GgufWriter w = small_file();
  w.version = 2;
  expect_error(w.file(), Code::Unsupported, "version 2, wanted 3");
  w.version = 0x03000000;
  expect_error(w.file(), Code::Unsupported, "big-endian");
  expect_error("GGML" + small_file().file().substr(4), Code::Corrupt, "does not start with GGUF");
}

TEST(Gguf, CountsThatTheFileCannotHoldAreRefusedBeforeAnythingIsReserved) {
  for (const uint64_t lie : {uint64_t(1000000), uint64_t(1) << 40, ~uint64_t(0)}) {
    GgufWriter w = small_file();
    w.n_keys = lie;
    expect_corrupt(w, "metadata count");
    w = small_file();
    w.n_tensors = lie;
    expect_corrupt(w, "tensor count");
    w = GgufWriter();
    w.array("a", GgufType::String, lie);
    expect_corrupt(w, "a: ");
    w = GgufWriter();
    w.array("a", GgufType::U64, lie);
    expect_corrupt(w, "a: ");
    w = GgufWriter();
    w.key("a", GgufType::String);
    GgufWriter::put<uint64_t>(w.metadata, lie);
    expect_corrupt(w, "a");
  }
}

// CVE-2025-53630 and CVE-2026-27940: sizes that wrap around, so that a small buffer stands for a large tensor.
TEST(Gguf, SizesThatWrapAreCorrupt) {
  const uint64_t big = uint64_t(1) << 32;
  const std::vector<std::vector<uint64_t>> all_dims = {
      {big, big}, {big, big, 2}, {uint64_t(1) << 62, 2}, {~uint64_t(0)}, {big, big, big, big}};
  for (const auto& dims : all_dims) {
    GgufWriter w;
    w.tensor_at("t", kF32, dims, 0);
    w.data = std::string(64, 'x');
    expect_corrupt(w, "t: ");
  }
  GgufWriter w;
  w.tensor_at("t", kF32, {8}, ~uint64_t(0) - 31);
  w.data = std::string(64, 'x');
  expect_corrupt(w, "t: ");
}

// CVE-2026-7482: offsets beyond the end of the file.
TEST(Gguf, TensorsMustLieInsideTheFile) {
  GgufWriter w;
  w.tensor_at("t", kF32, {16}, 32);
  w.data = std::string(64, 'x');
  expect_corrupt(w, "ends at byte 96 of the data, which has 64");
}

TEST(Gguf, TensorsMustNotOverlap) {
  GgufWriter w;
  w.tensor_at("a", kF32, {16}, 0);
  w.tensor_at("b", kF32, {8}, 32);
  w.data = std::string(64, 'x');
  expect_corrupt(w, "b at 32..64 overlaps a at 0..64");
}

TEST(Gguf, AnEmptyTensorHasNoPlaceAndOverlapsNothing) {
  GgufWriter w;
  w.tensor_at("a", kF32, {16}, 0);
  w.tensor_at("none", kF32, {8, 0}, 32);
  w.data = std::string(64, 'x');
  const std::string bytes = w.file();
  EXPECT_EQ(GgufFile::parse(as_bytes(bytes), "x").tensors().at("none").bytes.size(), 0u);
}

TEST(Gguf, NamesStandOnce) {
  GgufWriter w;
  w.u32("k", 1);
  w.u32("k", 2);
  expect_corrupt(w, "the key k stands twice");
  w = GgufWriter();
  w.tensor("t", kF32, {1}, "xxxx");
  w.tensor("t", kF32, {1}, "xxxx");
  expect_corrupt(w, "the tensor t stands twice");
}

TEST(Gguf, EntriesOutOfRangeAreRefused) {
  GgufWriter w;
  w.tensor_at("t", kF32, {1, 1, 1, 1, 1}, 0);
  expect_corrupt(w, "rank 5, wanted 1 to 4");
  w = GgufWriter();
  w.tensor_at("t", kF32, {}, 0);
  w.data = std::string(64, 'x');
  expect_corrupt(w, "rank 0");
  w = GgufWriter();
  w.tensor_at("t", kQ4_0, {33}, 0);
  expect_corrupt(w, "rows of 33 values, wanted a multiple of 32 (Q4_0)");
  w = GgufWriter();
  w.tensor_at("t", kF32, {1}, 4);
  w.data = std::string(64, 'x');
  expect_corrupt(w, "offset 4, wanted a multiple of 32");
  w = GgufWriter();
  w.tensor_at("t", 4, {1}, 0);
  expect_error(w.file(), Code::Unsupported, "tensor type 4 is not known");
  w = GgufWriter();
  w.key("k", GgufType(13));
  expect_corrupt(w, "value type 13");
  w = GgufWriter();
  w.number("k", GgufType::Bool, uint8_t(2));
  expect_corrupt(w, "a bool of value 2");
  w = GgufWriter();
  w.array("k", GgufType::Array, 1);
  expect_error(w.file(), Code::Unsupported, "an array of arrays");
}

TEST(Gguf, AlignmentIsAPowerOfTwo) {
  for (const uint32_t bad : {0u, 3u, 48u, 1u << 21, ~0u}) {
    GgufWriter w;
    w.u32("general.alignment", bad);
    expect_corrupt(w, "general.alignment");
  }
  GgufWriter w;
  w.u32("general.alignment", 64);
  w.tensor_at("t", kF32, {1}, 32);
  w.data = std::string(128, 'x');
  expect_corrupt(w, "offset 32, wanted a multiple of 64");
}

TEST(Gguf, AValueOfAnotherTypeIsNamed) {
  const std::string bytes = small_file().file();
  const GgufFile file = GgufFile::parse(as_bytes(bytes), "x.gguf");
  try {
    file.take_int("a.ratio");
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(std::string(e.what()), HasSubstr("a.ratio: found float32, wanted an integer"));
  }
}

}  // namespace
}  // namespace loft
