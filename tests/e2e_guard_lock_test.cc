// loft guard: the lock of a host, guards inside guards, --hold and --status.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/guard_fixture.h"

namespace loft {
namespace {

namespace fs = std::filesystem;
using program::Outcome;
using testing::HasSubstr;

// Runs `first` under a guard; while it waits for $T/go to appear, calls `second`.
class GuardLocking : public GuardTest {
 protected:
  Outcome beside(const std::string& first, const std::function<void()>& second, std::vector<std::string> options = {}) {
    Outcome out;
    std::thread runner([&] { out = guarded(first, std::move(options)); });
    EXPECT_TRUE(wait_until([&] { return fs::exists(path("started")); }));
    second();
    write("go", "");
    runner.join();
    return out;
  }
  Outcome other(std::vector<std::string> args, std::vector<std::string> environment = {}) {
    args.insert(args.begin(), {"--for", "rocm", "--idle-secs", "0", "--sample-ms", "50"});
    program::Input input;
    input.environment = std::move(environment);
    return loft_guard(std::move(args), std::move(input));
  }
  const std::string kWait = "touch $T/started; until [ -e $T/go ]; do sleep 0.02; done; ";
};

// Seen to fail: try_lock takes the lock without asking flock.
TEST_F(GuardLocking, TwoGuardsRunOneAfterTheOther) {
  Outcome second;
  std::thread later;
  const Outcome first = beside(kWait + "echo first >> $T/order", [&] {
    later = std::thread([&] { second = other({"--", "sh", "-c", "echo second >> $T/order"}); });
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  });
  later.join();
  EXPECT_EQ(first.status, 0);
  EXPECT_EQ(second.status, 0);
  EXPECT_EQ(text("order"), "first\nsecond\n");
  EXPECT_THAT(second.err, HasSubstr("waiting for guard lock " + path("lock").string()));
  EXPECT_THAT(second.err, HasSubstr("acquired guard lock " + path("lock").string() + " after 0s"));
  EXPECT_EQ(fs::status(path("lock")).permissions(), fs::perms(0666));
}

TEST_F(GuardLocking, WaitingForTheLockCountsInTheWaitAndAHoldIsHeldOutToo) {
  beside(kWait, [&] {
    const Outcome o = other({"--max-wait", "1", "--", "true"});
    EXPECT_EQ(o.status, 75);
    EXPECT_THAT(o.err, HasSubstr("gave up after 1s waiting for the lock"));
    EXPECT_EQ(loft_guard({"--hold", "--max-wait", "1", "--", "true"}).status, 75);
  });
}

TEST_F(GuardLocking, AGuardInsideAGuardDoesNotWaitForIt) {
  const Outcome o = guarded(
      "$LOFT guard --for rocm --idle-secs 0 --sample-ms 50 --max-wait 2 -- sh -c 'echo $LOFT_GUARD_LOCK_HELD "
      "$ROCM_GPU_GUARD_LOCK_HELD $PPID'");
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_THAT(o.err, HasSubstr("lock held by outer guard "));
  std::istringstream words(o.out);
  std::string held, held_alias, parent;
  words >> held >> held_alias >> parent;
  EXPECT_EQ(held, parent);
  EXPECT_EQ(held_alias, parent);
  // The published tool's variable counts as well.
  const Outcome alias =
      guarded("unset LOFT_GUARD_LOCK_HELD; $LOFT guard --for rocm --idle-secs 0 --sample-ms 50 --max-wait 2 -- true");
  EXPECT_EQ(alias.status, 0) << alias.err;
}

// Seen to fail: outer_guard asks only whether the process lives.
TEST_F(GuardLocking, ALivingProcessThatIsNoAncestorDoesNotLendItsLock) {
  beside("echo $PPID > $T/pid; " + kWait, [&] {
    const std::string pid = text("pid").substr(0, text("pid").find('\n'));
    EXPECT_EQ(other({"--max-wait", "1", "--", "true"}, {"LOFT_GUARD_LOCK_HELD=" + pid}).status, 75);
  });
}

// Seen to fail: the lock is opened without O_CLOEXEC.
TEST_F(GuardLocking, AProcessLeftBehindLivesOnAndHoldsNoLock) {
  EXPECT_EQ(guarded("sleep 5 </dev/null >/dev/null 2>&1 & echo $! > $T/pid").status, 0);
  const pid_t pid = std::stoi(text("pid"));
  EXPECT_EQ(kill(pid, 0), 0);
  EXPECT_EQ(other({"--max-wait", "1", "--", "true"}).status, 0);
  kill(pid, SIGKILL);
}

// Seen to fail: write_holder writes nothing.
TEST_F(GuardLocking, StatusTellsWhoHoldsTheLock) {
  const auto status = [&] { return loft_guard({"--status"}); };
  EXPECT_EQ(status().out, "free\n");
  EXPECT_EQ(status().status, 0);
  EXPECT_FALSE(fs::exists(path("lock")));
  std::thread holder([&] { loft_guard({"--hold", "--", "sh", "-c", kWait + "cat"}, stdin_of("x")); });
  ASSERT_TRUE(wait_until([&] { return fs::exists(path("started")); }));
  const Outcome held = status();
  EXPECT_EQ(held.status, 1);
  EXPECT_THAT(held.out,
              testing::MatchesRegex("held pid=[0-9]+ start=[0-9-]+T[0-9:+-]+ mode=hold cmd=sh -c touch .*\n"));
  std::error_code ignored;  // a missing file has failed above
  fs::rename(path("lock.holder"), path("kept"), ignored);
  EXPECT_EQ(status().out, "held, no holder file\n");
  write("lock.holder", "pid=99999999\nstart=then\nmode=guard\ncmd=gone\n");
  EXPECT_EQ(status().out, "held, stale: pid=99999999 start=then mode=guard cmd=gone\n");
  EXPECT_EQ(status().status, 1);
  write("go", "");
  holder.join();
  EXPECT_EQ(status().out, "free\n");
  EXPECT_EQ(status().status, 0);
  EXPECT_FALSE(fs::exists(path("lock.holder")));
}

TEST_F(GuardLocking, HoldPassesStdinAndTheStatusOn) {
  fs::create_directories(path("kfd/1"));  // a hold watches nothing
  const Outcome o = loft_guard({"--hold", "--", "sh", "-c", "cat; exit 4"}, stdin_of("in"));
  EXPECT_EQ(o.status, 4);
  EXPECT_EQ(o.out, "in");
}

}  // namespace
}  // namespace loft
