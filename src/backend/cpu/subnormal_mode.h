#pragma once
// Whether this thread's processor flushes subnormal floats to zero, while an object of this class lives.
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace wholestep::cpu {

class SubnormalMode {
 public:
#if defined(__x86_64__)
  explicit SubnormalMode(bool flush) : before_(_mm_getcsr()) {
    constexpr unsigned kFlush = 0x8040;  // flush to zero, and subnormals are zeros
    _mm_setcsr(flush ? before_ | kFlush : before_ & ~kFlush);
  }
  ~SubnormalMode() { _mm_setcsr(before_); }

 private:
  unsigned before_;
#elif defined(__aarch64__)
  explicit SubnormalMode(bool flush) {
    constexpr unsigned long kFlush = 1ul << 24;
    asm volatile("mrs %0, fpcr" : "=r"(before_));
    asm volatile("msr fpcr, %0" ::"r"(flush ? before_ | kFlush : before_ & ~kFlush));
  }
  ~SubnormalMode() { asm volatile("msr fpcr, %0" ::"r"(before_)); }

 private:
  unsigned long before_;
#else
  explicit SubnormalMode(bool) {}
#endif

 public:
  SubnormalMode(const SubnormalMode&) = delete;
  SubnormalMode& operator=(const SubnormalMode&) = delete;
};

}  // namespace wholestep::cpu
