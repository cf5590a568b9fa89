#include "backend/reference/reference_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "backend/reference/interpreter.h"
#include "core/memory.h"
#include "wholestep/error.h"

namespace wholestep::reference {
namespace {

class HostBuffer final : public backend::DeviceBuffer {
 public:
  explicit HostBuffer(std::size_t bytes) : bytes_(bytes) {
    constexpr std::size_t kAlignment = 64;
    if (bytes > kMostBytes) no_memory();
    const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    data_.reset(std::aligned_alloc(kAlignment, std::max(rounded, kAlignment)));
    if (!data_) no_memory();
    std::memset(data_.get(), 0, bytes);
  }
  std::size_t bytes() const override { return bytes_; }
  void upload(const void* data, std::size_t size) override {
    check(size);
    if (size > 0) std::memcpy(data_.get(), data, size);
    decoded_.reset();
  }
  void download(void* data, std::size_t size) const override {
    check(size);
    if (size > 0) std::memcpy(data, data_.get(), size);
  }
  /// Memory to be written.
  void* data() {
    decoded_.reset();
    return data_.get();
  }
  /// The contents as values of `type`. Kept until they change: a dataset is read by every step.
  const HostValue& decoded(const TensorType& type) {
    if (!decoded_ || decoded_->type != type)
      decoded_ = std::make_unique<const HostValue>(to_host_value(ArrayView(type, data_.get(), bytes_)));
    return *decoded_;
  }

 private:
  [[noreturn]] void no_memory() const {
    throw Error(ErrorCode::invalid_argument, fmt::format("no memory for a buffer of {} bytes", bytes_));
  }
  void check(std::size_t size) const {
    if (size != bytes_)
      throw Error(ErrorCode::wrong_length, fmt::format("a device buffer of {} bytes, got {}", bytes_, size));
  }
  struct Free {
    void operator()(void* data) const { std::free(data); }
  };
  std::size_t bytes_;
  std::unique_ptr<void, Free> data_;
  std::unique_ptr<const HostValue> decoded_;
};

class Interpreted final : public backend::Executable {
 public:
  Interpreted(const plan::Plan& plan, const Graph& graph)
      : graph_(graph),
        buffers_(plan.buffers),
        outputs_(plan.outputs),
        bound_(plan.buffers.size()),
        host_(plan.buffers.size()) {
    for (std::size_t i = 0; i < buffers_.size(); ++i)
      if (buffers_[i].role == plan::BufferRole::input || buffers_[i].role == plan::BufferRole::resident)
        by_name_.emplace(buffers_[i].name, i);
  }

  void bind(int index, std::shared_ptr<backend::DeviceBuffer> buffer) override {
    auto host = std::dynamic_pointer_cast<HostBuffer>(buffer);
    if (!host) throw Error(ErrorCode::internal, fmt::format("buffer '{}': memory of another device", at(index).name));
    if (host->bytes() != num_bytes(at(index).type))
      throw Error(ErrorCode::wrong_length, fmt::format("buffer '{}' of {} bound to {} bytes", at(index).name,
                                                       to_string(at(index).type), host->bytes()));
    bound_[static_cast<std::size_t>(index)] = std::move(host);
  }

  void bind_host(int index, void* data) override {
    at(index);
    host_[static_cast<std::size_t>(index)] = data;
  }

  void run() override {
    std::map<std::string, HostValue, std::less<>> borrowed;
    const Result result = interpret(graph_, [&](std::string_view name) -> const HostValue* {
      const auto found = by_name_.find(name);
      if (found == by_name_.end()) return nullptr;
      const std::size_t i = found->second;
      const TensorType& type = buffers_[i].type;
      if (!host_[i] && bound_[i]) return &bound_[i]->decoded(type);
      return &borrowed.emplace(name, to_host_value(ArrayView(type, memory(i), num_bytes(type)))).first->second;
    });
    // Everything is computed before the first byte is written, so a run that throws changes nothing.
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const auto index = static_cast<std::size_t>(outputs_[i]);
      // An output that is an input or a parameter itself is read from there.
      if (buffers_[index].role == plan::BufferRole::output) write(index, result.outputs[i]);
    }
    for (std::size_t i = 0; i < result.updates.size(); ++i)
      write(by_name_.at(graph_.node(graph_.updates()[i].target).name), result.updates[i]);
    host_.assign(host_.size(), nullptr);
  }

  std::vector<std::string> notes() const override { return {"interpreted: nothing is decomposed, fused or compiled"}; }

 private:
  const plan::Buffer& at(int index) const {
    if (index < 0 || static_cast<std::size_t>(index) >= buffers_.size())
      throw Error(ErrorCode::internal, fmt::format("the plan has {} buffers, no number {}", buffers_.size(), index));
    return buffers_[static_cast<std::size_t>(index)];
  }
  void* memory(std::size_t i) const {
    if (host_[i]) return host_[i];
    if (bound_[i]) return bound_[i]->data();
    if (num_bytes(buffers_[i].type) == 0) return nullptr;
    throw Error(ErrorCode::internal, fmt::format("buffer '{}' is not bound", buffers_[i].name));
  }
  void write(std::size_t i, const HostValue& value) const {
    const Array array = to_array(value);
    if (array.bytes() > 0) std::memcpy(memory(i), array.data(), array.bytes());
  }

  Graph graph_;
  std::vector<plan::Buffer> buffers_;
  std::vector<int> outputs_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
  std::vector<std::shared_ptr<HostBuffer>> bound_;
  std::vector<void*> host_;
};

class ReferenceBackend final : public backend::Backend {
 public:
  DeviceInfo info() const override {
    return {"reference", true, "interpreter in double precision, rounded after each op", 1};
  }
  backend::Consumes consumes() const override { return backend::Consumes::graph; }
  schedule::Target target() const override {
    schedule::Target target;
    target.name = "reference";
    return target;
  }
  std::shared_ptr<backend::DeviceBuffer> allocate(std::size_t bytes) override {
    return std::make_shared<HostBuffer>(bytes);
  }
  std::unique_ptr<backend::Executable> build(const plan::Plan& plan, const Graph& graph,
                                             const backend::BuildOptions&) override {
    return std::make_unique<Interpreted>(plan, graph);
  }
};

}  // namespace

std::shared_ptr<backend::Backend> make_backend() { return std::make_shared<ReferenceBackend>(); }

}  // namespace wholestep::reference
