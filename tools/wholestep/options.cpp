#include "options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>

#include "checks.h"
#include "wholestep/error.h"
#include "wholestep/optim.h"
#include "wholestep/session.h"

namespace wholestep::cli {

namespace {

void check_device(const std::string& name) {
  std::vector<std::string> names;
  for (const DeviceInfo& info : devices()) {
    if (info.name == name) return;
    names.push_back(info.available ? info.name : info.name + " (unavailable)");
  }
  throw Error(ErrorCode::unknown_name,
              fmt::format("no device is called \"{}\"; this build has: {}", name, fmt::join(names, ", ")));
}

}  // namespace

void DeviceOptions::add_to(CLI::App& command) {
  command.add_option("--device", name, "where the program runs; `wholestep devices` lists them")
      ->transform(known_to(check_device))
      ->capture_default_str();
  command.add_option("--threads", threads, "worker threads; 0: one per core")
      ->transform(whole_number(0, 1024))
      ->capture_default_str();
}

int DeviceOptions::threads_used() const {
  if (threads > 0) return threads;
  for (const DeviceInfo& info : devices()) {
    if (info.name == name) return info.threads;
  }
  return 1;
}

void add_precision(CLI::App& command, std::optional<std::string>& precision) {
  command
      .add_option(
          "--precision", precision,
          "of the arithmetic: f32, mixed or mixed_bf16 (f32 weights, bf16 products), mixed_f16, f16 (default: f32)")
      ->transform(known_to([](const std::string& text) { precision_by_name(text); }));
}

void add_optimizer(CLI::App& command, std::optional<std::string>& optimizer, const std::string& otherwise) {
  command.add_option("--optimizer", optimizer, fmt::format("{} ({})", fmt::join(optimizer_names(), ", "), otherwise))
      ->transform(known_to([](const std::string& text) { optimizer_by_name(text); }));
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
