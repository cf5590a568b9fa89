#pragma once
// Parameters and states in the memory of a device.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "backend/backend.h"
#include "wholestep/array.h"
#include "wholestep/graph.h"

namespace wholestep::runtime {

/// Memory by name. Two of them may share the memory of a name, as programs on one state do.
class Residents {
 public:
  struct Entry {
    TensorType type;
    std::shared_ptr<backend::DeviceBuffer> memory;
  };

  /// `owner` stands in messages.
  Residents(std::string owner, std::shared_ptr<backend::Backend> backend);

  /// nullptr where there is none of this name.
  const Entry* find(std::string_view name) const;
  /// Throws `unknown_name`.
  const Entry& at(std::string_view name) const;
  /// The memory of `name`, which begins as zeros. Throws `shape_mismatch` or `dtype_mismatch` where there is one of
  /// another type.
  const Entry& add(const std::string& name, const TensorType& type);
  /// The memory of `name` is that of `entry`.
  void share(const std::string& name, const Entry& entry);
  /// The memory of each name that `other` has too is that of `other`. Throws `shape_mismatch` or `dtype_mismatch` where
  /// types differ; nothing is changed then.
  void share_from(const Residents& other);

  /// Throws what `upload` would.
  void check_upload(std::string_view name, const ArrayView& data) const;
  /// Throws `unknown_name`, `wrong_length`, `shape_mismatch`, `dtype_mismatch`, `invalid_argument` (as `check_data`).
  void upload(std::string_view name, const ArrayView& data);
  /// Throws `unknown_name`.
  Array download(std::string_view name) const;

  std::int64_t bytes() const;

 private:
  /// Throws unless an entry `there` can stand for one of `type` here.
  void check_type(std::string_view name, const TensorType& type, const Entry& there) const;

  std::string owner_;
  std::shared_ptr<backend::Backend> backend_;
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace wholestep::runtime
