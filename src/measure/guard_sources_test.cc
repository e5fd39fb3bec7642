#include "measure/guard_sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/error.h"
#include "engine/scripted_engine.h"

namespace loft {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class GuardSources : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text, bool is_program = false) {
    const fs::path path = folder_.path() / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
    if (is_program) fs::permissions(path, fs::perms::owner_all);
    return path.string();
  }
  std::string smi(const std::string& body) { return file("smi", "#!/bin/sh\n" + body + "\n", true); }
  std::string path(const std::string& name) { return (folder_.path() / name).string(); }
  scripted::TemporaryFolder folder_;
};

TEST_F(GuardSources, KfdEntriesArePids) {
  EXPECT_FALSE(open_kfd(path("kfd")));
  fs::create_directories(path("kfd/17"));
  fs::create_directories(path("kfd/4"));
  fs::create_directories(path("kfd/x9"));
  const auto kfd = open_kfd(path("kfd"));
  ASSERT_TRUE(kfd);
  EXPECT_THAT(kfd->poll().pids, ElementsAre(4, 17));
  fs::remove_all(path("kfd"));
  EXPECT_THAT(kfd->poll().fault, HasSubstr("cannot be listed"));
}

TEST_F(GuardSources, NvidiaSmiPrintsOnePidALine) {
  std::string fault;
  const auto source = open_nvidia_smi(
      smi("[ \"$*\" = '--query-compute-apps=pid --format=csv,noheader' ] && printf '12\\n 34 \\n[N/A]\\n[N/A]\\n'"),
      fault);
  ASSERT_TRUE(source) << fault;
  EXPECT_THAT(source->poll().pids, ElementsAre(12, 34, -1, -2));
  smi("echo 'No devices were found'");
  EXPECT_THAT(source->poll().fault, HasSubstr("found 'No devices were found', wanted a pid"));
  smi("exit 9");
  EXPECT_THAT(source->poll().fault, HasSubstr("exit status 9"));
  EXPECT_FALSE(open_nvidia_smi(path("smi"), fault));
  EXPECT_THAT(fault, HasSubstr("exit status 9"));
  EXPECT_FALSE(open_nvidia_smi(path("none"), fault));
}

TEST_F(GuardSources, AnAskedForSourceThatIsMissingIsAnErrorAndAutoTakesWhatIsThere) {
  SourceChoice choice{.wanted = "rocm",
                      .kfd_dir = path("kfd"),
                      .nvml = path("none.so"),
                      .nvidia_smi = path("none"),
                      .proc_dir = "/proc"};
  choice.kfd_is_this_kernels = false;
  std::vector<std::string> notes;
  EXPECT_THROW(open_sources(choice, notes), Error);
  choice.wanted = "cuda";
  try {
    open_sources(choice, notes);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::BadRequest);
    EXPECT_THAT(e.what(), HasSubstr("none.so"));
    EXPECT_THAT(e.what(), HasSubstr("not found"));
  }
  choice.wanted = "auto";
  EXPECT_THAT(open_sources(choice, notes), IsEmpty());
  fs::create_directories(path("kfd"));
  choice.nvidia_smi = smi("true");
  EXPECT_EQ(open_sources(choice, notes).size(), 2u);
  choice.wanted = "cpu";
  EXPECT_THAT(open_sources(choice, notes), IsEmpty());
}

TEST_F(GuardSources, WhereProcessesAreHiddenTheRuleIsNested) {
  SourceChoice choice{
      .wanted = "cuda", .kfd_dir = "", .nvml = "0", .nvidia_smi = smi("true"), .proc_dir = path("proc")};
  fs::create_directories(path("proc/self/ns"));
  std::vector<std::string> notes;
  EXPECT_EQ(open_sources(choice, notes).at(0).rule, PidRule::Nested);
  fs::create_symlink("pid:[4026531836]", path("proc/self/ns/pid"));
  file("proc/1/stat", "1 (init) S 0\n");
  EXPECT_EQ(open_sources(choice, notes).at(0).rule, PidRule::Plain);
  EXPECT_THAT(notes, ElementsAre(HasSubstr("only their number"), HasSubstr("are ours")));
}

TEST_F(GuardSources, FactsComeFromProcfsAndSysfs) {
  file("proc/cpuinfo", "processor\t: 0\ncpu MHz\t\t: 2000.000\n\nprocessor\t: 1\ncpu MHz\t\t: 3000.000\n");
  file("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "3\n");
  file("sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "4\n");
  file("sys/class/drm/card0/device/hwmon/hwmon2/freq1_input", "2500000000\n");
  file("sys/class/drm/card0/device/hwmon/hwmon2/temp1_input", "61000\n");
  std::vector<std::string> shown;
  for (const GuardFact& fact : machine_facts(path("proc"), path("sys"))) {
    shown.push_back(fact.name + "=" + std::to_string(int(fact.value)));
  }
  EXPECT_THAT(shown, ElementsAre("cpu_mhz=2500", "cpu_throttle_events=7", "card0_mhz=2500", "card0_celsius=61"));
  EXPECT_THAT(machine_facts(path("none"), path("none")), IsEmpty());
}

}  // namespace
}  // namespace loft
