// The scheduler of fibers. It is compiled without sanitizers and tells them what it does.
#include "emulator.h"

#include "counts.h"
#include "fiber.h"
#include "weak_memory.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#ifdef TOPO_TSAN
extern "C" {
void __tsan_acquire(void*);
void __tsan_release(void*);
}
#endif

namespace emulator {
namespace {

constexpr uint32_t WARP = 32;
constexpr uint32_t BARRIERS = 16;
// Passes over all fibers without progress after which a launch is stuck; longer than a fiber is
// starved.
constexpr uint32_t STUCK_PASSES = 2000;
constexpr uint32_t LONGEST_STARVING = 256;
// Accessible ranges that a run remembers.
constexpr uint32_t RANGES = 16;
// Bytes of the memory that the threads of a block share, at most (48 KiB).
constexpr size_t MOST_SHARED = 48 << 10;

struct Barrier {
  uint32_t arrived = 0;
  uint64_t generation = 0;
  bool votes = true;
  bool result = true;
  Clock coming;  // of weak memory: what is before those that came, and before the last generation
  Clock passed;
};

// A thread's part of a line that its warp stores as a whole.
struct LinePart {
  void* place;
  uint64_t words[2];
  bool active;
};

struct Block {
  Barrier barriers[BARRIERS];
  std::vector<Barrier> warps;
  std::unique_ptr<char[]> shared;
  std::unique_ptr<WeakMemory> memory;  // if the kernel asked for it
  std::vector<LinePart> line_parts;    // by thread
};

}  // namespace

struct Fiber {
  Context seen;
  Execution execution;
  Block* block = nullptr;
  Barrier* barrier = nullptr;  // at which it waits
  uint64_t generation = 0;
  int barrier_number = -1;     // -1: of the warp
  bool done = false;
  uint32_t starved = 0;
  const char* what = nullptr;
  const void* place = nullptr;
  uint64_t value = 0;
};

namespace {

struct Run {
  void (*kernel)(const void*) = nullptr;
  const void* launch = nullptr;
  size_t launch_bytes = 0;
  std::vector<Fiber> fibers;
  std::vector<Block> blocks;
  uint64_t random = 0;
  bool fuzzes = false;
  uint64_t progress = 0;
  size_t live = 0;
  Execution execution = this_execution();
  const Checks* checks = nullptr;
  Counter* counter = nullptr;
  // Accessible ranges, for loads and for stores, as of `changes`.
  Range ranges[2][RANGES] = {};
  uint32_t next_range[2] = {};
  uint64_t changes = 0;
  // The place of a refused access.
  const void* refused = nullptr;
};

// Every access of a kernel that is compiled with checks reads these.
__attribute__((tls_model("initial-exec"))) thread_local Run* run = nullptr;
__attribute__((tls_model("initial-exec"))) thread_local Context* current = nullptr;

uint64_t next_random() {
  // xorshift64*
  uint64_t x = run->random;
  x ^= x >> 12;
  x ^= x << 25;
  x ^= x >> 27;
  run->random = x;
  return x * 0x2545f4914f6cdd1dull >> 16;
}

void leave() { switch_to(current->fiber->execution, run->execution); }

void resume(Fiber& fiber) {
  current = &fiber.seen;
  switch_to(run->execution, fiber.execution);
}

void enter() {
  run->kernel(run->launch);
  Fiber& fiber = *current->fiber;
  fiber.done = true;
  run->live--;
  run->progress++;
#ifdef TOPO_TSAN
  __tsan_release(run);
#endif
  leave();
}

// Counts the running fiber in; true if it was the last.
bool arrive(Barrier& barrier, uint32_t count) {
#ifdef TOPO_TSAN
  __tsan_release(&barrier);
#endif
  WeakMemory* memory = current->fiber->block->memory.get();
  if (memory != nullptr) memory->arrive(current->thread, barrier.coming);
  if (++barrier.arrived < count) return false;
  barrier.arrived = 0;
  barrier.generation++;
  barrier.passed = barrier.coming;
  return true;
}

void wait(Barrier& barrier, uint64_t generation, int number) {
  Fiber& fiber = *current->fiber;
  if (barrier.generation == generation) {
    fiber.barrier = &barrier;
    fiber.generation = generation;
    fiber.barrier_number = number;
    leave();
    fiber.barrier = nullptr;
  }
  WeakMemory* memory = fiber.block->memory.get();
  if (memory != nullptr) memory->leave(current->thread, barrier.passed);
#ifdef TOPO_TSAN
  __tsan_acquire(&barrier);
#endif
}

// Runs every fiber that can run once. Returns whether one was starved instead.
bool pass() {
  bool starves = false;
  const size_t count = run->fibers.size();
  const size_t first = run->fuzzes ? next_random() % count : 0;
  const bool backwards = run->fuzzes && next_random() % 2 == 0;
  for (size_t i = 0; i < count; i++) {
    const size_t at = backwards ? (first + count - i) % count : (first + i) % count;
    Fiber& fiber = run->fibers[at];
    if (fiber.done) continue;
    if (fiber.barrier != nullptr && fiber.barrier->generation == fiber.generation) continue;
    if (run->fuzzes) {
      if (fiber.starved > 0) {
        fiber.starved--;
        starves = true;
        continue;
      }
      if (next_random() % 64 == 0) {
        fiber.starved = 1 + next_random() % LONGEST_STARVING;
        starves = true;
        continue;
      }
    }
    resume(fiber);
    if (run->refused != nullptr) return starves;
  }
  for (Block& block : run->blocks)
    if (block.memory && block.memory->drain_some()) run->progress++;
  return starves;
}

// Lets kernels of other processes run, because all fibers here wait for them. Naps become longer,
// so that a long wait leaves them the processor.
void let_others_run(uint32_t passes) {
  constexpr uint32_t EAGER_PASSES = 50;
  constexpr long NAP_NS = 20000;
  constexpr long LONGEST_NAP_NS = 500000;
  if (passes < EAGER_PASSES) {
    sched_yield();
  } else {
    const timespec nap{0, std::min(NAP_NS * (passes / EAGER_PASSES), LONGEST_NAP_NS)};
    nanosleep(&nap, nullptr);
  }
}

// Reports where the threads of each block are.
std::string dump() {
  std::string text;
  char line[256];
  const uint32_t threads = run->fibers.front().seen.threads;
  for (size_t block = 0; block < run->blocks.size(); block++) {
    std::map<std::string, std::pair<uint32_t, uint32_t>> states;  // how many, and the first
    for (uint32_t thread = 0; thread < threads; thread++) {
      const Fiber& fiber = run->fibers[block * threads + thread];
      if (fiber.done)
        snprintf(line, sizeof line, "ended");
      else if (fiber.barrier != nullptr && fiber.barrier_number >= 0)
        snprintf(line, sizeof line, "at barrier %d", fiber.barrier_number);
      else if (fiber.what != nullptr)
        snprintf(line, sizeof line, "waiting for %s %llu at %p", fiber.what, (unsigned long long)fiber.value,
                 fiber.place);
      else if (fiber.barrier != nullptr)
        snprintf(line, sizeof line, "waiting for their warp");
      else
        snprintf(line, sizeof line, "running");
      auto [state, fresh] = states.try_emplace(line, 0u, thread);
      state->second.first++;
    }
    snprintf(line, sizeof line, "block %zu:", block);
    text += line;
    for (const auto& [state, who] : states) {
      snprintf(line, sizeof line, " %u %s (thread %u …);", who.first, state.c_str(), who.second);
      text += line;
    }
    text += '\n';
    // Enough to see the cause.
    if (text.size() > 6000) {
      text += "…\n";
      break;
    }
  }
  return text;
}

}  // namespace

Context& context() { return *current; }

const Checks* checks() { return run != nullptr ? run->checks : nullptr; }

void refuse(const void* place) {
  run->refused = place;
  for (;;) leave();
}

void count(const void* place, size_t bytes, bool store, Kind kind) {
  if (run->counter != nullptr) run->counter->count(current->block, place, bytes, store, kind, current->in_flight);
}

void count_used() { current->in_flight = 0; }

void count_step(bool reaches) {
  if (run->counter != nullptr && current->thread == 0) run->counter->step(current->block, reaches);
}

void count_end(bool kept) {
  if (run->counter != nullptr) run->counter->end(current->block, kept);
}

void touch(const void* place, size_t bytes, bool store) {
  if (run == nullptr || run->checks == nullptr || current->through_switch) return;
  const Fiber& fiber = *current->fiber;
  // Most accesses are to these two.
  if (on_stack(fiber.execution, place)) return;
  const char* shared = fiber.block->shared.get();
  const char* own = static_cast<const char*>(place);
  if (shared != nullptr && own >= shared && own < shared + MOST_SHARED) return;
  const Checks& asked = *run->checks;
  const uint64_t changes = __atomic_load_n(asked.changes, __ATOMIC_ACQUIRE);
  if (changes != run->changes) {
    memset(run->ranges, 0, sizeof run->ranges);
    run->changes = changes;
  }
  const uint64_t at = reinterpret_cast<uint64_t>(place);
  for (const Range& range : run->ranges[store])
    if (at >= range.begin && at + bytes <= range.end) return;
  // Where a thread reads its own number, and notes that it accesses memory through a switch.
  const char* fibers = reinterpret_cast<const char*>(run->fibers.data());
  if (own >= fibers && own < fibers + run->fibers.size() * sizeof(Fiber)) return;
  // The argument is in constant memory.
  const char* argument = static_cast<const char*>(run->launch);
  if (!store && own >= argument && own + bytes <= argument + run->launch_bytes) return;
  Range range;
  if (!asked.access(asked.user, at, bytes, store, &range)) refuse(place);
  run->ranges[store][run->next_range[store]++ % RANGES] = range;
}

void* shared_memory(size_t bytes) {
  Block& block = *current->fiber->block;
  if (!block.shared) {
    // A GPU promises nothing about its content.
    block.shared.reset(new char[bytes + 64]);
    memset(block.shared.get(), 0xa5, bytes + 64);
#ifdef TOPO_TSAN
    // All threads of the block may use it, whichever comes first.
    __tsan_release(&block.shared);
#endif
  }
#ifdef TOPO_TSAN
  __tsan_acquire(&block.shared);
#endif
  const uintptr_t address = reinterpret_cast<uintptr_t>(block.shared.get());
  return reinterpret_cast<void*>((address + 63) & ~static_cast<uintptr_t>(63));
}

void barrier_sync(uint32_t number, uint32_t count) {
  Barrier& barrier = current->fiber->block->barriers[number];
  const uint64_t generation = barrier.generation;
  if (arrive(barrier, count)) run->progress++;
  wait(barrier, generation, static_cast<int>(number));
}

void barrier_arrive(uint32_t number, uint32_t count) {
  if (arrive(current->fiber->block->barriers[number], count)) run->progress++;
  point();
}

bool warp_vote(bool yes) {
  Barrier& barrier = current->fiber->block->warps[current->thread / WARP];
  const uint64_t generation = barrier.generation;
  barrier.votes = barrier.votes && yes;
  if (arrive(barrier, WARP)) {
    barrier.result = barrier.votes;
    barrier.votes = true;
  }
  wait(barrier, generation, -1);
  return barrier.result;
}

void stored() {
  run->progress++;
  if (run->fuzzes && next_random() % 2 == 0) leave();
}

void spun() {
  leave();
  current->fiber->what = nullptr;
}

void point() {
  run->progress++;
  if (run->fuzzes && next_random() % 8 == 0) leave();
}

void note(const char* what, const void* place, uint64_t value) {
  Fiber& fiber = *current->fiber;
  fiber.what = what;
  fiber.place = place;
  fiber.value = value;
}

namespace {

WeakMemory& memory() {
  Block& block = *current->fiber->block;
  if (!block.memory) {
    block.memory.reset(new WeakMemory(current->threads, next_random()));
    block.line_parts.resize(current->threads);
  }
  return *block.memory;
}

}  // namespace

void weak_store(void* place, const void* bytes, size_t count) { memory().store(current->thread, place, bytes, count); }

void weak_load(const void* place, void* bytes, size_t count, bool fresh) { memory().load(place, bytes, count, fresh); }

void weak_release() { memory().release(current->thread); }

void weak_acquire() { memory().acquire(); }

void weak_line_part(void* place, uint64_t low, uint64_t high, bool active) {
  constexpr uint32_t LINE_THREADS = 8;
  WeakMemory& own = memory();
  LinePart* parts = &current->fiber->block->line_parts[current->thread / LINE_THREADS * LINE_THREADS];
  parts[current->thread % LINE_THREADS] = LinePart{place, {low, high}, active};
  warp_vote(true);
  if (current->thread % LINE_THREADS == LINE_THREADS - 1 && active) {
    uint64_t line[2 * LINE_THREADS];
    for (uint32_t i = 0; i < LINE_THREADS; i++) memcpy(line + 2 * i, parts[i].words, sizeof parts[i].words);
    own.store(current->thread, parts[0].place, line, sizeof line);
  }
  // The parts may be overwritten from here on.
  warp_vote(true);
}

}  // namespace emulator

namespace emulator {
namespace {

// How a run ended; kernel-emulator/src/native.rs and checked.rs have the same numbers.
enum Outcome : int { ENDED = 0, STUCK = 1, NO_MEMORY = 2, CANCELLED = 3, REFUSED = 4 };

// What ends a run besides its threads.
struct Ends {
  const uint32_t* remote;  // not null: the kernel may wait for other processes until it is set
  char* report;
  size_t report_bytes;
};

int execute(Run& own, uint32_t blocks, uint32_t threads, const Ends& ends) {
  own.blocks.resize(blocks);
  own.fibers.resize(static_cast<size_t>(blocks) * threads);
  own.live = own.fibers.size();
  run = &own;
#ifdef TOPO_TSAN
  static char launches;
  __tsan_acquire(&launches);
  __tsan_release(&own);
#endif
  int result = ENDED;
  for (uint32_t block = 0; block < blocks; block++) {
    own.blocks[block].warps.resize((threads + WARP - 1) / WARP);
    for (uint32_t thread = 0; thread < threads; thread++) {
      const size_t number = static_cast<size_t>(block) * threads + thread;
      Fiber& fiber = own.fibers[number];
      fiber.seen = Context{block, thread, threads, &fiber};
      fiber.block = &own.blocks[block];
      if (!begin(fiber.execution, number, enter)) result = NO_MEMORY;
    }
  }
  uint32_t stuck = 0;
  uint64_t progress = 0;
  while (result == ENDED && own.live > 0) {
    const bool starves = pass();
    stuck = own.progress == progress ? stuck + 1 : 0;
    progress = own.progress;
    if (own.refused != nullptr) {
      snprintf(ends.report, ends.report_bytes, "block %u, thread %u", current->block, current->thread);
      result = REFUSED;
    } else if (own.checks != nullptr && __atomic_load_n(own.checks->cancelled, __ATOMIC_RELAXED) != 0) {
      result = CANCELLED;
    } else if (ends.remote != nullptr) {
      if (stuck > 0 && !starves && __atomic_load_n(ends.remote, __ATOMIC_RELAXED) == 0) let_others_run(stuck);
    } else if (stuck > STUCK_PASSES) {
      const std::string text = dump();
      snprintf(ends.report, ends.report_bytes, "%s", text.c_str());
      result = STUCK;
    }
  }
#ifdef TOPO_TSAN
  __tsan_acquire(&own);
  __tsan_release(&launches);
#endif
  for (Fiber& fiber : own.fibers) forget(fiber.execution);
  for (Block& block : own.blocks)
    if (block.memory) block.memory->drain_all();
  run = nullptr;
  current = nullptr;
  return result;
}

Run prepare(void (*kernel)(const void*), const void* launch, uint64_t seed) {
  Run own;
  own.kernel = kernel;
  own.launch = launch;
  own.random = seed * 0x9e3779b97f4a7c15ull | 1;
  own.fuzzes = seed != 0;
  return own;
}

}  // namespace
}  // namespace emulator

// Runs a kernel. Returns 0: it ended; 1: no fiber can make progress, and `report` says where all
// are; 2: no memory for stacks. With `remote`, the kernel may wait for other processes and runs
// until it ends or this word is set.
extern "C" int topo_emulate(void (*kernel)(const void*), const void* launch, uint32_t blocks, uint32_t threads,
                            uint64_t seed, const uint32_t* remote, char* report, size_t report_bytes) {
  emulator::Run own = emulator::prepare(kernel, launch, seed);
  return emulator::execute(own, blocks, threads, {remote, report, report_bytes});
}

// Like topo_emulate, of a kernel that was compiled with checks and waits for others. Returns also
// 3: the run was told to end; 4: an access was refused, and `report` says of which thread.
extern "C" int topo_emulate_checked(void (*kernel)(const void*), const void* launch, size_t launch_bytes,
                                    uint32_t blocks, uint32_t threads, uint64_t seed,
                                    const emulator::Checks* checks, char* report, size_t report_bytes) {
  emulator::Run own = emulator::prepare(kernel, launch, seed);
  own.launch_bytes = launch_bytes;
  own.checks = checks;
  return emulator::execute(own, blocks, threads, {checks->cancelled, report, report_bytes});
}

// Like topo_emulate, of a kernel that was compiled to count its accesses.
extern "C" int topo_emulate_counted(void (*kernel)(const void*), const void* launch, uint32_t blocks,
                                    uint32_t threads, uint64_t seed, const emulator::Counting* counting,
                                    char* report, size_t report_bytes) {
  emulator::Counter counter(*counting);
  emulator::Run own = emulator::prepare(kernel, launch, seed);
  own.counter = &counter;
  const int result = emulator::execute(own, blocks, threads, {nullptr, report, report_bytes});
  counter.flush();
  return result;
}
