// model: rotary frequencies from a rope config, on the host in double.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.h"
#include "model/blocks.h"

namespace loft {
namespace {

/// Llama 3: long wavelengths are stretched by the factor, short ones kept, those between blended linearly in frequency.
double llama3_freq(double freq, const RopeConfig& config) {
  const double wavelength = 2 * std::numbers::pi / freq;
  const double low = config.original_max_positions / config.low_freq_factor;
  const double high = config.original_max_positions / config.high_freq_factor;
  if (wavelength > low) return freq / config.factor;
  if (wavelength < high) return freq;
  const double smooth = (config.original_max_positions / wavelength - config.low_freq_factor) /
                        (config.high_freq_factor - config.low_freq_factor);
  return (1 - smooth) * freq / config.factor + smooth * freq;
}

/// Yarn: share of dimension pair i that is interpolated, 0 (kept) to 1 (divided by the factor).
double yarn_ramp(double i, const RopeConfig& config, int64_t head_dim) {
  const auto correction_dim = [&](double rotations) {
    return double(head_dim) * std::log(config.original_max_positions / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(config.theta));
  };
  const double low = std::max(std::floor(correction_dim(config.beta_fast)), 0.0);
  double high = std::min(std::ceil(correction_dim(config.beta_slow)), double(head_dim - 1));
  if (low == high) high += 0.001;  // no division by zero; the reference's own value
  return std::clamp((i - low) / (high - low), 0.0, 1.0);
}

double yarn_mscale(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

}  // namespace

std::vector<float> rope_inv_freq(const RopeConfig& config, int64_t head_dim) {
  std::vector<float> out;
  for (int64_t i = 0; i < head_dim / 2; ++i) {
    double freq = std::pow(config.theta, -double(2 * i) / double(head_dim));
    switch (config.type) {
      case RopeType::Default:
        break;
      case RopeType::Linear:
        freq /= config.factor;
        break;
      case RopeType::Llama3:
        freq = llama3_freq(freq, config);
        break;
      case RopeType::Yarn: {
        const double ramp = yarn_ramp(double(i), config, head_dim);
        freq = freq / config.factor * ramp + freq * (1 - ramp);
        break;
      }
    }
    out.push_back(float(freq));
  }
  return out;
}

Rope make_rope(Backend& backend, const RopeConfig& config, int64_t head_dim) {
  const std::vector<float> freqs = rope_inv_freq(config, head_dim);
  Rope rope;
  rope.memory = backend.allocate(freqs.size() * sizeof(float));
  backend.upload(rope.memory.data(), freqs.data(), freqs.size() * sizeof(float));
  rope.inv_freq = make_tensor(rope.memory.data(), DType::F32, {int64_t(freqs.size())});
  if (config.type == RopeType::Yarn) {
    rope.scale = float(yarn_mscale(config.factor, config.mscale) / yarn_mscale(config.factor, config.mscale_all_dim));
  }
  return rope;
}

}  // namespace loft
