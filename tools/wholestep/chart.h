#pragma once
// Line charts as self-contained SVG.
#include <string>
#include <utility>
#include <vector>

namespace wholestep::cli {

using Points = std::vector<std::pair<double, double>>;  // finite, x ascending

struct Line {
  std::string name;
  Points points;
  Points background;  // drawn faintly behind: what `points` was smoothed from
};

struct Chart {
  std::string x_label;
  std::string y_label;
  std::vector<Line> lines;
};

/// Exponential moving average with weight `weight` on the past, without the bias of its start, as TensorBoard's.
Points smoothed(const Points& points, double weight);
/// At most `most` points: means of neighbours.
Points thinned(const Points& points, std::size_t most);
/// The multiples of 1, 2 or 5 times a power of ten within [low, high], about `wanted` of them.
std::vector<double> nice_ticks(double low, double high, int wanted);
/// Legible on light and on dark backgrounds, which it draws itself by the viewer's preference.
std::string to_svg(const Chart& chart);

}  // namespace wholestep::cli
