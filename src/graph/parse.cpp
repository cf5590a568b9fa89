#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "core/convert.h"
#include "graph/op.h"
#include "graph/text.h"

namespace wholestep {
namespace {

/// More than any op takes; keeps the search for a repeated attribute short on hostile text.
constexpr std::size_t kMostAttrs = 64;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

/// Reads tokens. It allocates no more than a small multiple of the text it has read.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  [[noreturn]] void fail(const std::string& message) const { fail_at(at_, message); }
  [[noreturn]] void fail_at(std::size_t position, const std::string& message) const {
    std::size_t line = 1;
    std::size_t start = 0;
    for (std::size_t i = 0; i < position; ++i) {
      if (text_[i] != '\n') continue;
      ++line;
      start = i + 1;
    }
    throw Error(ErrorCode::parse_error, fmt::format("line {}, column {}: {}", line, position - start + 1, message));
  }

  [[noreturn]] void fail_expected(const std::string& what) const {
    fail(fmt::format("expected {}, got {}", what, next()));
  }

  std::size_t position() const { return at_; }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool at_end() const { return at_ >= text_.size(); }

  void skip_spaces() {
    while (peek() == ' ' || peek() == '\t') ++at_;
  }
  /// Blank lines and lines that start with #.
  void skip_lines() {
    for (;;) {
      skip_spaces();
      if (peek() == '#')
        while (!at_end() && peek() != '\n') ++at_;
      if (peek() == '\r') ++at_;
      if (peek() != '\n') return;
      ++at_;
    }
  }
  void end_line() {
    skip_spaces();
    if (peek() == '\r') ++at_;
    if (at_end()) return;
    if (peek() != '\n') fail_expected("the end of the line");
    ++at_;
  }

  bool accept(std::string_view token) {
    skip_spaces();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) fail_expected(fmt::format("'{}'", token));
  }
  std::string_view word() {
    skip_spaces();
    if (!is_letter(peek())) fail_expected("a word");
    const std::size_t start = at_;
    while (is_letter(peek()) || is_digit(peek())) ++at_;
    return text_.substr(start, at_ - start);
  }

  std::int64_t integer() {
    skip_spaces();
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error == std::errc::result_out_of_range) fail("the number does not fit in 64 bits");
    if (error != std::errc()) fail_expected("an integer");
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
  }

  NodeId node_id(std::size_t defined) {
    expect("%");
    const std::size_t start = at_;
    const std::int64_t id = integer();
    if (id < 0 || static_cast<std::uint64_t>(id) >= defined)
      fail_at(start, fmt::format("there is no node %{} above this line", id));
    return static_cast<NodeId>(id);
  }

  /// T(nearest); text out of T's range is refused rather than rounded to infinity or zero.
  template <class T>
  T real() {
    skip_spaces();
    const bool negative = peek() == '-';
    const std::size_t start = at_;
    if (negative) ++at_;
    if (text_.substr(at_, 3) == "nan" || text_.substr(at_, 3) == "inf") {
      const T magnitude = peek() == 'n' ? std::numeric_limits<T>::quiet_NaN() : std::numeric_limits<T>::infinity();
      at_ += 3;
      return std::copysign(magnitude, negative ? T(-1) : T(1));
    }
    T value = 0;
    const auto [end, error] = std::from_chars(text_.data() + start, text_.data() + text_.size(), value);
    if (error == std::errc::result_out_of_range) fail_at(start, "the number is out of range");
    if (error != std::errc()) {
      at_ = start;
      fail_expected("a number");
    }
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
  }

  std::string quoted() {
    expect("\"");
    std::string value;
    for (;;) {
      if (at_end() || peek() == '\n') fail("the text in quotes does not end");
      const char c = text_[at_++];
      if (c == '"') return value;
      if (c != '\\') {
        value += c;
        continue;
      }
      const char escaped = peek();
      if (escaped == '"' || escaped == '\\') {
        value += escaped;
        ++at_;
      } else if (escaped == 'x' && at_ + 2 < text_.size() && hex_digit(text_[at_ + 1]) >= 0 &&
                 hex_digit(text_[at_ + 2]) >= 0) {
        value += static_cast<char>(hex_digit(text_[at_ + 1]) * 16 + hex_digit(text_[at_ + 2]));
        at_ += 3;
      } else {
        fail("expected \\\", \\\\ or \\x and two lower-case hexadecimal digits");
      }
    }
  }

  std::vector<std::int64_t> integers() {
    expect("[");
    std::vector<std::int64_t> values;
    if (accept("]")) return values;
    do values.push_back(integer());
    while (accept(","));
    expect("]");
    return values;
  }

  DType dtype(std::string_view name, std::size_t start) {
    try {
      return dtype_from_string(name);
    } catch (const Error& error) {
      fail_at(start, error.what());
    }
  }

  TensorType type() {
    skip_spaces();
    const std::size_t start = at_;
    TensorType type;
    type.dtype = dtype(word(), start);
    type.shape = integers();
    check(type, start);
    return type;
  }

  void check(const TensorType& type, std::size_t start) {
    try {
      num_bytes(type);
    } catch (const Error& error) {
      fail_at(start, error.what());
    }
  }

  /// The rest of a literal, after its type.
  Literal literal(TensorType type, std::size_t start) {
    if (accept("x")) return hex_literal(std::move(type), start);
    expect("(");
    std::vector<std::uint8_t> bytes;
    const std::size_t size = size_of(type.dtype);
    std::int64_t count = 0;
    if (!accept(")")) {
      do {
        bytes.resize(bytes.size() + size);
        element(bytes.data(), count++, type.dtype);
      } while (accept(","));
      expect(")");
    }
    if (bytes.size() != num_bytes(type))
      fail_at(start, fmt::format("{} takes {} values, got {}", to_string(type), num_elements(type.shape), count));
    return std::make_shared<const Array>(Array::from_bytes(std::move(type), bytes.data(), bytes.size()));
  }

  AttrValue attribute() {
    skip_spaces();
    const std::size_t start = at_;
    if (peek() == '"') return quoted();
    if (peek() == '[') return integers();
    if (text_.substr(at_, 4) == "nan(") return payload_nan();
    const std::size_t sign = peek() == '-' ? 1 : 0;
    if (is_digit(sign ? (at_ + 1 < text_.size() ? text_[at_ + 1] : '\0') : peek()) ||
        text_.substr(at_ + sign, 3) == "nan" || text_.substr(at_ + sign, 3) == "inf")
      return number();
    const std::string_view name = word();
    if (name == "true") return true;
    if (name == "false") return false;
    TensorType type;
    type.dtype = dtype(name, start);
    if (peek() != '[') return type.dtype;
    type.shape = integers();
    check(type, start);
    return literal(std::move(type), start);
  }

 private:
  /// What stands here, for a message.
  std::string next() const {
    if (at_end()) return "the end of the text";
    if (peek() == '\n' || peek() == '\r') return "the end of the line";
    constexpr std::size_t kLongest = 20;
    std::size_t end = at_;
    while (end < text_.size() && end - at_ < kLongest && (is_letter(text_[end]) || is_digit(text_[end]))) ++end;
    if (end > at_) return fmt::format("'{}'", text_.substr(at_, end - at_));
    const auto byte = static_cast<unsigned char>(peek());
    return byte >= 0x20 && byte < 0x7F ? fmt::format("'{}'", peek()) : fmt::format("byte 0x{:02x}", byte);
  }

  AttrValue number() {
    std::size_t end = at_;
    while (end < text_.size() && (is_digit(text_[end]) || is_letter(text_[end]) || text_[end] == '.' ||
                                  text_[end] == '-' || text_[end] == '+'))
      ++end;
    const std::string_view token = text_.substr(at_, end - at_);
    if (token.find_first_of(".ein") == std::string_view::npos) return integer();
    return real<double>();
  }

  AttrValue payload_nan() {
    const std::size_t start = at_;
    expect("nan(0x");
    std::uint64_t bits = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), bits, 16);
    if (error != std::errc()) fail("expected up to 16 hexadecimal digits");
    at_ = static_cast<std::size_t>(end - text_.data());
    expect(")");
    const auto value = std::bit_cast<double>(bits);
    if (!std::isnan(value)) fail_at(start, "these are not the bits of a NaN");
    return value;
  }

  void element(void* data, std::int64_t i, DType dtype) {
    skip_spaces();
    const std::size_t start = at_;
    if (dtype == DType::f64) return store_real(data, i, dtype, real<double>());
    if (is_float(dtype)) {
      const double value = real<float>();
      if (std::isfinite(value) && !std::isfinite(round_to_float(value, dtype)))
        fail_at(start, fmt::format("{} is out of the range of {}", value, to_string(dtype)));
      return store_real(data, i, dtype, value);
    }
    const std::int64_t value = integer();
    if (wrap_to_integer(value, dtype) != value)
      fail_at(start, fmt::format("{} is not a value of {}", value, to_string(dtype)));
    store_integer(data, i, dtype, value);
  }

  Literal hex_literal(TensorType type, std::size_t start) {
    expect("\"");
    const std::size_t end = text_.find('"', at_);
    if (end == std::string_view::npos) fail("the hexadecimal data does not end");
    const std::size_t digits = end - at_;
    const std::size_t expected = num_bytes(type);
    if (digits % 2 != 0 || digits / 2 != expected)
      fail_at(start, fmt::format("{} takes {} bytes of two digits, got {} digits", to_string(type), expected, digits));
    std::vector<std::uint8_t> bytes(expected);
    for (std::uint8_t& byte : bytes) {
      const int high = hex_digit(text_[at_]);
      const int low = hex_digit(text_[at_ + 1]);
      if (high < 0 || low < 0) fail("expected lower-case hexadecimal digits");
      byte = static_cast<std::uint8_t>(high * 16 + low);
      at_ += 2;
    }
    ++at_;
    try {
      return std::make_shared<const Array>(Array::from_bytes(std::move(type), bytes.data(), bytes.size()));
    } catch (const Error& error) {
      fail_at(start, error.what());
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

class GraphReader {
 public:
  explicit GraphReader(std::string_view text) : in_(text) {}

  Graph read() {
    in_.skip_lines();
    in_.expect("graph");
    Graph graph(in_.quoted());
    in_.end_line();
    for (in_.skip_lines(); !in_.at_end(); in_.skip_lines()) read_line(graph);
    return graph;
  }

 private:
  void read_line(Graph& graph) {
    const std::size_t start = in_.position();
    if (in_.peek() == '%') {
      if (has_outputs_ || !graph.updates().empty()) in_.fail("nodes come before outputs and updates");
      read_node(graph, start);
    } else if (in_.accept("outputs")) {
      if (has_outputs_) in_.fail_at(start, "outputs are given twice");
      has_outputs_ = true;
      std::vector<Tensor> outputs;
      do outputs.push_back(graph.tensor(in_.node_id(graph.nodes().size())));
      while (in_.accept(","));
      graph.set_outputs(outputs);
    } else if (in_.accept("update")) {
      read_update(graph, start);
    } else {
      in_.fail("expected a node (%), outputs or update");
    }
    in_.end_line();
  }

  void read_update(Graph& graph, std::size_t start) {
    const NodeId target = in_.node_id(graph.nodes().size());
    in_.expect("=");
    const NodeId value = in_.node_id(graph.nodes().size());
    const std::size_t before = graph.updates().size();
    build(start, [&] { graph.set_update(graph.tensor(target), graph.tensor(value)); });
    if (graph.updates().size() == before) in_.fail_at(start, fmt::format("%{} is updated twice", target));
  }

  void read_node(Graph& graph, std::size_t start) {
    in_.expect("%");
    const std::int64_t id = in_.integer();
    if (id < 0 || static_cast<std::uint64_t>(id) != graph.nodes().size())
      in_.fail_at(start, fmt::format("expected node %{}, got %{}", graph.nodes().size(), id));
    in_.expect("=");
    in_.skip_spaces();
    const std::size_t op_start = in_.position();
    const std::string op_name(in_.word());
    const OpDef* op = op_table().find(op_name);
    if (!op) in_.fail_at(op_start, fmt::format("there is no op '{}'", op_name));
    const bool named = text::is_named(*op);
    const std::string name = named ? in_.quoted() : std::string();
    std::vector<Tensor> operands;
    in_.skip_spaces();
    if (in_.peek() == '%') {
      do operands.push_back(graph.tensor(in_.node_id(graph.nodes().size())));
      while (in_.accept(","));
    }
    Attrs attrs = read_attrs();
    in_.expect(":");
    const TensorType type = in_.type();
    if (named && !operands.empty()) in_.fail_at(op_start, fmt::format("{} takes no operands", op_name));
    build(start, [&] {
      const Tensor result = named ? declare(graph, op_name, name, type, attrs, op_start)
                                  : graph.apply(op_name, operands, std::move(attrs));
      if (result.type() != type)
        in_.fail_at(op_start, fmt::format("{} gives {}, but the line says {}", op_name, to_string(result.type()),
                                          to_string(type)));
    });
  }

  Attrs read_attrs() {
    Attrs attrs;
    if (!in_.accept("{")) return attrs;
    do {
      in_.skip_spaces();
      const std::size_t start = in_.position();
      std::string name(in_.word());
      if (attrs.find(name)) in_.fail_at(start, fmt::format("attribute '{}' is given twice", name));
      if (attrs.items().size() == kMostAttrs) in_.fail_at(start, "too many attributes");
      in_.expect("=");
      attrs.set(std::move(name), in_.attribute());
    } while (in_.accept(","));
    in_.expect("}");
    return attrs;
  }

  Tensor declare(Graph& graph, const std::string& op, const std::string& name, const TensorType& type, Attrs attrs,
                 std::size_t start) {
    if (op == "param") {
      for (const char* number : {"a", "b"})
        if (!attrs.find(number)) attrs.set(number, 0.0);
      if (attrs.items().size() != 3) in_.fail_at(start, "a param has the attributes init, a and b");
      Node node;
      node.name = name;
      node.type = type;
      node.attrs = std::move(attrs);
      return graph.param(name, type.shape, type.dtype, init_of(node));
    }
    if (!attrs.items().empty()) in_.fail_at(start, fmt::format("{} has no attributes", op));
    return op == "input" ? graph.input(name, type.shape, type.dtype) : graph.state(name, type.shape, type.dtype);
  }

  /// Runs `step`, and says the line of what it throws.
  template <class Step>
  void build(std::size_t start, Step step) {
    try {
      step();
    } catch (const Error& error) {
      if (error.code() == ErrorCode::parse_error) throw;
      try {
        in_.fail_at(start, error.what());
      } catch (const Error& placed) {
        throw Error(error.code(), placed.what());
      }
    }
  }

  Reader in_;
  bool has_outputs_ = false;
};

}  // namespace

Graph Graph::parse(std::string_view text) { return GraphReader(text).read(); }

}  // namespace wholestep
