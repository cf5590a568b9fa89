#pragma once
// Host memory of programs.
#include <cstddef>

#include "backend/backend.h"

namespace wholestep::cpu {

/// Zeroed memory on a 64-byte boundary; large pieces ask for huge pages.
class Memory {
 public:
  /// Throws `unsupported` where the system has not that much.
  explicit Memory(std::size_t bytes);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_;
  std::byte* data_ = nullptr;
  void* mapping_ = nullptr;
  std::size_t mapped_ = 0;
};

class CpuBuffer : public backend::DeviceBuffer {
 public:
  explicit CpuBuffer(std::size_t bytes) : memory_(bytes) {}
  std::size_t bytes() const override { return memory_.bytes(); }
  void upload(const void* data, std::size_t size) override;
  void download(void* data, std::size_t size) const override;
  void* data() const { return memory_.data(); }

 private:
  Memory memory_;
};

}  // namespace wholestep::cpu
