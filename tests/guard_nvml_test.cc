// The NVIDIA source over NVML, on a library made for the test (tests/fake_nvml).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "engine/scripted_engine.h"
#include "measure/guard_sources.h"

namespace loft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class GuardNvml : public testing::Test {
 protected:
  GuardNvml() { setenv("FAKE_NVML", path().c_str(), 1); }
  std::string path() const { return (folder_.path() / "answers").string(); }
  void answer(const std::string& text) { std::ofstream(path()) << text; }
  scripted::TemporaryFolder folder_;
};

TEST_F(GuardNvml, ProcessesUseAndThrottlingAreRead) {
  answer("devices 1\ncompute 100\ngraphics 7\nrecent 55\nuse 30\nthrottle 73\n");  // 73 = idle, hw_slowdown, hw_thermal
  std::string fault;
  const auto source = open_nvml(FAKE_NVML_LIBRARY, fault);
  ASSERT_TRUE(source) << fault;
  const GpuPoll poll = source->poll();
  EXPECT_EQ(poll.fault, "");
  EXPECT_THAT(poll.pids, ElementsAre(100, 7));
  EXPECT_THAT(poll.recent_pids, ElementsAre(55));
  EXPECT_EQ(poll.use_percent, 30);
  EXPECT_TRUE(source->knows_throttle);
  EXPECT_THAT(poll.throttle, ElementsAre("gpu0:hw_slowdown", "gpu0:hw_thermal"));
  const auto facts = source->facts();
  ASSERT_EQ(facts.size(), 3u);
  EXPECT_EQ(facts[0].name, "gpu0_sm_mhz");
  EXPECT_EQ(facts[0].value, 1980);
}

TEST_F(GuardNvml, AListLongerThanTheFirstGuessIsReadWhole) {
  std::string text = "devices 2\n";
  for (int pid = 1; pid <= 200; ++pid) text += "compute " + std::to_string(pid) + "\n";
  answer(text);
  std::string fault;
  const auto source = open_nvml(FAKE_NVML_LIBRARY, fault);
  ASSERT_TRUE(source) << fault;
  EXPECT_EQ(source->poll().pids.size(), 400u);
}

// Seen to fail: a status other than success leaves fault empty, so a lost GPU reads as idle.
TEST_F(GuardNvml, AFailureIsAFaultAndNotAnIdleGpu) {
  answer("devices 1\n");
  std::string fault;
  const auto source = open_nvml(FAKE_NVML_LIBRARY, fault);
  ASSERT_TRUE(source) << fault;
  EXPECT_THAT(source->poll().pids, IsEmpty());
  EXPECT_EQ(source->poll().fault, "");
  answer("devices 1\nfail 15\n");  // NVML_ERROR_GPU_IS_LOST
  EXPECT_THAT(source->poll().fault, HasSubstr("status 15"));
  EXPECT_FALSE(open_nvml(FAKE_NVML_LIBRARY, fault));
  answer("devices 0\n");
  EXPECT_FALSE(open_nvml(FAKE_NVML_LIBRARY, fault));
  EXPECT_THAT(fault, HasSubstr("0 devices"));
  EXPECT_FALSE(open_nvml("libm.so.6", fault));
  EXPECT_THAT(fault, HasSubstr("lacks a function"));
}

}  // namespace
}  // namespace loft
