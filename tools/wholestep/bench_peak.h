#pragma once
#include <optional>

namespace wholestep::cli {

/// Billions of f32 operations a second that `threads` threads reach in a loop of fused multiply-adds on registers, with
/// the widest vectors of this processor (a multiply-add counts as two). The best of several short rounds.
double measure_peak_gflops(int threads);

/// Nanoseconds for a cache line to go from one thread to another and back, at best. None where this process may use
/// one core only.
std::optional<double> measure_core_round_trip_ns();

/// Largest resident set of this process so far, in bytes.
long long peak_rss_bytes();

}  // namespace wholestep::cli
