// Simple: slots are plain memory. The waiter has seen that they are posted, or free.
#pragma once

#include "block.cuh"

namespace TOPO_NAMESPACE {

// Vectors that a thread loads before it uses the first.
constexpr u32 VECTORS = 4;

template <class E, u32 COUNT>
TOPO_DEVICE void move_vectors(const Stage& stage, const Reduction& reduction, u64 offset, u64 step) {
  Vector sum[COUNT];
  const u8* first = stage.places[0] + offset;
  TOPO_UNROLL
  for (u32 i = 0; i < COUNT; i++) sum[i] = load_vector(first + i * step);
  if (stage.pre_multiply & 1) {
    TOPO_UNROLL
    for (u32 i = 0; i < COUNT; i++)
      sum[i] = Vector{multiply_word<E>(sum[i].low, reduction.scalar), multiply_word<E>(sum[i].high, reduction.scalar)};
  }
  for (u32 source = 1; source < stage.source_count; source++) {
    const u8* place = stage.places[source] + offset;
    const bool multiplies = stage.pre_multiply >> source & 1;
    Vector next[COUNT];
    TOPO_UNROLL
    for (u32 i = 0; i < COUNT; i++) next[i] = load_vector(place + i * step);
    TOPO_UNROLL
    for (u32 i = 0; i < COUNT; i++) {
      if (multiplies)
        next[i] =
            Vector{multiply_word<E>(next[i].low, reduction.scalar), multiply_word<E>(next[i].high, reduction.scalar)};
      sum[i] = reduce_vector<E>(reduction.operation, sum[i], next[i]);
    }
  }
  if (stage.finish) {
    TOPO_UNROLL
    for (u32 i = 0; i < COUNT; i++)
      sum[i] = Vector{divide_word<E>(sum[i].low, reduction.divisor), divide_word<E>(sum[i].high, reduction.divisor)};
  }
  for (u32 destination = 0; destination < stage.destination_count; destination++) {
    u8* place = stage.places[MOST_OPERANDS + destination] + offset;
    TOPO_UNROLL
    for (u32 i = 0; i < COUNT; i++) store_vector(place + i * step, sum[i]);
  }
}

// One element, or as many bytes as a word has where all places are aligned for it.
template <class E>
TOPO_DEVICE void move_word(const Stage& stage, const Reduction& reduction, u64 offset, u64 bytes) {
  u64 sum = 0;
  for (u32 source = 0; source < stage.source_count; source++) {
    u64 next = load_word<E>(stage.places[source] + offset, bytes);
    if (stage.pre_multiply >> source & 1) next = multiply_word<E>(next, reduction.scalar);
    sum = source == 0 ? next : reduce_word<E>(reduction.operation, sum, next);
  }
  if (stage.finish) sum = divide_word<E>(sum, reduction.divisor);
  for (u32 destination = 0; destination < stage.destination_count; destination++)
    store_word<E>(stage.places[MOST_OPERANDS + destination] + offset, sum, bytes);
}

// Element after element, or word after word.
template <class E>
TOPO_DEVICE void move_words(const Stage& stage, const Reduction& reduction, u64 from, u64 to, u32 width, u32 worker,
                            u32 workers) {
  for (u64 at = from + (u64)worker * width; at < to; at += (u64)workers * width) {
    move_word<E>(stage, reduction, at, at + width <= to ? width : to - at);
    schedule_point();
  }
}

struct Simple {
  template <class E>
  TOPO_DEVICE static void move(const Stage& stage, const Reduction& reduction, u32 worker, u32 workers, Patience&) {
    const u64 bytes = stage.bytes;
    const u64 start = (u64)stage.places[0];
    u64 differ = 0;
    for (u32 i = 1; i < stage.source_count; i++) differ |= (u64)stage.places[i] ^ start;
    for (u32 i = 0; i < stage.destination_count; i++) differ |= (u64)stage.places[MOST_OPERANDS + i] ^ start;
    if (differ & 15) {
      // Places that are never on a vector's boundary together: words where they are on those, else elements.
      const bool words = ((differ | start) & 3) == 0;
      move_words<E>(stage, reduction, 0, bytes, words ? 8 : (u32)sizeof(typename E::Storage), worker, workers);
      return;
    }
    u64 head = (16 - (start & 15)) & 15;
    if (head > bytes) head = bytes;
    move_words<E>(stage, reduction, 0, head, sizeof(typename E::Storage), worker, workers);
    const u64 vectors = (bytes - head) / 16;
    const u64 step = (u64)workers * 16;
    u64 vector = worker;
    for (; vector + (VECTORS - 1) * (u64)workers < vectors; vector += VECTORS * (u64)workers) {
      move_vectors<E, VECTORS>(stage, reduction, head + vector * 16, step);
      schedule_point();
    }
    for (; vector < vectors; vector += workers) {
      move_vectors<E, 1>(stage, reduction, head + vector * 16, step);
      schedule_point();
    }
    move_words<E>(stage, reduction, head + vectors * 16, bytes, sizeof(typename E::Storage), worker, workers);
  }
};

}  // namespace TOPO_NAMESPACE
