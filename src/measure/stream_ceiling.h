// measure: how fast this process can read memory: the ceiling that a product over weights is held against.
#pragma once
#include <cstddef>
#include <string>

namespace loft {

struct Ceiling {
  double gbps = 0;     // 10^9 bytes a second; 0: not known
  std::string source;  // "measured", "nominal", "off", or why it could not be measured
};

/// The value of --ceiling: measured, nominal:GBPS or off. Error: BadRequest.
struct CeilingChoice {
  bool is_measured = false;
  double nominal_gbps = 0;
};
CeilingChoice parse_ceiling(const std::string& text);

/// Bytes that a measurement reads: larger than the caches can hold.
size_t ceiling_buffer_bytes(size_t last_level_cache_bytes);

/// The best of five streaming reads of a buffer of `bytes` by n_threads threads, each its own part. 0 where the memory
/// cannot be had.
double streaming_read_gbps(int n_threads, size_t bytes);

}  // namespace loft
