// The published cases of the cache's counters, each in a process of its own, under the published policy as variables
// set it: a product of one weight, its route on a gfx1151, and what it moved.
#include "core/error.h"
#include "ops/test_product.h"
#include "qmm/policy.h"
#include "tests/child_cases.h"

namespace loft {
namespace {

using child_cases::Case;
using Product = testing::TestProduct;
using Shape = testing::ProductShape;

constexpr Shape kLarge{256, 4096, 4096}, kSmall{64, 1024, 1024}, kHalf{128, 1024, 1024};
constexpr const char* kNothing = "hits=0 misses=0 inserts=0 evictions=0 bypassed=0 entries=0 bytes=0";
constexpr const char* kOneBypass = "hits=0 misses=0 inserts=0 evictions=0 bypassed=1 entries=0 bytes=0";
constexpr const char* kTwoBypasses = "hits=0 misses=0 inserts=0 evictions=0 bypassed=2 entries=0 bytes=0";
constexpr const char* kMiss = "hits=0 misses=1 inserts=1 evictions=0 bypassed=0 entries=1 bytes=2097152";
constexpr const char* kMissThenHit = "hits=1 misses=1 inserts=1 evictions=0 bypassed=0 entries=1 bytes=2097152";

Product make_product(const Shape& shape, DType dtype) {
  const Options o = child_cases::options_of_environment();
  return {shape, dtype, qmm_policy(o, DeviceKind::Cpu), {dequant_cache_mode(o), dequant_cache_limits(o)}};
}

std::string counters(const Product& p) {
  return dequant_cache_line(p.cache(), "CPU").substr(std::string("[CPU] qmm dequant cache: ").size());
}

/// The weight decoded as a whole, then multiplied: no panels, no cache, no route of another device.
std::vector<uint8_t> dequantize_and_multiply(const Shape& shape, DType dtype) {
  QmmPolicy policy;
  policy.forced_kernel = "qmm_any_dequant_sgemm";
  policy.dequant_m_threshold = 1;
  policy.panel_bytes = 0;
  return Product(shape, dtype, policy, {.mode = DequantCacheMode::Off}).run();
}

void bypasses(const Shape& shape) {
  Product p = make_product(shape, DType::BF16);
  EXPECT_EQ(counters(p), kNothing) << "before the first product";
  const std::vector<uint8_t> y = p.run();
  EXPECT_EQ(counters(p), kOneBypass);
  EXPECT_EQ(p.run(), y);
  EXPECT_EQ(counters(p), kTwoBypasses);
  EXPECT_STREQ(route_name(p.route()), "DequantGemmAboveWmmaCeiling");
  EXPECT_EQ(y, dequantize_and_multiply(shape, DType::BF16));
}

void moves(const Shape& shape, DType dtype, const char* first, const char* second) {
  Product p = make_product(shape, dtype);
  const std::vector<uint8_t> y = p.run();
  EXPECT_EQ(counters(p), first);
  EXPECT_EQ(p.run(), y);
  EXPECT_EQ(counters(p), second);
}

void is_freed() {
  Product p = make_product(kSmall, DType::BF16);
  p.backend->reset_peak();
  const MemoryStats before = p.backend->memory();
  p.run();
  EXPECT_EQ(counters(p), kOneBypass);
  EXPECT_EQ(p.backend->memory().active_bytes, before.active_bytes);
  EXPECT_GE(p.backend->memory().peak_bytes, before.active_bytes + 2 * 1024 * 1024) << "the temporary was there";
}

const std::string kPublished = "LOFT_QMM_POLICY=published";
const std::string kCeiling32 = "MLX_ROCM_WMMA_QMM_MAX_M=32";
const std::string kCache = "LOFT_QMM_ABOVE_CEILING=cache";

const std::vector<Case> kCases = {
    {"above_default_ceiling", {kPublished}, {}, [] { bypasses(kLarge); }},
    {"above_option_ceiling", {kPublished, kCeiling32}, {}, [] { bypasses(kSmall); }},
    {"fused_forced",
     {kPublished, kCeiling32, "MLX_ROCM_WMMA_QMM=1"},
     {},
     [] { moves(kSmall, DType::BF16, kNothing, kNothing); }},
    {"half_precision", {kPublished}, {}, [] { moves(kHalf, DType::F16, kMiss, kMissThenHit); }},
    {"half_precision_lru",
     {kPublished, "LOFT_QMM_DEQUANT_CACHE=lru"},
     {},
     [] { moves(kHalf, DType::F16, kMiss, kMissThenHit); }},
    {"off", {kPublished, "LOFT_QMM_DEQUANT_CACHE=off"}, {}, [] { moves(kHalf, DType::F16, kOneBypass, kTwoBypasses); }},
    {"no_entries",
     {kPublished, "MLX_ROCM_QMM_DEQUANT_CACHE_SIZE=0"},
     {},
     [] { moves(kHalf, DType::F16, kOneBypass, kTwoBypasses); }},
    {"no_bytes",
     {kPublished, "MLX_ROCM_QMM_DEQUANT_CACHE_MAX_BYTES=0"},
     {},
     [] { moves(kHalf, DType::F16, kOneBypass, kTwoBypasses); }},
    {"before_the_published_change",
     {kPublished, kCeiling32, kCache},
     {},
     [] { moves(kSmall, DType::BF16, kMiss, kMissThenHit); }},
    {"before_but_too_large_for_auto",
     {kPublished, kCeiling32, kCache, "LOFT_QMM_DEQUANT_CACHE_MAX_BYTES=2097151"},
     {},
     [] { moves(kSmall, DType::BF16, kOneBypass, kTwoBypasses); }},
    {"whole_matrix_is_freed", {kPublished, kCeiling32, "LOFT_QMM_PANEL_BYTES=0"}, {}, is_freed},
    {"by_its_own_table", {}, {}, [] { moves(kSmall, DType::BF16, kNothing, kNothing); }},
};

TEST(DISABLED_Child, Case) {
  child_cases::run_named(kCases);
}

/// Seen to fail, in the first two cases and whole_matrix_is_freed only, with the route of the first row of
/// hip/qmm_table.cc made DequantGemm: misses=1 inserts=1 bypassed=0 entries=1. Mutant: ceiling_route_published.
TEST(QmmDequantCacheCases, EveryCaseInAProcessOfItsOwn) {
  child_cases::run_all(kCases);
}

}  // namespace
}  // namespace loft
