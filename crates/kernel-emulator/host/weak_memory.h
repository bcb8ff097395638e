// Memory with no more order than a GPU promises: a block's stores become visible to other blocks
// late and in any order, and a block may see an old value again, unless a release or an acquire
// forbids that.
//
// A block's stores wait as units, each of which reaches memory at once, at some time. A release
// first writes all units that are ordered before it: the thread's own, and those of threads that
// came to a barrier before. Values that plain loads read are kept, as in a cache without coherence;
// an acquire empties it, and stores of the same block write through it. Threads of a block see each
// other's stores at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace emulator {

// By warp: the number of its stores that are ordered before an event.
typedef std::vector<uint64_t> Clock;

class WeakMemory {
 public:
  // Most 8-byte words of a unit: an LL128 line, or 16 unaligned bytes.
  static constexpr size_t MOST_WORDS = 16;

  WeakMemory(uint32_t threads, uint64_t seed);

  // A store of up to 128 bytes in at most `MOST_WORDS` words.
  void store(uint32_t thread, void* place, const void* bytes, size_t count);
  // A load. A `fresh` one reads memory now, as volatile loads do.
  void load(const void* place, void* bytes, size_t count, bool fresh);
  void release(uint32_t thread);
  void acquire() { seen_.clear(); }

  // A thread comes to a barrier with this clock, and leaves it.
  void arrive(uint32_t thread, Clock& barrier);
  void leave(uint32_t thread, const Clock& barrier);

  // Writes some units to memory in some order; true if there were any.
  bool drain_some();
  void drain_all();

 private:
  struct Unit {
    uint64_t first;  // address of the first word, by 8
    uint32_t words;
    uint32_t thread;
    uint64_t number;  // among the stores of its warp
    uint8_t masks[MOST_WORDS];
    uint64_t values[MOST_WORDS];
  };

  void drain(size_t unit);
  uint64_t random(uint64_t below);

  std::vector<Unit> units_;
  // By address of a word: its unit, and the value that plain loads read.
  std::unordered_map<uint64_t, size_t> pending_;
  std::unordered_map<uint64_t, uint64_t> seen_;
  std::vector<Clock> known_;  // by thread
  Clock stored_;
  uint64_t state_;
  uint64_t resting_ = 0;  // calls of `drain_some` in which nothing comes into memory
};

}  // namespace emulator
