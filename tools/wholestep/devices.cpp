#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.h"
#include "wholestep/device.h"

namespace wholestep::cli {
namespace {

int run(bool as_json) {
  const std::vector<DeviceInfo> all = devices();
  if (as_json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const DeviceInfo& info : all) {
      list.push_back({{"name", info.name},
                      {"available", info.available},
                      {"threads", info.threads},
                      {"description", info.description}});
    }
    fmt::print("{}\n", nlohmann::ordered_json{{"devices", list}}.dump());
    return 0;
  }
  for (const DeviceInfo& info : all) {
    fmt::print("{:<10} {:<12} {}\n", info.name, info.available ? "available" : "unavailable", info.description);
  }
  return 0;
}

}  // namespace

void add_devices(CLI::App& app, int& status) {
  auto as_json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("devices", "list the devices that programs can run on");
  command->add_flag("--json", *as_json, "print one JSON object");
  command->callback([as_json, &status] { status = run(*as_json); });
}

}  // namespace wholestep::cli
