// LL128: lines of 128 bytes, 120 of data and the step's number plus one. Eight threads make a line,
// 16 bytes each, and the machine must store it as a whole: GPU memory and NVLink do, PCIe does not.
#pragma once

#include "block.cuh"

namespace TOPO_NAMESPACE {

struct LowLatency128 {
  static constexpr u64 DATA = 120;
  static constexpr u64 LINE = 128;
  static constexpr u32 LINE_THREADS = 8;
  // Lines in flight per warp, one after the other per thread.
  template <class E>
  static constexpr u32 LINES = E::SMALL ? 1 : 2;
  static constexpr u32 WARP_LINES = WARP / LINE_THREADS;

  template <class E>
  TOPO_DEVICE static void move(const Stage& stage, u32 worker, u32 workers,
                               Patience& patience) {
    const u64 bytes = stage.bytes;
    const u32 lines = (u32)((bytes + DATA - 1) / DATA);
    const u32 lane = worker % WARP;
    const u32 part = lane % LINE_THREADS;
    const bool carries = part == LINE_THREADS - 1;
    const u32 stride = workers / WARP * WARP_LINES * LINES<E>;
    // All threads of a warp take equally many turns, because they vote.
    TOPO_ROLLED
    for (u32 begin = (worker / WARP) * WARP_LINES * LINES<E>; begin < lines; begin += stride) {
      const u32 line = begin + lane / LINE_THREADS;
      u64 low[LINES<E>] = {}, high[LINES<E>] = {};
      TOPO_ROLLED
      for (u32 source = 0; source < stage.source_count; source++) {
        const u8* place = stage.places[source];
        const u64 flag = stage.flags[source];
        u64 next_low[LINES<E>], next_high[LINES<E>];
        if (flag != 0) {
          wait_for_lines<E>(place, flag, line, lines, part, carries, patience);
          TOPO_UNROLL
          for (u32 i = 0; i < LINES<E>; i++) {
            next_low[i] = next_high[i] = 0;
            const u32 at = line + i * WARP_LINES;
            if (at < lines) load_line_part(place + (u64)at * LINE + part * 16, next_low[i], next_high[i], carries);
          }
        } else {
          TOPO_UNROLL
          for (u32 i = 0; i < LINES<E>; i++) {
            next_low[i] = next_high[i] = 0;
            const u64 offset = (u64)(line + i * WARP_LINES) * DATA + part * 16;
            if (offset < bytes) next_low[i] = load_word<E>(place + offset, bytes - offset);
            if (!carries && offset + 8 < bytes) next_high[i] = load_word<E>(place + offset + 8, bytes - offset - 8);
          }
        }
        const bool multiplies = stage.pre_multiply >> source & 1;
        TOPO_UNROLL
        for (u32 i = 0; i < LINES<E>; i++) {
          if (multiplies) {
            next_low[i] = multiply_word<E>(next_low[i], stage.scalar);
            next_high[i] = multiply_word<E>(next_high[i], stage.scalar);
          }
          low[i] = source == 0 ? next_low[i] : reduce_word<E>(stage.operation, low[i], next_low[i]);
          high[i] = source == 0 ? next_high[i] : reduce_word<E>(stage.operation, high[i], next_high[i]);
        }
      }
      if (stage.finish) {
        TOPO_UNROLL
        for (u32 i = 0; i < LINES<E>; i++) {
          low[i] = divide_word<E>(low[i], stage.divisor);
          high[i] = divide_word<E>(high[i], stage.divisor);
        }
      }
      TOPO_ROLLED
      for (u32 destination = MOST_OPERANDS; destination < MOST_OPERANDS + stage.destination_count; destination++) {
        u8* place = stage.places[destination];
        const u64 flag = stage.flags[destination];
        TOPO_UNROLL
        for (u32 i = 0; i < LINES<E>; i++) {
          const u32 at = line + i * WARP_LINES;
          const u64 offset = (u64)at * DATA + part * 16;
          if (flag != 0) {
            store_line_part(place + (u64)at * LINE + part * 16, low[i], carries ? flag : high[i], at < lines, carries);
          } else if (offset < bytes) {
            store_word<E>(place + offset, low[i], bytes - offset);
            if (!carries && offset + 8 < bytes) store_word<E>(place + offset + 8, high[i], bytes - offset - 8);
          }
        }
      }
      schedule_point();
    }
  }

  // Waits for the flags of all lines of the warp.
  template <class E>
  TOPO_DEVICE static void wait_for_lines(const u8* place, u64 flag, u32 line, u32 lines, u32 part, bool carries,
                                         Patience& patience) {
    for (;;) {
      bool come = true;
      TOPO_UNROLL
      for (u32 i = 0; i < LINES<E>; i++) {
        const u32 at = line + i * WARP_LINES;
        u64 data, last;
        if (carries && at < lines) {
          load_line_part(place + (u64)at * LINE + part * 16, data, last, carries);
          come = come && last == flag;
        }
      }
      // The vote also keeps threads without a flag from reading before the flags arrive.
      if (warp_all(come)) return;
      note("LL128 lines with flag", place, flag);
      if (warp_all(!patience.more())) return;
    }
  }
};

}  // namespace TOPO_NAMESPACE
