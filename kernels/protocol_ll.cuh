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

  TOPO_DEVICE static u64 wait_for_line(const u8* place, u32 flag, Patience& patience) {
    u64 data;
    while (!load_line(place, flag, data)) {
      note("an LL line with flag", place, flag);
      if (!patience.more()) break;
    }
    return data;
  }

  template <class E>
  TOPO_DEVICE static void move(const Stage& stage, u32 worker, u32 workers,
                               Patience& patience) {
    const u64 bytes = stage.bytes;
    const u32 lines = (u32)((bytes + DATA - 1) / DATA);
    TOPO_ROLLED
    for (u32 line = worker; line < lines; line += workers) {
      const u64 offset = (u64)line * DATA;
      const u64 left = bytes - offset;
      u64 sum = 0;
      TOPO_ROLLED
      for (u32 source = 0; source < stage.source_count; source++) {
        const u64 flag = stage.flags[source];
        u64 next = flag != 0 ? wait_for_line(stage.places[source] + (u64)line * LINE, (u32)flag, patience)
                             : load_word<E>(stage.places[source] + offset, left);
        if (stage.pre_multiply >> source & 1) next = multiply_word<E>(next, stage.scalar);
        sum = source == 0 ? next : reduce_word<E>(stage.operation, sum, next);
      }
      if (stage.finish) sum = divide_word<E>(sum, stage.divisor);
      TOPO_ROLLED
      for (u32 i = MOST_OPERANDS; i < MOST_OPERANDS + stage.destination_count; i++) {
        const u64 flag = stage.flags[i];
        if (flag != 0)
          store_line(stage.places[i] + (u64)line * LINE, sum, (u32)flag);
        else
          store_word<E>(stage.places[i] + offset, sum, left);
      }
      schedule_point();
    }
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
