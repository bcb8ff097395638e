// How the threads of a block work together.
//
// Warp 0 waits, warp 1 posts, all others move data. What a step needs is handed over in one of two
// places in shared memory: warp 0 waits for the next step while data is moved, and data is moved
// while the last step is posted:
//
//   waiter:  polls for the step ─▶ FREE ─▶ writes the place ─▶ READY
//   workers: READY ─▶ move ─▶ DONE
//   poster:  DONE ─▶ tells the peers ─▶ FREE
//
// Every worker comes to READY, so what a step stored is seen by all workers in the next.
#pragma once

#include "reduce.cuh"

namespace TOPO_NAMESPACE {

constexpr u32 WARP = 32;
constexpr u32 WAITER = 0;
constexpr u32 POSTER = 1;
constexpr u32 FIRST_WORKER = 2 * WARP;

// Barriers, two of each. 0 is left to the compiler.
constexpr u32 READY = 1;
constexpr u32 DONE = 3;
constexpr u32 FREE = 5;

// Polls between two checks of the abort word.
constexpr u32 LOOKS = 4096;

// Most operands of a step.
constexpr u32 OPERANDS = 2 * MOST_OPERANDS;

// Most counters that are stored after a step, one by each thread of a warp.
constexpr u32 WORDS = WARP;

// Alignment of a share of a step, bytes.
constexpr u64 SHARE_BYTES = 128;

// A step that is ready to run. Workers read it repeatedly instead of keeping it, because they have
// few registers.
struct Stage {
  u8* places[OPERANDS];    // sources, then destinations; for FIFOs the slot
  u64 flags[OPERANDS];     // for FIFOs the number of the step plus one, else 0
  u64 strides[OPERANDS];   // for FIFOs, bytes of a slot
  u64* words[WORDS];                // counters to store after the step, of operands and signals
  u64 values[WORDS];
  u64 bytes;
  u64 scalar;
  u32 operation;
  u32 divisor;
  u32 source_count;
  u32 destination_count;
  u32 pre_multiply;
  u32 finish;
  u32 multicast;                    // as in Step
  u32 end;                          // 1: the end of the lane, not a step
};

struct Shared {
  Stage stages[2];
  const u32* abort;                 // not 0: end the launch; the waiter writes it and the next
  u32 over;                         // 1: a thread of the block has seen that
  u8* peers[MOST_PEERS][3];         // input, output and scratch of the lane's peers in this launch
  End ends[MOST_ENDS];              // the lane's first, of this share; written back after the last step
};

// Counts the polls of a wait, and sometimes checks whether the host ends the launch.
struct Patience {
  Shared& shared;
  u32 looks;

  TOPO_DEVICE explicit Patience(Shared& shared) : shared(shared), looks(0) {}

  // Called after a failed poll. Returns false if the launch is to end.
  TOPO_DEVICE bool more() {
    looks++;
    if (looks % LOOKS == 0 && load_volatile(shared.abort) != 0) store_flag(&shared.over, 1);
    spin_pause();
    return load_flag(&shared.over) == 0;
  }
};

}  // namespace TOPO_NAMESPACE
