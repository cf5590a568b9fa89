#include "plan/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "wholestep/error.h"

namespace wholestep::plan {
namespace {

std::string_view role_name(BufferRole role) {
  switch (role) {
    case BufferRole::input:
      return "input";
    case BufferRole::resident:
      return "resident";
    case BufferRole::constant:
      return "constant";
    case BufferRole::output:
      return "output";
    case BufferRole::scratch:
      return "scratch";
  }
  return "";
}

}  // namespace

int Plan::barriers() const {
  int count = 0;
  for (std::size_t p = 0; p + 1 < phases.size(); ++p)
    if (!(phases[p].serial && phases[p + 1].serial)) ++count;
  return count;
}

std::string to_text(const Plan& plan) {
  std::string out =
      fmt::format("plan {}: {} buffers, {} kernels, {} phases, {} barriers, arena {} bytes (largest live set {})\n",
                  plan.name, plan.buffers.size(), plan.nests.size(), plan.phases.size(), plan.barriers(),
                  plan.arena_bytes, plan.largest_live_bytes);
  for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
    const Buffer& buffer = plan.buffers[i];
    out += fmt::format("  b{:<4} {:<9} {:<28} {:<20} {:>10} bytes", i, role_name(buffer.role), buffer.name,
                       to_string(buffer.type), num_bytes(buffer.type));
    out += buffer.arena_offset >= 0 ? fmt::format(" at {}\n", buffer.arena_offset) : "\n";
  }
  for (std::size_t p = 0; p < plan.phases.size(); ++p) {
    out += fmt::format("phase {}{}\n", p, plan.phases[p].serial ? " (one worker)" : "");
    for (const Launch& launch : plan.phases[p].launches) {
      const schedule::Nest& nest = plan.nests[static_cast<std::size_t>(launch.nest)];
      out +=
          fmt::format("  {} x {} tasks of {:.0f} ns, {}; buffers", nest.name, nest.tasks(), nest.task_cost, nest.note);
      for (std::size_t i = 0; i < launch.buffers.size(); ++i) {
        const loops::BufferUse& use = nest.buffers[i];
        out += fmt::format(" b{}{}", launch.buffers[i], use.written ? (use.read ? "(rw)" : "(w)") : "");
      }
      out += "\n";
    }
  }
  for (const std::string& note : plan.notes) out += "note: " + note + "\n";
  return out;
}

void verify(const Plan& plan) {
  auto fail = [&](const std::string& what) {
    throw Error(ErrorCode::invalid_graph, fmt::format("plan {}: {}", plan.name, what));
  };
  const int buffers = static_cast<int>(plan.buffers.size());
  struct Touch {
    int writer = -1, reader = -1;
  };
  std::vector<bool> defined(plan.buffers.size(), false);
  for (std::size_t b = 0; b < plan.buffers.size(); ++b) {
    const Buffer& buffer = plan.buffers[b];
    defined[b] =
        buffer.role == BufferRole::input || buffer.role == BufferRole::resident || buffer.role == BufferRole::constant;
    if (buffer.role == BufferRole::scratch && buffer.arena_offset >= 0 &&
        buffer.arena_offset + static_cast<std::int64_t>(num_bytes(buffer.type)) > plan.arena_bytes) {
      fail(fmt::format("buffer {} ends behind the arena", buffer.name));
    }
    if (buffer.role == BufferRole::constant && !buffer.literal)
      fail(fmt::format("constant {} has no data", buffer.name));
  }
  for (std::size_t p = 0; p < plan.phases.size(); ++p) {
    std::vector<Touch> touched(plan.buffers.size());
    const std::vector<Launch>& launches = plan.phases[p].launches;
    for (std::size_t l = 0; l < launches.size(); ++l) {
      const Launch& launch = launches[l];
      if (launch.nest < 0 || static_cast<std::size_t>(launch.nest) >= plan.nests.size())
        fail(fmt::format("phase {} launches nest {}", p, launch.nest));
      const schedule::Nest& nest = plan.nests[static_cast<std::size_t>(launch.nest)];
      for (std::size_t i = 0; i < launch.buffers.size(); ++i) {
        const int b = launch.buffers[i];
        if (b < 0 || b >= buffers || i >= nest.buffers.size()) fail(fmt::format("{} has no buffer {}", nest.name, b));
        const loops::BufferUse& use = nest.buffers[i];
        const Buffer& buffer = plan.buffers[static_cast<std::size_t>(b)];
        if (use.dtype != buffer.type.dtype || use.elements != num_elements(buffer.type.shape)) {
          fail(fmt::format("{} takes {} for {} elements of {}", nest.name, to_string(buffer.type), use.elements,
                           to_string(use.dtype)));
        }
        Touch& touch = touched[static_cast<std::size_t>(b)];
        const int self = static_cast<int>(l);
        const bool others_wrote = touch.writer >= 0 && touch.writer != self;
        const bool others_read = touch.reader >= 0 && touch.reader != self;
        if (others_wrote || (use.written && others_read))
          fail(fmt::format("phase {}: {} and another kernel race on {}", p, nest.name, buffer.name));
        if (use.written) touch.writer = self;
        if (use.read) touch.reader = self;
        if (use.read && !use.written && !defined[static_cast<std::size_t>(b)])
          fail(fmt::format("{} reads {} before it is written", nest.name, buffer.name));
        if (use.written && (buffer.role == BufferRole::input || buffer.role == BufferRole::constant))
          fail(fmt::format("{} writes {}", nest.name, buffer.name));
      }
    }
    // Scratch alive together must not overlap; here, what this phase touches.
    std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
    for (std::size_t b = 0; b < touched.size(); ++b) {
      if (touched[b].writer >= 0) defined[b] = true;
      const Buffer& buffer = plan.buffers[b];
      if ((touched[b].writer >= 0 || touched[b].reader >= 0) && buffer.role == BufferRole::scratch) {
        if (buffer.arena_offset < 0) fail(fmt::format("scratch {} has no place", buffer.name));
        ranges.push_back(
            {buffer.arena_offset, buffer.arena_offset + static_cast<std::int64_t>(num_bytes(buffer.type))});
      }
    }
    std::sort(ranges.begin(), ranges.end());
    for (std::size_t i = 0; i + 1 < ranges.size(); ++i)
      if (ranges[i].second > ranges[i + 1].first) fail(fmt::format("phase {}: two scratch buffers overlap", p));
  }
  for (int output : plan.outputs)
    if (output < 0 || output >= buffers || !defined[static_cast<std::size_t>(output)])
      fail(fmt::format("output buffer {} is never written", output));
}

}  // namespace wholestep::plan
