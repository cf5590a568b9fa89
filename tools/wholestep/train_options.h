#pragma once
// What the command line of `train` says.
#include <cstdint>
#include <optional>
#include <string>

#include "options.h"

namespace wholestep::cli {

struct TrainOptions {
  std::string config;
  std::optional<std::string> model;
  std::string data;
  std::optional<std::string> optimizer;
  std::optional<double> lr;
  std::optional<std::int64_t> batch;
  std::optional<std::int64_t> accumulate;
  std::optional<double> clip_norm;
  std::optional<double> ema;
  std::optional<std::uint64_t> seed;
  std::optional<std::string> schedule;
  std::optional<std::string> precision;
  std::optional<std::int64_t> epochs;
  std::optional<std::int64_t> steps;
  DeviceOptions device;
  std::string save;
  std::int64_t save_every = 0;
  std::int64_t keep = 0;
  std::string save_best;
  std::int64_t patience = 0;
  std::optional<std::string> monitor;
  std::string resume;
  std::string log;
  bool json = false;

  void add_to(CLI::App& command);
  /// Throws a `CLI::Error` where they do not go together, wherever they came from.
  void check_together() const;
};

}  // namespace wholestep::cli
