#include "core/error.h"

#include <cstdio>
#include <cstdlib>

namespace loft {
namespace {

struct CodeRow {
  Code code;
  const char* name;
  int exit_status;
  int http_status;
};

constexpr CodeRow kCodes[] = {
    {Code::BadRequest, "bad request", 2, 400},    {Code::NotFound, "not found", 3, 404},
    {Code::Unsupported, "unsupported", 3, 400},   {Code::Corrupt, "corrupt", 3, 500},
    {Code::OutOfMemory, "out of memory", 4, 503}, {Code::Device, "device", 5, 500},
    {Code::NonFinite, "non-finite", 5, 500},      {Code::Internal, "internal", 70, 500},
};

const CodeRow& row(Code code) {
  for (const CodeRow& r : kCodes) {
    if (r.code == code) return r;
  }
  std::abort();
}

}  // namespace

const char* code_name(Code code) {
  return row(code).name;
}
int exit_status(Code code) {
  return row(code).exit_status;
}
int http_status(Code code) {
  return row(code).http_status;
}

void fail(Code code, const std::string& message) {
  throw Error(code, message);
}

void check_failed(const char* expression, const char* file, int line, const std::string& note) {
  std::fprintf(stderr, "loft: internal error: %s does not hold at %s:%d%s%s\n", expression, file, line,
               note.empty() ? "" : ": ", note.c_str());
  std::abort();
}

}  // namespace loft
