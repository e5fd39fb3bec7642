// Shared by the tests of loft guard: the program on a folder that stands for the kernel's list of GPU processes. Every
// test has its own lock. Short intervals; no GPU.
#pragma once
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "core/json.h"
#include "engine/scripted_engine.h"
#include "tests/program.h"

namespace loft {

inline program::Input stdin_of(const std::string& text) {
  program::Input input;
  input.text = text;
  return input;
}

inline std::string text_of(const std::filesystem::path& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

inline bool wait_until(const std::function<bool()>& holds) {
  for (int i = 0; i < 1000; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

class GuardTest : public testing::Test {
 protected:
  GuardTest() {
    // A guard around the tests themselves must not be taken for the one under test.
    for (const char* name : {"LOFT_GUARD_LOCK_HELD", "ROCM_GPU_GUARD_LOCK_HELD"}) unsetenv(name);
    std::filesystem::create_directories(path("kfd"));
  }
  std::filesystem::path path(const std::string& name) const { return folder_.path() / name; }
  std::string text(const std::string& name) const { return text_of(path(name)); }
  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(path(name).parent_path());
    std::ofstream(path(name)) << text;
  }

  std::vector<std::string> environment() const {
    return {"T=" + folder_.path().string(),
            "LOFT=" LOFT_BINARY,
            "LOFT_GUARD_LOCK=" + path("lock").string(),
            "LOFT_GUARD_KFD_DIR=" + path("kfd").string(),
            "LOFT_GUARD_COMPILER_RE=^none$",
            "LOFT_GUARD_NVML=0",
            "LOFT_GUARD_NVIDIA_SMI=" + path("nvidia-smi").string()};
  }
  // The words after "loft guard", in the fake machine. The command finds the folder in T.
  program::Outcome loft_guard(std::vector<std::string> args, program::Input input = {}) {
    args.insert(args.begin(), "guard");
    const std::vector<std::string> machine = environment();
    input.environment.insert(input.environment.begin(), machine.begin(), machine.end());
    return program::run(LOFT_BINARY, std::move(args), input);
  }
  // One attempt of a shell script, samples every 50 ms, unless the options say otherwise.
  program::Outcome guarded(const std::string& script, std::vector<std::string> options = {},
                           program::Input input = {}) {
    std::vector<std::string> args = {"--for", "rocm", "--idle-secs", "0", "--sample-ms", "50", "--max-attempts", "1"};
    args.insert(args.end(), {"--max-wait", "10"});  // a guard that goes wrong must not outlive its test
    args.insert(args.end(), {"--json-file", path("json").string(), "--log", path("log").string()});
    args.insert(args.end(), options.begin(), options.end());
    args.insert(args.end(), {"--", "sh", "-c", script});
    return loft_guard(std::move(args), std::move(input));
  }
  Json record() const { return read_json_file(path("json")); }

  scripted::TemporaryFolder folder_;
};

}  // namespace loft
