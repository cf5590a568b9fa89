#include "runtime/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "runtime/check.h"

namespace wholestep::runtime {
namespace {

// Where the data of an empty tensor is said to be: devices need not know of null pointers.
alignas(64) std::byte no_bytes[64];

void* address_of(Array& array) { return array.bytes() > 0 ? array.data() : no_bytes; }

template <class Items>
auto* find_by(Items& items, const std::unordered_map<std::string_view, std::size_t>& index, std::string_view name) {
  const auto found = index.find(name);
  return found == index.end() ? nullptr : &items[found->second];
}

}  // namespace

Program::Program(Device device, std::shared_ptr<backend::Backend> backend, std::shared_ptr<const Lowered> lowered,
                 std::unique_ptr<backend::Executable> executable, std::vector<StageTime> stages, Residents* shared)
    : device_(std::move(device)),
      backend_(std::move(backend)),
      lowered_(std::move(lowered)),
      executable_(std::move(executable)),
      stages_(std::move(stages)),
      residents_(lowered_->source.name(), backend_) {
  make_inputs();
  make_residents(shared);
  make_outputs();
  make_stats();
}

void Program::make_inputs() {
  const plan::Plan& plan = lowered_->plan;
  for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
    const plan::Buffer& buffer = plan.buffers[i];
    if (buffer.role != plan::BufferRole::input) continue;
    const auto bound = std::ranges::find(plan.index_bounds, buffer.name, &plan::IndexBound::input);
    inputs_.push_back({.name = buffer.name,
                       .label = fmt::format("input \"{}\"", buffer.name),
                       .type = buffer.type,
                       .buffer = static_cast<int>(i),
                       .bound = bound == plan.index_bounds.end() ? std::nullopt : std::optional(bound->bound)});
    signature_.emplace_back(buffer.name, buffer.type);
  }
  for (std::size_t i = 0; i < inputs_.size(); ++i) input_index_.emplace(inputs_[i].name, i);
  expect_remaining_inputs();
}

void Program::make_residents(Residents* shared) {
  for (const plan::Buffer& buffer : lowered_->plan.buffers) {
    if (buffer.role != plan::BufferRole::resident) continue;
    if (shared) {
      residents_.share(buffer.name, shared->add(buffer.name, buffer.type));
    } else {
      residents_.add(buffer.name, buffer.type);
    }
  }
  bind_residents();
}

void Program::bind_residents() {
  const plan::Plan& plan = lowered_->plan;
  for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
    if (plan.buffers[i].role != plan::BufferRole::resident) continue;
    executable_->bind(static_cast<int>(i), residents_.at(plan.buffers[i].name).memory);
  }
}

void Program::make_outputs() {
  const plan::Plan& plan = lowered_->plan;
  for (std::size_t i = 0; i < plan.outputs.size(); ++i) {
    const int buffer = plan.outputs[i];
    if (plan.buffers[static_cast<std::size_t>(buffer)].role != plan::BufferRole::output) {
      throw Error(ErrorCode::internal, fmt::format("{}: the buffer of output {} is not an output", plan.name, i));
    }
    const TensorType& type = lowered_->source.node(lowered_->source.outputs()[i]).type;
    auto known = std::ranges::find(output_buffers_, buffer, &OutputBuffer::buffer);
    if (known == output_buffers_.end()) {
      known = output_buffers_.insert(known, OutputBuffer{.buffer = buffer, .bytes = num_bytes(type)});
    }
    outputs_.push_back({type, static_cast<std::size_t>(known - output_buffers_.begin())});
    every_output_.push_back(static_cast<int>(i));
  }
}

void Program::make_stats() {
  const plan::Plan& plan = lowered_->plan;
  stats_.resident_bytes = residents_.bytes();
  stats_.scratch_bytes = plan.arena_bytes;
  stats_.largest_live_bytes = plan.largest_live_bytes;
  stats_.kernels = static_cast<int>(plan.nests.size());
  stats_.phases = static_cast<int>(plan.phases.size());
  stats_.barriers = plan.barriers();
  stats_.from_cache = executable_->from_cache();
  for (const StageTime& stage : stages_) stats_.compile_ms += stage.ms;
}

bool Program::is_resident() const { return backend_->consumes() == backend::Consumes::plan; }

Program::Input* Program::find_input(std::string_view name) { return find_by(inputs_, input_index_, name); }
const Program::Input* Program::find_input(std::string_view name) const { return find_by(inputs_, input_index_, name); }

// State.

void Program::share_state_of(const Program& other) {
  if (!backend::same_memory(device_, other.device_)) {
    throw Error(ErrorCode::device_unavailable,
                fmt::format("{}: cannot share memory between devices: this program is on {}, the other on {}",
                            lowered_->source.name(), device_.name, other.device_.name));
  }
  residents_.share_from(other.residents_);
  bind_residents();
}

// Handles and attached inputs.

void Program::expect_remaining_inputs() {
  expected_.clear();
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].expected()) expected_.push_back(i);
  }
}

bool Program::bind_handle(const std::string& name, const ArrayView& data) {
  Input* input = find_input(name);
  if (!input) {
    if (!residents_.find(name)) refuse_name(name);
    residents_.upload(name, data);
    return true;
  }
  check_data(input->label, input->type, data);
  if (input->bound) check_indices(input->label, data, *input->bound);
  if (!input->handle) {
    input->handle = backend_->allocate(num_bytes(input->type));
    executable_->bind(input->buffer, input->handle);
    input->attached = nullptr;
    expect_remaining_inputs();
  }
  if (data.bytes > 0) input->handle->upload(data.data, data.bytes);
  return true;
}

void Program::set_handle_feed(const std::string& name, int output) {
  const Input* input = find_input(name);
  const Residents::Entry* resident = residents_.find(name);
  if (!resident && !(input && input->handle)) {
    throw Error(ErrorCode::unknown_name,
                fmt::format("{}: no handle is called \"{}\"; bind_handle makes one", lowered_->source.name(), name));
  }
  check_wanted({output});
  const TensorType& to = resident ? resident->type : input->type;
  const Output& from = outputs_[static_cast<std::size_t>(output)];
  if (from.type != to) {
    throw Error(from.type.dtype != to.dtype ? ErrorCode::dtype_mismatch : ErrorCode::shape_mismatch,
                fmt::format("handle \"{}\" is {}, output {} is {}", name, to_string(to), output, to_string(from.type)));
  }
  for (const Update& update : lowered_->source.updates()) {
    if (lowered_->source.node(update.target).name != name) continue;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("\"{}\" has an update in the graph, so no output can feed it", name));
  }
  std::erase_if(feeds_, [&](const Feed& feed) { return feed.name == name; });
  feeds_.push_back({name, from.memory});
  // Copies are made first, then at most one input handle per output takes its memory. State may be shared with other
  // programs, so it is copied.
  for (OutputBuffer& buffer : output_buffers_) buffer.feeds = false;
  std::vector<bool> taken(output_buffers_.size());
  for (Feed& feed : feeds_) {
    output_buffers_[feed.memory].feeds = true;
    feed.swaps = find_input(feed.name) && !taken[feed.memory];
    if (feed.swaps) taken[feed.memory] = true;
  }
  std::ranges::stable_sort(feeds_, {}, &Feed::swaps);
}

Array Program::read_handle(const std::string& name) const {
  const Input* input = find_input(name);
  if (!input) return residents_.download(name);
  if (!input->handle) {
    throw Error(ErrorCode::unknown_name,
                fmt::format("{}: {} is not a handle; bind_handle makes it one", lowered_->source.name(), input->label));
  }
  Array value(input->type);
  if (value.bytes() > 0) input->handle->download(value.data(), value.bytes());
  return value;
}

void Program::attach(const std::string& name, const void* data) {
  Input* input = find_input(name);
  if (!input) refuse_name(name);
  input->attached = data;
  expect_remaining_inputs();
}

void Program::bind_memory(const std::string& name, std::shared_ptr<backend::DeviceBuffer> memory) {
  Input* input = find_input(name);
  if (!input) refuse_name(name);
  if (memory->bytes() != num_bytes(input->type)) {
    throw Error(ErrorCode::internal, fmt::format("{} of {} bound to {} bytes of memory", input->label,
                                                 to_string(input->type), memory->bytes()));
  }
  input->handle = std::move(memory);
  executable_->bind(input->buffer, input->handle);
  expect_remaining_inputs();
}

void Program::feed_handles() {
  for (const Feed& feed : feeds_) {
    OutputBuffer& from = output_buffers_[feed.memory];
    Input* input = find_input(feed.name);
    if (feed.swaps) {
      std::swap(input->handle, from.memory);
      executable_->bind(input->buffer, input->handle);
      executable_->bind(from.buffer, from.memory);
    } else {
      std::vector<std::byte> value(from.bytes);
      from.memory->download(value.data(), value.size());
      (input ? input->handle : residents_.at(feed.name).memory)->upload(value.data(), value.size());
    }
  }
}

// Runs.

Program::Input* Program::match(std::size_t position, std::string_view name) {
  if (position < expected_.size() && inputs_[expected_[position]].name == name) return &inputs_[expected_[position]];
  Input* input = find_input(name);
  return input && input->expected() ? input : nullptr;
}

void Program::refuse_name(std::string_view name) const {
  const Input* input = find_input(name);
  if (input && !input->expected()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} is bound to memory of its own, so it is not given to a run", input->label));
  }
  std::string known;
  for (std::size_t i : expected_) {
    known += fmt::format("{}\"{}\" ({})", known.empty() ? "" : ", ", inputs_[i].name, to_string(inputs_[i].type));
  }
  throw Error(ErrorCode::unknown_name, fmt::format("{}: no input is called \"{}\"; inputs: {}", lowered_->source.name(),
                                                   name, known.empty() ? "none" : known));
}

bool Program::accepts(const Inputs& inputs) {
  if (inputs.size() != expected_.size()) return false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Input* input = match(i, inputs[i].first);
    if (!input || !fits(input->type, inputs[i].second)) return false;
  }
  return true;
}

void Program::check(const Inputs& inputs) {
  for (std::size_t i : expected_) inputs_[i].given = nullptr;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto& [name, data] = inputs[i];
    Input* input = match(i, name);
    if (!input) refuse_name(name);
    if (input->given) throw Error(ErrorCode::duplicate_name, fmt::format("{} is given twice", input->label));
    check_data(input->label, input->type, data);
    if (input->bound) check_indices(input->label, data, *input->bound);
    input->given = data.bytes > 0 ? data.data : no_bytes;
  }
  if (inputs.size() == expected_.size()) return;
  for (std::size_t i : expected_) {
    if (inputs_[i].given) continue;
    throw Error(ErrorCode::missing_input, fmt::format("{}: no value for {}, expected {}", lowered_->source.name(),
                                                      inputs_[i].label, to_string(inputs_[i].type)));
  }
}

void Program::check_wanted(const std::vector<int>& wanted) const {
  for (int output : wanted) {
    if (output >= 0 && static_cast<std::size_t>(output) < outputs_.size()) continue;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: output {} asked for, there are {}", lowered_->source.name(), output, outputs_.size()));
  }
}

void Program::bind_inputs() {
  for (const Input& input : inputs_) {
    // Inputs are only read; the interface has one function for both directions.
    if (!input.handle)
      executable_->bind_host(input.buffer, const_cast<void*>(input.attached ? input.attached : input.given));
  }
}

void Program::bind_to_memory(OutputBuffer& output) {
  if (output.bound) return;
  if (!output.memory) output.memory = backend_->allocate(output.bytes);
  executable_->bind(output.buffer, output.memory);
  output.bound = true;
}

std::vector<Array> Program::bind_outputs(const std::vector<int>& wanted) {
  std::vector<Array> results;
  results.reserve(wanted.size());
  for (OutputBuffer& buffer : output_buffers_) buffer.reader = -1;
  for (int index : wanted) {
    const Output& output = outputs_[static_cast<std::size_t>(index)];
    OutputBuffer& buffer = output_buffers_[output.memory];
    Array& result = results.emplace_back(output.type);
    if (buffer.feeds || buffer.reader >= 0) continue;
    buffer.reader = static_cast<int>(results.size() - 1);
    executable_->bind_host(buffer.buffer, address_of(result));
    buffer.bound = false;
  }
  for (OutputBuffer& buffer : output_buffers_) {
    if (buffer.reader < 0) bind_to_memory(buffer);
  }
  return results;
}

void Program::collect(const std::vector<int>& wanted, std::vector<Array>& results) const {
  for (std::size_t i = 0; i < results.size(); ++i) {
    const OutputBuffer& buffer = output_buffers_[outputs_[static_cast<std::size_t>(wanted[i])].memory];
    Array& result = results[i];
    if (buffer.reader == static_cast<int>(i) || result.bytes() == 0) continue;
    if (buffer.feeds) {
      buffer.memory->download(result.data(), result.bytes());
    } else {
      std::memcpy(result.data(), results[static_cast<std::size_t>(buffer.reader)].data(), result.bytes());
    }
  }
}

std::vector<Array> Program::run(const Inputs& inputs, const std::vector<int>& wanted) {
  check_wanted(wanted);
  check(inputs);
  bind_inputs();
  std::vector<Array> results = bind_outputs(wanted);
  executable_->run();
  collect(wanted, results);
  feed_handles();
  return results;
}

}  // namespace wholestep::runtime
