// ops: x with a batch. A contiguous one is folded into rows, so [B, 1, k], [B, k] and [1, B, k] are one product of
// equal bytes; a strided one keeps its items apart.
#include <gtest/gtest.h>

#include <cstring>

#include "ops/test_product.h"
#include "qmm/policy.h"

namespace loft {
namespace {

using Product = testing::TestProduct;

std::vector<QmmPolicy> some_policies() {
  QmmPolicy published;
  published.route_as = kPublishedDevice;
  return {{}, published};
}

uint64_t count_products(const Product& p) {
  uint64_t n = 0;
  for (const auto& [name, count] : p.stats().kernels) n += count;
  return n;
}

/// The product of x seen as [dims] and y as [dims of x, n].
std::vector<uint8_t> run_as(Product& p, std::initializer_list<int64_t> x_dims, std::initializer_list<int64_t> y_dims) {
  std::vector<uint8_t> x = p.x(), y = p.no_y();
  linear(*p.backend, p.workspace, p.layer, make_tensor(x.data(), p.dtype, x_dims),
         make_tensor(y.data(), p.dtype, y_dims));
  return y;
}

/// Formats whose published kernels differ between one row and several. Seen to fail with fold_batch returning its
/// argument. Mutant: fold_none.
TEST(Batch, TheShapesOfOneProductGiveEqualBytes) {
  for (const QmmPolicy& policy : some_policies()) {
    for (int bits : {3, 4, 6}) {
      for (DType dtype : {DType::F32, DType::F16, DType::BF16}) {
        for (int64_t b : {2, 4, 8}) {
          SCOPED_TRACE(fmt::format("{} bits, {}, batch {}, as {}", bits, dtype_name(dtype), b, policy.route_as));
          Product p({b, 96, 640}, dtype, policy, {}, {QuantKind::Affine, bits, 64});
          const std::vector<uint8_t> rows = run_as(p, {b, 640}, {b, 96});
          EXPECT_EQ(run_as(p, {b, 1, 640}, {b, 1, 96}), rows);
          EXPECT_EQ(run_as(p, {1, b, 640}, {1, b, 96}), rows);
          EXPECT_EQ(run_as(p, {b / 2, 2, 640}, {b / 2, 2, 96}), rows);
          EXPECT_EQ(count_products(p), 4u);
        }
      }
    }
  }
}

TEST(Batch, AStridedXKeepsItsItemsApart) {
  constexpr int64_t kBatch = 4, kN = 96, kK = 640;
  Product p({kBatch, kN, kK}, DType::F32, {});
  const std::vector<uint8_t> wanted = p.run();
  const std::vector<uint8_t> x = p.x();
  std::vector<float> spread(size_t(kBatch * 2 * kK));  // every other row is not x
  for (int64_t i = 0; i < kBatch; ++i) std::memcpy(&spread[size_t(i * 2 * kK)], &x[size_t(i * kK) * 4], size_t(kK) * 4);
  Tensor strided = make_tensor(spread.data(), DType::F32, {kBatch, 1, kK});
  strided.stride[0] = 2 * kK;
  std::vector<uint8_t> y = p.no_y();
  linear(*p.backend, p.workspace, p.layer, strided, make_tensor(y.data(), DType::F32, {kBatch, 1, kN}));
  EXPECT_EQ(y, wanted);
  EXPECT_EQ(count_products(p), 1u + kBatch);
}

TEST(Batch, OutputsMayBeColumnsOfWiderRows) {
  constexpr int64_t kBatch = 4, kN = 96, kK = 640, kPitch = 100;
  Product p({kBatch, kN, kK}, DType::F32, {});
  const std::vector<uint8_t> wanted = p.run();
  std::vector<uint8_t> x = p.x();
  std::vector<float> wide(size_t(kBatch * kPitch), 7.0f);
  Tensor y = make_tensor(wide.data(), DType::F32, {kBatch, 1, kN});
  y.stride[0] = kPitch;
  linear(*p.backend, p.workspace, p.layer, make_tensor(x.data(), DType::F32, {kBatch, 1, kK}), y);
  for (int64_t i = 0; i < kBatch; ++i) {
    EXPECT_EQ(std::memcmp(&wide[size_t(i * kPitch)], &wanted[size_t(i * kN) * 4], size_t(kN) * 4), 0);
    for (int64_t j = kN; j < kPitch; ++j) EXPECT_EQ(wide[size_t(i * kPitch + j)], 7.0f);
  }
}

}  // namespace
}  // namespace loft
