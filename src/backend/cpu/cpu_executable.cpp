#include "backend/cpu/cpu_executable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_map>

#include "backend/cpu/subnormal_mode.h"
#include "plan/shares.h"
#include "wholestep/error.h"

namespace wholestep::cpu {

using plan::BufferRole;

namespace {

const char* to_string(Code::Origin origin) {
  switch (origin) {
    case Code::Origin::compiled:
      return "compiled now";
    case Code::Origin::compiled_not_kept:
      return "compiled now, and not kept: the folder of the disk cache cannot be written";
    case Code::Origin::memory:
      return "from the memory cache";
    case Code::Origin::disk:
      return "from the disk cache";
  }
  return "";
}

}  // namespace

CpuExecutable::CpuExecutable(const plan::Plan& plan, Jit::Result code, const CodeTarget& target,
                             std::shared_ptr<Team> team, bool flush_subnormals)
    : code_(std::move(code.code)),
      team_(std::move(team)),
      arena_(static_cast<std::size_t>(plan.arena_bytes)),
      flush_subnormals_(flush_subnormals) {
  for (const plan::Buffer& buffer : plan.buffers) {
    Slot& slot = slots_.emplace_back();
    slot.name = buffer.name;
    slot.bytes = num_bytes(buffer.type);
    switch (buffer.role) {
      case BufferRole::input:
      case BufferRole::resident:
      case BufferRole::output:
        slot.bindable = true;
        break;
      case BufferRole::constant:
        if (!buffer.literal || buffer.literal->bytes() != slot.bytes) {
          throw Error(ErrorCode::internal, fmt::format("cpu: plan {}: a constant of {} without its data", plan.name,
                                                       wholestep::to_string(buffer.type)));
        }
        constants_.push_back(buffer.literal);
        // Kernels only read constants; the interface of tasks has one kind of pointer.
        slot.own = const_cast<void*>(buffer.literal->data());
        slot.bound = true;
        break;
      case BufferRole::scratch:
        if (buffer.arena_offset < 0 || static_cast<std::size_t>(buffer.arena_offset) + slot.bytes > arena_.bytes()) {
          throw Error(ErrorCode::internal,
                      fmt::format("cpu: plan {}: a buffer of {} at byte {} of an arena of {}", plan.name,
                                  wholestep::to_string(buffer.type), buffer.arena_offset, arena_.bytes()));
        }
        slot.own = arena_.data() + buffer.arena_offset;
        slot.bound = true;
        break;
    }
  }
  from_cache_ = code.origin == Code::Origin::memory || code.origin == Code::Origin::disk;
  lay_out(plan);
  for (Slot& slot : slots_) set_address(slot, slot.own);
  borrowed_.reserve(slots_.size());
  notes_.push_back(
      fmt::format("machine code: {} kernels, {} of them different, {} bytes of object code for {} ({}), {}",
                  code_->functions().size(), code_->different(), code_->object_bytes(), target.schedule.name,
                  target.cpu, to_string(code.origin)));
  const std::set<std::string>& calls = code_->library_calls();
  notes_.push_back(
      fmt::format("library calls: {}", calls.empty() ? "none" : fmt::format("{}", fmt::join(calls, ", "))));
  notes_.push_back(flush_subnormals ? "subnormal results are zero (flush_subnormals)" : "subnormal results are kept");
}

std::size_t CpuExecutable::claim_addresses(const plan::Plan& plan, const plan::Launch& launch) {
  const auto& uses = plan.nests.at(static_cast<std::size_t>(launch.nest)).buffers;
  const auto own = std::count_if(uses.begin(), uses.end(), [](const loops::BufferUse& use) { return use.value >= 0; });
  if (static_cast<std::size_t>(own) != launch.buffers.size()) {
    throw Error(ErrorCode::internal,
                fmt::format("cpu: plan {}: {} buffers for kernel {}, which has {}", plan.name, launch.buffers.size(),
                            plan.nests[static_cast<std::size_t>(launch.nest)].name, own));
  }
  const std::size_t first = addresses_.size();
  for (const int buffer : launch.buffers) {
    slot(buffer).uses.push_back(addresses_.size());
    addresses_.push_back(nullptr);
  }
  return first;
}

void CpuExecutable::lay_out(const plan::Plan& plan) {
  std::unordered_map<const plan::Launch*, std::size_t> addresses;
  for (const plan::Phase& phase : plan.phases) {
    for (const plan::Launch& launch : phase.launches) addresses[&launch] = claim_addresses(plan, launch);
  }
  for (const plan::Segment& shares : plan::share_out(plan, team_->size())) {
    auto& segment = segments_.emplace_back(static_cast<std::size_t>(team_->size()));
    for (const plan::Share& share : shares) {
      parallel_ = parallel_ || share.worker > 0;
      segment[static_cast<std::size_t>(share.worker)].push_back(
          {code_->functions()[static_cast<std::size_t>(share.launch->nest)], addresses.at(share.launch), share.first,
           share.last});
    }
  }
  const int saved = plan.barriers() - (static_cast<int>(segments_.size()) - 1);
  if (saved > 0 && parallel_) {
    notes_.push_back(fmt::format("{} of {} barriers left out for {} workers: what is read is each worker's own", saved,
                                 plan.barriers(), team_->size()));
  }
}

CpuExecutable::Slot& CpuExecutable::slot(int index) {
  if (index < 0 || static_cast<std::size_t>(index) >= slots_.size()) {
    throw Error(ErrorCode::internal, fmt::format("cpu: no plan buffer {}", index));
  }
  return slots_[static_cast<std::size_t>(index)];
}

void CpuExecutable::set_address(Slot& slot, void* data) {
  for (const std::size_t use : slot.uses) addresses_[use] = data;
}

void CpuExecutable::bind(int index, std::shared_ptr<backend::DeviceBuffer> buffer) {
  Slot& target = slot(index);
  const auto* memory = dynamic_cast<const CpuBuffer*>(buffer.get());
  if (!target.bindable) throw Error(ErrorCode::internal, fmt::format("cpu: plan buffer {} is not for binding", index));
  if (!memory)
    throw Error(ErrorCode::internal, fmt::format("cpu: {} bound to a buffer of another device", target.name));
  if (memory->bytes() != target.bytes) {
    throw Error(ErrorCode::wrong_length, fmt::format("cpu: {} has {} bytes, bound to a buffer of {}", target.name,
                                                     target.bytes, memory->bytes()));
  }
  target.own = memory->data();
  target.buffer = std::move(buffer);
  target.bound = true;
  if (!target.borrowed) set_address(target, target.own);
}

void CpuExecutable::bind_host(int index, void* data) {
  Slot& target = slot(index);
  if (!target.bindable) throw Error(ErrorCode::internal, fmt::format("cpu: plan buffer {} is not for binding", index));
  if (!target.borrowed) borrowed_.push_back(index);
  target.borrowed = true;
  set_address(target, data);
}

void CpuExecutable::run() {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].bound && !slots_[i].borrowed) {
      throw Error(ErrorCode::internal, fmt::format("cpu: plan buffer {} ({}) is not bound", i, slots_[i].name));
    }
  }
  if (parallel_) {
    team_->run([](void* self, int worker) { static_cast<CpuExecutable*>(self)->work(worker); }, this);
  } else {
    work(0);
  }
  for (const int index : borrowed_) {
    Slot& returned = slots_[static_cast<std::size_t>(index)];
    returned.borrowed = false;
    set_address(returned, returned.own);
  }
  borrowed_.clear();
}

void CpuExecutable::work(int worker) {
  const SubnormalMode mode(flush_subnormals_);
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    for (const Range& range : segments_[i][static_cast<std::size_t>(worker)]) {
      range.function(addresses_.data() + range.addresses, range.first, range.last);
    }
    if (parallel_ && i + 1 < segments_.size()) team_->barrier();
  }
}

}  // namespace wholestep::cpu
