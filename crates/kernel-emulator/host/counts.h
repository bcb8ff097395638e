// What the accesses of a launch cost, for kernels that are compiled to count them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <unordered_map>
#include <vector>

namespace emulator {

// Data of messages; lines of LL and LL128; data through a switch; counters and buffer tables.
enum class Kind { DATA, LINE, SWITCH, CONTROL };

// What the blocks of a device did. kernel-emulator/src/counts.rs has the same structure.
struct Tally {
  uint64_t reads, writes;                            // of data
  uint64_t read_bytes, written_bytes;
  uint64_t remote_read_bytes, remote_written_bytes;  // of these, in memory of other devices
  uint64_t line_read_bytes, line_written_bytes;      // also of lines that had not come yet
  uint64_t switch_read_bytes, switch_written_bytes;
  uint64_t control_loads, control_stores;
  uint64_t remote_control_loads, remote_control_stores;
  uint64_t later_remote_control_loads;  // in the direct steps of a block after its first
  uint64_t line_bytes_in_flight;        // most that a thread loads before it looks at a flag
  uint64_t cache_read_bytes, cache_written_bytes;  // between this device's memory and its cache
  uint64_t steps;                                  // of all blocks
  uint64_t end_uses, end_loads;                    // ends in steps; of these, in global memory
};

// Memory of a device.
struct Owned {
  uint64_t begin, end;
  uint64_t device;
};

// What a run counts with. kernel-emulator/src/counts.rs has the same structure.
struct Counting {
  const Owned* owned;  // by address
  size_t owned_count;
  const uint32_t* devices;  // by block
  uint64_t device_count;
  uint64_t cache_bytes;  // of each device
  Tally* tallies;        // by device
};

// The cache between a device's memory and everything that accesses it: sectors of 32 bytes; the
// one that was not accessed for longest is replaced. A stored sector is written to memory when
// it is replaced, or at the end; it is not read first.
class Cache {
 public:
  static constexpr uint64_t SECTOR = 32;

  void access(uint64_t sector, bool store, uint64_t most, Tally& tally);
  void flush(Tally& tally);

 private:
  struct Sector {
    uint64_t number;
    bool stored;
  };
  std::list<Sector> sectors_;  // the last accessed first
  std::unordered_map<uint64_t, std::list<Sector>::iterator> at_;
};

// Counts a launch.
class Counter {
 public:
  explicit Counter(const Counting& counting)
      : counting_(counting), caches_(counting.device_count), direct_steps_() {}

  void count(uint32_t block, const void* place, size_t bytes, bool store, Kind kind, uint64_t& in_flight);
  void step(uint32_t block, bool reaches);
  void end(uint32_t block, bool kept);
  void flush();

 private:
  const Owned* owner(uint64_t at) const;

  const Counting counting_;
  std::vector<Cache> caches_;              // by device
  std::vector<uint64_t> direct_steps_;     // by block: those that it began
};

// Counts an access of the running thread.
void count(const void* place, size_t bytes, bool store, Kind kind);
// The running thread's earlier loads have been used.
void count_used();
// The running warp begins a step; `reaches`: a direct one.
void count_step(bool reaches);
// A step uses an end of a connection; `kept`: in shared memory.
void count_end(bool kept);

}  // namespace emulator
