// The chat of `loft run` at a real pseudo-terminal: commands, an answer, Ctrl-C, Ctrl-D.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "core/json.h"
#include "engine/scripted_engine.h"
#include "model/synth.h"

namespace loft {
namespace {

using scripted::TemporaryFolder;
using testing::HasSubstr;

/// A program at a pseudo-terminal.
class Terminal {
 public:
  explicit Terminal(std::vector<std::string> args) {
    child_ = forkpty(&terminal_, nullptr, nullptr, nullptr);
    if (child_ != 0) return;
    setenv("TERM", "dumb", 1);
    std::vector<char*> argv = {const_cast<char*>(LOFT_BINARY)};
    for (std::string& a : args) argv.push_back(a.data());
    argv.push_back(nullptr);
    execv(LOFT_BINARY, argv.data());
    _exit(127);
  }
  ~Terminal() {
    if (child_ > 0) kill(child_, SIGKILL), waitpid(child_, nullptr, 0);
    close(terminal_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void type(const std::string& text) { ASSERT_EQ(write(terminal_, text.data(), text.size()), ssize_t(text.size())); }

  /// Reads until the text since the last call holds `wanted`, at most 20 s; returns that text up to its end.
  std::string read_until(const std::string& wanted) {
    size_t at = std::string::npos;
    while ((at = unread_.find(wanted)) == std::string::npos) {
      pollfd p{terminal_, POLLIN, 0};
      if (poll(&p, 1, 20000) <= 0) break;
      char buffer[4096];
      const ssize_t n = read(terminal_, buffer, sizeof(buffer));
      if (n <= 0) break;  // the program has left the terminal
      unread_.append(buffer, size_t(n));
    }
    EXPECT_NE(at, std::string::npos) << "wanted: " << wanted << "\nfound the end of: "
                                     << unread_.substr(unread_.size() - std::min<size_t>(unread_.size(), 200));
    const std::string text = unread_.substr(0, at == std::string::npos ? at : at + wanted.size());
    unread_.erase(0, text.size());
    return text;
  }

  /// The terminal may be gone already.
  void press_ctrl_d() { [[maybe_unused]] const ssize_t n = write(terminal_, "\x04", 1); }

  bool has_ended() {
    if (child_ > 0 && waitpid(child_, &status_, WNOHANG) == child_) child_ = -1;
    return child_ <= 0;
  }

  /// Waits for the end of the program, at most 20 s; 128 + SIGKILL when it had to be ended.
  int exit_status() {
    for (int i = 0; !has_ended(); ++i) {
      if (i == 200) kill(child_, SIGKILL);
      usleep(100000);
    }
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
  }

 private:
  int terminal_ = -1;
  std::string unread_;
  pid_t child_ = -1;
  int status_ = 0;
};

class E2eChat : public testing::Test {
 protected:
  E2eChat() : model_(folder_.path() / "m") {
    SynthRequest request;
    request.config_json =
        R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 1,
      "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 288, "rms_norm_eps": 1e-5,
      "max_position_embeddings": 8192, "rope_theta": 10000.0, "tie_word_embeddings": true})";
    request.format = {.kind = QuantKind::Affine, .bits = 8, .group = 32};
    synth_checkpoint(request, model_);
    std::ofstream(model_ / "chat_template.jinja")
        << "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:";
  }
  std::vector<std::string> args(const std::string& n) const { return {"run", model_.string(), "-n", n, "--seed", "1"}; }
  TemporaryFolder folder_;
  std::filesystem::path model_;
};

TEST_F(E2eChat, AnswersAndCommands) {
  Terminal t(args("6"));
  EXPECT_THAT(t.read_until("> "), HasSubstr("/help lists the commands"));
  t.type("hello\n");
  t.read_until("tokens of context used");
  t.type("/nope\n");
  t.read_until("no such command");
  t.type("/help\n");
  t.read_until("Ctrl-D leaves");
  const std::string file = (folder_.path() / "chat.json").string();
  t.type("/save " + file + "\n");
  t.read_until("saved 2 messages");
  EXPECT_THAT(dump_json(read_json_file(file)), HasSubstr(R"({"content":"hello","role":"user"})"));
  t.type("/system be brief\n");
  t.read_until("system message set");
  t.type("/reset\n");
  t.read_until("the conversation is empty");
  t.type("two\\\nlines\n");
  t.read_until("tokens of context used");
  t.type("/exit\n");
  EXPECT_EQ(t.exit_status(), 0);
}

TEST_F(E2eChat, CtrlDLeaves) {
  Terminal t(args("6"));
  t.read_until("> ");
  usleep(300000);  // until the line editor has the terminal
  t.press_ctrl_d();
  EXPECT_EQ(t.exit_status(), 0);
}

// Typed while the terminal is not the line editor's. Seen to hang without bind_nul_as_ctrl_d (apps/repl.cc).
TEST_F(E2eChat, CtrlDTypedDuringAnAnswerLeavesAfterIt) {
  Terminal t(args("4000"));
  t.read_until("> ");
  t.type("hello\n");
  t.read_until("hello\r\n");
  usleep(50000);  // the answer is being written, the line editor has left the terminal
  t.press_ctrl_d();
  t.read_until("tokens of context used");
  EXPECT_EQ(t.exit_status(), 0);
}

TEST_F(E2eChat, CtrlCStopsTheAnswerAndTheChatGoesOn) {
  Terminal t(args("8000"));
  t.read_until("> ");
  t.type("hello\n");
  t.read_until("hello\r\n");
  usleep(300000);  // some of the answer is there
  t.type("\x03");
  t.read_until("tokens of context used");
  t.type("/reset\n");
  t.read_until("the conversation is empty");
  t.type("/exit\n");
  EXPECT_EQ(t.exit_status(), 0);
}

}  // namespace
}  // namespace loft
