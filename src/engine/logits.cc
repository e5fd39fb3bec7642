// engine: reductions over a row of logits. Sums run in eight fixed lanes, so the result depends on the row alone.
#include "engine/logits.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace loft {
namespace {

constexpr size_t kLanes = 16;  // four SSE registers or two AVX ones: enough independent chains to hide their latency

float largest(std::span<const float> row) {
  float lanes[kLanes];
  std::fill(lanes, lanes + kLanes, -std::numeric_limits<float>::infinity());
  size_t i = 0;
  for (; i + kLanes <= row.size(); i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) lanes[j] = row[i + j] > lanes[j] ? row[i + j] : lanes[j];
  }
  float m = *std::max_element(lanes, lanes + kLanes);
  for (; i < row.size(); ++i) m = std::max(m, row[i]);
  return m;
}

}  // namespace

std::optional<int64_t> find_non_finite(std::span<const float> row) {
  constexpr uint32_t kExponent = 0x7f800000u;
  // A block adds up a flag per lane; the place is looked for only in a block that has one.
  for (size_t begin = 0; begin < row.size(); begin += 4096) {
    const size_t end = std::min(row.size(), begin + 4096);
    uint32_t bad = 0;
    for (size_t i = begin; i < end; ++i) bad |= uint32_t((std::bit_cast<uint32_t>(row[i]) & kExponent) == kExponent);
    if (bad == 0) continue;
    for (size_t i = begin; i < end; ++i) {
      if (!std::isfinite(row[i])) return int64_t(i);
    }
  }
  return std::nullopt;
}

int64_t argmax(std::span<const float> row) {
  LOFT_CHECK(!row.empty());
  const float m = largest(row);
  return std::find(row.begin(), row.end(), m) - row.begin();
}

namespace {

constexpr size_t kRun = 64;  // values whose powers are formed together

/// out[i] = exp_below_zero((x[i] - shift) / divisor), n <= kRun. Two loops: with the clamp inside the second, compilers
/// split off its constant case and make no vectors.
void exp_run(const float* x, size_t n, float shift, float divisor, float* out) {
  for (size_t i = 0; i < n; ++i) {
    const float below = (x[i] - shift) / divisor;
    out[i] = below < kLeastExponent ? kLeastExponent : below;
  }
  for (size_t i = 0; i < n; ++i) out[i] = exp_in_range(out[i]);
}

}  // namespace

double sum_exp(std::span<const float> row, float shift) {
  double total = 0;
  float powers[kRun];
  // f32 lanes over 1024 values keep the rounding error of a lane below 64 * 2^-24; blocks are added in f64.
  for (size_t begin = 0; begin < row.size(); begin += 1024) {
    const size_t end = std::min(row.size(), begin + 1024);
    float lanes[kLanes] = {};
    for (size_t run = begin; run < end; run += kRun) {
      const size_t n = std::min(kRun, end - run);
      exp_run(row.data() + run, n, shift, 1.0f, powers);
      size_t i = 0;
      for (; i + kLanes <= n; i += kLanes) {
        for (size_t j = 0; j < kLanes; ++j) lanes[j] += powers[i + j];
      }
      for (; i < n; ++i) lanes[0] += powers[i];
    }
    for (float lane : lanes) total += double(lane);
  }
  return total;
}

void exp_weights(std::span<const float> row, float shift, float divisor, double* out) {
  float powers[kRun];
  for (size_t begin = 0; begin < row.size(); begin += kRun) {
    const size_t n = std::min(kRun, row.size() - begin);
    exp_run(row.data() + begin, n, shift, divisor, powers);
    for (size_t i = 0; i < n; ++i) out[begin + i] = rounded_weight(powers[i]);
  }
}

double sum_weights(std::span<const float> row, float shift) {
  double weights[kRun], total = 0;
  for (size_t begin = 0; begin < row.size(); begin += kRun) {
    const size_t n = std::min(kRun, row.size() - begin);
    exp_weights(row.subspan(begin, n), shift, 1.0f, weights);
    double lanes[4] = {};
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
      for (size_t j = 0; j < 4; ++j) lanes[j] += weights[i + j];
    }
    for (; i < n; ++i) lanes[0] += weights[i];
    total += (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
  }
  return total;
}

void select_top(std::span<const float> row, int64_t k, std::vector<Candidate>& out) {
  out.clear();
  const size_t keep = size_t(std::clamp<int64_t>(k, 0, int64_t(row.size())));
  if (keep == 0) return;
  // Candidates above the k-th value so far are collected; when twice as many as wanted are there, the worse half goes.
  // Equal values keep the smaller id without a test, as ids come in ascending order and the bound is strict.
  const size_t room = std::min(row.size(), keep * 2 + 64);
  float bound = -std::numeric_limits<float>::infinity();
  bool bounded = false;
  const auto take = [&](size_t i) {
    if (bounded && !(row[i] > bound)) return;
    out.push_back({int32_t(i), row[i]});
    if (out.size() < room || room == row.size()) return;
    std::nth_element(out.begin(), out.begin() + int64_t(keep - 1), out.end(), comes_before);
    out.resize(keep);
    bound = out[keep - 1].logit;
    bounded = true;
  };
  size_t i = 0;
  for (; i + kLanes <= row.size(); i += kLanes) {
    int above = 0;
    for (size_t j = 0; j < kLanes; ++j) above |= int(row[i + j] > bound);
    if (bounded && above == 0) continue;
    for (size_t j = 0; j < kLanes; ++j) take(i + j);
  }
  for (; i < row.size(); ++i) take(i);
  if (out.size() > keep) {
    std::nth_element(out.begin(), out.begin() + int64_t(keep - 1), out.end(), comes_before);
    out.resize(keep);
  }
  std::sort(out.begin(), out.end(), comes_before);
}

void widen_logits(const void* row, DType dtype, std::span<float> out) {
  const auto* half = static_cast<const uint16_t*>(row);
  switch (dtype) {
    case DType::F32:
      std::copy_n(static_cast<const float*>(row), out.size(), out.data());
      return;
    case DType::F16:
      std::transform(half, half + out.size(), out.begin(), f16_to_f32);
      return;
    case DType::BF16:
      std::transform(half, half + out.size(), out.begin(), bf16_to_f32);
      return;
    default:
      LOFT_CHECK_MSG(false, "logits of dtype {}", dtype_name(dtype));
  }
}

RowLogprobs row_logprobs(std::span<const float> row, int32_t id, int64_t k) {
  LOFT_CHECK(id >= 0 && size_t(id) < row.size());
  const float m = row[size_t(argmax(row))];
  const double log_total = std::log(sum_exp(row, m));
  const auto told = [&](const Candidate& c) {
    return TokenLogprob{c.id, c.logit, double(c.logit) - double(m) - log_total};
  };
  RowLogprobs result{.chosen = told({id, row[size_t(id)]}), .top = {}};
  std::vector<Candidate> top;
  select_top(row, k, top);
  for (const Candidate& c : top) result.top.push_back(told(c));
  return result;
}

}  // namespace loft
