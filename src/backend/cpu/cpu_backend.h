// backend/cpu: opens this machine's processor as a Backend.
#pragma once
#include <cstddef>
#include <memory>
#include <string>

#include "backend/backend.h"

namespace loft {

struct CpuBackendOptions {
  int threads = 0;                       // 0: min of cgroup quota, affinity and physical cores
  std::string isa = "auto";              // option cpu-isa: highest instruction set to use
  size_t memory_limit = 0;               // bytes of buffers and mapped weights at most; 0: none
  size_t cache_limit = size_t(2) << 30;  // bytes of freed buffers kept for reuse at most
  QmmPolicy policy;
};

/// Errors: BadRequest (unknown isa, threads below 0), Unsupported (isa that this CPU lacks). One log line says the
/// threads and why.
std::unique_ptr<Backend> open_cpu_backend(const CpuBackendOptions& options);

}  // namespace loft
