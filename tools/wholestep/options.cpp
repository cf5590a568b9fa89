#include "options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>

#include "wholestep/error.h"

namespace wholestep::cli {

void DeviceOptions::add_to(CLI::App& command) {
  command.add_option("--device", name, "where the program runs")
      ->check(CLI::IsMember({"cpu", "cuda", "vulkan", "reference"}))
      ->capture_default_str();
  command.add_option("--threads", threads, "worker threads; 0: one per core")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
}

int DeviceOptions::threads_used() const {
  if (threads > 0) return threads;
  for (const DeviceInfo& info : devices()) {
    if (info.name == name) return info.threads;
  }
  return 1;
}

void add_precision(CLI::App& command, std::string& precision) {
  command.add_option("--precision", precision, "number format of the arithmetic")
      ->check(CLI::IsMember({"f32", "mixed", "f16"}))
      ->capture_default_str();
}

void check_precision(const std::string& precision) {
  if (precision != "f32") {
    throw Error(ErrorCode::unsupported, fmt::format("--precision {}: this version computes in f32 only", precision));
  }
}

std::pair<data::ImageSet, data::ImageSet> read_data(const std::string& folder) {
  return {data::read_idx(folder, data::Split::train), data::read_idx(folder, data::Split::test)};
}

std::string shell_quote(const std::string& text) {
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) || std::string_view("_-./:=+,@%").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return text;
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'')
      quoted += "'\\''";
    else
      quoted += c;
  }
  return quoted + "'";
}

}  // namespace wholestep::cli
