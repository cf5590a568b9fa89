#include "checks.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>

#include "wholestep/error.h"

namespace wholestep::cli {
namespace {

/// All of `text` as a number, none where it is not one or does not fit.
template <class T>
std::optional<T> read(const std::string& text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

template <class T>
CLI::Validator whole(T least, T most) {
  return CLI::Validator(
      [=](std::string& text) {
        const std::optional<T> value = read<T>(text);
        if (!value || *value < least || *value > most)
          return fmt::format("expected a whole number from {} to {}, got {}", least, most, text);
        text = fmt::format("{}", *value);  // a leading 0 would mean octal to CLI11
        return std::string();
      },
      "");
}

}  // namespace

CLI::Validator whole_number(std::int64_t least, std::int64_t most) { return whole(least, most); }

CLI::Validator seed_number() { return whole(std::uint64_t{0}, std::numeric_limits<std::uint64_t>::max()); }

CLI::Validator number_from(double least, bool or_equal, double most) {
  return CLI::Validator(
      [=](std::string& text) {
        const std::optional<double> value = read<double>(text);
        if (value && std::isfinite(*value) && *value <= most && (or_equal ? *value >= least : *value > least))
          return std::string();
        const std::string upper =
            most == std::numeric_limits<double>::max() ? "" : fmt::format(" and at most {}", most);
        return fmt::format("expected a finite number {} {}{}, got {}", or_equal ? "of at least" : "above", least, upper,
                           text);
      },
      "");
}

CLI::Validator normal_number() {
  return number_from(std::numeric_limits<float>::min(), true, std::numeric_limits<float>::max());
}

CLI::Validator not_empty() {
  return CLI::Validator([](std::string& text) { return text.empty() ? "expected a name, got nothing" : ""; }, "");
}

CLI::Validator known_to(std::function<void(const std::string&)> look_up) {
  return CLI::Validator(
      [look_up = std::move(look_up)](std::string& text) -> std::string {
        try {
          look_up(text);
        } catch (const Error& error) {
          return error.what();
        }
        return {};
      },
      "");
}

}  // namespace wholestep::cli
