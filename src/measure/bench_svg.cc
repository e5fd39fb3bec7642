// measure: a plot as SVG 1.1: plain shapes and text, fixed decimals, nothing of the time or the machine.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "measure/bench_plot.h"

namespace loft {
namespace {

// Okabe and Ito's colours, which the common forms of colour blindness keep apart; without yellow, which white swallows.
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"};
constexpr double kLeft = 72, kTop = 48, kWide = 560, kHigh = 340, kBottom = 56;
constexpr double kInset = 14;       // free of marks at both ends of x, so that no bar lies on the axis
constexpr double kCharacter = 7.5;  // a generous width of one at 12 px; at 14 px a sixth more

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (uint8_t(c) >= 0x20)
      out += c;
  }
  return out;
}

/// Short, without an exponent: 0.05, 12.5, 4096, 120k.
std::string tick_text(double v) {
  if (std::fabs(v) >= 10000 && std::fmod(v, 1000) == 0) return fmt::format("{:.0f}k", v / 1000);
  std::string text = fmt::format("{:.4f}", v);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text;
}

struct Scale {
  double lo, hi;
  bool is_log;
  double at(double v) const {
    const double a = is_log ? std::log(v) - std::log(lo) : v - lo;
    const double b = is_log ? std::log(hi) - std::log(lo) : hi - lo;
    return a / b;
  }
};

/// Every 1, 2 and 5 times a power of ten from the last one at or below lo to the first at or above hi.
std::vector<double> decimal_ticks(double lo, double hi) {
  std::vector<double> ticks;
  for (double decade = std::pow(10, std::floor(std::log10(lo) + 1e-9)); ticks.empty() || ticks.back() < hi * (1 - 1e-9);
       decade *= 10) {
    for (const double times : {1.0, 2.0, 5.0}) {
      const double tick = times * decade;
      if (tick <= lo * (1 + 1e-9)) ticks.clear();
      if (ticks.empty() || ticks.back() < hi * (1 - 1e-9)) ticks.push_back(tick);
    }
  }
  if (ticks.size() == 1) ticks.push_back(2 * ticks[0]);
  return ticks;
}

/// Ends and ticks: steps of 1, 2 or 5 from zero; where logarithmic, powers of two (x), or decimal_ticks (y) over up to
/// three decades, powers of ten beyond.
std::pair<Scale, std::vector<double>> scale_over(double lo, double hi, bool is_log, double base) {
  std::vector<double> ticks;
  if (is_log && base == 10 && hi / lo <= 1000) {
    ticks = decimal_ticks(lo, hi);
    return {{ticks.front(), ticks.back(), true}, ticks};
  }
  if (is_log) {
    const double first = std::floor(std::log(lo) / std::log(base) + 1e-9);
    double last = std::ceil(std::log(hi) / std::log(base) - 1e-9);
    if (last <= first) last = first + 1;
    const double step = std::ceil((last - first) / 12);
    for (double e = first; e <= last + 1e-9; e += step) ticks.push_back(std::pow(base, e));
    return {{std::pow(base, first), std::pow(base, last), true}, ticks};
  }
  lo = std::min(lo, 0.0);
  if (hi <= lo) hi = lo + 1;
  const double raw = (hi - lo) / 6;
  const double size = std::pow(10, std::floor(std::log10(raw)));
  const double step = size * (raw / size <= 1 ? 1 : raw / size <= 2 ? 2 : raw / size <= 5 ? 5 : 10);
  const double end = std::ceil(hi / step - 1e-9);
  for (double i = std::floor(lo / step); i <= end; ++i) ticks.push_back(i * step);
  return {{ticks.front(), ticks.back(), false}, ticks};
}

struct Bounds {
  double x_lo = INFINITY, x_hi = -INFINITY, y_lo = INFINITY, y_hi = -INFINITY;
};
Bounds bounds_of(const Plot& plot) {
  Bounds b;
  for (const PlotSeries& s : plot.series) {
    for (const PlotPoint& p : s.points) {
      b.x_lo = std::min(b.x_lo, p.x);
      b.x_hi = std::max(b.x_hi, p.x);
      b.y_lo = std::min(b.y_lo, p.lo);
      b.y_hi = std::max(b.y_hi, p.hi);
    }
  }
  if (plot.ceiling) b.y_hi = std::max(b.y_hi, *plot.ceiling);
  return b;
}

std::string mark(size_t i, double x, double y, const char* colour, const std::string& title) {
  const std::string inside = fmt::format("><title>{}</title></", escaped(title));
  switch (i % 4) {
    case 0:
      return fmt::format("<circle cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"4\" fill=\"{}\"{}circle>\n", x, y, colour, inside);
    case 1:
      return fmt::format("<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"7\" height=\"7\" fill=\"{}\"{}rect>\n", x - 3.5,
                         y - 3.5, colour, inside);
    case 2:
      return fmt::format("<path d=\"M{:.2f} {:.2f}l4.5 8h-9z\" fill=\"{}\"{}path>\n", x, y - 5, colour, inside);
    default:
      return fmt::format("<path d=\"M{:.2f} {:.2f}l5 5l-5 5l-5 -5z\" fill=\"{}\"{}path>\n", x, y - 5, colour, inside);
  }
}

std::string line(double x1, double y1, double x2, double y2, const std::string& style) {
  return fmt::format("<line x1=\"{:.2f}\" y1=\"{:.2f}\" x2=\"{:.2f}\" y2=\"{:.2f}\" {}/>\n", x1, y1, x2, y2, style);
}

std::string label(double x, double y, const std::string& text, const char* extra) {
  return fmt::format("<text x=\"{:.2f}\" y=\"{:.2f}\" {}>{}</text>\n", x, y, extra, escaped(text));
}

}  // namespace

std::string svg_text(const Plot& plot) {
  const Bounds b = bounds_of(plot);
  const auto [sx, x_ticks] = scale_over(b.x_lo, b.x_hi, plot.log_x, 2);
  const auto [sy, y_ticks] = scale_over(b.y_lo, b.y_hi, plot.log_y, 10);
  const auto px = [&, &s = sx](double v) { return kLeft + kInset + (kWide - 2 * kInset) * s.at(v); };
  const auto py = [&, &s = sy](double v) { return kTop + kHigh * (1 - s.at(v)); };
  size_t longest = plot.ceiling ? 7 : 0;
  for (const PlotSeries& s : plot.series) longest = std::max(longest, s.name.size());
  const bool has_legend = plot.series.size() > 1 || plot.ceiling;
  const double width = std::max(kLeft + kWide + 24 + (has_legend ? 34 + kCharacter * double(longest) : 0),
                                kLeft + kCharacter * 7 / 6 * double(plot.title.size()) + 24);
  const double height =
      std::max(kTop + kHigh + kBottom, kTop + 20.0 * double(plot.series.size() + (plot.ceiling ? 1 : 0)) + 20);
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"12\" fill=\"#222222\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
      width, height);
  out += label(kLeft, 24, plot.title, "font-size=\"14\"");
  for (const double t : y_ticks) {
    out += line(kLeft, py(t), kLeft + kWide, py(t), "stroke=\"#dddddd\"");
    out += label(kLeft - 8, py(t) + 4, tick_text(t), "text-anchor=\"end\"");
  }
  for (const double t : x_ticks) {
    out += line(px(t), kTop, px(t), kTop + kHigh, "stroke=\"#eeeeee\"");
    out += label(px(t), kTop + kHigh + 18, tick_text(t), "text-anchor=\"middle\"");
  }
  out += line(kLeft, kTop + kHigh, kLeft + kWide, kTop + kHigh, "stroke=\"#222222\"");
  out += line(kLeft, kTop, kLeft, kTop + kHigh, "stroke=\"#222222\"");
  out += label(kLeft + kWide / 2, kTop + kHigh + 42, plot.x_label, "text-anchor=\"middle\"");
  out += fmt::format("<text transform=\"translate(18 {:.2f}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
                     kTop + kHigh / 2, escaped(plot.y_label));
  double legend_y = kTop + 8;
  const double legend_x = kLeft + kWide + 24;
  if (plot.ceiling) {
    const std::string style = "stroke=\"#666666\" stroke-dasharray=\"6 4\"";
    out += line(kLeft, py(*plot.ceiling), kLeft + kWide, py(*plot.ceiling), style);
    out += line(legend_x, legend_y, legend_x + 22, legend_y, style);
    out += label(legend_x + 30, legend_y + 4, "ceiling", "");
    legend_y += 20;
  }
  for (size_t i = 0; i < plot.series.size(); ++i) {
    const PlotSeries& s = plot.series[i];
    const char* colour = kColours[i % std::size(kColours)];
    const bool is_second_turn = i / std::size(kColours) % 2 == 1;  // of the colours
    const std::string stroke = fmt::format("stroke=\"{}\" stroke-width=\"1.5\"", colour);
    const std::string dash = is_second_turn ? " stroke-dasharray=\"2 3\"" : "";
    std::string path;
    for (const PlotPoint& p : s.points)
      path += fmt::format("{}{:.2f},{:.2f}", path.empty() ? "" : " ", px(p.x), py(p.y));
    out += fmt::format("<polyline points=\"{}\" fill=\"none\" {}{}/>\n", path, stroke, dash);
    for (const PlotPoint& p : s.points) {
      if (p.lo != p.hi) {
        out += line(px(p.x), py(p.lo), px(p.x), py(p.hi), stroke);
        for (const double end : {p.lo, p.hi}) out += line(px(p.x) - 3, py(end), px(p.x) + 3, py(end), stroke);
      }
      out += mark(i, px(p.x), py(p.y), colour,
                  fmt::format("{}{}{:.6g}: {:.6g} ({:.6g} to {:.6g})", s.name, s.name.empty() ? "" : ", ", p.x, p.y,
                              p.lo, p.hi));
    }
    if (!has_legend) continue;
    out += line(legend_x, legend_y, legend_x + 22, legend_y, stroke + dash);
    out += mark(i, legend_x + 11, legend_y, colour, s.name);
    out += label(legend_x + 30, legend_y + 4, s.name, "");
    legend_y += 20;
  }
  return out + "</svg>\n";
}

}  // namespace loft
