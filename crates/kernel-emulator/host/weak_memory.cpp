#include "weak_memory.h"

#include <algorithm>
#include <cstring>

namespace emulator {
namespace {

constexpr uint32_t WARP = 32;
constexpr uint64_t WORD = 8;
// Most words that plain loads keep; then all are forgotten, which is always allowed.
constexpr size_t MOST_SEEN = 1 << 16;
// One call of `drain_some` in so many begins a rest. Rests are what shows a missing release behind
// a switch: with one in 16, an order of threads in 10 shows it, with one in 4, each.
constexpr uint64_t CALLS_PER_REST = 4;
constexpr uint64_t LONGEST_REST = 64;

uint64_t word_at(uint64_t address) {
  uint64_t value;
  memcpy(&value, reinterpret_cast<const void*>(address), WORD);
  return value;
}

}  // namespace

WeakMemory::WeakMemory(uint32_t threads, uint64_t seed)
    : known_(threads, Clock((threads + WARP - 1) / WARP)), stored_((threads + WARP - 1) / WARP), state_(seed | 1) {}

uint64_t WeakMemory::random(uint64_t below) {
  // xorshift64*
  state_ ^= state_ >> 12;
  state_ ^= state_ << 25;
  state_ ^= state_ >> 27;
  return (state_ * 0x2545f4914f6cdd1dull >> 16) % below;
}

void WeakMemory::drain(size_t index) {
  const Unit unit = units_[index];
  for (uint32_t i = 0; i < unit.words; i++) {
    const uint64_t address = unit.first + i * WORD;
    uint8_t bytes[WORD];
    memcpy(bytes, &unit.values[i], WORD);
    uint8_t* place = reinterpret_cast<uint8_t*>(address);
    if (unit.masks[i] == 0xff) {
      memcpy(place, bytes, WORD);
    } else {
      for (uint64_t byte = 0; byte < WORD; byte++)
        if (unit.masks[i] >> byte & 1) place[byte] = bytes[byte];
    }
    pending_.erase(address);
    // A block always sees its own stores.
    seen_.erase(address);
  }
  if (index + 1 < units_.size()) {
    units_[index] = units_.back();
    for (uint32_t i = 0; i < units_[index].words; i++) pending_[units_[index].first + i * WORD] = index;
  }
  units_.pop_back();
}

void WeakMemory::store(uint32_t thread, void* place, const void* bytes, size_t count) {
  const uint64_t begin = reinterpret_cast<uint64_t>(place);
  const uint64_t first = begin & ~(WORD - 1);
  const uint32_t words = static_cast<uint32_t>((begin + count - first + WORD - 1) / WORD);
  for (uint32_t i = 0; i < words; i++) {
    const auto older = pending_.find(first + i * WORD);
    // Stores to one place keep their order.
    if (older != pending_.end()) drain(older->second);
  }
  Unit unit = {};
  unit.first = first;
  unit.words = words;
  unit.thread = thread;
  unit.number = ++stored_[thread / WARP];
  memcpy(reinterpret_cast<uint8_t*>(unit.values) + (begin - first), bytes, count);
  for (uint64_t at = begin; at < begin + count; at++) unit.masks[(at - first) / WORD] |= 1 << (at - first) % WORD;
  for (uint32_t i = 0; i < words; i++) pending_[first + i * WORD] = units_.size();
  units_.push_back(unit);
}

void WeakMemory::load(const void* place, void* bytes, size_t count, bool fresh) {
  const uint64_t begin = reinterpret_cast<uint64_t>(place);
  uint8_t* to = static_cast<uint8_t*>(bytes);
  for (uint64_t at = begin; at < begin + count;) {
    const uint64_t address = at & ~(WORD - 1);
    const uint64_t part = std::min(address + WORD, begin + count) - at;
    const auto unit = pending_.find(address);
    uint8_t mask = 0;
    uint8_t own[WORD] = {};
    if (unit != pending_.end()) {
      const Unit& found = units_[unit->second];
      const size_t index = (address - found.first) / WORD;
      mask = found.masks[index];
      memcpy(own, &found.values[index], WORD);
    }
    uint8_t there[WORD];
    // Only a part of the word may belong to an allocation.
    const bool whole = part == WORD;
    const auto kept = fresh || !whole ? seen_.end() : seen_.find(address);
    if (kept != seen_.end()) {
      memcpy(there, &kept->second, WORD);
    } else {
      memcpy(there + (at - address), reinterpret_cast<const void*>(at), part);
      if (whole && !fresh && random(2) == 0) {
        if (seen_.size() >= MOST_SEEN) seen_.clear();
        seen_[address] = word_at(address);
      }
    }
    for (uint64_t i = at - address; i < at - address + part; i++) *to++ = mask >> i & 1 ? own[i] : there[i];
    at += part;
  }
}

void WeakMemory::release(uint32_t thread) {
  const Clock& known = known_[thread];
  for (size_t i = units_.size(); i-- > 0;) {
    const Unit& unit = units_[i];
    // The unit that took a drained one's place was checked before.
    if (unit.thread == thread || unit.number <= known[unit.thread / WARP]) drain(i);
  }
}

void WeakMemory::arrive(uint32_t thread, Clock& barrier) {
  const Clock& known = known_[thread];
  barrier.resize(known.size());
  for (size_t i = 0; i < known.size(); i++) barrier[i] = std::max(barrier[i], known[i]);
  // All threads of a warp come to a barrier, so earlier stores of this warp are ordered before it,
  // too.
  uint64_t& own = barrier[thread / WARP];
  own = std::max(own, stored_[thread / WARP]);
}

void WeakMemory::leave(uint32_t thread, const Clock& barrier) {
  Clock& known = known_[thread];
  for (size_t i = 0; i < known.size() && i < barrier.size(); i++) known[i] = std::max(known[i], barrier[i]);
}

bool WeakMemory::drain_some() {
  if (resting_ > 0) {
    resting_--;
    return !units_.empty();
  }
  if (units_.empty()) return false;
  if (random(CALLS_PER_REST) == 0) resting_ = 1 + random(LONGEST_REST);
  for (uint64_t count = random(units_.size() / 4 + 2); count > 0 && !units_.empty(); count--)
    drain(random(units_.size()));
  return true;
}

void WeakMemory::drain_all() {
  while (!units_.empty()) drain(units_.size() - 1);
  seen_.clear();
}

}  // namespace emulator
