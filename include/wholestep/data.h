#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "wholestep/array.h"

namespace wholestep::data {

/// `count` examples: a batch. `images` [count, ...] u8, `labels` [count] i32.
struct Batch {
  Array images;
  Array labels;
  std::int64_t count = 0;
};

enum class Split { train, test };

class Batches;

/// Images and their labels, in memory.
class ImageSet {
 public:
  /// `images` u8 [n, ...], `labels` u8, i32 or i64 [n], kept as i32. Throws `shape_mismatch`, `dtype_mismatch`,
  /// `index_out_of_range` for a label that is negative or beyond i32.
  ImageSet(Array images, Array labels);
  std::int64_t size() const;
  /// Elements of one image.
  std::int64_t image_elements() const;
  /// All images, in the order given to the constructor: shuffling moves no data.
  const Array& images() const { return *images_; }
  /// All labels, i32 [n], in the same order.
  const Array& labels() const { return *labels_; }
  /// One more than the largest label; 0 without examples.
  std::int64_t classes() const;

  /// The same examples in the order of a permutation of the present one that `seed` and `epoch` determine (Philox,
  /// Fisher-Yates). Shares the data.
  ImageSet shuffled(std::uint64_t seed, std::uint64_t epoch = 0) const;
  /// Batches of `size` images flattened to [count, image_elements]; the last is smaller where `size` does not divide.
  /// A background thread prepares the next ones. Starts at batch `first`, which may be the
  /// end. Throws `invalid_argument` for size < 1 and for `first` outside [0, number of batches].
  Batches batches(std::int64_t size, std::int64_t first = 0) const;

 private:
  friend class Batches;
  std::shared_ptr<const Array> images_, labels_;
  std::shared_ptr<const std::vector<std::int64_t>> order_;
};

/// A range of batches for `for (const Batch& b : set.batches(64))`. Single pass, move-only.
class Batches {
 public:
  Batches(const ImageSet& set, std::int64_t size, std::int64_t first);
  Batches(Batches&&) noexcept;
  Batches& operator=(Batches&&) noexcept;
  ~Batches();
  /// The next batch, or nullptr at the end; valid until the next call.
  const Batch* next();
  /// Number of batches from the first asked for.
  std::int64_t size() const;

  class Iterator {
   public:
    explicit Iterator(Batches* source) : source_(source), current_(source ? source->next() : nullptr) {}
    const Batch& operator*() const { return *current_; }
    Iterator& operator++() {
      current_ = source_->next();
      return *this;
    }
    bool operator!=(const Iterator& other) const { return current_ != other.current_; }

   private:
    Batches* source_;
    const Batch* current_;
  };
  Iterator begin() { return Iterator(this); }
  Iterator end() { return Iterator(nullptr); }

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Reads the images and labels of one split from `folder` (`train-images-idx3-ubyte`, ..., plain or `.gz`).
/// Throws as `io::read_idx` and as the constructor of `ImageSet`; each message names the file.
ImageSet read_idx(const std::string& folder, Split split);

}  // namespace wholestep::data
