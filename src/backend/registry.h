// backend: the explicit list of backends that this build has: a device's name and the function that opens it.
#pragma once
#include <memory>
#include <span>
#include <string_view>

#include "backend/backend.h"
#include "backend/cpu/cpu_backend.h"

namespace loft {

/// Options of all backends; each open function reads its own.
struct BackendOptions {
  CpuBackendOptions cpu;
};

struct BackendRow {
  const char* name;  // "cpu"; later "cuda", "hip"
  std::unique_ptr<Backend> (*open)(const BackendOptions&);
};

/// In order of the list in registry.cc; the first is the default.
std::span<const BackendRow> backend_rows();

/// Errors: BadRequest for a name that this build lacks (lists the others), and those of the backend.
std::unique_ptr<Backend> open_backend(std::string_view name, const BackendOptions& options);

}  // namespace loft
