#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "chart.h"
#include "checks.h"
#include "command.h"
#include "wholestep/error.h"
#include "wholestep/io.h"

namespace wholestep::cli {
namespace {

/// A quantity of the log: the key of the records of one kind.
struct Quantity {
  std::string name;
  std::string event;
  std::string key;
  std::string label;
};

const std::vector<Quantity>& quantities() {
  static const std::vector<Quantity> all{{"loss", "step", "loss", "training loss"},
                                         {"lr", "step", "lr", "learning rate"},
                                         {"us", "step", "us", "microseconds per step"},
                                         {"train-loss", "epoch", "train_loss", "mean training loss of the epoch"},
                                         {"test-loss", "epoch", "test_loss", "test loss"},
                                         {"test-accuracy", "epoch", "test_accuracy", "test accuracy"}};
  return all;
}

struct PlotOptions {
  std::vector<std::string> logs;
  std::string output;
  std::string what = "loss";
  double smooth = 0;
};

constexpr std::size_t kMostPoints = 1000;  // of a line: more than the chart has columns

double number_in(const nlohmann::json& record, const std::string& key) {
  const auto found = record.find(key);
  if (found == record.end()) throw std::runtime_error(fmt::format("no \"{}\"", key));
  if (!found->is_number()) throw std::runtime_error(fmt::format("\"{}\" is {}, expected a number", key, found->dump()));
  return found->get<double>();
}

/// The file of a log, which may be given by its folder.
std::string file_of(const std::string& log) {
  std::error_code ignored;
  return std::filesystem::is_directory(log, ignored) ? log + "/train.jsonl" : log;
}

/// The points of one log, by step; none where the value is null. Where a run was resumed, what it did again takes the
/// place of what it had done.
Points read_log(const std::string& path, const Quantity& quantity) {
  std::error_code ignored;
  if (std::filesystem::is_character_file(path, ignored) || std::filesystem::is_block_file(path, ignored)) {
    throw Error(ErrorCode::file_malformed, fmt::format("{}: no log of `train --log`: a device", path));
  }
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw Error(ErrorCode::file_not_found, fmt::format("{}: no log of `train --log`: cannot open", path));
  Points points;
  std::int64_t number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    if (stream.eof()) break;  // no end of line: a run is at work on it, or was killed
    try {
      const nlohmann::json record = nlohmann::json::parse(line);
      if (!record.is_object() || !record.contains("event")) throw std::runtime_error("no record with an \"event\"");
      if (record.at("event") != quantity.event) continue;
      const double step = number_in(record, "step");
      while (!points.empty() && points.back().first >= step) points.pop_back();
      const auto value = record.find(quantity.key);
      if (value != record.end() && value->is_null()) continue;
      points.emplace_back(step, number_in(record, quantity.key));
    } catch (const std::exception& error) {
      throw Error(ErrorCode::file_malformed, fmt::format("{}: line {}: {}", path, number, error.what()));
    }
  }
  if (stream.bad()) throw Error(ErrorCode::io_error, fmt::format("{}: cannot read", path));
  if (points.empty()) {
    throw Error(ErrorCode::file_malformed,
                fmt::format("{}: no \"{}\" record with \"{}\" in it", path, quantity.event, quantity.key));
  }
  return points;
}

int run_plot(const PlotOptions& options) {
  const Quantity& quantity = *std::find_if(quantities().begin(), quantities().end(),
                                           [&](const Quantity& one) { return one.name == options.what; });
  Chart chart{"step", quantity.label, {}};
  for (const std::string& log : options.logs) {
    const std::string path = file_of(log);
    std::error_code missing;
    if (std::filesystem::equivalent(path, options.output, missing))
      throw CLI::ValidationError("-o", fmt::format("{}: it is the log to be drawn", options.output));
    const Points points = read_log(path, quantity);
    Line line{log, thinned(points, kMostPoints), {}};
    if (options.smooth > 0) {
      line.background = std::move(line.points);
      line.points = thinned(smoothed(points, options.smooth), kMostPoints);
    }
    chart.lines.push_back(std::move(line));
  }
  const std::string svg = to_svg(chart);
  io::write_file_atomically(options.output, {{svg.data(), svg.size()}});
  return 0;
}

}  // namespace

void add_plot(CLI::App& app, int& status) {
  auto options = std::make_shared<PlotOptions>();
  CLI::App* command = app.add_subcommand("plot", "draw what runs have logged, as SVG");
  command->add_option("LOG", options->logs, "folders of `train --log`, or train.jsonl files: a line each")->required();
  command->add_option("-o,--output", options->output, "SVG file to write")
      ->type_name("FILE")
      ->required()
      ->transform(not_empty());
  std::vector<std::string> names;
  for (const Quantity& quantity : quantities()) names.push_back(quantity.name);
  command->add_option("--what", options->what, "what to draw")->check(CLI::IsMember(names))->capture_default_str();
  command
      ->add_option("--smooth", options->smooth,
                   "weight of the past in a moving average, below 1; the values are drawn faintly behind it")
      ->transform(number_from(0, true, std::nextafter(1.0, 0.0)))
      ->capture_default_str();
  command->callback([options, &status] { status = run_plot(*options); });
}

}  // namespace wholestep::cli
