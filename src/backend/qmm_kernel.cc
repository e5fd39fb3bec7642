// backend: the names of routes and layouts. What enters: enumerators. What leaves: the words of logs, docs and tests.
#include "backend/qmm_kernel.h"

namespace loft {

const char* route_name(QmmRoute route) {
  switch (route) {
    case QmmRoute::Gemv:
      return "Gemv";
    case QmmRoute::WmmaDense:
      return "WmmaDense";
    case QmmRoute::DequantFp8Gemm:
      return "DequantFp8Gemm";
    case QmmRoute::DequantGemm:
      return "DequantGemm";
    case QmmRoute::DequantGemmAboveWmmaCeiling:
      return "DequantGemmAboveWmmaCeiling";
  }
  return "?";
}

const char* layout_name(Layout layout) {
  switch (layout) {
    case Layout::Checkpoint:
      return "checkpoint";
    case Layout::Panel16:
      return "panel16";
  }
  return "?";
}

}  // namespace loft
