// engine: Philox 4x32-10 as its paper defines it; the test holds it to the published known answers.
#include "engine/random.h"

namespace loft {

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  constexpr uint64_t kMultiply0 = 0xD2511F53u;
  constexpr uint64_t kMultiply1 = 0xCD9E8D57u;
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = kMultiply0 * counter[0];
    const uint64_t b = kMultiply1 * counter[2];
    counter = {uint32_t(b >> 32) ^ counter[1] ^ key[0], uint32_t(b), uint32_t(a >> 32) ^ counter[3] ^ key[1],
               uint32_t(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

double uniform_draw(uint64_t seed, uint64_t index, uint32_t draw) {
  const auto r = philox4x32({uint32_t(index), uint32_t(index >> 32), draw, 0}, {uint32_t(seed), uint32_t(seed >> 32)});
  const uint64_t bits = (uint64_t(r[0]) << 32 | r[1]) >> 11;
  return double(bits) * 0x1p-53;
}

}  // namespace loft
