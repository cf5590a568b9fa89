#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <numeric>
#include <utility>

#include "data/idx_names.h"
#include "data/order.h"
#include "wholestep/data.h"
#include "wholestep/error.h"
#include "wholestep/io.h"

namespace wholestep::data {
namespace {

template <class T>
Array to_i32(const Array& labels) {
  Array result(DType::i32, labels.shape());
  const auto out = result.as<std::int32_t>();
  const auto in = labels.as<T>();
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (!std::in_range<std::int32_t>(in[i]) || std::cmp_less(in[i], 0)) {
      throw Error(ErrorCode::index_out_of_range, fmt::format("label {} of example {} is not between 0 and {}", in[i], i,
                                                             std::numeric_limits<std::int32_t>::max()));
    }
    out[i] = static_cast<std::int32_t>(in[i]);
  }
  return result;
}

Array checked_labels(const Array& labels) {
  if (labels.shape().size() != 1) {
    throw Error(ErrorCode::shape_mismatch, fmt::format("labels of shape {} instead of [n]", to_string(labels.shape())));
  }
  switch (labels.dtype()) {
    case DType::u8:
      return to_i32<std::uint8_t>(labels);
    case DType::i32:
      return to_i32<std::int32_t>(labels);
    case DType::i64:
      return to_i32<std::int64_t>(labels);
    default:
      throw Error(ErrorCode::dtype_mismatch,
                  fmt::format("labels of dtype {} instead of u8, i32 or i64", to_string(labels.dtype())));
  }
}

/// The plain file, or else its compressed form.
std::string find_idx(const std::filesystem::path& folder, const std::string& name) {
  for (const char* suffix : {"", ".gz"}) {
    const std::string path = (folder / (name + suffix)).string();
    std::error_code error;
    if (std::filesystem::exists(path, error)) return path;
  }
  std::error_code error;
  if (!std::filesystem::exists(folder, error)) {
    throw Error(ErrorCode::file_not_found, fmt::format("{}: no such folder", folder.string()));
  }
  if (!std::filesystem::is_directory(folder, error)) {
    throw Error(ErrorCode::file_not_found,
                fmt::format("{}: expected a folder with {}, it is a file", folder.string(), name));
  }
  throw Error(ErrorCode::file_not_found,
              fmt::format("no {0} in {1}: looked for {0} and {0}.gz", name, folder.string()));
}

}  // namespace

ImageSet::ImageSet(Array images, Array labels) {
  if (images.dtype() != DType::u8) {
    throw Error(ErrorCode::dtype_mismatch, fmt::format("images of dtype {} instead of u8", to_string(images.dtype())));
  }
  if (images.shape().empty()) throw Error(ErrorCode::shape_mismatch, "images of shape [] instead of [n, ...]");
  labels = checked_labels(labels);
  if (images.shape()[0] != labels.shape()[0]) {
    throw Error(ErrorCode::shape_mismatch, fmt::format("{} images, {}, but {} labels", images.shape()[0],
                                                       to_string(images.shape()), labels.shape()[0]));
  }
  std::vector<std::int64_t> order(static_cast<std::size_t>(images.shape()[0]));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  images_ = std::make_shared<const Array>(std::move(images));
  labels_ = std::make_shared<const Array>(std::move(labels));
  order_ = std::make_shared<const std::vector<std::int64_t>>(std::move(order));
}

std::int64_t ImageSet::size() const { return images_->shape()[0]; }

std::int64_t ImageSet::image_elements() const {
  const Shape& shape = images_->shape();
  return num_elements(Shape(shape.begin() + 1, shape.end()));
}

std::int64_t ImageSet::classes() const {
  const auto labels = labels_->as<std::int32_t>();
  return labels.empty() ? 0 : std::int64_t{*std::max_element(labels.begin(), labels.end())} + 1;
}

ImageSet ImageSet::shuffled(std::uint64_t seed, std::uint64_t epoch) const {
  std::vector<std::int64_t> order = *order_;
  shuffle(order, seed, epoch);
  ImageSet result = *this;
  result.order_ = std::make_shared<const std::vector<std::int64_t>>(std::move(order));
  return result;
}

IdxNames idx_names(Split split) {
  const std::string prefix = split == Split::train ? "train" : "t10k";
  return {prefix + "-images-idx3-ubyte", prefix + "-labels-idx1-ubyte"};
}

ImageSet read_idx(const std::string& folder, Split split) {
  const auto [images, labels] = idx_names(split);
  const std::string images_path = find_idx(folder, images);
  const std::string labels_path = find_idx(folder, labels);
  try {
    return ImageSet(io::read_idx(images_path), io::read_idx(labels_path));
  } catch (const Error& error) {
    // Problems of one file name it; those of the pair do not know their origin.
    if (error.code() != ErrorCode::shape_mismatch && error.code() != ErrorCode::dtype_mismatch &&
        error.code() != ErrorCode::index_out_of_range) {
      throw;
    }
    throw Error(error.code(), fmt::format("{} and {}: {}", images_path, labels_path, error.what()));
  }
}

}  // namespace wholestep::data
