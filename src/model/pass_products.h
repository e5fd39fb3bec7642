// model: the quantized products of one forward pass, from a config alone: what the simulation of qmm/ and `loft routes`
// ask.
#pragma once
#include <vector>

#include "model/config.h"
#include "qmm/simulate.h"
#include "quant/format.h"

namespace loft {

/// In the order of a pass: fused q/k/v, o, gate, up, down of each layer, then the head on the last row only.
std::vector<PassProduct> pass_products(const ModelConfig& config, const QuantFormat& format, DType dtype);

}  // namespace loft
