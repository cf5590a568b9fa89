#include "chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>

namespace wholestep::cli {
namespace {

constexpr double kWidth = 860, kHeight = 480;
constexpr double kLeft = 74, kRight = 24, kTop = 24, kBottom = 56;
constexpr double kLegendLine = 20;
constexpr std::size_t kColors = 8;

// Colours of middle lightness, which stand out from white and from near black.
constexpr std::string_view kStyle = R"(<style>
svg { background: #ffffff; font: 13px system-ui, sans-serif }
text { fill: #333333 }
.grid { stroke: #e2e2e2 }
.axis { stroke: #888888; fill: none }
.line { fill: none; stroke-width: 1.8; stroke-linejoin: round }
.faint { opacity: 0.3; stroke-width: 1 }
.c0 { stroke: #3b82f6 } .c1 { stroke: #f97316 } .c2 { stroke: #10a37f } .c3 { stroke: #e0457b }
.c4 { stroke: #a855f7 } .c5 { stroke: #b59f00 } .c6 { stroke: #06a6c4 } .c7 { stroke: #9a7560 }
.dashed { stroke-dasharray: 7 4 }
@media (prefers-color-scheme: dark) {
svg { background: #14171c }
text { fill: #d6d9de }
.grid { stroke: #2c3138 }
.axis { stroke: #7a828c }
}
</style>
)";

/// The bytes of a UTF-8 sequence that starts with `lead`; 0 where none does.
int sequence_length(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0) return 2;
  if (lead >= 0xE0 && lead < 0xF0) return 3;
  return lead >= 0xF0 && lead < 0xF5 ? 4 : 0;
}

/// `text` as XML, which has no control characters: those, and what is no UTF-8, become question marks.
std::string escaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto length = static_cast<std::size_t>(sequence_length(static_cast<unsigned char>(text[0])));
    const bool whole = length > 0 && length <= text.size() &&
                       std::all_of(text.begin() + 1, text.begin() + static_cast<std::ptrdiff_t>(length),
                                   [](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; });
    const char c = text[0];
    if (!whole || (length == 1 && (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)))
      out += '?';
    else if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += text.substr(0, length);
    text.remove_prefix(whole ? length : 1);
  }
  return out;
}

struct Range {
  double low = 0, high = 1;

  /// Where between them `value` is; their distance may be beyond all numbers.
  double fraction(double value) const {
    const double scale = std::isfinite(high - low) ? 1 : 0.5;
    return (value * scale - low * scale) / (high * scale - low * scale);
  }
};

/// What all lines cover; wider than nothing.
template <class Member>
Range range_of(const Chart& chart, Member member) {
  Range range{HUGE_VAL, -HUGE_VAL};
  for (const Line& line : chart.lines) {
    for (const Points* points : {&line.points, &line.background}) {
      for (const auto& point : *points) {
        range.low = std::min(range.low, point.*member);
        range.high = std::max(range.high, point.*member);
      }
    }
  }
  if (range.low > range.high) return {0, 1};
  if (range.low == range.high) {
    const double around = range.low == 0 ? 1 : std::abs(range.low) * 0.1;
    constexpr double kMost = std::numeric_limits<double>::max();
    return {std::max(range.low - around, -kMost), std::min(range.high + around, kMost)};
  }
  return range;
}

std::string tick_label(double value, double step) {
  const double magnitude = std::abs(value);
  if (magnitude != 0 && (magnitude >= 1e6 || step < 1e-4)) return fmt::format("{:.3g}", value);
  const int digits = std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
  return fmt::format("{:.{}f}", value, digits);
}

class Writer {
 public:
  explicit Writer(const Chart& chart)
      : chart_(chart),
        x_(range_of(chart, &std::pair<double, double>::first)),
        y_(range_of(chart, &std::pair<double, double>::second)),
        bottom_(kHeight + kLegendLine * static_cast<double>(chart.lines.size())) {}

  std::string write() {
    add(R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" width="{}" height="{}">)", kWidth, bottom_,
        kWidth, bottom_);
    out_ += '\n';
    out_ += kStyle;
    grid();
    for (std::size_t i = 0; i < chart_.lines.size(); ++i) {
      polyline(chart_.lines[i].background, i, " faint");
      polyline(chart_.lines[i].points, i, "");
    }
    legend();
    out_ += "</svg>\n";
    return std::move(out_);
  }

 private:
  template <class... Values>
  void add(fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Values>(values)...);
  }
  double across(double x) const { return kLeft + x_.fraction(x) * (kWidth - kLeft - kRight); }
  double down(double y) const { return kHeight - kBottom - y_.fraction(y) * (kHeight - kTop - kBottom); }

  void grid() {
    const double floor = kHeight - kBottom;
    const std::vector<double> columns = nice_ticks(x_.low, x_.high, 7), rows = nice_ticks(y_.low, y_.high, 6);
    const auto step_of = [](const std::vector<double>& ticks) { return ticks.size() > 1 ? ticks[1] - ticks[0] : 1; };
    for (const double x : columns) {
      add(R"(<line class="grid" x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}"/>)", across(x), kTop, floor);
      add(R"(<text x="{:.1f}" y="{}" text-anchor="middle">{}</text>)", across(x), floor + 19,
          tick_label(x, step_of(columns)));
      out_ += '\n';
    }
    for (const double y : rows) {
      add(R"(<line class="grid" x1="{1}" x2="{2}" y1="{0:.1f}" y2="{0:.1f}"/>)", down(y), kLeft, kWidth - kRight);
      add(R"(<text x="{}" y="{:.1f}" text-anchor="end">{}</text>)", kLeft - 8, down(y) + 4.5,
          tick_label(y, step_of(rows)));
      out_ += '\n';
    }
    add(R"(<path class="axis" d="M{0} {1}V{2}H{3}"/>)", kLeft, kTop, floor, kWidth - kRight);
    add(R"(<text x="{}" y="{}" text-anchor="middle">{}</text>)", (kLeft + kWidth - kRight) / 2, floor + 42,
        escaped(chart_.x_label));
    const double middle = (kTop + floor) / 2;
    add(R"svg(<text transform="translate(18 {}) rotate(-90)" text-anchor="middle">{}</text>)svg", middle,
        escaped(chart_.y_label));
    out_ += '\n';
  }

  std::string class_of(std::size_t i) const {
    return fmt::format("line c{}{}", i % kColors, i / kColors % 2 == 1 ? " dashed" : "");
  }

  void polyline(const Points& points, std::size_t i, std::string_view more) {
    if (points.empty()) return;
    add(R"(<polyline class="{}{}" points=")", class_of(i), more);
    for (const auto& [x, y] : points) add("{:.1f},{:.1f} ", across(x), down(y));
    // A line of one point would not be seen.
    if (points.size() == 1) add("{:.1f},{:.1f}", across(points[0].first) + 3, down(points[0].second));
    out_ += "\"/>\n";
  }

  void legend() {
    for (std::size_t i = 0; i < chart_.lines.size(); ++i) {
      const double y = kHeight + kLegendLine * static_cast<double>(i);
      add(R"(<line class="{0}" x1="{1}" x2="{2}" y1="{3}" y2="{3}"/>)", class_of(i), kLeft, kLeft + 28, y - 4.5);
      add(R"(<text x="{}" y="{}">{}</text>)", kLeft + 38, y, escaped(chart_.lines[i].name));
      out_ += '\n';
    }
  }

  const Chart& chart_;
  Range x_, y_;
  double bottom_;
  std::string out_;
};

}  // namespace

Points smoothed(const Points& points, double weight) {
  Points result;
  double average = 0;
  double past = 1;  // weight^n: how much of the start, which is no value, is in the average
  for (const auto& [x, y] : points) {
    average = weight * average + (1 - weight) * y;
    past *= weight;
    result.emplace_back(x, average / (1 - past));
  }
  return result;
}

Points thinned(const Points& points, std::size_t most) {
  if (points.size() <= most) return points;
  Points result;
  for (std::size_t i = 0; i < most; ++i) {
    const std::size_t begin = points.size() * i / most, end = points.size() * (i + 1) / most;
    const auto count = static_cast<double>(end - begin);
    std::pair<double, double> mean{0, 0};  // of shares: a sum of values may be beyond all numbers
    for (std::size_t k = begin; k < end; ++k) {
      mean.first += points[k].first / count;
      mean.second += points[k].second / count;
    }
    result.push_back(mean);
  }
  return result;
}

std::vector<double> nice_ticks(double low, double high, int wanted) {
  const double rough = std::isfinite(high - low) ? (high - low) / wanted : high / wanted - low / wanted;
  if (!std::isnormal(rough)) return {low, high};
  const double power = std::pow(10, std::floor(std::log10(rough)));
  const double digit = rough / power;
  const double step = power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
  std::vector<double> ticks;
  // Whole multiples, so that no rounding adds up; a little room for that of the ends.
  const auto first = static_cast<std::int64_t>(std::ceil(low / step - 1e-9));
  const auto last = static_cast<std::int64_t>(std::floor(high / step + 1e-9));
  for (std::int64_t i = first; i <= last; ++i) ticks.push_back(static_cast<double>(i) * step);
  return ticks;
}

std::string to_svg(const Chart& chart) { return Writer(chart).write(); }

}  // namespace wholestep::cli
