// LL128: lines of 128 bytes, 120 of data and the step's number plus one. Eight threads make a line,
// 16 bytes each, and the machine must store it as a whole: GPU memory and NVLink do, PCIe does not.
//
// Two lines hold 240 bytes of the message, 15 vectors of 16: seven threads have one vector in each
// line; the eighth, which has the flags, has the last vector, a half in each. If the message ends
// within the 240 bytes, the lines have their bytes one after the other, word by word.
#pragma once

#include "block.cuh"

namespace TOPO_NAMESPACE {

struct LowLatency128 {
  static constexpr u64 DATA = 120;
  static constexpr u64 LINE = 128;
  static constexpr u32 LINE_THREADS = 8;
  // Pairs of lines of a warp, one for each eight threads.
  static constexpr u32 PAIRS = WARP / LINE_THREADS;
  // Pairs in flight per thread: 64 bytes, or 32, because arithmetic of bytes needs registers.
  template <class E>
  static constexpr u32 UNDER_WAY = E::SMALL ? 1 : 2;

  template <class E>
  TOPO_DEVICE static void move(const Stage& stage, u32 worker, u32, Shared& shared) {
    // All threads of a warp take equally many turns, because they vote.
    u32 begin = worker / WARP * PAIRS * UNDER_WAY<E>;
    if (aligned(stage)) {
      TOPO_ROLLED
      for (; (u64)(begin + PAIRS * UNDER_WAY<E>) * 2 * DATA <= stage.bytes; begin += turn<E>())
        move_whole<E>(stage, begin, shared);
    }
    // The message's end, or words of a message that no vectors can be loaded from.
    TOPO_ROLLED
    for (; (u64)begin * 2 * DATA < stage.bytes; begin += turn<E>()) {
      TOPO_ROLLED
      for (u32 i = 0; i < UNDER_WAY<E>; i++) move_pair<E>(stage, begin + i * PAIRS, shared);
    }
  }

 private:
  // Pairs of all warps in a turn.
  template <class E>
  TOPO_DEVICE static u32 turn() {
    return (threads_again() - FIRST_WORKER) / WARP * PAIRS * UNDER_WAY<E>;
  }

  // Whether vectors can be loaded from and stored to all plain memory.
  TOPO_DEVICE static bool aligned(const Stage& stage) {
    u64 low = 0;
    TOPO_ROLLED
    for (u32 i = 0; i < stage.source_count; i++) low |= (u64)stage.places[i];
    TOPO_ROLLED
    for (u32 i = 0; i < stage.destination_count; i++) low |= (u64)stage.places[MOST_OPERANDS + i];
    return (low & 15) == 0;
  }

  // Where a line of the pairs in flight is in a slot, after the thread's part of the first.
  TOPO_DEVICE static constexpr u32 line_at(u32 i) { return (i / 2 * PAIRS * 2 + i % 2) * LINE; }

  // Moves UNDER_WAY whole pairs of each eight threads; the warp's begin with this one.
  template <class E>
  TOPO_DEVICE static void move_whole(const Stage& stage, u32 pair, Shared& shared) {
    const u32 lane = thread_again() % WARP;
    const u32 thread = lane % LINE_THREADS;
    const bool flags = thread == LINE_THREADS - 1;
    pair += lane / LINE_THREADS;
    constexpr u32 COUNT = 2 * UNDER_WAY<E>;
    constexpr u32 NEXT_PAIR = PAIRS * 2 * DATA;
    const u64 in_slot = (u64)pair * 2 * LINE + thread * 16;
    // The eighth thread's vector is behind all others.
    const u64 in_message = (u64)pair * 2 * DATA + thread * 16 * (flags ? 2 : 1);
    Vector sum[COUNT];
    TOPO_ROLLED
    for (u32 source = 0; source < stage.source_count; source++) {
      const u64 flag = stage.flags[source];
      Vector next[COUNT];
      if (flag != 0) {
        const u8* place = stage.places[source] + in_slot;
        wait_for_whole<COUNT>(place, flag, flags, shared);
        TOPO_UNROLL
        for (u32 i = 0; i < COUNT; i++) load_line_part(place + line_at(i), next[i].low, next[i].high, flags);
      } else {
        const u8* place = stage.places[source] + in_message;
        TOPO_UNROLL
        for (u32 i = 0; i < COUNT; i += 2) {
          next[i] = load_vector(place + i / 2 * NEXT_PAIR);
          if (flags)
            next[i + 1].low = next[i].high;
          else
            next[i + 1] = load_vector(place + i / 2 * NEXT_PAIR + 7 * 16);
        }
      }
      const bool multiplies = stage.pre_multiply >> source & 1;
      TOPO_UNROLL
      for (u32 i = 0; i < COUNT; i++) {
        if (multiplies) next[i] = multiply_vector<E>(next[i], stage.scalar);
        sum[i] = source == 0 ? next[i] : reduce_vector<E>(stage.operation, sum[i], next[i]);
      }
    }
    if (stage.finish) {
      TOPO_UNROLL
      for (u32 i = 0; i < COUNT; i++) sum[i] = divide_vector<E>(sum[i], stage.divisor);
    }
    TOPO_ROLLED
    for (u32 destination = MOST_OPERANDS; destination < MOST_OPERANDS + stage.destination_count; destination++) {
      const u64 flag = stage.flags[destination];
      if (flag != 0) {
        u8* place = stage.places[destination] + in_slot;
        TOPO_UNROLL
        for (u32 i = 0; i < COUNT; i++)
          store_line_part(place + line_at(i), sum[i].low, flags ? flag : sum[i].high, true, flags);
      } else {
        u8* place = stage.places[destination] + in_message;
        TOPO_UNROLL
        for (u32 i = 0; i < COUNT; i += 2) {
          store_vector(place + i / 2 * NEXT_PAIR, Vector{sum[i].low, flags ? sum[i + 1].low : sum[i].high});
          if (!flags) store_vector(place + i / 2 * NEXT_PAIR + 7 * 16, sum[i + 1]);
        }
      }
    }
    schedule_point();
  }

  // Whether all threads of the warp say that their lines have come, or the launch is to end. The
  // vote also keeps threads without a flag from reading before the flags arrive: data that was
  // loaded together with its flag may be older, because nothing promises that eight threads load
  // a line as a whole.
  TOPO_DEVICE static bool voted(bool come, const u8* place, u64 flag, Patience& patience) {
    const bool all = warp_all(come);
    count_used();
    if (all) return true;
    note("LL128 lines with flag", place, flag);
    return warp_all(!patience.more());
  }

  // Waits for the flags of all lines of the warp, COUNT of each eight threads.
  template <u32 COUNT>
  TOPO_DEVICE static void wait_for_whole(const u8* place, u64 flag, bool flags, Shared& shared) {
    Patience patience(shared);
    for (;;) {
      count_used();
      bool come = true;
      if (flags) {
        u64 data, last[COUNT];
        TOPO_UNROLL
        for (u32 i = 0; i < COUNT; i++) load_line_part(place + line_at(i), data, last[i], true);
        TOPO_UNROLL
        for (u32 i = 0; i < COUNT; i++) come = come && last[i] == flag;
      }
      if (voted(come, place, flag, patience)) return;
    }
  }

  // Moves one pair of each eight threads word by word, or what the message has of it.
  template <class E>
  TOPO_DEVICE static void move_pair(const Stage& stage, u32 pair, Shared& shared) {
    const u32 lane = thread_again() % WARP;
    const u32 thread = lane % LINE_THREADS;
    const bool flags = thread == LINE_THREADS - 1;
    pair += lane / LINE_THREADS;
    const u64 bytes = stage.bytes;
    const u64 begin = (u64)pair * 2 * DATA;
    const bool whole = begin + 2 * DATA <= bytes;
    TOPO_ROLLED
    for (u32 second = 0; second < 2; second++) {
      const bool active = begin + second * DATA < bytes;
      // Of the thread's first word in the message.
      const u64 at = begin + (!whole ? second * DATA + thread * 16
                              : flags ? 2 * DATA - 16 + second * 8
                                      : second * 7 * 16 + thread * 16);
      const u64 in_slot = (u64)(2 * pair + second) * LINE + thread * 16;
      Vector sum = {};
      TOPO_ROLLED
      for (u32 source = 0; source < stage.source_count; source++) {
        const u64 flag = stage.flags[source];
        const u8* place = stage.places[source];
        Vector next = {};
        if (flag != 0) {
          wait_for_line(place + in_slot, flag, active && flags, shared);
          if (active) load_line_part(place + in_slot, next.low, next.high, flags);
        } else {
          if (at < bytes) next.low = load_word<E>(place + at, bytes - at);
          if (!flags && at + 8 < bytes) next.high = load_word<E>(place + at + 8, bytes - at - 8);
        }
        if (stage.pre_multiply >> source & 1) next = multiply_vector<E>(next, stage.scalar);
        sum = source == 0 ? next : reduce_vector<E>(stage.operation, sum, next);
      }
      if (stage.finish) sum = divide_vector<E>(sum, stage.divisor);
      TOPO_ROLLED
      for (u32 destination = MOST_OPERANDS; destination < MOST_OPERANDS + stage.destination_count; destination++) {
        const u64 flag = stage.flags[destination];
        u8* place = stage.places[destination];
        if (flag != 0) {
          store_line_part(place + in_slot, sum.low, flags ? flag : sum.high, active, flags);
        } else {
          if (at < bytes) store_word<E>(place + at, sum.low, bytes - at);
          if (!flags && at + 8 < bytes) store_word<E>(place + at + 8, sum.high, bytes - at - 8);
        }
      }
      schedule_point();
    }
  }

  // The same for one line of each eight threads; `active`: whether this thread has the flag of one.
  TOPO_DEVICE static void wait_for_line(const u8* place, u64 flag, bool active, Shared& shared) {
    Patience patience(shared);
    for (;;) {
      count_used();
      u64 data, last = flag;
      if (active) load_line_part(place, data, last, true);
      if (voted(last == flag, place, flag, patience)) return;
    }
  }
};

}  // namespace TOPO_NAMESPACE
