#include "runtime/fingerprint.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "graph/op.h"

namespace wholestep::runtime {
namespace {

// The finalizer of splitmix64: every bit of the input moves about half of the bits of the output.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

void add_attribute(Fingerprint& out, const AttrValue& value) {
  out.add(value.index());
  struct Visitor {
    Fingerprint& out;
    void operator()(bool x) const { out.add(std::uint64_t{x}); }
    void operator()(std::int64_t x) const { out.add(static_cast<std::uint64_t>(x)); }
    void operator()(double x) const { out.add(std::bit_cast<std::uint64_t>(x)); }
    void operator()(const std::string& x) const { out.add(std::string_view(x)); }
    void operator()(DType x) const { out.add(static_cast<std::uint64_t>(x)); }
    void operator()(const std::vector<std::int64_t>& x) const {
      out.add(x.size());
      out.add(x.data(), x.size() * sizeof(std::int64_t));
    }
    void operator()(const Literal& x) const {
      out.add(x->type());
      out.add(x->data(), x->bytes());
    }
  };
  std::visit(Visitor{out}, value);
}

}  // namespace

void Fingerprint::add(std::uint64_t number) {
  a_ = mix(a_ ^ number);
  b_ = mix(b_ + std::rotl(number, 32) * 0x9fb21c651e98df25);
}

void Fingerprint::add(const void* data, std::size_t size) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  for (; size >= 8; size -= 8, bytes += 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes, 8);
    add(word);
  }
  if (size > 0) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes, size);
    add(word);
  }
}

void Fingerprint::add(std::string_view text) {
  add(text.size());
  add(text.data(), text.size());
}

void Fingerprint::add(const TensorType& type) {
  add(static_cast<std::uint64_t>(type.dtype));
  add(type.shape.size());
  add(type.shape.data(), type.shape.size() * sizeof(std::int64_t));
}

void Fingerprint::add(const Graph& graph) {
  add(std::string_view(graph.name()));
  add(graph.nodes().size());
  for (const Node& node : graph.nodes()) {
    add(std::string_view(node.op->name));
    add(std::string_view(node.name));
    add(node.type);
    add(node.operands.size());
    add(node.operands.data(), node.operands.size() * sizeof(NodeId));
    add(node.attrs.items().size());
    for (const auto& [name, value] : node.attrs.items()) {
      add(std::string_view(name));
      add_attribute(*this, value);
    }
  }
  add(graph.outputs().size());
  add(graph.outputs().data(), graph.outputs().size() * sizeof(NodeId));
  add(graph.updates().size());
  for (const Update& update : graph.updates()) {
    add(static_cast<std::uint64_t>(update.target));
    add(static_cast<std::uint64_t>(update.value));
  }
}

std::string Fingerprint::hex() const { return fmt::format("{:016x}{:016x}", a_, b_); }

}  // namespace wholestep::runtime
