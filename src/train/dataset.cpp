#include "train/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "graph/names.h"
#include "graph/op.h"
#include "passes/rebuild.h"
#include "runtime/check.h"
#include "runtime/index_bounds.h"
#include "train/step_inputs.h"
#include "wholestep/ops.h"

namespace wholestep {
namespace {

using Data = DeviceDataset::Data;

template <class T>
Data::Range range_of(const ArrayView& view) {
  const T* values = static_cast<const T*>(view.data);
  const auto [low, high] = std::minmax_element(values, values + view.bytes / sizeof(T));
  return {static_cast<std::int64_t>(*low), low - values, static_cast<std::int64_t>(*high), high - values};
}

std::optional<Data::Range> integer_range(const ArrayView& view) {
  if (view.bytes == 0) return std::nullopt;
  switch (view.type.dtype) {
    case DType::i64:
      return range_of<std::int64_t>(view);
    case DType::i32:
      return range_of<std::int32_t>(view);
    case DType::u8:
      return range_of<std::uint8_t>(view);
    default:
      return std::nullopt;
  }
}

}  // namespace

DeviceDataset::DeviceDataset(const Inputs& arrays, Device device) {
  auto made = std::make_shared<Data>();
  made->device = std::move(device);
  if (arrays.empty()) throw Error(ErrorCode::invalid_argument, "dataset: no arrays");
  for (const auto& [name, view] : arrays) {
    const std::string label = fmt::format("dataset: array \"{}\"", name);
    if (made->find(name)) throw Error(ErrorCode::duplicate_name, fmt::format("{} is given twice", label));
    if (view.type.shape.empty()) {
      throw Error(ErrorCode::shape_mismatch, fmt::format("{}: expected [n, ...], got {}", label, to_string(view.type)));
    }
    const std::int64_t size = view.type.shape[0];
    if (made->entries.empty()) made->size = size;
    if (size != made->size) {
      throw Error(ErrorCode::shape_mismatch,
                  fmt::format("{} is {}: {} examples, but \"{}\" has {}", label, to_string(view.type), size,
                              made->entries[0].name, made->size));
    }
    if (size == 0) throw Error(ErrorCode::invalid_argument, fmt::format("{} has no examples", label));
    if (size > std::numeric_limits<std::int32_t>::max()) {
      throw Error(ErrorCode::unsupported,
                  fmt::format("{} has {} examples, at most 2^31 - 1 are possible", label, size));
    }
    runtime::check_data(label, view.type, view);
    made->entries.push_back({name, view.type, nullptr, integer_range(view)});
  }
  const std::shared_ptr<backend::Backend> backend = backend::open(made->device);
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const ArrayView& view = arrays[i].second;
    made->entries[i].memory = backend->allocate(view.bytes);
    if (view.bytes > 0) made->entries[i].memory->upload(view.data, view.bytes);
  }
  data_ = std::move(made);
}

std::int64_t DeviceDataset::size() const { return data_->size; }
const Device& DeviceDataset::device() const { return data_->device; }

std::int64_t DeviceDataset::bytes() const {
  std::int64_t total = 0;
  for (const Data::Entry& entry : data_->entries) total += static_cast<std::int64_t>(num_bytes(entry.type));
  return total;
}

std::vector<std::pair<std::string, TensorType>> DeviceDataset::arrays() const { return data_->types(); }

std::vector<std::pair<std::string, TensorType>> Data::types() const {
  std::vector<std::pair<std::string, TensorType>> types;
  for (const Entry& entry : entries) types.emplace_back(entry.name, entry.type);
  return types;
}

const Data::Entry* DeviceDataset::Data::find(std::string_view name) const {
  const auto found = std::ranges::find(entries, name, &Entry::name);
  return found == entries.end() ? nullptr : &*found;
}

namespace train {
namespace {

Shape example_shape(const TensorType& type) { return {type.shape.begin() + 1, type.shape.end()}; }

// Rows of a dataset stand for examples of an input: of one shape, or of one number of elements where either is flat.
bool same_examples(const TensorType& array, const TensorType& input) {
  const Shape rows = example_shape(array), wanted = example_shape(input);
  return rows == wanted || ((rows.size() == 1 || wanted.size() == 1) && num_elements(rows) == num_elements(wanted));
}

}  // namespace

std::string dataset_input(std::string_view name) { return fmt::format("dataset/{}", name); }

std::int64_t batch_of(const Graph& graph) {
  const Node* first = nullptr;
  for (const NodeId id : graph.nodes_of("input")) {
    const Node& input = graph.node(id);
    if (of_the_step_block(input.name)) continue;
    if (input.type.shape.empty()) {
      throw Error(ErrorCode::shape_mismatch,
                  fmt::format("{}: input \"{}\" is {}, which has no rows that a dataset could give", graph.name(),
                              input.name, to_string(input.type)));
    }
    if (!first) first = &input;
    if (input.type.shape[0] == first->type.shape[0]) continue;
    throw Error(ErrorCode::shape_mismatch,
                fmt::format("{}: inputs \"{}\", {}, and \"{}\", {}, have no common number of examples", graph.name(),
                            first->name, to_string(first->type), input.name, to_string(input.type)));
  }
  if (!first) throw Error(ErrorCode::unsupported, fmt::format("{}: there are no inputs for a dataset", graph.name()));
  return first->type.shape[0];
}

namespace {

[[noreturn]] void refuse(ErrorCode code, const Graph& graph, const std::string& message) {
  throw Error(code, fmt::format("{}: dataset: {}", graph.name(), message));
}

void check_array(const Graph& graph, const Node& input, const TensorType& array) {
  if (array.dtype != input.type.dtype) {
    refuse(ErrorCode::dtype_mismatch, graph,
           fmt::format("array \"{}\" is {}, the input is {}", input.name, to_string(array), to_string(input.type)));
  }
  if (!array.shape.empty() && same_examples(array, input.type)) return;
  std::string rows = "n";
  for (const std::int64_t extent : example_shape(input.type)) rows += fmt::format(", {}", extent);
  refuse(ErrorCode::shape_mismatch, graph,
         fmt::format("array \"{}\" is {}, expected [{}] for the input, {}", input.name, to_string(array), rows,
                     to_string(input.type)));
}

}  // namespace

void check_arrays(const Graph& graph, const std::vector<std::pair<std::string, TensorType>>& arrays) {
  batch_of(graph);
  const auto inputs = given_inputs(graph);
  std::vector<std::string> names;
  for (const auto& [name, type] : inputs) {
    names.push_back(name);
    const auto array = std::ranges::find(arrays, name, &std::pair<std::string, TensorType>::first);
    if (array == arrays.end()) {
      refuse(ErrorCode::missing_input, graph, fmt::format("no array for input \"{}\", {}", name, to_string(type)));
    }
    check_array(graph, graph.node(graph.find_id(name)), array->second);
  }
  for (const auto& [name, type] : arrays) {
    if (std::ranges::find(inputs, name, &std::pair<std::string, TensorType>::first) != inputs.end()) continue;
    refuse(ErrorCode::unknown_name, graph,
           fmt::format("array \"{}\" is no input of the graph; inputs: {}", name, list_names(names)));
  }
}

void check_dataset(const Graph& graph, const Data& data, const Device& device) {
  if (!backend::same_memory(data.device, device)) {
    refuse(ErrorCode::device_unavailable, graph,
           fmt::format("it is in the memory of device \"{}\", expected that of the trainer's, \"{}\"", data.device.name,
                       device.name));
  }
  check_arrays(graph, data.types());
  for (const plan::IndexBound& index : runtime::index_bounds(graph)) {
    const Data::Entry* entry = data.find(index.input);
    if (!entry || !entry->range) continue;
    const Data::Range& range = *entry->range;
    const bool too_low = range.low < 0;
    if (!too_low && range.high < index.bound) continue;
    refuse(ErrorCode::index_out_of_range, graph,
           fmt::format("element {} of array \"{}\" is {}, expected 0 <= index < {}",
                       too_low ? range.low_at : range.high_at, entry->name, too_low ? range.low : range.high,
                       index.bound));
  }
}

Graph take_rows(const Graph& graph, const Data& data) {
  passes::Rebuild rebuild(graph);
  Graph& to = rebuild.to();
  const Tensor rows = to.input(std::string(kRows), {batch_of(graph)}, DType::i32);
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const auto id = static_cast<NodeId>(i);
    const Node& node = graph.node(id);
    if (node.op->name != "input" || of_the_step_block(node.name)) {
      rebuild.set(id, rebuild.copy(id));
      continue;
    }
    TensorType whole = node.type;
    whole.shape[0] = data.size;
    rebuild.set(id, gather_rows(to.input(dataset_input(node.name), whole.shape, whole.dtype), rows));
  }
  return rebuild.finish();
}

}  // namespace train
}  // namespace wholestep
