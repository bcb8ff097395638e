// Blocks of GPU threads on a processor: each thread is a fiber, and one thread of the process runs
// all blocks of a launch in an order that a seed decides.
#pragma once

#include <cstddef>
#include <cstdint>

namespace emulator {

struct Fiber;

// The running thread, for kernel code.
struct Context {
  uint32_t block;
  uint32_t thread;
  uint32_t threads;
  Fiber* fiber;
  // Whether accesses go through a switch, which may access the memory of all members.
  bool through_switch = false;
  // Bytes of lines that the thread has loaded since it last used any (counts.h).
  uint64_t in_flight = 0;
};

// The running thread.
Context& context();

// Memory that the threads of a block share, with arbitrary content when a launch begins.
void* shared_memory(size_t bytes);

void barrier_sync(uint32_t barrier, uint32_t count);
void barrier_arrive(uint32_t barrier, uint32_t count);
bool warp_vote(bool yes);

// Called after a store that others may wait for. Sometimes others run first.
void stored();
// Called after a failed poll. Others run.
void spun();
// Others may run.
void point();
void note(const char* what, const void* place, uint64_t value);

// Memory that keeps no more order than a GPU promises (weak_memory.h), for kernels that are
// compiled for it.
void weak_store(void* place, const void* bytes, size_t count);
void weak_load(const void* place, void* bytes, size_t count, bool fresh);
void weak_release();
void weak_acquire();
// A thread's 16 bytes of a 128-byte line, which eight threads of a warp store as a whole. All
// threads of the warp call it.
void weak_line_part(void* place, uint64_t low, uint64_t high, bool active);

// A range of addresses.
struct Range {
  uint64_t begin, end;
};

// What a run asks before a kernel that was compiled for it (checked.cpp) accesses memory.
// kernel-emulator/src/checked.rs has the same structure.
struct Checks {
  void* user;
  // Whether an access is allowed; then also the accessible range around it.
  int (*access)(void* user, uint64_t address, uint64_t bytes, int store, Range* range);
  // The memories behind a multicast address.
  size_t (*members)(void* user, uint64_t address, uint64_t* places, size_t room);
  // Not 0: the run must end.
  const uint32_t* cancelled;
  // Increases when memory may no longer be accessed.
  const uint64_t* changes;
};

// Checks an access of the running thread. Does not return if it is refused.
void touch(const void* place, size_t bytes, bool store);

// Ends the run with an illegal access. Does not return.
[[noreturn]] void refuse(const void* place);

// The checks of the run; null if there are none.
const Checks* checks();

// Accesses of this thread go through a switch as long as this lives.
struct ThroughSwitch {
  ThroughSwitch() { context().through_switch = true; }
  ~ThroughSwitch() { context().through_switch = false; }
};

}  // namespace emulator
