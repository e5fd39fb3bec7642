// measure: a logit trace as a file: the published TSV. What enters: bytes, by loft or by the
// published tool. What leaves: rows and metadata, or an Error with file:line.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace loft {

/// One scored position: nll of the target in nats; the k likeliest ids by logit, descending.
struct TraceRow {
  int64_t chunk = 0;
  int64_t pos = 0;
  int32_t target = 0;
  double nll = 0;
  std::vector<int32_t> top_ids{};
  std::vector<double> top_logits{};
};

/// One `# forward` line: which routes and kernels a forward pass took.
struct TraceForward {
  int64_t chunk = 0;
  std::string what{};                           // "context" or "scored"
  std::map<std::string, std::string> fields{};  // "rows", "past", "routes", "kernels"
};

struct TraceFile {
  std::string where{};
  std::map<std::string, std::string> metadata{};  // "model", "corpus", "tokens", "chunks", "chunk_tokens", "topk", ...
  std::vector<TraceForward> forwards{};
  std::vector<TraceRow> rows{};
  std::vector<std::string> warnings{};  // what had to be overlooked, with counts
  std::string data_sha256{};            // of the lines that do not start with '#', each with LF
  std::string file_sha256{};
};

/// Errors: NotFound; Corrupt "file:line: found ..., wanted ..." (bad row, lists of unequal length, fewer than two ids,
/// logits not descending or not finite, no rows, a loft trace without its end mark).
TraceFile read_trace_file(const std::filesystem::path& path);
TraceFile parse_trace(std::string_view text, const std::string& where);

}  // namespace loft
