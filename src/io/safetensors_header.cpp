#include "io/safetensors_header.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "wholestep/error.h"

namespace wholestep::io {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::pair<DType, std::string_view>, 8> kDTypes{{{DType::f64, "F64"},
                                                                     {DType::f32, "F32"},
                                                                     {DType::bf16, "BF16"},
                                                                     {DType::f16, "F16"},
                                                                     {DType::i64, "I64"},
                                                                     {DType::i32, "I32"},
                                                                     {DType::u8, "U8"},
                                                                     {DType::boolean, "BOOL"}}};

/// Takes the parser's events one by one, so that a hostile header builds no tree, nests nothing and hides no second
/// value of a key. Returning false stops the parser; `problem` says why.
class HeaderReader : public nlohmann::json_sax<Json> {
 public:
  SafeTensorsHeader header;
  std::string problem;

  bool start_object(std::size_t) override {
    switch (place_) {
      case Place::start:
        place_ = Place::top;
        return true;
      case Place::entry_value:
        place_ = Place::entry;
        seen_ = 0;
        return true;
      case Place::metadata_value:
        place_ = Place::metadata;
        return true;
      default:
        return unexpected("an object");
    }
  }

  bool key(std::string& text) override {
    switch (place_) {
      case Place::top:
        if (!names_.insert(text).second) return fail(fmt::format("\"{}\" comes twice", text));
        place_ = text == kMetadataKey ? Place::metadata_value : Place::entry_value;
        if (place_ == Place::entry_value) header.entries.push_back({.name = text});
        return true;
      case Place::metadata:
        if (!metadata_keys_.insert(text).second) return fail(fmt::format("\"{}\" comes twice in the metadata", text));
        header.metadata.emplace_back(text, "");
        place_ = Place::metadata_text;
        return true;
      case Place::entry:
        return entry_key(text);
      default:
        return unexpected("a key");
    }
  }

  bool end_object() override {
    if (place_ == Place::entry && seen_ != (kHasDType | kHasShape | kHasOffsets)) {
      return fail(fmt::format("tensor \"{}\" lacks its dtype, shape or data_offsets", entry().name));
    }
    place_ = place_ == Place::top ? Place::end : Place::top;
    return true;
  }

  bool string(std::string& text) override {
    if (place_ == Place::dtype_value) {
      entry().dtype = text;
      place_ = Place::entry;
      return true;
    }
    if (place_ != Place::metadata_text) return unexpected("a string");
    header.metadata.back().second = text;
    place_ = Place::metadata;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ == Place::shape_value) {
      place_ = Place::shape;
    } else if (place_ == Place::offsets_value) {
      place_ = Place::offsets;
      offsets_ = 0;
    } else {
      return unexpected("an array");
    }
    return true;
  }

  bool number_unsigned(Json::number_unsigned_t value) override {
    if (place_ == Place::shape) {
      entry().shape.push_back(value);
      return true;
    }
    if (place_ != Place::offsets) return unexpected("a number");
    if (offsets_ == 2) return fail(fmt::format("tensor \"{}\" has more than two data_offsets", entry().name));
    (offsets_++ == 0 ? entry().begin : entry().end) = value;
    return true;
  }

  bool end_array() override {
    if (place_ == Place::offsets && offsets_ != 2) {
      return fail(fmt::format("tensor \"{}\" has fewer than two data_offsets", entry().name));
    }
    place_ = Place::entry;
    return true;
  }

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("true or false"); }
  bool number_integer(Json::number_integer_t) override { return unexpected("a negative number"); }
  bool number_float(Json::number_float_t, const std::string&) override {
    return unexpected("a number that is not a 64-bit integer");
  }
  bool binary(Json::binary_t&) override { return unexpected("binary data"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return fail(fmt::format("not JSON at byte {} of the header", position));
  }

 private:
  enum class Place {
    start,
    top,
    entry_value,
    entry,
    dtype_value,
    shape_value,
    shape,
    offsets_value,
    offsets,
    metadata_value,
    metadata,
    metadata_text,
    end
  };
  static constexpr int kHasDType = 1, kHasShape = 2, kHasOffsets = 4;

  SafeTensorsEntry& entry() { return header.entries.back(); }

  bool entry_key(const std::string& text) {
    int field = 0;
    if (text == "dtype") {
      field = kHasDType;
      place_ = Place::dtype_value;
    } else if (text == "shape") {
      field = kHasShape;
      place_ = Place::shape_value;
    } else if (text == "data_offsets") {
      field = kHasOffsets;
      place_ = Place::offsets_value;
    } else {
      return fail(fmt::format("tensor \"{}\" has an unknown key \"{}\"", entry().name, text));
    }
    if (seen_ & field) return fail(fmt::format("tensor \"{}\" has \"{}\" twice", entry().name, text));
    seen_ |= field;
    return true;
  }

  bool fail(std::string text) {
    problem = std::move(text);
    return false;
  }

  bool unexpected(const char* what) {
    switch (place_) {
      case Place::start:
        return fail(fmt::format("{} where the header's object should begin", what));
      case Place::entry_value:
        return fail(fmt::format("{} where tensor \"{}\" should be described", what, entry().name));
      case Place::metadata_value:
        return fail(fmt::format("{} where the metadata's object should be", what));
      case Place::metadata_text:
        return fail(fmt::format("{} where the text of metadata \"{}\" should be", what, header.metadata.back().first));
      default:
        return fail(fmt::format("{} in the description of tensor \"{}\"", what, entry().name));
    }
  }

  Place place_ = Place::start;
  int seen_ = 0;
  int offsets_ = 0;
  std::unordered_set<std::string> names_, metadata_keys_;
};

}  // namespace

SafeTensorsHeader parse_safetensors_header(std::string_view text, const std::string& path) {
  // The parser takes a zero byte for the end of its text, whatever follows.
  if (const std::size_t zero = text.find('\0'); zero != text.npos) {
    throw Error(ErrorCode::file_malformed, fmt::format("{}: not JSON at byte {} of the header", path, zero));
  }
  HeaderReader reader;
  if (!Json::sax_parse(text.begin(), text.end(), &reader)) {
    throw Error(ErrorCode::file_malformed, fmt::format("{}: {}", path, reader.problem));
  }
  return std::move(reader.header);
}

std::string_view safetensors_dtype(DType dtype) {
  for (const auto& [known, text] : kDTypes) {
    if (known == dtype) return text;
  }
  throw Error(ErrorCode::internal, "a dtype without a safetensors name");
}

DType dtype_of_safetensors(const SafeTensorsEntry& entry, const std::string& path) {
  for (const auto& [dtype, text] : kDTypes) {
    if (text == entry.dtype) return dtype;
  }
  throw Error(ErrorCode::unsupported,
              fmt::format("{}: tensor \"{}\" has dtype \"{}\"; known are F64, F32, BF16, F16, I64, I32, U8 and BOOL",
                          path, entry.name, entry.dtype));
}

}  // namespace wholestep::io
