// core: arithmetic on sizes that come from a file. Every product and sum of untrusted numbers goes through these.
#pragma once
#include <cstdint>
#include <optional>
#include <span>

namespace loft {

inline std::optional<uint64_t> checked_mul(uint64_t a, uint64_t b) {
  uint64_t r = 0;
  if (__builtin_mul_overflow(a, b, &r)) return std::nullopt;
  return r;
}

inline std::optional<uint64_t> checked_add(uint64_t a, uint64_t b) {
  uint64_t r = 0;
  if (__builtin_add_overflow(a, b, &r)) return std::nullopt;
  return r;
}

/// The product of all dims, 1 for none; nullopt when it does not fit 64 bits.
inline std::optional<uint64_t> checked_product(std::span<const uint64_t> dims) {
  bool has_zero = false;
  uint64_t r = 1;
  bool fits = true;
  for (uint64_t d : dims) {
    if (d == 0) has_zero = true;
    if (fits && __builtin_mul_overflow(r, d, &r)) fits = false;
  }
  if (has_zero) return 0;
  if (!fits) return std::nullopt;
  return r;
}

}  // namespace loft
