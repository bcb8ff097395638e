// Steps that reduce or store at all ranks at once, with the multicast of a switch (NVLS).
//
// A multicast begins at a multiple of 16 bytes. The bytes from the message's end to the next
// multiple are padding of all ranks' scratch memory, where whole vectors are read and written. In
// the rank's own buffers nothing after the end is accessed: registered buffers are used only if
// each step moves a multiple of 16 bytes.
//
// Invariant: a rank reads what it stored through the multicast address by the other address no
// sooner than two steps later. The poster's fence between the addresses comes after the stores and
// before the waiter hands out the step after the next.
#pragma once

#include "block.cuh"

namespace TOPO_NAMESPACE {

constexpr u32 FROM_ALL = 1;
constexpr u32 TO_ALL = 2;
// Whether the program has such steps: its scratch memory then has two addresses.
constexpr u32 TWO_ADDRESSES = 4;

// For the emulator, where the processor does the switch's reductions.
template <class E>
struct Fold {
  TOPO_DEVICE Vector operator()(u32 operation, Vector one, Vector other) const {
    return reduce_vector<E>(operation, one, other);
  }
};

// Vectors in flight per thread.
template <class E>
constexpr u32 MULTICAST = E::SMALL || E::LARGE ? 2 : 4;

template <class E, u32 COUNT>
TOPO_DEVICE void move_everywhere(const Stage& stage, u64 offset, u64 step, u64 bytes) {
  Vector values[COUNT];
  const u8* source = stage.places[0] + offset;
  if (stage.multicast & FROM_ALL) {
    TOPO_UNROLL
    for (u32 i = 0; i < COUNT; i++) values[i] = multicast_load<E>(source + i * step, stage.operation, Fold<E>());
  } else {
    TOPO_UNROLL
    for (u32 i = 0; i < COUNT; i++) {
      const u64 left = bytes - i * step;
      values[i].low = load_word<E>(source + i * step, left);
      values[i].high = left > 8 ? load_word<E>(source + i * step + 8, left - 8) : 0;
    }
  }
  if (stage.pre_multiply) {
    TOPO_UNROLL
    for (u32 i = 0; i < COUNT; i++) values[i] = multiply_vector<E>(values[i], stage.scalar);
  }
  if (stage.finish) {
    TOPO_UNROLL
    for (u32 i = 0; i < COUNT; i++) values[i] = divide_vector<E>(values[i], stage.divisor);
  }
  u8* destination = stage.places[MOST_OPERANDS] + offset;
  if (stage.multicast & TO_ALL) {
    TOPO_UNROLL
    for (u32 i = 0; i < COUNT; i++) multicast_store(destination + i * step, values[i]);
  } else {
    TOPO_UNROLL
    for (u32 i = 0; i < COUNT; i++) {
      const u64 left = bytes - i * step;
      store_word<E>(destination + i * step, values[i].low, left);
      if (left > 8) store_word<E>(destination + i * step + 8, values[i].high, left - 8);
    }
  }
}

struct Multicast {
  template <class E>
  TOPO_DEVICE static void move(const Stage& stage, u32 worker, u32 workers) {
    const u64 bytes = stage.bytes;
    const u32 vectors = (u32)((bytes + 15) / 16);
    const u64 step = (u64)workers * 16;
    u32 vector = worker;
    TOPO_ROLLED
    for (; vector + (MULTICAST<E> - 1) * workers < vectors; vector += MULTICAST<E> * workers) {
      const u64 offset = (u64)vector * 16;
      move_everywhere<E, MULTICAST<E>>(stage, offset, step, bytes - offset);
      schedule_point();
    }
    TOPO_ROLLED
    for (; vector < vectors; vector += workers) {
      const u64 offset = (u64)vector * 16;
      move_everywhere<E, 1>(stage, offset, step, bytes - offset);
      schedule_point();
    }
  }
};

}  // namespace TOPO_NAMESPACE
