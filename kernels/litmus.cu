// Litmus kernels: what a GPU, its memory and its driver do, asked with the same threads, barriers,
// lines, loads and stores as the collectives use. Only `topo gpu-test` loads them.
//
// The first part of a launch says what to do:
//
//   buffers[0]   memory under test, PAIR_BYTES for each pair of blocks
//   buffers[1]   results of the threads, one number each: wrong elements
//   buffers[2]   results of the blocks, two numbers each: rounds, and their time in ns
//   launch       how long to run, or to wait for another kernel, ns
//   lane_count   rounds of `meet`
//   protocol     kind of lines
//   scalar       of two kernels that meet: this one, 0 or 1
//
// Of two blocks, the even one writes and the odd one reads. The reader answers each round, so every
// round has a moment in which new data takes the place of old data while the reader polls. The
// reader decides when it is over.
#include "block.cuh"

namespace TOPO_NAMESPACE {

// Bytes of a pair: a counter, an answer, each on a line of its own, and the data.
constexpr u32 PAIR_BYTES = 8192;
constexpr u32 ANSWER_AT = 128;
constexpr u32 DATA_AT = 512;

// In an answer: the reader has ended.
constexpr u64 ENDED = 1ull << 63;

// Lines in flight per thread, and bytes of those of a warp that are next to each other.
constexpr u32 LINES = 4;
constexpr u32 ROW = WARP * 16;

// Steps of the clock, and stores of a counter, that are timed.
constexpr u32 TICKS = 1000;
constexpr u32 STORES = 4096;

// Two numbers of a block.
TOPO_DEVICE void report(const Part& part, u64 rounds, u64 time) {
  u64* results = reinterpret_cast<u64*>(part.buffers[2]) + 2 * block();
  store(results, rounds);
  store(results + 1, time);
}

TOPO_DEVICE void report_wrong(const Part& part, u64 wrong) {
  store(reinterpret_cast<u64*>(part.buffers[1]) + (u64)block() * threads() + thread(), wrong);
}

// A pair of blocks, as one of them sees it.
struct Pair {
  u8* data;
  u64* counter;
  u64* answer;
  bool reads;

  TOPO_DEVICE explicit Pair(const Part& part) {
    u8* memory = part.buffers[0] + (u64)(block() / 2) * PAIR_BYTES;
    data = memory + DATA_AT;
    counter = reinterpret_cast<u64*>(memory);
    answer = reinterpret_cast<u64*>(memory + ANSWER_AT);
    reads = block() % 2 == 1;
  }
};

// What a word has in a round. Both halves differ from those of the round before, because the halves
// of an LL line have flags of their own.
TOPO_DEVICE u64 expected(u64 round, u32 word) { return round * 0x9e3779b97f4a7c15ull + word; }

TOPO_DEVICE void begin(const Launch& launch, Shared& shared) {
  if (thread() == 0) {
    shared.abort = launch.abort;
    store_flag(&shared.over, 0);
  }
  barrier_sync(READY, threads());
}

// Waits until a counter has a value. Returns the counter.
TOPO_DEVICE u64 wait_for(const u64* counter, u64 value, Shared& shared) {
  Patience patience(shared);
  for (;;) {
    const u64 seen = load_acquire(counter);
    note("counter", counter, value);
    if (seen >= value || !patience.more()) return seen;
  }
}

// Runs until the host ends the launch. The first number of the block becomes 1 when it has begun.
TOPO_DEVICE void hold(const Launch& launch, Shared&) {
  if (thread() != 0) return;
  store_release(reinterpret_cast<u64*>(launch.parts[0].buffers[2]), 1);
  while (load_volatile(launch.abort) == 0) spin_pause();
}

// Meets another kernel in each round.
TOPO_DEVICE void meet(const Launch& launch, Shared&) {
  if (thread() != 0) return;
  const Part& part = launch.parts[0];
  u64* own = reinterpret_cast<u64*>(part.buffers[0] + part.scalar * ANSWER_AT);
  const u64* other = reinterpret_cast<const u64*>(part.buffers[0] + (1 - part.scalar) * ANSWER_AT);
  const u64 began = clock_ns();
  u64 met = 0;
  bool late = false;
  while (met < part.lane_count && !late) {
    store_release(own, met + 1);
    while (load_acquire(other) <= met && !late) {
      note("kernel", other, met + 1);
      late = clock_ns() - began > part.launch;
      spin_pause();
    }
    if (!late) met++;
  }
  report(part, met, clock_ns() - began);
}

// Stores the lines of a warp.
TOPO_DEVICE void put_lines(u32 protocol, u8* place, u64 round) {
  const u32 lane = thread() % WARP;
  const bool carries = lane % 8 == 7;
  u64 low[LINES];
  TOPO_UNROLL
  for (u32 i = 0; i < LINES; i++) low[i] = expected(round, 2 * (i * WARP + lane));
  if (protocol == LL) {
    TOPO_UNROLL
    for (u32 i = 0; i < LINES; i++) store_line(place + i * ROW, low[i], (u32)round);
  } else {
    TOPO_UNROLL
    for (u32 i = 0; i < LINES; i++)
      store_line_part(place + i * ROW, low[i], carries ? round : low[i] + 1, true, carries);
  }
}

// Waits for the lines of a warp. Returns the wrong words of this thread.
TOPO_DEVICE u64 take_lines(u32 protocol, const u8* place, u64 round, Shared& shared) {
  const u32 lane = thread() % WARP;
  const bool carries = lane % 8 == 7;
  Patience patience(shared);
  u64 wrong = 0;
  if (protocol == LL) {
    u64 data[LINES];
    while (!load_lines<LINES>(place, ROW, (u32)round, data)) {
      note("LL lines with flag", place, round);
      if (!patience.more()) return 0;
    }
    TOPO_UNROLL
    for (u32 i = 0; i < LINES; i++) wrong += data[i] != expected(round, 2 * (i * WARP + lane));
    return wrong;
  }
  for (;;) {
    bool come = true;
    if (carries) {
      u64 data, last[LINES];
      TOPO_UNROLL
      for (u32 i = 0; i < LINES; i++) load_line_part(place + i * ROW, data, last[i], true);
      TOPO_UNROLL
      for (u32 i = 0; i < LINES; i++) come = come && last[i] == round;
    }
    if (warp_all(come)) break;
    note("LL128 lines with flag", place, round);
    if (warp_all(!patience.more())) return 0;
  }
  TOPO_UNROLL
  for (u32 i = 0; i < LINES; i++) {
    u64 low, high;
    load_line_part(place + i * ROW, low, high, carries);
    const u64 should = expected(round, 2 * (i * WARP + lane));
    wrong += low != should;
    wrong += high != (carries ? round : should + 1);
  }
  return wrong;
}

// Lines of LL or LL128 whose flag is new and whose data is not. A block is a warp.
TOPO_DEVICE void lines(const Launch& launch, Shared& shared) {
  const Part& part = launch.parts[0];
  const Pair pair(part);
  const bool speaks = thread() == 0;
  u8* place = pair.data + thread() * 16;
  begin(launch, shared);
  const u64 began = clock_ns();
  u64 round = 0, wrong = 0;
  bool more = true;
  while (more) {
    round++;
    bool ends = false;
    if (pair.reads) {
      wrong += take_lines(part.protocol, place, round, shared);
      ends = speaks && clock_ns() - began >= part.launch;
    } else {
      put_lines(part.protocol, place, round);
      ends = speaks && (wait_for(pair.answer, round, shared) & ENDED) != 0;
    }
    more = warp_all(!ends && load_flag(&shared.over) == 0);
    if (pair.reads && speaks) store_release(pair.answer, more ? round : round | ENDED);
  }
  report_wrong(part, wrong);
  if (speaks) report(part, round, clock_ns() - began);
}

// Data that all threads of a block store, and that another block sees behind a counter.
TOPO_DEVICE void messages(const Launch& launch, Shared& shared) {
  const Part& part = launch.parts[0];
  const Pair pair(part);
  const u32 all = threads();
  const bool speaks = thread() == 0;
  u8* place = pair.data + thread() * 16;
  begin(launch, shared);
  const u64 began = clock_ns();
  u64 round = 0, wrong = 0;
  // Thread 0 sets `over` only before READY, and all read it only behind that.
  bool ends = false;
  for (;;) {
    round++;
    const u64 low = expected(round, 2 * thread());
    if (pair.reads) {
      if (speaks && ends)
        store_flag(&shared.over, 1);
      else if (speaks)
        wait_for(pair.counter, round, shared);
    } else {
      store_vector(place, Vector{low, low + 1});
      barrier_sync(DONE, all);
      if (speaks) {
        store_release(pair.counter, round);
        if ((wait_for(pair.answer, round, shared) & ENDED) != 0) store_flag(&shared.over, 1);
      }
    }
    barrier_sync(READY, all);
    if (load_flag(&shared.over) != 0) break;
    if (pair.reads) {
      const Vector value = load_vector(place);
      wrong += value.low != low;
      wrong += value.high != low + 1;
      barrier_sync(DONE, all);
      if (speaks) {
        ends = clock_ns() - began >= part.launch;
        store_release(pair.answer, ends ? round | ENDED : round);
      }
    }
  }
  report_wrong(part, wrong);
  if (speaks) report(part, pair.reads ? round - 1 : round, clock_ns() - began);
}

// The first two numbers are the steps of the clock and their time, the next two the stores of a
// counter and their time, the fifth the shortest step.
TOPO_DEVICE void ticks(const Launch& launch, Shared&) {
  if (thread() != 0) return;
  const Part& part = launch.parts[0];
  u64* results = reinterpret_cast<u64*>(part.buffers[2]);
  u64* counter = reinterpret_cast<u64*>(part.buffers[0]);
  u64 last = clock_ns();
  const u64 began = last;
  u64 shortest = ~0ull;
  for (u32 i = 0; i < TICKS; i++) {
    u64 now = clock_ns();
    while (now == last) now = clock_ns();
    shortest = now - last < shortest ? now - last : shortest;
    last = now;
  }
  store(results, (u64)TICKS);
  store(results + 1, last - began);
  const u64 first = clock_ns();
  TOPO_ROLLED
  for (u32 i = 0; i < STORES; i++) store_release(counter, (u64)i);
  store(results + 2, (u64)STORES);
  store(results + 3, clock_ns() - first);
  store(results + 4, shortest);
}

}  // namespace TOPO_NAMESPACE

#ifndef TOPO_LITMUS
#define TOPO_LITMUS(name) topo_litmus_##name
#endif
TOPO_ENTRY(TOPO_LITMUS(hold), TOPO_NAMESPACE::hold)
TOPO_ENTRY(TOPO_LITMUS(meet), TOPO_NAMESPACE::meet)
TOPO_ENTRY(TOPO_LITMUS(lines), TOPO_NAMESPACE::lines)
TOPO_ENTRY(TOPO_LITMUS(messages), TOPO_NAMESPACE::messages)
TOPO_ENTRY(TOPO_LITMUS(ticks), TOPO_NAMESPACE::ticks)
