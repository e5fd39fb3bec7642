// model: the steps that convert.cc puts in a row; nobody else includes this. What enters: an opened source and the
// temporary folder. What leaves: files in that folder and lines of the report.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/convert.h"
#include "model/gguf.h"

namespace loft {

/// One tensor of a GGUF file and where it goes.
struct WeightStep {
  std::string source;  // name in the file
  const GgufTensor* tensor = nullptr;
  std::string module;             // "model.layers.0.self_attn.q_proj"
  const char* part = "weight";    // "weight" or "bias"
  int64_t interleaved_heads = 0;  // not 0: rows are stored for interleaved rope; so many heads are put back in order
  float subtract = 0;             // taken from each value of a dense tensor (the 1 in Gemma's norms)
};

/// Whole flows into `folder`, which exists and is empty.
ConvertReport convert_gguf(const GgufFile& file, ScaleDType scales, const std::filesystem::path& folder,
                           const ProgressFn& progress);
ConvertReport convert_dense(const ConvertRequest& request, const std::filesystem::path& folder,
                            const ProgressFn& progress);

/// What config.json must say about the written weights: the commonest format is global (nullopt: nothing is quantized),
/// modules of another one have entries of their own.
struct WrittenWeights {
  std::optional<QuantFormat> global;
  std::vector<std::pair<std::string, QuantFormat>> others;
  const char* torch_dtype = "float16";
};

/// Packs and writes all tensors, in the given order; adds rows to the report.
WrittenWeights write_gguf_weights(ScaleDType scales, const std::vector<WeightStep>& steps,
                                  const std::filesystem::path& folder, const ProgressFn& progress,
                                  ConvertReport& report);

/// Ids of special tokens that the file names; -1: none.
struct SpecialIds {
  int64_t bos = -1;
  int64_t eos = -1;
  int64_t unk = -1;
  int64_t pad = -1;
  std::vector<int64_t> stop;  // eos, eot and eom, each once
};

/// Writes tokenizer.json, tokenizer_config.json, chat_template.jinja (where the file has one) and
/// generation_config.json. Errors: Unsupported for a tokenizer model or pre-tokenizer that is not in the tables,
/// listing those that are.
SpecialIds write_gguf_tokenizer(const GgufFile& file, const std::filesystem::path& folder, ConvertReport& report);

/// Adds n tensors' worth to the row of the report with the same source, target and exactness.
void add_to_report(ConvertReport& report, const ConvertRow& row);

}  // namespace loft
