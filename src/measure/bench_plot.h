// measure: rows of results as a picture: series of medians with their ranges, as SVG or as columns for gnuplot. The
// same rows give the same bytes. Pure.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/json.h"

namespace loft {

struct PlotPoint {
  double x = 0, y = 0, lo = 0, hi = 0;
};
struct PlotSeries {
  std::string name;
  std::vector<PlotPoint> points;  // by x
};
struct Plot {
  std::string title, x_label, y_label;
  bool log_x = false, log_y = false;
  std::optional<double> ceiling;
  std::vector<PlotSeries> series;  // by name
};

/// Rows of loft.bench/1 or loft.bench.qmm/1. x: M, depth, n_prompt, threads; y: ts, gbps, tflops, share, mem, us. A
/// series is what the rows say besides x: model, arm, kind of test, or product and kernel; what all rows share goes
/// into the title. Rows of one series and x become one point: the median of their medians and the range of all. Errors:
/// BadRequest for other words; NotFound when no row has such a figure.
Plot plot_rows(std::span<const OrderedJson> rows, const std::string& x, const std::string& y, const std::string& log);

std::string svg_text(const Plot& plot);
/// Blocks of "x y lo hi", one a series, each under "# name".
std::string dat_text(const Plot& plot);

}  // namespace loft
