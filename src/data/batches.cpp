#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "data/prefetch.h"
#include "wholestep/data.h"
#include "wholestep/error.h"

namespace wholestep::data {
namespace {

/// Batches in order from one set; the thread's side of `Batches`.
struct Source {
  std::shared_ptr<const Array> images, labels;
  std::shared_ptr<const std::vector<std::int64_t>> order;
  std::int64_t image_elements = 0;
  std::int64_t batch_size = 0;
  std::int64_t next_example = 0;

  bool fill(Batch& batch) {
    const std::int64_t count = std::min(batch_size, static_cast<std::int64_t>(order->size()) - next_example);
    if (count <= 0) return false;
    if (batch.count != count) {
      batch.images = Array(DType::u8, {count, image_elements});
      batch.labels = Array(DType::i32, {count});
      batch.count = count;
    }
    const auto row = static_cast<std::size_t>(image_elements);
    const std::uint8_t* all_images = images->as<std::uint8_t>().data();
    const auto all_labels = labels->as<std::int32_t>();
    std::uint8_t* out_image = batch.images.as<std::uint8_t>().data();
    const auto out_labels = batch.labels.as<std::int32_t>();
    for (std::size_t i = 0; i < out_labels.size(); ++i) {
      const auto example = static_cast<std::size_t>((*order)[static_cast<std::size_t>(next_example) + i]);
      if (row > 0) std::memcpy(out_image + i * row, all_images + example * row, row);
      out_labels[i] = all_labels[example];
    }
    next_example += count;
    return true;
  }
};

constexpr int kSlots = 8;  // one with the user, the others ahead of it

}  // namespace

struct Batches::State {
  State(Source source, std::int64_t count)
      : count(count),
        prefetcher(kSlots, [source = std::move(source)](Batch& batch) mutable { return source.fill(batch); }) {}
  std::int64_t count;
  Prefetcher<Batch> prefetcher;
};

Batches ImageSet::batches(std::int64_t size, std::int64_t first) const { return Batches(*this, size, first); }

Batches::Batches(const ImageSet& set, std::int64_t size, std::int64_t first) {
  if (size < 1) throw Error(ErrorCode::invalid_argument, fmt::format("batches of {} examples; at least 1", size));
  const std::int64_t all = set.size() / size + (set.size() % size != 0);
  if (first < 0 || first > all) {
    throw Error(ErrorCode::invalid_argument, fmt::format("first batch {} of {}", first, all));
  }
  // Not first * size where that is past the end: it may not fit.
  const std::int64_t start = first == all ? set.size() : first * size;
  state_ = std::make_unique<State>(Source{set.images_, set.labels_, set.order_, set.image_elements(), size, start},
                                   all - first);
}

Batches::Batches(Batches&&) noexcept = default;
Batches& Batches::operator=(Batches&&) noexcept = default;
Batches::~Batches() = default;

const Batch* Batches::next() { return state_ ? state_->prefetcher.next() : nullptr; }

std::int64_t Batches::size() const { return state_ ? state_->count : 0; }

}  // namespace wholestep::data
