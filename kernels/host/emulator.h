// A block of GPU threads on a processor: each thread is a fiber, and one thread of the process runs all blocks of a launch
// in an order that a seed decides.
#pragma once

#include <cstddef>
#include <cstdint>

namespace emulator {

struct Fiber;

// What kernel code sees of the thread that runs it.
struct Context {
  uint32_t block;
  uint32_t thread;
  uint32_t threads;
  Fiber* fiber;
};

// The running thread.
Context& context();

// Memory that the threads of a block share, zeroed when a launch begins.
void* shared_memory(size_t bytes);

void barrier_sync(uint32_t barrier, uint32_t count);
void barrier_arrive(uint32_t barrier, uint32_t count);
bool warp_vote(bool yes);

// Something was stored for which others may wait; now and then others run first.
void stored();
// A look in vain: others run.
void spun();
// Others may run.
void point();
void note(const char* what, const void* place, uint64_t value);

}  // namespace emulator
