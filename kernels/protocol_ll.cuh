// LL: lines of 16 bytes, {data, flag, data, flag} of 4 bytes each. A flag is the low half of the
// step's number plus one.
//
// In the last eight steps of every 2^31 the sender writes all flags of a slot, also of lines
// without data: otherwise an old flag would look new when the low half wraps around.
#pragma once

#include "block.cuh"

namespace TOPO_NAMESPACE {

struct LowLatency {
  static constexpr u64 DATA = 8;
  static constexpr u64 LINE = 16;
  // Lines in flight per thread, 64 bytes.
  static constexpr u32 LINES = 4;

  // Waits for COUNT lines, `step` bytes apart, and takes their data. All are loaded before a flag
  // is looked at.
  template <u32 COUNT>
  TOPO_DEVICE static void wait_for_lines(const u8* place, u64 step, u32 flag, u64 (&data)[COUNT], Shared& shared) {
    Patience patience(shared);
    for (;;) {
      count_used();
      if (load_lines<COUNT>(place, step, flag, data)) return;
      note("LL lines with flag", place, flag);
      if (!patience.more()) return;
    }
  }

  // Whether plain memory is a multiple of a line's data.
  TOPO_DEVICE static bool aligned(const Stage& stage) {
    u64 low = 0;
    TOPO_ROLLED
    for (u32 i = 0; i < stage.source_count; i++) low |= (u64)stage.places[i];
    TOPO_ROLLED
    for (u32 i = 0; i < stage.destination_count; i++) low |= (u64)stage.places[MOST_OPERANDS + i];
    return low % DATA == 0;
  }

  // Moves the line with this number, and COUNT - 1 more, `step` lines apart. WHOLE: they have all
  // their data, in aligned words.
  template <class E, u32 COUNT, bool WHOLE>
  TOPO_DEVICE static void move_lines(const Stage& stage, u32 line, u32 step, Shared& shared) {
    const u64 offset = (u64)line * DATA;
    const u64 left = stage.bytes - offset;
    u64 sum[COUNT];
    TOPO_ROLLED
    for (u32 source = 0; source < stage.source_count; source++) {
      const u64 flag = stage.flags[source];
      const u8* place = stage.places[source];
      u64 next[COUNT];
      if (flag != 0) {
        wait_for_lines<COUNT>(place + (u64)line * LINE, step * LINE, (u32)flag, next, shared);
      } else {
        TOPO_UNROLL
        for (u32 i = 0; i < COUNT; i++)
          next[i] = WHOLE ? load((const u64*)(place + offset + i * step * DATA)) : load_word<E>(place + offset, left);
      }
      const bool multiplies = stage.pre_multiply >> source & 1;
      TOPO_UNROLL
      for (u32 i = 0; i < COUNT; i++) {
        if (multiplies) next[i] = multiply_word<E>(next[i], stage.scalar);
        sum[i] = source == 0 ? next[i] : reduce_word<E>(stage.operation, sum[i], next[i]);
      }
    }
    if (stage.finish) {
      TOPO_UNROLL
      for (u32 i = 0; i < COUNT; i++) sum[i] = divide_word<E>(sum[i], stage.divisor);
    }
    TOPO_ROLLED
    for (u32 i = MOST_OPERANDS; i < MOST_OPERANDS + stage.destination_count; i++) {
      const u64 flag = stage.flags[i];
      u8* place = stage.places[i];
      TOPO_UNROLL
      for (u32 k = 0; k < COUNT; k++) {
        if (flag != 0)
          store_line(place + (u64)line * LINE + k * step * LINE, sum[k], (u32)flag);
        else if (WHOLE)
          store((u64*)(place + offset + k * step * DATA), sum[k]);
        else
          store_word<E>(place + offset, sum[k], left);
      }
    }
    schedule_point();
  }

  template <class E>
  TOPO_DEVICE static void move(const Stage& stage, u32 worker, u32 workers, Shared& shared) {
    const u32 lines = (u32)((stage.bytes + DATA - 1) / DATA);
    u32 line = worker;
    if (aligned(stage)) {
      const u32 whole = (u32)(stage.bytes / DATA);
      TOPO_ROLLED
      for (; line + (LINES - 1) * workers < whole; line += LINES * workers)
        move_lines<E, LINES, true>(stage, line, workers, shared);
    }
    TOPO_ROLLED
    for (; line < lines; line += workers) move_lines<E, 1, false>(stage, line, workers, shared);
    TOPO_ROLLED
    for (u32 i = MOST_OPERANDS; i < MOST_OPERANDS + stage.destination_count; i++) {
      const u64 flag = stage.flags[i];
      if (flag == 0 || ((flag - 1) & 0x7ffffff8) != 0x7ffffff8) continue;
      const u32 all = (u32)(stage.strides[i] / LINE);
      // This thread's first line after the data.
      const u32 behind = lines + (workers + worker - lines % workers) % workers;
      TOPO_ROLLED
      for (u32 line = behind; line < all; line += workers) store_line(stage.places[i] + (u64)line * LINE, 0, (u32)flag);
    }
  }
};

}  // namespace TOPO_NAMESPACE
