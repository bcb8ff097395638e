#include "counts.h"

#include <algorithm>

namespace emulator {

void Cache::access(uint64_t sector, bool store, uint64_t most, Tally& tally) {
  const auto found = at_.find(sector);
  if (found != at_.end()) {
    found->second->stored = found->second->stored || store;
    sectors_.splice(sectors_.begin(), sectors_, found->second);
    return;
  }
  if (!store) tally.cache_read_bytes += SECTOR;
  sectors_.push_front(Sector{sector, store});
  at_[sector] = sectors_.begin();
  if (sectors_.size() * SECTOR <= most) return;
  if (sectors_.back().stored) tally.cache_written_bytes += SECTOR;
  at_.erase(sectors_.back().number);
  sectors_.pop_back();
}

void Cache::flush(Tally& tally) {
  for (const Sector& sector : sectors_)
    if (sector.stored) tally.cache_written_bytes += SECTOR;
  sectors_.clear();
  at_.clear();
}

const Owned* Counter::owner(uint64_t at) const {
  const Owned* end = counting_.owned + counting_.owned_count;
  const auto begins = [](uint64_t at, const Owned& owned) { return at < owned.begin; };
  const Owned* after = std::upper_bound(counting_.owned, end, at, begins);
  if (after == counting_.owned) return nullptr;
  --after;
  return at < after->end ? after : nullptr;
}

void Counter::count(uint32_t block, const void* place, size_t bytes, bool store, Kind kind, uint64_t& in_flight) {
  const uint64_t at = reinterpret_cast<uint64_t>(place);
  const uint32_t device = counting_.devices[block];
  Tally& own = counting_.tallies[device];
  const Owned* home = owner(at);
  const bool remote = home != nullptr && home->device != device;
  const uint64_t direct_steps = block < direct_steps_.size() ? direct_steps_[block] : 0;
  switch (kind) {
    case Kind::DATA:
      (store ? own.writes : own.reads)++;
      (store ? own.written_bytes : own.read_bytes) += bytes;
      if (remote) (store ? own.remote_written_bytes : own.remote_read_bytes) += bytes;
      break;
    case Kind::LINE:
      (store ? own.line_written_bytes : own.line_read_bytes) += bytes;
      in_flight = store ? 0 : in_flight + bytes;
      own.line_bytes_in_flight = std::max(own.line_bytes_in_flight, in_flight);
      break;
    case Kind::SWITCH:
      // The switch accesses the memory of all members; the data crosses its link to one.
      if (!remote) (store ? own.switch_written_bytes : own.switch_read_bytes) += bytes;
      break;
    case Kind::CONTROL:
      (store ? own.control_stores : own.control_loads)++;
      if (remote) (store ? own.remote_control_stores : own.remote_control_loads)++;
      if (remote && !store && direct_steps > 1) own.later_remote_control_loads++;
      return;
  }
  if (home == nullptr) return;
  for (uint64_t sector = at / Cache::SECTOR; sector * Cache::SECTOR < at + bytes; sector++)
    caches_[home->device].access(sector, store, counting_.cache_bytes, counting_.tallies[home->device]);
}

void Counter::step(uint32_t block, bool reaches) {
  if (block >= direct_steps_.size()) direct_steps_.resize(block + 1);
  if (reaches) direct_steps_[block]++;
  counting_.tallies[counting_.devices[block]].steps++;
}

void Counter::end(uint32_t block, bool kept) {
  Tally& own = counting_.tallies[counting_.devices[block]];
  own.end_uses++;
  if (!kept) own.end_loads++;
}

void Counter::flush() {
  for (size_t device = 0; device < caches_.size(); device++) caches_[device].flush(counting_.tallies[device]);
}

}  // namespace emulator
