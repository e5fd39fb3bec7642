// apps: loft run: one answer, streamed, or a chat. Options and a prompt enter; text or one JSON object leaves on
// stdout.
#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <iostream>
#include <iterator>
#include <random>

#include "apps/answer.h"
#include "apps/apps.h"
#include "apps/conversation.h"
#include "apps/model_path.h"
#include "apps/output.h"
#include "apps/repl.h"
#include "apps/signals.h"
#include "core/log.h"
#include "engine/open_engine.h"
#include "engine/prompt.h"

namespace loft {
namespace {

constexpr size_t kMaxPromptBytes = size_t(16) << 20;  // as the server's limit of a request body

std::string read_all(std::istream& in, const std::string& name) {
  std::string text(kMaxPromptBytes + 1, '\0');
  in.read(text.data(), int64_t(text.size()));
  if (in.bad()) fail(Code::NotFound, "{}: cannot be read", name);
  text.resize(size_t(in.gcount()));
  if (text.size() > kMaxPromptBytes)
    fail(Code::BadRequest, "{}: the prompt is longer than {} bytes", name, kMaxPromptBytes);
  // Editors and echo end a text with a newline that is no part of the question.
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

/// The prompt as text; nullopt where a chat is wanted.
std::optional<std::string> read_prompt(const Options& o) {
  if (o.prompt && o.file) fail(Code::BadRequest, "--prompt and --file are both given, wanted one of them");
  if (o.prompt) return *o.prompt == "-" ? read_all(std::cin, "standard input") : *o.prompt;
  if (o.file) {
    std::error_code ignored;
    std::ifstream in(*o.file, std::ios::binary);
    if (!in || std::filesystem::is_directory(*o.file, ignored))
      fail(Code::NotFound, "{}: no such file, or it cannot be read", *o.file);
    return read_all(in, *o.file);
  }
  if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !o.json) return std::nullopt;
  fail(Code::BadRequest, "no prompt: give -p TEXT, -p - for standard input or -f FILE (a chat needs a terminal)");
}

void check_options(const Options& o) {
  if (o.top_logprobs && !o.json)
    fail(Code::BadRequest, "--top-logprobs is given without --json, where its values are printed");
  if (o.raw && o.system) fail(Code::BadRequest, "--system is given with --raw, which uses no chat template");
  if (o.raw && !o.template_var.empty())
    fail(Code::BadRequest, "--template-var is given with --raw, which uses no chat template");
}

uint64_t random_seed() {
  std::random_device device;
  // 53 bits, so that every JSON reader gives the number back.
  return (uint64_t(device()) << 32 | device()) >> 11;
}

Request make_request(const Options& o, const SamplerParams& sampling, std::vector<int32_t> prompt) {
  Request r{.prompt = std::move(prompt), .sampling = sampling, .max_tokens = {}, .stop = o.stop, .top_logprobs = {}};
  if (o.max_tokens) r.max_tokens = int64_t(std::min<uint64_t>(*o.max_tokens, uint64_t(INT32_MAX)));
  if (o.top_logprobs) r.top_logprobs = int64_t(std::min<uint64_t>(*o.top_logprobs, uint64_t(INT32_MAX)));
  return r;
}

int answer_once(const ParsedArgs& args, OpenedEngine& opened, std::vector<int32_t> prompt) {
  const Options& o = args.options;
  AnswerWriter writer;
  ProgressLine progress(o.quiet);
  AnswerHooks hooks;
  hooks.on_prompt = [&](int64_t done, int64_t total) {
    if (done < total) return progress.update("prompt", uint64_t(done), uint64_t(total), 2000);
    progress.clear();
  };
  if (!o.json) hooks.on_text = [&](std::string_view text) { writer.write(text); };
  const AnswerFacts facts{.model = args.positionals[0],
                          .prompt = prompt,
                          .seed = opened.sampling.seed,
                          .wants_next = o.max_tokens == 0u && o.top_logprobs.has_value()};
  AnswerResult result;
  try {
    result = run_request(*opened.engine, make_request(o, opened.sampling, std::move(prompt)), hooks);
  } catch (const Error&) {
    if (!o.json) writer.end_line();
    throw;
  }
  if (o.json) {
    write_data(answer_json(facts, result, *opened.engine));
  } else if (!result.text.empty()) {
    writer.end_line();
  }
  if (!o.quiet) fmt::print(stderr, "{}\n", closing_line(result));
  if (o.stats)
    fmt::print(stderr, "{}{}", describe(opened.engine->stats(), opened.engine->backend().memory()),
               describe(opened.engine->qmm_stats()));
  return result.signal != 0 ? signal_exit_status(result.signal) : 0;
}

int answer_or_chat(const ParsedArgs& args, const std::filesystem::path& folder, const std::optional<std::string>& text,
                   OpenedEngine& opened) {
  const Options& o = args.options;
  const Tokenizer& tokenizer = opened.engine->tokenizer();
  if (o.raw && !text) fail(Code::BadRequest, "--raw wants a prompt: give -p TEXT, -p - for standard input or -f FILE");
  if (o.raw) return answer_once(args, opened, encode_prompt(tokenizer, *text, PromptKind::Raw));
  Conversation conversation(folder, tokenizer, o);
  if (!text) return run_repl(o, conversation, opened);
  conversation.add("user", *text);
  return answer_once(args, opened, conversation.prompt());
}

}  // namespace

int run_run(const ParsedArgs& args) {
  const Options& o = args.options;
  check_options(o);
  const std::vector<std::string> environment = process_environment();
  const std::filesystem::path folder =
      resolve_model(args.positionals[0], {.models_dir = o.models_dir, .environment = environment});
  const std::optional<std::string> text = read_prompt(o);
  catch_signals();
  OpenedEngine opened = open_engine(folder, o, 1);
  if (!o.seed) opened.sampling.seed = random_seed();
  log_info("seed {}", opened.sampling.seed);
  const int status = answer_or_chat(args, folder, text, opened);
  if (o.qmm_stats) fmt::print(stderr, "{}\n", dequant_cache_line(opened.engine->qmm_stats().cache, "CPU"));
  return status;
}

}  // namespace loft
