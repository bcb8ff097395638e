// Simple: slots are plain memory. The waiter has checked that they are posted, or free.
#pragma once

#include "protocol_multicast.cuh"

namespace TOPO_NAMESPACE {

// Vectors in flight per thread: of one source, and of each of two sources to reduce.
constexpr u32 COPIED = 4;
template <class E>
constexpr u32 REDUCED = E::SMALL || E::LARGE ? 2 : 3;
// The same, where two vectors are loaded for each.
constexpr u32 SHIFTED = 2;

// The 16 bytes at any address, of the two vectors around it. Both must be readable; the second is
// the next thread's first, so memory is read once.
TOPO_DEVICE Vector load_shifted(const u8* place) {
  const u32 over = (u32)(u64)place & 15;
  if (over == 0) return load_vector(place);
  const Vector first = load_vector(place - over);
  const Vector second = load_vector(place - over + 16);
  const u64 low = over < 8 ? first.low : first.high;
  const u64 middle = over < 8 ? first.high : second.low;
  const u64 high = over < 8 ? second.low : second.high;
  const u32 bits = over % 8 * 8;
  if (bits == 0) return Vector{low, middle};
  return Vector{low >> bits | middle << (64 - bits), middle >> bits | high << (64 - bits)};
}

template <bool SHIFT>
TOPO_DEVICE Vector load_source(const u8* place) {
  return SHIFT ? load_shifted(place) : load_vector(place);
}

// Destinations from one on, up to another.
struct Range {
  u32 first, end;
};

// Moves the vector at an offset of the first source to destinations, and COUNT - 1 more, `step`
// bytes apart.
template <class E, u32 COUNT, bool SHIFT>
TOPO_DEVICE void copy_vectors(const Stage& stage, Range to, u64 offset, u32 step) {
  Vector values[COUNT];
  const u8* source = stage.places[0] + offset;
  TOPO_UNROLL
  for (u32 i = 0; i < COUNT; i++) values[i] = load_source<SHIFT>(source + i * step);
  if (stage.pre_multiply) {
    TOPO_UNROLL
    for (u32 i = 0; i < COUNT; i++) values[i] = multiply_vector<E>(values[i], stage.scalar);
  }
  if (stage.finish) {
    TOPO_UNROLL
    for (u32 i = 0; i < COUNT; i++) values[i] = divide_vector<E>(values[i], stage.divisor);
  }
  TOPO_ROLLED
  for (u32 destination = to.first; destination < to.end; destination++) {
    u8* place = stage.places[MOST_OPERANDS + destination] + offset;
    TOPO_UNROLL
    for (u32 i = 0; i < COUNT; i++) store_vector(place + i * step, values[i]);
  }
}

// The same of all sources, reduced.
template <class E, u32 COUNT, bool SHIFT>
TOPO_DEVICE void reduce_vectors(const Stage& stage, Range to, u64 offset, u32 step) {
  Vector sum[COUNT];
  const u8* first = stage.places[0] + offset;
  TOPO_UNROLL
  for (u32 i = 0; i < COUNT; i++) sum[i] = load_source<SHIFT>(first + i * step);
  TOPO_ROLLED
  for (u32 source = 1; source < stage.source_count; source++) {
    const u8* place = stage.places[source] + offset;
    Vector next[COUNT];
    TOPO_UNROLL
    for (u32 i = 0; i < COUNT; i++) next[i] = load_source<SHIFT>(place + i * step);
    if (stage.pre_multiply) {
      // The first source's turn comes with the second's.
      TOPO_UNROLL
      for (u32 i = 0; i < COUNT; i++) {
        if (source == 1 && stage.pre_multiply & 1) sum[i] = multiply_vector<E>(sum[i], stage.scalar);
        if (stage.pre_multiply >> source & 1) next[i] = multiply_vector<E>(next[i], stage.scalar);
      }
    }
    TOPO_UNROLL
    for (u32 i = 0; i < COUNT; i++) sum[i] = reduce_vector<E>(stage.operation, sum[i], next[i]);
  }
  if (stage.finish) {
    TOPO_UNROLL
    for (u32 i = 0; i < COUNT; i++) sum[i] = divide_vector<E>(sum[i], stage.divisor);
  }
  TOPO_ROLLED
  for (u32 destination = to.first; destination < to.end; destination++) {
    u8* place = stage.places[MOST_OPERANDS + destination] + offset;
    TOPO_UNROLL
    for (u32 i = 0; i < COUNT; i++) store_vector(place + i * step, sum[i]);
  }
}

// Moves a word of every source, or the rest of one.
template <class E>
TOPO_DEVICE void move_word(const Stage& stage, Range to, u64 offset, u64 bytes) {
  u64 sum = 0;
  TOPO_ROLLED
  for (u32 source = 0; source < stage.source_count; source++) {
    u64 next = load_word<E>(stage.places[source] + offset, bytes);
    if (stage.pre_multiply >> source & 1) next = multiply_word<E>(next, stage.scalar);
    sum = source == 0 ? next : reduce_word<E>(stage.operation, sum, next);
  }
  if (stage.finish) sum = divide_word<E>(sum, stage.divisor);
  TOPO_ROLLED
  for (u32 destination = to.first; destination < to.end; destination++)
    store_word<E>(stage.places[MOST_OPERANDS + destination] + offset, sum, bytes);
}

struct Simple {
  template <class E>
  TOPO_DEVICE static void move(const Stage& stage, u32 worker, u32 workers, Shared&) {
    if (stage.multicast & (FROM_ALL | TO_ALL)) return Multicast::move<E>(stage, worker, workers);
    u32 differ = 0;
    TOPO_ROLLED
    for (u32 i = 1; i < stage.destination_count; i++)
      differ |= (u32)((u64)stage.places[MOST_OPERANDS + i] ^ (u64)stage.places[MOST_OPERANDS]);
    const Range all = {0, stage.destination_count};
    if (differ % 16 == 0) return move_to<E>(stage, all, true, worker, workers);
    // Vectors are aligned for one destination after the other. Where there is arithmetic, a
    // destination may be a source, too, and must be stored once.
    if (stage.source_count > 1 || stage.pre_multiply || stage.finish)
      return move_to<E>(stage, all, false, worker, workers);
    TOPO_ROLLED
    for (u32 i = 0; i < stage.destination_count; i++) move_to<E>(stage, Range{i, i + 1}, true, worker, workers);
  }

 private:
  // `together`: the destinations are aligned alike.
  template <class E>
  TOPO_DEVICE static void move_to(const Stage& stage, Range to, bool together, u32 worker, u32 workers) {
    const u64 bytes = stage.bytes;
    const u32 start = (u32)(u64)stage.places[MOST_OPERANDS + to.first];
    u32 differ = 0;
    TOPO_ROLLED
    for (u32 i = 0; i < stage.source_count; i++) differ |= (u32)(u64)stage.places[i] ^ start;
    const bool shifts = differ % 16 != 0;
    // Bytes before the destinations' first vector and after the last one are moved word by word. A
    // source that is aligned otherwise is loaded up to 15 bytes before and after a vector.
    const u64 head = (16 - start % 16) % 16 + (shifts ? 16 : 0);
    const u64 tail = shifts ? 16 : 0;
    const u32 vectors = together && bytes > head + tail ? (u32)((bytes - head - tail) / 16) : 0;
    // Words if all places are aligned for them, else elements. They come first: while vectors are
    // moved, registers are few.
    const u32 width = (differ | start) % 4 == 0 ? 8 : (u32)sizeof(typename E::Storage);
    u64 at = (u64)worker * width;
    u64 end = vectors == 0 ? bytes : head;
    for (;;) {
      if (at >= end) {
        if (end == bytes) break;
        // Continue after the vectors.
        at = head + (u64)vectors * 16 + (u64)worker * width;
        end = bytes;
        continue;
      }
      const u64 left = end - at;
      move_word<E>(stage, to, at, left < width ? left : width);
      at += (u64)workers * width;
      schedule_point();
    }
    if (stage.source_count == 1) {
      if (shifts)
        copy<E, SHIFTED, true>(stage, to, head, vectors, worker, workers);
      else
        copy<E, COPIED, false>(stage, to, head, vectors, worker, workers);
    } else if (shifts) {
      reduce<E, SHIFTED, true>(stage, to, head, vectors, worker, workers);
    } else {
      reduce<E, REDUCED<E>, false>(stage, to, head, vectors, worker, workers);
    }
  }

  template <class E, u32 COUNT, bool SHIFT>
  TOPO_DEVICE static void copy(const Stage& stage, Range to, u64 head, u32 vectors, u32 worker, u32 workers) {
    u32 vector = worker;
    TOPO_ROLLED
    for (; vector + (COUNT - 1) * workers < vectors; vector += COUNT * workers) {
      copy_vectors<E, COUNT, SHIFT>(stage, to, head + (u64)vector * 16, workers * 16);
      schedule_point();
    }
    TOPO_ROLLED
    for (; vector < vectors; vector += workers) copy_vectors<E, 1, SHIFT>(stage, to, head + (u64)vector * 16, 0);
  }

  template <class E, u32 COUNT, bool SHIFT>
  TOPO_DEVICE static void reduce(const Stage& stage, Range to, u64 head, u32 vectors, u32 worker, u32 workers) {
    u32 vector = worker;
    TOPO_ROLLED
    for (; vector + (COUNT - 1) * workers < vectors; vector += COUNT * workers) {
      reduce_vectors<E, COUNT, SHIFT>(stage, to, head + (u64)vector * 16, workers * 16);
      schedule_point();
    }
    TOPO_ROLLED
    for (; vector < vectors; vector += workers) reduce_vectors<E, 1, SHIFT>(stage, to, head + (u64)vector * 16, 0);
  }
};

}  // namespace TOPO_NAMESPACE
