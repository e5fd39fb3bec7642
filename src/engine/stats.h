// engine: memory and time by phase. Numbers of the backend and of the operating system enter, a table leaves.
#pragma once
#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "backend/backend.h"
#include "core/json.h"
#include "model/memory_plan.h"

namespace loft {

/// Memory of this process as Linux tells it; 0 where it tells nothing.
struct ProcessMemory {
  size_t resident_bytes = 0;       // now
  size_t peak_resident_bytes = 0;  // since the start
  size_t mapped_bytes = 0;         // resident pages that belong to files: the checkpoint, mostly
  size_t anonymous_bytes = 0;      // resident pages that no file backs
};
ProcessMemory read_process_memory();

/// What was active and cached at the end of a phase, and the peak of active in it, of the backend's own memory.
struct MemoryPhase {
  size_t active_bytes = 0;
  size_t peak_bytes = 0;
  size_t cache_bytes = 0;
  // Of the process beyond the backend: the program, its tokenizer, the buffers of the GEMM library. About: pages that
  // were never touched count as handed out, not as resident. After load: all pages that no file backs.
  size_t outside_bytes = 0;
};
/// `phase` gone on until `now`: the larger of both peaks, all else as it is now.
MemoryPhase grown(const MemoryPhase& phase, const MemoryStats& now);
/// Bytes of the process that no account of the backend holds, at the high water of the process.
size_t outside_bytes(const ProcessMemory& process, const MemoryStats& backend);

struct EngineStats {
  double load_ms = 0;
  MemoryPlan plan;   // what was expected before the weights were read; all zero when nobody told
  MemoryPhase load;  // to the open engine; then: all steps that read a prompt; all others
  MemoryPhase prefill;
  MemoryPhase decode;
  uint64_t n_steps = 0;
  uint64_t n_rows = 0;    // tokens fed, all sequences
  double forward_ms = 0;  // inside the model
  double sample_ms = 0;   // logits to text
};

/// Lines "name  value", one a counter, for `loft run --stats`. `now`: of the engine's backend.
std::string describe(const EngineStats& stats, const MemoryStats& now);
/// {"active_bytes", "peak_bytes" of all phases, "cache_bytes", "mapped_bytes", "file_bytes", "plan": {..}, "phases":
/// {"load":
/// {"active_bytes", "peak_bytes", "cache_bytes", "outside_bytes"}, "prefill": .., "decode": ..}, "process": {..}}
OrderedJson memory_json(const EngineStats& stats, const MemoryStats& now);

}  // namespace loft
