#include "graph/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <cmath>
#include <iterator>

#include "core/convert.h"
#include "graph/op.h"

namespace wholestep {
namespace text {
namespace {

/// Literals up to this many elements are written as values.
constexpr std::int64_t kMostListed = 16;

/// The digits of `value`, made to differ from an integer's.
template <class T>
std::string real_text(T value) {
  if (std::isnan(value)) return std::signbit(value) ? "-nan" : "nan";
  std::string digits = fmt::format("{}", value);
  if (std::isfinite(value) && digits.find_first_of(".e") == std::string::npos) digits += ".0";
  return digits;
}

/// Whether `nan` and `-nan` say all of this NaN.
bool is_plain_nan(double value) {
  const auto plain = std::bit_cast<std::uint64_t>(std::bit_cast<double>(std::uint64_t{0x7ff8} << 48));
  return (std::bit_cast<std::uint64_t>(value) & ~(std::uint64_t{1} << 63)) == plain;
}

std::string attribute_text(double value) {
  if (std::isnan(value) && !is_plain_nan(value))
    return fmt::format("nan(0x{:016x})", std::bit_cast<std::uint64_t>(value));
  return real_text(value);
}

/// Whether values written one by one give every bit back.
bool can_list(const Array& array) {
  if (array.size() > kMostListed) return false;
  if (!is_float(array.dtype())) return true;
  for (std::int64_t i = 0; i < array.size(); ++i) {
    const double value = load_real(array.data(), i, array.dtype());
    if (std::isnan(value) && !is_plain_nan(value)) return false;
  }
  return true;
}

std::string element_text(const Array& array, std::int64_t i) {
  switch (array.dtype()) {
    case DType::f64:
      return real_text(load_real(array.data(), i, DType::f64));
    case DType::f32:
    case DType::bf16:
    case DType::f16:
      return real_text(static_cast<float>(load_real(array.data(), i, array.dtype())));
    default:
      return fmt::format("{}", load_integer(array.data(), i, array.dtype()));
  }
}

std::string literal_text(const Literal& literal) {
  if (!literal) throw Error(ErrorCode::invalid_graph, "a literal without data has no text");
  std::string text = to_string(literal->type());
  if (can_list(*literal)) {
    text += '(';
    for (std::int64_t i = 0; i < literal->size(); ++i) text += (i > 0 ? ", " : "") + element_text(*literal, i);
    return text + ')';
  }
  text += "x\"";
  const auto* bytes = static_cast<const std::uint8_t*>(literal->data());
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (std::size_t i = 0; i < literal->bytes(); ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text + '"';
}

struct AttrText {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const { return attribute_text(value); }
  std::string operator()(const std::string& value) const { return quote(value); }
  std::string operator()(DType value) const { return std::string(to_string(value)); }
  std::string operator()(const std::vector<std::int64_t>& value) const { return to_string(value); }
  std::string operator()(const Literal& value) const { return literal_text(value); }
};

/// Whether the text may leave it out, since parsing puts it back.
bool is_implied(const std::string& name, const AttrValue& value) {
  if (name == "dtype" || name == "shape") return true;
  const auto* number = std::get_if<double>(&value);
  return number && std::bit_cast<std::uint64_t>(*number) == 0;
}

void write_attrs(std::string& text, const Node& node) {
  bool first = true;
  for (const auto& [name, value] : node.attrs.items()) {
    if (is_named(*node.op) && is_implied(name, value)) continue;
    text += fmt::format("{}{}={}", first ? " {" : ", ", name, to_text(value));
    first = false;
  }
  if (!first) text += '}';
}

}  // namespace

std::string quote(std::string_view value) {
  std::string text = "\"";
  for (char c : value) {
    if (c == '"' || c == '\\')
      (text += '\\') += c;
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      text += c;
  }
  return text + '"';
}

std::string to_text(const AttrValue& value) { return std::visit(AttrText{}, value); }

bool is_named(const OpDef& op) { return op.kind == OpKind::source && op.name != "constant"; }

}  // namespace text

std::string Graph::to_text() const {
  std::string text = fmt::format("graph {}\n", text::quote(name_));
  for (std::size_t id = 0; id < nodes_.size(); ++id) {
    const Node& node = nodes_[id];
    text += fmt::format("%{} = {}", id, node.op->name);
    if (text::is_named(*node.op)) text += ' ' + text::quote(node.name);
    for (std::size_t i = 0; i < node.operands.size(); ++i)
      text += fmt::format("{} %{}", i > 0 ? "," : "", node.operands[i]);
    text::write_attrs(text, node);
    text += fmt::format(" : {}\n", to_string(node.type));
  }
  if (!outputs_.empty()) text += fmt::format("outputs %{}\n", fmt::join(outputs_, ", %"));
  for (const Update& update : updates_) text += fmt::format("update %{} = %{}\n", update.target, update.value);
  return text;
}

}  // namespace wholestep
