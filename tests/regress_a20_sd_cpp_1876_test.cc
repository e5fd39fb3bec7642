// A20, leejet/stable-diffusion.cpp#1876: a safetensors shape whose product wraps to 0 passed the size check with an
// empty extent, and later code read through a null pointer. Right: products are checked and the error names the tensor.
// With checked_product replaced by plain multiplication the first test fails.
#include <gtest/gtest.h>

#include <cstring>

#include "core/error.h"
#include "model/safetensors.h"

namespace loft {
namespace {

std::vector<uint8_t> file_with(const std::string& dtype, const std::string& shape, uint64_t bytes) {
  const std::string header =
      fmt::format(R"({{"weight":{{"dtype":"{}","shape":{},"data_offsets":[0,{}]}}}})", dtype, shape, bytes);
  std::vector<uint8_t> file(8 + header.size() + bytes);
  const uint64_t size = header.size();
  std::memcpy(file.data(), &size, 8);
  std::memcpy(file.data() + 8, header.data(), header.size());
  return file;
}

void expect_refused(const std::string& dtype, const std::string& shape) {
  const std::vector<uint8_t> file = file_with(dtype, shape, 0);
  EXPECT_LT(file.size(), 200u);
  try {
    SafetensorsFile::parse(file, "evil.safetensors");
    ADD_FAILURE() << dtype << " " << shape << " was accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::Corrupt);
    EXPECT_EQ(exit_status(e.code()), 3);
    EXPECT_NE(std::string(e.what()).find("evil.safetensors: tensor weight"), std::string::npos) << e.what();
  }
}

TEST(RegressA20, AShapeThatWrapsToZeroIsRefused) {
  expect_refused("F32", "[4294967296,4294967296]");
}

TEST(RegressA20, NegativeAndOverflowingDimsAreRefused) {
  expect_refused("F32", "[-1,4]");
  expect_refused("F32", "[9223372036854775807,2]");
  expect_refused("F32", "[9223372036854775807,3]");
}

TEST(RegressA20, AProductThatFitsWhileItsBytesDoNotIsRefused) {
  expect_refused("F64", "[4611686018427387904]");  // 2^62 elements of 8 bytes wrap to 0
  expect_refused("F32", "[2147483648,2147483648]");
}

TEST(RegressA20, RankNineIsRefused) {
  expect_refused("U8", "[1,1,1,1,1,1,1,1,0]");
}

TEST(RegressA20, ALegalEmptyTensorLoads) {
  const std::vector<uint8_t> file = file_with("F32", "[0,5]", 0);
  const SafetensorsFile f = SafetensorsFile::parse(file, "empty.safetensors");
  EXPECT_EQ(f.tensors().at("weight").shape, (std::vector<uint64_t>{0, 5}));
  EXPECT_TRUE(f.tensors().at("weight").bytes.empty());
}

}  // namespace
}  // namespace loft
