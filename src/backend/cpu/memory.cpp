#include "backend/cpu/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>

#include "wholestep/error.h"

namespace wholestep::cpu {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kLine = 64;

void check_size(std::size_t expected, std::size_t given) {
  if (expected != given) {
    throw Error(ErrorCode::wrong_length, fmt::format("cpu buffer: expected {} bytes, got {}", expected, given));
  }
}

}  // namespace

// Pages from the system are zero when first touched.
Memory::Memory(std::size_t bytes) : bytes_(bytes) {
  const bool huge = bytes >= kHugePage;
  const std::size_t alignment = huge ? kHugePage : kLine;
  mapped_ = bytes + (huge ? kHugePage : kLine);
  void* memory =
      mapped_ < bytes ? MAP_FAILED : mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw Error(ErrorCode::unsupported, fmt::format("cpu: the system does not give {} bytes of memory", bytes));
  }
  mapping_ = memory;
  const auto start = (reinterpret_cast<std::uintptr_t>(memory) + alignment - 1) / alignment * alignment;
  data_ = reinterpret_cast<std::byte*>(start);
  if (huge) madvise(data_, bytes, MADV_HUGEPAGE);
}

Memory::~Memory() { munmap(mapping_, mapped_); }

void CpuBuffer::upload(const void* data, std::size_t size) {
  check_size(bytes(), size);
  if (size > 0) std::memcpy(memory_.data(), data, size);
}

void CpuBuffer::download(void* data, std::size_t size) const {
  check_size(bytes(), size);
  if (size > 0) std::memcpy(data, memory_.data(), size);
}

}  // namespace wholestep::cpu
