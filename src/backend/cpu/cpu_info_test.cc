#include "backend/cpu/cpu_info.h"

#include <gtest/gtest.h>

#include <map>

#include "core/error.h"

namespace loft {
namespace {

ReadText files(std::map<std::string, std::string> texts) {
  return [texts = std::move(texts)](const std::string& path) -> std::optional<std::string> {
    const auto found = texts.find(path);
    if (found == texts.end()) return std::nullopt;
    return found->second;
  };
}

/// n_cores cores with `threads` logical CPUs each, numbered as Linux does: first threads first.
std::vector<LogicalCpu> cores(int n_cores, int threads) {
  std::vector<LogicalCpu> cpus;
  for (int t = 0; t < threads; ++t) {
    for (int c = 0; c < n_cores; ++c) cpus.push_back({.id = t * n_cores + c, .package = 0, .core = c});
  }
  return cpus;
}
std::vector<int> first(int n) {
  std::vector<int> cpus;
  for (int i = 0; i < n; ++i) cpus.push_back(i);
  return cpus;
}

TEST(ThreadPlan, TheSmallestOfQuotaAffinityAndCoresWins) {
  const auto plan = [](int n_cores, int threads, int allowed, std::optional<double> quota) {
    return plan_threads({.cpus = cores(n_cores, threads), .affinity = first(allowed), .quota_cpus = quota}).n_threads;
  };
  EXPECT_EQ(plan(2, 1, 2, std::nullopt), 2);
  EXPECT_EQ(plan(8, 2, 16, std::nullopt), 8);  // SMT: cores, not logical CPUs
  EXPECT_EQ(plan(8, 2, 3, std::nullopt), 3);   // a mask of three cores
  EXPECT_EQ(plan(8, 2, 16, 1.5), 1);           // quotas are rounded down
  EXPECT_EQ(plan(8, 2, 16, 0.5), 1);           // but one thread must run
  EXPECT_EQ(plan(48, 1, 48, 7.65), 7);
  EXPECT_EQ(plan(4, 1, 4, 100.0), 4);
}

TEST(ThreadPlan, TwoHyperThreadsOfOneCoreAreOneCore) {
  EXPECT_EQ(plan_threads({.cpus = cores(8, 2), .affinity = {3, 11}, .quota_cpus = {}}).n_threads, 1);
}

TEST(ThreadPlan, CoresOfTwoPackagesAreDifferentCores) {
  const std::vector<LogicalCpu> cpus = {{0, 0, 0}, {1, 0, 1}, {2, 1, 0}, {3, 1, 1}};
  EXPECT_EQ(plan_threads({.cpus = cpus, .affinity = first(4), .quota_cpus = {}}).n_threads, 4);
}

TEST(ThreadPlan, NothingKnownMeansOneThread) {
  const ThreadPlan plan = plan_threads({.cpus = {}, .affinity = {}, .quota_cpus = {}});
  EXPECT_EQ(plan.n_threads, 1);
  EXPECT_EQ(plan.reason, "1: affinity unknown, quota none, cores unknown");
}

TEST(ThreadPlan, TheReasonNamesEveryLimit) {
  EXPECT_EQ(plan_threads({.cpus = cores(2, 1), .affinity = first(2), .quota_cpus = {}}).reason,
            "2: affinity 2, quota none, cores 2");
  EXPECT_EQ(plan_threads({.cpus = cores(8, 2), .affinity = first(16), .quota_cpus = 1.5}).reason,
            "1: affinity 16, quota 1.5, cores 8");
  const ThreadPlan asked = plan_threads({.requested = 5, .cpus = cores(2, 1), .affinity = first(2), .quota_cpus = {}});
  EXPECT_EQ(asked.n_threads, 5);
  EXPECT_EQ(asked.reason, "5: option threads (affinity 2, quota none, cores 2)");
}

TEST(Cgroup, TheSmallestQuotaOnTheWayUpCounts) {
  const auto quota = cgroup_cpu_quota(files({{"/proc/self/cgroup", "0::/a/b\n"},
                                             {"/sys/fs/cgroup/a/b/cpu.max", "max 100000\n"},
                                             {"/sys/fs/cgroup/a/cpu.max", "150000 100000\n"},
                                             {"/sys/fs/cgroup/cpu.max", "400000 100000\n"}}));
  ASSERT_TRUE(quota.has_value());
  EXPECT_DOUBLE_EQ(*quota, 1.5);
}

TEST(Cgroup, AContainerThatSeesItsHostsPathReadsTheRoot) {
  const auto quota = cgroup_cpu_quota(
      files({{"/proc/self/cgroup", "0::/docker/0123\n"}, {"/sys/fs/cgroup/cpu.max", "50000 100000\n"}}));
  ASSERT_TRUE(quota.has_value());
  EXPECT_DOUBLE_EQ(*quota, 0.5);
}

TEST(Cgroup, VersionOneQuotasAndLimitsAreRead) {
  const auto read = files({{"/proc/self/cgroup", "4:memory:/x\n3:cpu,cpuacct:/x\n"},
                           {"/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "250000\n"},
                           {"/sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n"},
                           {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"},
                           {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"},
                           {"/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "1073741824\n"},
                           {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"}});
  EXPECT_DOUBLE_EQ(cgroup_cpu_quota(read).value_or(0), 2.5);
  EXPECT_EQ(cgroup_memory_limit(read).value_or(0), 1073741824u);
}

TEST(Cgroup, NoFilesOrOddTextMeanNoLimit) {
  EXPECT_FALSE(cgroup_cpu_quota(files({})).has_value());
  EXPECT_FALSE(cgroup_memory_limit(files({})).has_value());
  const auto odd = files({{"/proc/self/cgroup", "0::relative\nnonsense\n::\n"},
                          {"/sys/fs/cgroup/cpu.max", "x y z"},
                          {"/sys/fs/cgroup/memory.max", "max\n"}});
  EXPECT_FALSE(cgroup_cpu_quota(odd).has_value());
  EXPECT_FALSE(cgroup_memory_limit(odd).has_value());
}

TEST(Memory, TheCgroupsLimitCutsWhatIsAvailable) {
  const std::string info = "MemTotal:       8000 kB\nMemAvailable:   4000 kB\n";
  EXPECT_EQ(usable_memory(files({{"/proc/meminfo", info}})), 4096000u);
  EXPECT_EQ(usable_memory(files({{"/proc/meminfo", info}, {"/sys/fs/cgroup/memory.max", "1000000\n"}})), 1000000u);
  EXPECT_EQ(usable_memory(files({{"/sys/fs/cgroup/memory.max", "1000000\n"}})), 1000000u);
  EXPECT_EQ(usable_memory(files({})), 0u);
}

TEST(CpuList, RangesAndSinglesAreRead) {
  EXPECT_EQ(parse_cpu_list("0-2,8,10-11\n"), (std::vector<int>{0, 1, 2, 8, 10, 11}));
  EXPECT_EQ(parse_cpu_list("3\n"), std::vector<int>{3});
  EXPECT_TRUE(parse_cpu_list("").empty());
  EXPECT_TRUE(parse_cpu_list("5-2").empty());
  EXPECT_EQ(parse_cpu_list("1,x,2"), std::vector<int>{1});
  EXPECT_TRUE(parse_cpu_list("0-99999999999999999999").empty());
}

TEST(Caches, SizesHaveUnits) {
  const std::string base = "/sys/devices/system/cpu/cpu0/cache/index";
  const auto read = files({{base + "0/level", "1\n"},
                           {base + "0/type", "Data\n"},
                           {base + "0/size", "48K\n"},
                           {base + "1/level", "1\n"},
                           {base + "1/type", "Instruction\n"},
                           {base + "1/size", "32K\n"},
                           {base + "2/level", "3\n"},
                           {base + "2/type", "Unified\n"},
                           {base + "2/size", "32M\n"}});
  EXPECT_EQ(cache_bytes(read, 1), 48 * 1024);
  EXPECT_EQ(cache_bytes(read, 2), 0);
  EXPECT_EQ(cache_bytes(read, 3), 32 << 20);
}

TEST(Isa, AutoKeepsAllAndLevelsClamp) {
  constexpr uint32_t kZen4 = kIsaAvx2 | kIsaAvx512 | kIsaAvx512Vnni | kIsaAvx512Vbmi | kIsaAvx512Bf16;
  EXPECT_EQ(clamp_isa(kZen4, "auto"), kZen4);
  EXPECT_EQ(clamp_isa(kZen4, "scalar"), 0u);
  EXPECT_EQ(clamp_isa(kZen4, "avx2"), uint32_t(kIsaAvx2));
  EXPECT_EQ(clamp_isa(kZen4, "avx512"), uint32_t(kIsaAvx2 | kIsaAvx512));
  EXPECT_EQ(clamp_isa(kZen4, "avx512_bf16"), kZen4);
  EXPECT_EQ(isa_level_name(kZen4), "avx512_bf16");
  EXPECT_EQ(isa_level_name(0), "scalar");
}

TEST(Isa, UnknownAndMissingLevelsFailWithTheirNames) {
  try {
    clamp_isa(kIsaAvx2, "avx512");
    ADD_FAILURE() << "a level that is not there was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::Unsupported);
    EXPECT_STREQ(error.what(), "cpu-isa avx512: this CPU has avx2");
  }
  try {
    clamp_isa(kIsaAvx2, "sse9");
    ADD_FAILURE() << "an unknown level was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::BadRequest);
    EXPECT_NE(std::string(error.what()).find("avx512_vnni"), std::string::npos);
  }
}

TEST(CpuInfo, ThisMachineIsReadable) {
  const ReadText read = read_text_of_system();
  EXPECT_FALSE(affinity_of_process().empty());
  EXPECT_GT(usable_memory(read), 0u);
}

}  // namespace
}  // namespace loft
