// backend: adding a backend is one line here.
#include "backend/registry.h"

#include <string>

#include "core/error.h"

namespace loft {
namespace {

constexpr BackendRow kBackends[] = {
    {"cpu", [](const BackendOptions& options) { return open_cpu_backend(options.cpu); }},
};

}  // namespace

std::span<const BackendRow> backend_rows() {
  return kBackends;
}

std::unique_ptr<Backend> open_backend(std::string_view name, const BackendOptions& options) {
  std::string known;
  for (const BackendRow& row : kBackends) {
    if (row.name == name) return row.open(options);
    known += known.empty() ? row.name : std::string(", ") + row.name;
  }
  fail(Code::BadRequest, "device '{}': this build has {}", name, known);
}

}  // namespace loft
