#include "progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace wholestep::cli {

Progress::Progress(std::int64_t total)
    : total_(std::max<std::int64_t>(total, 1)),
      terminal_(isatty(STDERR_FILENO) != 0),
      next_(std::chrono::steady_clock::now()) {}

void Progress::update(std::int64_t done, double loss) {
  if (!terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + std::chrono::milliseconds(100);
  constexpr std::int64_t kWidth = 30;
  const auto filled = static_cast<std::size_t>(std::clamp<std::int64_t>(done * kWidth / total_, 0, kWidth));
  const std::string bar = std::string(filled, '#') + std::string(kWidth - filled, '.');
  const std::string line = fmt::format("\r[{}] step {}/{}  loss {:.4f}\x1b[K", bar, done, total_, loss);
  std::fwrite(line.data(), 1, line.size(), stderr);
  drawn_ = true;
}

void Progress::clear() {
  if (!drawn_) return;
  std::fputs("\r\x1b[K", stderr);
  drawn_ = false;
}

}  // namespace wholestep::cli
