// engine: memory and time by phase. Numbers of the backend and of the operating system enter, a table leaves.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "backend/backend.h"

namespace loft {

/// Memory of this process as Linux tells it; 0 where it tells nothing.
struct ProcessMemory {
  size_t resident_bytes = 0;       // now
  size_t peak_resident_bytes = 0;  // since the start
  size_t mapped_bytes = 0;         // resident pages that belong to files: the checkpoint, mostly
};
ProcessMemory read_process_memory();

/// Peak of the phase and what was active at its end, of the backend's own memory.
struct MemoryPhase {
  size_t active_bytes = 0;
  size_t peak_bytes = 0;
  size_t cache_bytes = 0;
};

struct EngineStats {
  double load_ms = 0;
  MemoryPhase load;
  MemoryPhase prefill;
  MemoryPhase decode;
  uint64_t n_steps = 0;
  uint64_t n_rows = 0;    // tokens fed, all sequences
  double forward_ms = 0;  // inside the model
  double sample_ms = 0;   // logits to text
};

/// Lines "name  value", one a counter, for `loft run --stats`.
std::string describe(const EngineStats& stats);

}  // namespace loft
