#pragma once
// What several subcommands ask for in the same words.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "wholestep/data.h"
#include "wholestep/device.h"

namespace CLI {
class App;
}

namespace wholestep::cli {

struct DeviceOptions {
  std::string name = "cpu";
  int threads = 0;  // 0: as many as cores this process may use

  void add_to(CLI::App& command);
  Device device() const { return {name, threads}; }
  /// The number of threads that programs of this device run with.
  int threads_used() const;
};

/// Both default to nothing; `otherwise`: what the help says of that.
void add_precision(CLI::App& command, std::optional<std::string>& precision);
void add_optimizer(CLI::App& command, std::optional<std::string>& optimizer, const std::string& otherwise);

/// Both splits of the data set in `folder`: training, test.
std::pair<data::ImageSet, data::ImageSet> read_data(const std::string& folder);

/// `text` as one word of a POSIX shell.
std::string shell_quote(const std::string& text);

}  // namespace wholestep::cli
