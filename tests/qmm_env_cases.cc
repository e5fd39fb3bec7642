// The options of quantized products as variables, each case in a process of its own: published names keep the published
// rule (a bad value gives one line and the default), LOFT_ names are strict, a flag beats both.
#include "backend/described_devices.h"
#include "core/error.h"
#include "qmm/policy.h"
#include "qmm/route.h"
#include "tests/child_cases.h"

namespace loft {
namespace {

using child_cases::Case;
using testing::HasSubstr;

/// Read once, as a program reads them: a second reading would warn again.
const Options& options() {
  static const Options read = child_cases::options_of_environment();
  return read;
}

/// Rows of x from which a product of 4096 x 4096 takes `route` under the published policy on a CPU; 0: never.
int64_t first_m(QmmRoute route, DType dtype) {
  Options o = options();
  o.qmm_policy = "published";
  const QmmPolicy policy = qmm_policy(o, DeviceKind::Cpu);
  const QmmSpec spec = {.format = {QuantKind::Affine, 4, 64},
                        .x_dtype = dtype,
                        .scale_dtype = dtype,
                        .has_biases = true,
                        .n = 4096,
                        .k = 4096};
  for (int64_t m = 1; m <= 4096; ++m) {
    const RouteDecision d = select_qmm_route({spec, m}, Layout::Checkpoint, *described_device("cpu-avx2"), policy,
                                             qmm_table_of(DeviceKind::Cpu));
    if (d.kernel && d.kernel->route == route) return m;
  }
  return 0;
}
int64_t ceiling() {
  return first_m(QmmRoute::DequantGemmAboveWmmaCeiling, DType::BF16);
}
int64_t crossover() {
  return first_m(QmmRoute::DequantGemm, DType::F16);
}

void keeps_128() {
  EXPECT_EQ(ceiling(), 128);
  EXPECT_FALSE(options().qmm_fused_max_m.has_value());
}
template <int64_t wanted>
void has_ceiling() {
  EXPECT_EQ(ceiling(), wanted);
}
template <int64_t wanted>
void has_crossover() {
  EXPECT_EQ(crossover(), wanted);
}
template <uint64_t wanted>
void has_entries() {
  EXPECT_EQ(dequant_cache_limits(options()).max_entries, wanted);
}
template <uint64_t wanted>
void has_bytes() {
  EXPECT_EQ(dequant_cache_limits(options()).max_bytes, wanted);
}
template <bool wanted>
void has_dequant_gemm() {
  EXPECT_EQ(options().qmm_dequant_gemm, wanted);
  EXPECT_EQ(crossover(), wanted ? 24 : 0);
}
template <bool wanted>
void has_stats() {
  EXPECT_EQ(options().qmm_stats, wanted);
}
template <bool wanted>
void has_low_cu() {
  EXPECT_EQ(options().force_low_cu, wanted);
  EXPECT_EQ(crossover(), wanted ? 12 : 24);
}
void is_fused_by_force() {
  EXPECT_EQ(ceiling(), 0) << "no ceiling";
  EXPECT_EQ(first_m(QmmRoute::WmmaDense, DType::BF16), 2) << "2 to 8 rows are admitted again";
}
void is_not_fused() {
  EXPECT_EQ(first_m(QmmRoute::WmmaDense, DType::BF16), 0);
}
void is_fused_from_9() {
  EXPECT_EQ(first_m(QmmRoute::WmmaDense, DType::BF16), 9);
  EXPECT_EQ(ceiling(), 128);
}

/// A LOFT_ variable that stops the program: the real one ends with 2 and one line that has `parts`.
void stops_with(const std::vector<std::string>& parts) {
  const program::Outcome o = program::run(LOFT_BINARY, {"routes"});  // inherits the case's environment
  EXPECT_EQ(o.status, 2);
  EXPECT_EQ(o.out, "");
  EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
  for (const std::string& part : parts) EXPECT_THAT(o.err, HasSubstr(part));
}
void flag_wins() {
  const program::Outcome o =
      program::run(LOFT_BINARY, {"routes", "gemma-3-4b", "--policy", "published", "--qmm-fused-max-m", "200"});
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("200.."));
  EXPECT_EQ(ceiling(), 64) << "and without the flag LOFT_ beats the published name";
}

std::string set(const char* name, const char* value) {
  return std::string(name) + "=" + value;
}

constexpr const char* kMaxM = "MLX_ROCM_WMMA_QMM_MAX_M";
constexpr const char* kThreshold = "MLX_ROCM_QMM_DEQUANT_M_THRESHOLD";
constexpr const char* kSize = "MLX_ROCM_QMM_DEQUANT_CACHE_SIZE";
constexpr const char* kBytes = "MLX_ROCM_QMM_DEQUANT_CACHE_MAX_BYTES";
constexpr const char* kFused = "MLX_ROCM_WMMA_QMM";

std::vector<std::string> warned(const char* name, const char* value, const char* used) {
  return {std::string(name) + ": ", std::string("'") + value + "'", "wanted ", std::string("used: ") + used};
}
Case bad_max_m(const char* name, const char* value) {
  return {name, {set(kMaxM, value)}, warned(kMaxM, value, "unset"), keeps_128};
}

const std::vector<Case> kCases = {
    {"unset", {}, {}, keeps_128},
    {"empty", {set(kMaxM, "")}, {}, keeps_128},
    {"valid", {set(kMaxM, "32")}, {}, has_ceiling<32>},
    {"largest", {set(kMaxM, "2147483647")}, {}, has_ceiling<0>},
    bad_max_m("wraps_to_1_in_32_bits", "4294967297"),
    bad_max_m("one_too_large", "2147483648"),
    bad_max_m("negative", "-1"),
    bad_max_m("zero", "0"),
    bad_max_m("junk_behind", "12abc"),
    bad_max_m("space_before", " 32"),
    bad_max_m("hexadecimal", "0x20"),
    {"threshold", {set(kThreshold, "50")}, {}, has_crossover<50>},
    {"threshold_zero", {set(kThreshold, "0")}, warned(kThreshold, "0", "unset"), has_crossover<24>},
    {"cache_size_zero", {set(kSize, "0")}, {}, has_entries<0>},
    {"cache_size_wraps", {set(kSize, "4294967304")}, warned(kSize, "4294967304", "8"), has_entries<8>},
    {"cache_bytes", {set(kBytes, "18446744073709551615")}, {}, has_bytes<UINT64_MAX>},
    {"cache_bytes_junk", {set(kBytes, "12abc")}, warned(kBytes, "12abc", "268435456"), has_bytes<268435456>},
    {"cache_bytes_too_large",
     {set(kBytes, "18446744073709551616")},
     warned(kBytes, "18446744073709551616", "268435456"),
     has_bytes<268435456>},
    {"fused_forced", {set(kFused, "1")}, {}, is_fused_by_force},
    {"fused_off", {set(kFused, "0")}, {}, is_not_fused},
    {"fused_junk", {set(kFused, "2")}, warned(kFused, "2", "auto"), is_fused_from_9},
    {"dequant_gemm_1", {"MLX_ROCM_QMM_DEQUANT_GEMM=1"}, {}, has_dequant_gemm<true>},
    {"dequant_gemm_other", {"MLX_ROCM_QMM_DEQUANT_GEMM=on"}, {}, has_dequant_gemm<false>},
    {"stats_1", {"MLX_ROCM_QMM_DEQUANT_CACHE_STATS=1"}, {}, has_stats<true>},
    {"stats_other", {"MLX_ROCM_QMM_DEQUANT_CACHE_STATS=true"}, {}, has_stats<false>},
    {"low_cu_begins_1", {"MLX_ROCM_FORCE_LOW_CU=1x"}, {}, has_low_cu<true>},
    {"low_cu_other", {"MLX_ROCM_FORCE_LOW_CU=on"}, {}, has_low_cu<false>},
    {"unknown_published_name", {"MLX_ROCM_QMM_MAX_M=3"}, {"MLX_ROCM_QMM_MAX_M: ", "not used"}, keeps_128},
    {"loft_beats_alias", {set(kMaxM, "32"), "LOFT_QMM_FUSED_MAX_M=64"}, {}, flag_wins},
    {"bad_alias_behind_a_good_variable", {set(kMaxM, "junk"), "LOFT_QMM_FUSED_MAX_M=64"}, {}, has_ceiling<64>},
    {"loft_is_strict",
     {"LOFT_QMM_FUSED_MAX_M=12abc"},
     {},
     [] {
       stops_with({"LOFT_QMM_FUSED_MAX_M", "'12abc'", "wanted a whole number in 1..2147483647"});
     }},
    {"loft_empty_is_bad",
     {"LOFT_QMM_DEQUANT_CACHE="},
     {},
     [] {
       stops_with({"LOFT_QMM_DEQUANT_CACHE", "auto|lru|off"});
     }},
    {"loft_near_miss",
     {"LOFT_QMM_FUSED_MAXM=64"},
     {},
     [] {
       stops_with({"LOFT_QMM_FUSED_MAXM", "did you mean LOFT_QMM_FUSED_MAX_M?"});
     }},
    {"loft_route_as",
     {"LOFT_QMM_ROUTE_AS=gfx1511"},
     {},
     [] {
       stops_with({"gfx1511", "did you mean gfx1151?"});
     }},
};

TEST(DISABLED_Child, Case) {
  child_cases::run_named(kCases);
}

/// Seen to fail with Whole parsing 32 bits (4294967297 became 1) and with the whole-string check of parse_whole left
/// out. Mutants: option_range, option_junk.
TEST(QmmEnv, EveryCaseInAProcessOfItsOwn) {
  child_cases::run_all(kCases);
}

}  // namespace
}  // namespace loft
