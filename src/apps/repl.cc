// apps: the chat: lines from the terminal enter, streamed answers leave. One table of commands.
#include "apps/repl.h"

#include <editline/readline.h>
#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "apps/answer.h"
#include "apps/output.h"
#include "apps/signals.h"

namespace loft {
namespace {

struct Repl {
  const Options& options;
  Conversation& conversation;
  OpenedEngine& opened;
  bool is_done = false;
};

struct Command {
  const char* name;
  const char* argument;  // shown by /help; empty: none
  const char* help;
  void (*run)(Repl&, const std::string& argument);
};

void show_help(Repl&, const std::string&);

void reset(Repl& repl, const std::string&) {
  repl.conversation.clear();
  fmt::print(stderr, "the conversation is empty\n");
}

void set_system(Repl& repl, const std::string& text) {
  repl.conversation.set_system(text);
  fmt::print(stderr, "{}; the conversation is empty\n", text.empty() ? "no system message" : "system message set");
}

void save(Repl& repl, const std::string& name) {
  if (name.empty()) return fmt::print(stderr, "/save wants a file name\n");
  // Written beside and renamed, so that a full disk leaves no half file under the name.
  const std::string part = name + ".part";
  std::ofstream out(part, std::ios::binary);
  out << repl.conversation.to_json();
  out.close();
  std::error_code error;
  if (out) std::filesystem::rename(part, name, error);
  if (!out || error) {
    std::filesystem::remove(part, error);
    return fmt::print(stderr, "{}: cannot be written\n", name);
  }
  fmt::print(stderr, "saved {} messages to {}\n", repl.conversation.n_messages(), name);
}

void leave(Repl& repl, const std::string&) {
  repl.is_done = true;
}

constexpr Command kCommands[] = {
    {"/help", "", "these lines", show_help},
    {"/reset", "", "forget the conversation", reset},
    {"/system", "TEXT", "set the system message (none without TEXT) and start anew", set_system},
    {"/save", "FILE", "write the messages as JSON", save},
    {"/exit", "", "leave, as Ctrl-D does", leave},
};

void show_help(Repl&, const std::string&) {
  for (const Command& c : kCommands) fmt::print(stderr, "  {:<8} {:<5} {}\n", c.name, c.argument, c.help);
  fmt::print(stderr,
             "  A line that ends with \\ goes on in the next one; \"\"\" begins and ends a text of several lines.\n"
             "  Ctrl-C stops an answer, Ctrl-D leaves.\n");
}

/// A Ctrl-D typed during an answer, while the terminal still makes lines, reaches the line editor as a NUL byte.
/// libedit gives NUL to "quote the next key" each time it takes the terminal, which would swallow the next Ctrl-D too;
/// here, after it has, NUL becomes another Ctrl-D.
int bind_nul_as_ctrl_d() {
  char command[] = "bind ^@ em-delete-or-list";
  return rl_parse_and_bind(command);
}

/// One line without its newline; nullopt at the end of input.
std::optional<std::string> read_line(const char* prompt) {
  char* line = readline(prompt);
  if (!line) return std::nullopt;
  std::string text(line);
  std::free(line);
  return text;
}

/// A message of one line, of lines joined by \, or between """ and """.
std::optional<std::string> read_message() {
  std::optional<std::string> line = read_line("> ");
  if (!line) return std::nullopt;
  std::string text = *line;
  if (text.starts_with("\"\"\"")) {
    text.erase(0, 3);
    while (!text.ends_with("\"\"\"")) {
      line = read_line(". ");
      if (!line) return std::nullopt;
      text += "\n" + *line;
    }
    text.erase(text.size() - 3);
  } else {
    while (text.ends_with('\\')) {
      text.back() = '\n';
      line = read_line(". ");
      if (!line) return std::nullopt;
      text += *line;
    }
  }
  return text;
}

void run_command(Repl& repl, const std::string& line) {
  const size_t space = line.find(' ');
  const std::string name = line.substr(0, space);
  const std::string argument = space == std::string::npos ? "" : line.substr(space + 1);
  for (const Command& c : kCommands) {
    if (name == c.name) return c.run(repl, argument);
  }
  fmt::print(stderr, "{}: no such command; /help lists them\n", visible_controls(name));
}

void answer_message(Repl& repl, const std::string& message) {
  repl.conversation.add("user", message);
  AnswerWriter writer;
  ProgressLine progress(repl.options.quiet);
  Engine& engine = *repl.opened.engine;
  Request request{.prompt = repl.conversation.prompt(),
                  .sampling = repl.opened.sampling,
                  .max_tokens = {},
                  .stop = repl.options.stop,
                  .top_logprobs = {}};
  if (repl.options.max_tokens)
    request.max_tokens = int64_t(std::min<uint64_t>(*repl.options.max_tokens, uint64_t(INT32_MAX)));
  const auto n_prompt = int64_t(request.prompt.size());
  if (n_prompt >= engine.context()) {
    repl.conversation.drop_last();
    return fmt::print(stderr, "the conversation has {} tokens, the context holds {}; /reset starts anew\n", n_prompt,
                      engine.context());
  }
  AnswerHooks hooks;
  hooks.on_text = [&](std::string_view text) { writer.write(text); };
  hooks.on_prompt = [&](int64_t done, int64_t total) {
    if (done < total) return progress.update("prompt", uint64_t(done), uint64_t(total), 2000);
    progress.clear();
  };
  const AnswerResult result = run_request(engine, std::move(request), hooks);
  writer.end_line();
  repl.conversation.add("assistant", result.text);
  // Each turn draws anew; the first seed still fixes the whole chat.
  repl.opened.sampling.seed += 1;
  if (!repl.options.quiet)
    fmt::print(stderr, "{}; {} of {} tokens of context used\n", closing_line(result),
               result.finish.usage.prompt_tokens + result.finish.usage.completion_tokens, engine.context());
}

}  // namespace

int run_repl(const Options& options, Conversation& conversation, OpenedEngine& opened) {
  Repl repl{options, conversation, opened};
  rl_readline_name = "loft";
  rl_initialize();
  rl_pre_input_hook = bind_nul_as_ctrl_d;
  using_history();
  if (!options.quiet) fmt::print(stderr, "/help lists the commands\n");
  while (!repl.is_done) {
    clear_signal();
    const std::optional<std::string> message = read_message();
    if (pending_signal() == SIGTERM || pending_signal() == SIGHUP) return signal_exit_status(pending_signal());
    if (!message && pending_signal() == 0) break;
    if (!message || message->empty()) continue;
    add_history(message->c_str());
    clear_signal();
    if (message->starts_with('/')) {
      run_command(repl, *message);
    } else {
      answer_message(repl, *message);
    }
  }
  fmt::print(stderr, "\n");
  return 0;
}

}  // namespace loft
