#include "measure/guard_proc.h"

#include <gtest/gtest.h>

#include <fstream>

#include "core/error.h"
#include "engine/scripted_engine.h"

namespace loft {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

std::string stat_line(int pid, const std::string& name, int parent, int ticks, char state = 'S') {
  return std::to_string(pid) + " (" + name + ") " + state + " " + std::to_string(parent) +
         " 1 1 0 -1 4194304 10 20 30 40 " + std::to_string(ticks) + " 0 0 0 20 0 1 0 99\n";
}

// 1 -> 10 (guard) -> 11 -> 12; 1 -> 20; 30 below a process that is not listed; 40 and 41 name each other.
ProcessTable small_table() {
  ProcessTable table;
  for (const auto& [pid, parent] :
       {std::pair(1, 0), {10, 1}, {11, 10}, {12, 11}, {20, 1}, {30, 29}, {40, 41}, {41, 40}}) {
    table[pid] = {.pid = pid, .parent = parent, .state = 'S', .name = "p", .ticks = uint64_t(pid)};
  }
  return table;
}

TEST(GuardProc, ANameMayHoldBlanksAndParentheses) {
  const auto stat = parse_process_stat("77 (a (b) c) R 12 1 1 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 99 0\n");
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->pid, 77);
  EXPECT_EQ(stat->name, "a (b) c");
  EXPECT_EQ(stat->state, 'R');
  EXPECT_EQ(stat->parent, 12);
  EXPECT_EQ(stat->ticks, 5u + 6 + 7 + 8);
}

TEST(GuardProc, CutLinesAreNoProcess) {
  const std::string whole = "77 (sh) R 12 1 1 0 -1 4194304 1 2 3 4 5 6 7 8";
  EXPECT_TRUE(parse_process_stat(whole));
  for (size_t n = 0; n + 1 < whole.size(); ++n) EXPECT_FALSE(parse_process_stat(whole.substr(0, n))) << n;
}

TEST(GuardProc, KinFollowsTheChainOfParents) {
  const ProcessTable table = small_table();
  EXPECT_EQ(kin_of(table, 10, 10), Kin::Own);
  EXPECT_EQ(kin_of(table, 12, 10), Kin::Own);
  EXPECT_EQ(kin_of(table, 20, 10), Kin::Foreign);
  EXPECT_EQ(kin_of(table, 1, 10), Kin::Foreign);
  EXPECT_EQ(kin_of(table, 99, 10), Kin::Gone);
  EXPECT_EQ(kin_of(table, 30, 10), Kin::Unknown);
  EXPECT_EQ(kin_of(table, 40, 10), Kin::Unknown);  // and does not loop for ever
  EXPECT_EQ(descendants(table, 10), (std::vector<int>{11, 12}));
  EXPECT_EQ(tree_ticks(table, 10), 10u + 11 + 12);
}

TEST(GuardProc, ATableIsReadFromAFolder) {
  const scripted::TemporaryFolder folder;
  write(folder.path() / "5/stat", stat_line(5, "one", 1, 3));
  write(folder.path() / "6/stat", stat_line(6, "two", 5, 4, 'Z'));
  write(folder.path() / "7/stat", "not a line\n");
  fs::create_directories(folder.path() / "8");  // ended while the folder was read
  write(folder.path() / "self/stat", stat_line(9, "self", 1, 3));
  const ProcessTable table = read_process_table(folder.path());
  ASSERT_EQ(table.size(), 2u);
  EXPECT_EQ(table.at(6).state, 'Z');
  EXPECT_EQ(tree_ticks(table, 5), 7u);
  try {
    read_process_table(folder.path() / "none");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::Device);
  }
}

TEST(GuardProc, ProcessorTimesAndPressure) {
  const auto times = parse_cpu_times("cpu  100 20 30 400 50 6 7 8 9 10\ncpu0 1 1 1 1 1 1 1 1\n");
  ASSERT_TRUE(times);
  EXPECT_EQ(times->busy, 100u + 20 + 30 + 6 + 7);
  EXPECT_EQ(times->steal, 8u);
  EXPECT_EQ(times->total, times->busy + 8 + 400 + 50);
  for (const char* bad :
       {"", "cpu0 1 2 3 4 5 6 7 8\n", "cpu  1 2 3\n", "cpu  0 0 0 0 0 0 0 0 0 0\n", "cpu  1 2 x 4 5 6 7 8\n"}) {
    EXPECT_FALSE(parse_cpu_times(bad)) << bad;
  }
  EXPECT_EQ(parse_pressure("some avg10=12.50 avg60=1.00 avg300=0.00 total=9\nfull avg10=0.00\n"), 12.5);
  EXPECT_FALSE(parse_pressure("full avg10=0.00\n"));
}

TEST(GuardProc, DevicesAndHiddenProcesses) {
  const scripted::TemporaryFolder folder;
  const fs::path fd = folder.path() / "5/fd";
  fs::create_directories(fd);
  fs::create_symlink("/dev/nvidiactl", fd / "3");
  EXPECT_FALSE(holds_device(folder.path(), 5, "/dev/nvidia"));
  fs::create_symlink("/dev/nvidia0", fd / "4");
  EXPECT_TRUE(holds_device(folder.path(), 5, "/dev/nvidia"));
  EXPECT_FALSE(holds_device(folder.path(), 6, "/dev/nvidia"));

  EXPECT_TRUE(hides_processes(folder.path()));
  fs::create_directories(folder.path() / "self/ns");
  fs::create_symlink("pid:[4026531836]", folder.path() / "self/ns/pid");
  EXPECT_TRUE(hides_processes(folder.path()));  // process 1 is not shown
  write(folder.path() / "1/stat", stat_line(1, "init", 0, 0));
  EXPECT_FALSE(hides_processes(folder.path()));
  fs::remove(folder.path() / "self/ns/pid");
  fs::create_symlink("pid:[4026532000]", folder.path() / "self/ns/pid");
  EXPECT_TRUE(hides_processes(folder.path()));
}

}  // namespace
}  // namespace loft
