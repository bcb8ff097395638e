// Memory as a GPU promises it, and no better: what a block stores becomes visible to other blocks late and in any order,
// what it once loaded it may see again though it has changed, unless a release or an acquire forbids that.
//
// A block's stores stay with it as units, each of which comes into memory at once, some time. A release brings all those
// into memory that are ordered before it: the thread's own, and those of other threads that came to a barrier before. What
// plain loads saw is kept, as in a cache that nobody keeps coherent; an acquire empties it, stores of the same block
// write through it. Threads of a block see each other's stores at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace emulator {

// By warp: how many of its stores are ordered before something.
typedef std::vector<uint64_t> Clock;

class WeakMemory {
 public:
  // Most words of 8 bytes that a unit spans: an LL128 line, or 16 bytes on no boundary.
  static constexpr size_t MOST_WORDS = 16;

  WeakMemory(uint32_t threads, uint64_t seed);

  // A store of up to 128 bytes that lie in at most `MOST_WORDS` words.
  void store(uint32_t thread, void* place, const void* bytes, size_t count);
  // A load; a `fresh` one sees what is in memory now, as volatile ones do.
  void load(const void* place, void* bytes, size_t count, bool fresh);
  void release(uint32_t thread);
  void acquire() { seen_.clear(); }

  // A thread comes to a barrier, whose clock is this, and leaves it.
  void arrive(uint32_t thread, Clock& barrier);
  void leave(uint32_t thread, const Clock& barrier);

  // Some units come into memory, in some order; true if any did.
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
  // By address of a word: the unit it belongs to, and what plain loads saw of it.
  std::unordered_map<uint64_t, size_t> pending_;
  std::unordered_map<uint64_t, uint64_t> seen_;
  std::vector<Clock> known_;  // by thread
  Clock stored_;
  uint64_t state_;
  uint64_t resting_ = 0;  // calls of `drain_some` in which nothing comes into memory
};

}  // namespace emulator
