#include "bench_peak.h"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace wholestep::cli {
namespace {

using Clock = std::chrono::steady_clock;

/// Independent chains of multiply-adds: enough to hide their latency, few enough for 16 registers.
constexpr int kChains = 12;
constexpr long kIterations = 200000;
/// The chains run towards a fixed point of x * 0.5 + 1, so that no value becomes denormal or infinite.
constexpr float kFactor = 0.5f;

/// Runs the loop once. Returns operations done; `sink` keeps the compiler from dropping them.
using Loop = double (*)(float& sink);

#if defined(__x86_64__)
__attribute__((target("avx512f"))) double loop_avx512(float& sink) {
  const __m512 factor = _mm512_set1_ps(kFactor);
  const __m512 one = _mm512_set1_ps(1.0f);
  __m512 sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i) + sink);
  for (long n = 0; n < kIterations; ++n) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sums[i] = _mm512_fmadd_ps(sums[i], factor, one);
  }
  __m512 total = sums[0];
  for (int i = 1; i < kChains; ++i) total = _mm512_add_ps(total, sums[i]);
  sink = _mm512_cvtss_f32(total);
  return 2.0 * 16 * kChains * kIterations;
}

__attribute__((target("avx2,fma"))) double loop_avx2(float& sink) {
  const __m256 factor = _mm256_set1_ps(kFactor);
  const __m256 one = _mm256_set1_ps(1.0f);
  __m256 sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = _mm256_set1_ps(static_cast<float>(i) + sink);
  for (long n = 0; n < kIterations; ++n) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sums[i] = _mm256_fmadd_ps(sums[i], factor, one);
  }
  __m256 total = sums[0];
  for (int i = 1; i < kChains; ++i) total = _mm256_add_ps(total, sums[i]);
  sink = _mm256_cvtss_f32(total);
  return 2.0 * 8 * kChains * kIterations;
}
#endif

/// Four lanes of what every processor has; a multiply and an add where it has no fused one.
double loop_baseline(float& sink) {
  using Vector = float __attribute__((vector_size(16)));
  const Vector factor = {kFactor, kFactor, kFactor, kFactor};
  const Vector one = {1, 1, 1, 1};
  Vector sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = one * (static_cast<float>(i) + sink);
  for (long n = 0; n < kIterations; ++n) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sums[i] = sums[i] * factor + one;
  }
  Vector total = sums[0];
  for (int i = 1; i < kChains; ++i) total += sums[i];
  sink = total[0];
  return 2.0 * 4 * kChains * kIterations;
}

Loop widest_loop() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return loop_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return loop_avx2;
#endif
  return loop_baseline;
}

/// Seconds for `threads` threads to each run `loop` once, from a common start to the last one's end.
double seconds_of_round(Loop loop, int threads, std::atomic<float>& sink) {
  std::atomic<int> ready{0};
  std::atomic<bool> go{false};
  std::vector<Clock::time_point> begins(static_cast<std::size_t>(threads)), ends(begins.size());
  const auto work = [&](std::size_t index) {
    ready.fetch_add(1);
    while (!go.load(std::memory_order_acquire)) std::this_thread::yield();
    float value = static_cast<float>(index);
    begins[index] = Clock::now();
    loop(value);
    ends[index] = Clock::now();
    sink.store(value);
  };
  std::vector<std::thread> team;
  for (std::size_t index = 1; index < begins.size(); ++index) team.emplace_back(work, index);
  while (ready.load() < threads - 1) std::this_thread::yield();
  go.store(true, std::memory_order_release);
  work(0);
  for (std::thread& member : team) member.join();
  return std::chrono::duration<double>(*std::max_element(ends.begin(), ends.end()) -
                                       *std::min_element(begins.begin(), begins.end()))
      .count();
}

}  // namespace

double measure_peak_gflops(int threads) {
  const Loop loop = widest_loop();
  std::atomic<float> sink{0};
  float ignored = 0;
  const double operations = loop(ignored) * threads;
  double best = 0;
  const Clock::time_point start = Clock::now();
  for (int round = 0; round < 400 && Clock::now() - start < std::chrono::milliseconds(300); ++round) {
    best = std::max(best, operations / seconds_of_round(loop, threads, sink) * 1e-9);
  }
  return best;
}

std::optional<double> measure_core_round_trip_ns() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0 && CPU_COUNT(&allowed) < 2) return std::nullopt;
  constexpr int kTrips = 2000;
  constexpr int kRounds = 20;
  alignas(64) std::atomic<int> ball{0};
  std::thread other([&] {
    for (int trip = 0; trip < kTrips * kRounds; ++trip) {
      while (ball.load(std::memory_order_acquire) != 2 * trip + 1) {
      }
      ball.store(2 * trip + 2, std::memory_order_release);
    }
  });
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    const Clock::time_point start = Clock::now();
    for (int trip = round * kTrips; trip < (round + 1) * kTrips; ++trip) {
      ball.store(2 * trip + 1, std::memory_order_release);
      while (ball.load(std::memory_order_acquire) != 2 * trip + 2) {
      }
    }
    const double ns = std::chrono::duration<double, std::nano>(Clock::now() - start).count() / kTrips;
    best = round == 0 ? ns : std::min(best, ns);
  }
  other.join();
  return best;
}

long long peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<long long>(usage.ru_maxrss) * 1024;
}

}  // namespace wholestep::cli
