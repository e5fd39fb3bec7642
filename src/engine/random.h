// engine: counter-based random numbers. A seed and a place in the stream enter, the number of that place leaves; there
// is no state, so a draw depends neither on the batch around it nor on how many draws came before.
#pragma once
#include <array>
#include <cstdint>

namespace loft {

/// Philox 4x32 with 10 rounds (Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3").
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// Uniform in [0, 1), 53 bits. index is the number of the token, draw tells the draws for one token apart.
double uniform_draw(uint64_t seed, uint64_t index, uint32_t draw);

}  // namespace loft
