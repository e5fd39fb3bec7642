// apps: the list of subcommands. A subcommand is one file and one row here.
#include "apps/apps.h"

namespace loft {
namespace {

constexpr Positional kModelPosition[] = {
    {"MODEL", "folder, name in --models-dir, or ORG/NAME in the Hugging Face cache", true}};
constexpr Positional kConvertPositions[] = {{"SRC", "GGUF file, or folder of dense safetensors", true},
                                            {"DST", "folder to make; must not exist", true}};
constexpr Positional kQuantizePositions[] = {{"SRC", "checkpoint folder", true},
                                             {"DST", "folder to make; must not exist", true}};
constexpr Positional kSynthPositions[] = {{"SHAPE", "name of a real shape (smollm2-135m, ...), or a config.json", true},
                                          {"DST", "folder to make; must not exist", true}};
constexpr Positional kTwoTraces[] = {{"REFERENCE", "trace of the baseline", true},
                                     {"CANDIDATE", "trace to judge", true}};
constexpr Positional kCommandPosition[] = {
    {"-- COMMAND ARGS..", "program to run, with its arguments as they are", false, true}};
constexpr Positional kBenchPositions[] = {
    {"MODEL", "checkpoint to measure, as for run; any number of them; or qmm: one quantized product by itself", false,
     false, true}};
constexpr Positional kTracePositions[] = {{"MODEL", "folder, name in --models-dir, or ORG/NAME", true},
                                          {"TEXT", "UTF-8 text file to score", true},
                                          {"CHUNK", "as --chunk", false},
                                          {"MAX_CHUNKS", "as --max-chunks", false},
                                          {"TOPK", "as --topk", false},
                                          {"PREFILL", "as --prefill", false}};
constexpr Positional kPerplexityPositions[] = {
    {"MODEL", "folder, name in --models-dir, or ORG/NAME; not with --from-trace", false},
    {"TEXT", "UTF-8 text file to score; not with --windows", false}};
constexpr Positional kShapePosition[] = {{"SHAPE", "name of a model shape; unset: llama-3.1-8b", false}};
constexpr Positional kShellPosition[] = {{"SHELL", "bash", true}};

constexpr const char* kRunNotes =
    "Without -p and -f, a terminal gets a chat. The answer goes to stdout, all else to stderr. The first Ctrl-C ends "
    "the\n"
    "answer, the second one the program. One newline at the end of a prompt from stdin or a file is dropped.\n"
    "--json prints {\"schema\": \"loft.run/1\", model, prompt_tokens, tokens, text, finish_reason (stop, length, "
    "cancelled), stop,\n"
    "usage {prompt_tokens, completion_tokens}, timings {load_ms, prefill_ms, decode_ms, prefill_tok_s, decode_tok_s}, "
    "memory\n"
    "{active_bytes, peak_bytes, cache_bytes, mapped_bytes, file_bytes, plan, phases {load, prefill, decode}, process}, "
    "qmm,\n"
    "seed}; with --top-logprobs also logprobs [{id, token, "
    "logprob,\n"
    "top}], and with -n 0 next {top [{id, token, logit, logprob}]}.";

constexpr const char* kBenchNotes =
    "Each model is measured in a process of its own: a discarded pass, then -r passes; the table shows the median and "
    "the range.\n"
    "A/B: --arm base='' --arm new='--qmm-activations f32' runs both and a repeat of the base in balanced rounds.\n"
    "Alone on the machine: --guard. Many models: -m all --models-dir DIR --out-dir DIR. By kernel: --kernels.\n"
    "Exit status: 0; 1 by --fail-on; 4 a test did not fit; 5 a test failed; 6 --fail-on had too few rounds; 75 "
    "disturbed under --guard.\n"
    "-o json: {\"schema\": \"loft.bench/1\", results [..]}, the keys of llama-bench and more: docs/bench.md.";

constexpr Subcommand kSubcommands[] = {
    {"run", kRun, "Answers one prompt, or chats at a terminal.", kModelPosition, kRunNotes, run_run},
    {"convert", kConvert, "Makes an MLX checkpoint of a GGUF file or dense safetensors.", kConvertPositions, "",
     run_convert},
    {"quantize", kQuantize, "Makes a checkpoint of another weight format.", kQuantizePositions, "", run_quantize},
    {"inspect", kInspect, "Tells what a checkpoint is and what memory it takes.", kModelPosition,
     "Reads headers only. --json: {\"schema\": \"loft.inspect/1\", model, model_type, layers, formats, plan {.., "
     "fits}, ..}.",
     run_inspect},
    {"synth", kSynth, "Makes a seeded random checkpoint of a real shape.", kSynthPositions, "", run_synth},
    {"bench", kBench, "Measures prefill and decode of a model: medians, memory, routes; A/B with a null arm.",
     kBenchPositions, kBenchNotes, run_bench},
    {"trace", kTrace, "Writes the likeliest tokens and the loss of every position of a text.", kTracePositions,
     "The format is that of the published tool, with comment lines more (--plain: without). docs/tools/trace.md\n"
     "--json: {\"schema\": \"loft.trace/1\", model, model_id, corpus, shape, bos, logits, chunks, rows, mean_nll, ppl, "
     "data_sha256, .., forwards}.",
     run_trace},
    {"perplexity", kPerplexity, "Perplexity of a text by one of four definitions.", kPerplexityPositions,
     "docs/tools/perplexity.md says what they are. --json: {\"schema\": \"loft.perplexity/1\", status, mode, model, "
     "length,\nwindows, tokens, nll, ppl, token_error, window_error, ..}.",
     run_perplexity},
    {"compare", kCompare, "Holds two logit traces against each other.", kTwoTraces,
     "Reads traces of loft and of the published tool. Exit status: 0; 1 and 6 by --fail-on; 2 when not comparable.",
     run_compare},
    {"guard", kGuard, "Runs a command alone on its machine, and again when it was disturbed.", kCommandPosition,
     "--hold -- COMMAND only holds the lock; --status tells who does. Exit status: that of COMMAND (128 + signal); 75 "
     "when no\n"
     "clean run came about; 126, 127 COMMAND cannot run; 129, 130, 143 ended by a signal; 2 a bad option. "
     "docs/guard.md tells more.",
     run_guard},
    {"routes", kRoutes, "Shows which kernel serves which product, here or on a described device.", kShapePosition,
     "--simulate SHAPE counts routes and cache over passes. --json: {\"schema\": \"loft.routes/1\", shape, device, "
     "policy, "
     "dtype, rows, passes, qmm}.",
     run_routes},
    {"devices", kDevices, "Tells what this machine has for loft to run on.", {}, "", run_devices},
    {"completion", kCompletion, "Prints a completion script for the shell.", kShellPosition,
     "source <(loft completion bash)", run_completion},
    {"version", kVersion, "Version, commit and build of this program.", {}, "", run_version},
};

}  // namespace

std::span<const Subcommand> subcommands() {
  return kSubcommands;
}

}  // namespace loft
