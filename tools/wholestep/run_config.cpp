#include "run_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "io/file.h"
#include "options.h"
#include "wholestep/error.h"

namespace wholestep::cli {
namespace {

/// `path` is missing, but not the checkpoint that it would stand beside: a save of it was cut short.
void check_cut_short(const std::string& path) {
  std::error_code ignored;
  const std::string checkpoint = path.ends_with(".json") ? path.substr(0, path.size() - 5) : "";
  if (std::filesystem::exists(path, ignored) || !std::filesystem::exists(checkpoint, ignored)) return;
  throw Error(
      ErrorCode::file_not_found,
      fmt::format("cannot open {}: it is missing beside {}, which tells enough to go on: --resume {} --data PATH", path,
                  checkpoint, shell_quote(checkpoint)));
}

nlohmann::json read_object(const std::string& path) {
  check_cut_short(path);
  const std::string text = io::read_text(path);
  nlohmann::json object;
  std::set<std::string> keys;
  const auto note_key = [&](int depth, nlohmann::json::parse_event_t event, const nlohmann::json& parsed) {
    if (event == nlohmann::json::parse_event_t::key && depth == 1 && !keys.insert(parsed.get<std::string>()).second)
      throw CLI::ValidationError(path, fmt::format("\"{}\" comes twice", parsed.get<std::string>()));
    return true;
  };
  try {
    object = nlohmann::json::parse(text, note_key);
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::file_malformed, fmt::format("{}: no JSON: {}", path, error.what()));
  }
  if (!object.is_object()) {
    throw Error(ErrorCode::file_malformed,
                fmt::format("{}: expected a JSON object of options, got {}", path, object.type_name()));
  }
  return object;
}

/// As the word would stand on the command line.
std::string word_of(const std::string& path, const std::string& key, const nlohmann::json& value) {
  if (value.is_string()) {
    const std::string text = value.get<std::string>();
    // The system would read a name of a file up to there.
    if (text.find('\0') != std::string::npos)
      throw CLI::ValidationError(path, fmt::format("\"{}\": expected a text without a zero byte", key));
    return text;
  }
  if (value.is_number() || value.is_boolean()) return value.dump();
  throw CLI::ValidationError(
      path, fmt::format("\"{}\": expected a text, a number or a boolean, got {}", key, value.type_name()));
}

}  // namespace

void apply_config(CLI::App& command, const std::string& path) {
  const nlohmann::json object = read_object(path);
  std::vector<std::string> known;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      if (name != "config" && name != "help") known.push_back(name);
    }
  }
  if (object.contains("steps") && object.contains("epochs")) {
    throw CLI::ValidationError(path, "\"steps\" and \"epochs\" exclude each other");
  }
  const bool length_given = command.get_option("--steps")->count() + command.get_option("--epochs")->count() > 0;
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      throw CLI::ValidationError(path,
                                 fmt::format("no option is called \"{}\"; there are: {}", key, fmt::join(known, ", ")));
    }
    CLI::Option* const option = command.get_option("--" + key);
    if (option->count() > 0 || (length_given && (key == "steps" || key == "epochs"))) continue;
    const std::string word = word_of(path, key, value);
    try {
      option->add_result(word);
      option->run_callback();
    } catch (const CLI::ParseError& error) {
      throw CLI::ValidationError(path, error.what());
    }
  }
}

}  // namespace wholestep::cli
