#include "measure/trace_file.h"

#include <charconv>
#include <cmath>

#include "core/error.h"
#include "core/file_map.h"
#include "core/sha256.h"

namespace loft {
namespace {

constexpr size_t kMaxTraceBytes = size_t(1) << 30;

std::vector<std::string_view> split(std::string_view text, char by) {
  std::vector<std::string_view> out;
  for (size_t begin = 0;;) {
    const size_t end = std::min(text.find(by, begin), text.size());
    out.push_back(text.substr(begin, end - begin));
    if (end == text.size()) return out;
    begin = end + 1;
  }
}

template <class T>
bool read_number(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

bool is_key_value_line(std::string_view name) {
  for (std::string_view known : {"model", "corpus", "chunks", "start"}) {
    if (name == known) return true;
  }
  return false;
}

// State of one pass over the lines.
struct Parser {
  TraceFile& trace;
  int64_t line_number = 0;
  int64_t n_skipped = 0;  // loader lines before the first row
  int64_t n_cr = 0;
  bool is_loft = false;
  bool has_end = false;
  Sha256 data{};

  [[noreturn]] void refuse(std::string_view found, std::string_view wanted) const {
    fail(Code::Corrupt, "{}:{}: found '{}', wanted {}", trace.where, line_number, found.substr(0, 80), wanted);
  }

  template <class T>
  T number(std::string_view text, std::string_view wanted) const {
    T value{};
    if (!read_number(text, value)) refuse(text, wanted);
    return value;
  }

  void comment(std::string_view line) {
    const std::vector<std::string_view> fields = split(line.substr(line.starts_with("# ") ? 2 : 1), '\t');
    if (fields[0] == "loft") is_loft = true;
    if (fields[0] == "forward" && fields.size() >= 3) {
      TraceForward forward{.chunk = number<int64_t>(fields[1], "a chunk number"), .what = std::string(fields[2])};
      for (size_t i = 3; i + 1 < fields.size(); i += 2) forward.fields[std::string(fields[i])] = fields[i + 1];
      trace.forwards.push_back(std::move(forward));
      return;
    }
    if (fields[0] == "end") {
      if (fields.size() < 3 || number<size_t>(fields[2], "a count") != trace.rows.size()) {
        refuse(line, "an end mark that counts the rows");
      }
      has_end = true;
    }
    if (fields[0] == "abort") refuse(line, "a finished trace");
    // Key and value in turn: "# chunks 4 chunk_tokens 256 topk 8 prefill 0".
    if (!is_key_value_line(fields[0])) return;
    for (size_t i = 0; i + 1 < fields.size(); i += 2) trace.metadata[std::string(fields[i])] = fields[i + 1];
  }

  void row(std::string_view line) {
    const std::vector<std::string_view> fields = split(line, '\t');
    if (fields.size() != 6) refuse(line, "six fields: chunk, pos, target, nll, ids, logits");
    TraceRow r{.chunk = number<int64_t>(fields[0], "a chunk number"),
               .pos = number<int64_t>(fields[1], "a position"),
               .target = number<int32_t>(fields[2], "a token id"),
               .nll = number<double>(fields[3], "a number")};
    for (std::string_view id : split(fields[4], ',')) r.top_ids.push_back(number<int32_t>(id, "token ids"));
    for (std::string_view logit : split(fields[5], ',')) r.top_logits.push_back(number<double>(logit, "logits"));
    if (r.top_ids.size() != r.top_logits.size() || r.top_ids.size() < 2)
      refuse(line, "as many logits as ids, two or more");
    if (!std::isfinite(r.nll)) refuse(fields[3], "a finite nll");
    for (size_t i = 0; i < r.top_logits.size(); ++i) {
      if (!std::isfinite(r.top_logits[i])) refuse(fields[5], "finite logits");
      if (i > 0 && r.top_logits[i] > r.top_logits[i - 1]) refuse(fields[5], "logits in descending order");
    }
    trace.rows.push_back(std::move(r));
  }

  void line(std::string_view text) {
    ++line_number;
    if (text.ends_with('\r')) {
      text.remove_suffix(1);
      ++n_cr;
    }
    if (text.starts_with('#')) return comment(text);
    data.update(text);
    data.update("\n");
    if (text.starts_with('[') && trace.rows.empty()) {
      ++n_skipped;
      return;
    }
    row(text);
  }
};

}  // namespace

TraceFile parse_trace(std::string_view text, const std::string& where) {
  TraceFile trace{.where = where, .file_sha256 = sha256_hex(text)};
  Parser parser{.trace = trace};
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) {
      ++parser.line_number;
      parser.refuse(text, "a newline at the end: the file is cut off");
    }
    parser.line(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  if (trace.rows.empty()) fail(Code::Corrupt, "{}: found no rows, wanted at least one", where);
  if (parser.is_loft && !parser.has_end)
    fail(Code::Corrupt, "{}: found no end mark, wanted '# end': the file is cut off", where);
  if (parser.n_cr > 0) trace.warnings.push_back(fmt::format("{}: {} lines end with CR LF", where, parser.n_cr));
  if (parser.n_skipped > 0)
    trace.warnings.push_back(fmt::format("{}: {} loader lines skipped", where, parser.n_skipped));
  trace.data_sha256 = parser.data.hex();
  return trace;
}

TraceFile read_trace_file(const std::filesystem::path& path) {
  return parse_trace(read_text_file(path, kMaxTraceBytes), path.string());
}

}  // namespace loft
