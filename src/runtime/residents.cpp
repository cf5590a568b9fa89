#include "runtime/residents.h"

#include <fmt/format.h>

#include "runtime/check.h"
#include "wholestep/error.h"

namespace wholestep::runtime {

Residents::Residents(std::string owner, std::shared_ptr<backend::Backend> backend)
    : owner_(std::move(owner)), backend_(std::move(backend)) {}

const Residents::Entry* Residents::find(std::string_view name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : &found->second;
}

const Residents::Entry& Residents::at(std::string_view name) const {
  if (const Entry* found = find(name)) return *found;
  throw Error(ErrorCode::unknown_name, fmt::format("{}: no parameter or state is called \"{}\"", owner_, name));
}

const Residents::Entry& Residents::add(const std::string& name, const TensorType& type) {
  if (const Entry* known = find(name)) {
    check_type(name, type, *known);
    return *known;
  }
  return entries_.emplace(name, Entry{type, backend_->allocate(num_bytes(type))}).first->second;
}

void Residents::share(const std::string& name, const Entry& entry) { entries_.insert_or_assign(name, entry); }

void Residents::share_from(const Residents& other) {
  for (const auto& [name, mine] : entries_) {
    if (const Entry* theirs = other.find(name)) check_type(name, mine.type, *theirs);
  }
  for (auto& [name, mine] : entries_) {
    if (const Entry* theirs = other.find(name)) mine.memory = theirs->memory;
  }
}

void Residents::check_type(std::string_view name, const TensorType& type, const Entry& there) const {
  if (there.type == type) return;
  throw Error(
      there.type.dtype != type.dtype ? ErrorCode::dtype_mismatch : ErrorCode::shape_mismatch,
      fmt::format("{}: cannot share \"{}\": {} here, {} there", owner_, name, to_string(type), to_string(there.type)));
}

void Residents::check_upload(std::string_view name, const ArrayView& data) const {
  check_data(fmt::format("parameter or state \"{}\"", name), at(name).type, data);
}

void Residents::upload(std::string_view name, const ArrayView& data) {
  check_upload(name, data);
  if (data.bytes > 0) at(name).memory->upload(data.data, data.bytes);
}

Array Residents::download(std::string_view name) const {
  const Entry& from = at(name);
  Array value(from.type);
  if (value.bytes() > 0) from.memory->download(value.data(), value.bytes());
  return value;
}

std::int64_t Residents::bytes() const {
  std::int64_t total = 0;
  for (const auto& [name, entry] : entries_) total += static_cast<std::int64_t>(num_bytes(entry.type));
  return total;
}

}  // namespace wholestep::runtime
