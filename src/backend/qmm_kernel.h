// backend: what the router (qmm/) and the kernels of all machines agree on. Values only; a table of QmmKernel rows,
// best first, is the whole knowledge of a backend about quantized products. Read this first, then qmm/route.h.
#pragma once
#include <climits>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/tensor.h"
#include "quant/format.h"

namespace loft {

struct DeviceInfo;  // backend/device_info.h
struct QmmPolicy;   // backend/device_info.h
struct QmmArgs;     // backend/qmm_args.h

/// How the weight is decoded. "Wmma" stands for the device's fused matrix kernel (WMMA, mma, VNNI tiles).
enum class QmmRoute : uint8_t { Gemv, WmmaDense, DequantFp8Gemm, DequantGemm, DequantGemmAboveWmmaCeiling };
inline constexpr int kQmmRoutes = 5;
const char* route_name(QmmRoute route);

/// The weight layouts that kernels read. Checkpoint is the mapped file itself; others are packed at load (ruy's Path).
enum class Layout : uint8_t { Checkpoint, Panel16 };
const char* layout_name(Layout layout);

/// y = x W^T: all that is known when the weight is loaded. m is not here, on purpose: a layout is chosen without it.
struct QmmSpec {
  QuantFormat format;
  DType x_dtype = DType::F32;      // of x [batch, m, k] and y [batch, m, n]
  DType scale_dtype = DType::F32;  // of scales and biases [n, k / group]; Dense: of the weight itself
  bool has_biases = false;
  bool transposed = true;        // W is [n, k], the usual case
  int64_t n = 0, k = 0;          // outputs, inputs
  int batch_x = 1, batch_w = 1;  // 1 and 1 at load, and after folding a batch into m
};
/// The usual product over `w`, for x and y of x_dtype.
QmmSpec qmm_spec(const QuantWeight& w, DType x_dtype);

struct QmmProblem {
  QmmSpec spec;
  int64_t m = 1;  // rows of x (tokens)
};
struct MRange {
  int64_t lo = 1, hi = INT_MAX;  // rows of x, both ends included; lo > hi: none
};

/// What a backend needs to run a row; each backend derives its own from it. The router never looks inside.
struct QmmEntry {};

/// One row of a table. reject, m_range and workspace_bytes are pure: hardware and options are arguments.
struct QmmKernel {
  const char* name;  // <op>_<format><bits>_<x dtype>[_<tile or method>]_<isa or library>
  QmmRoute route;
  Layout layout;   // the weight layout that it reads
  bool canonical;  // sums in the canonical order: same bytes for a row of x at every m
  MRange (*m_range)(const QmmSpec&, const DeviceInfo&, const QmmPolicy&);      // for which m it should run
  const char* (*reject)(const QmmSpec&, const DeviceInfo&, const QmmPolicy&);  // null: it can; else the reason
  size_t (*workspace_bytes)(const QmmSpec&, int64_t m, const DeviceInfo&);
  const QmmEntry* entry;  // null where the build lacks the backend
};

}  // namespace loft
