// Simple: slots are plain memory. The waiter has checked that they are posted, or free.
#pragma once

#include "protocol_multicast.cuh"

namespace TOPO_NAMESPACE {

// Vectors in flight per thread: of one source, and of each of two sources to reduce.
constexpr u32 COPIED = 4;
template <class E>
constexpr u32 REDUCED = E::SMALL || E::LARGE ? 2 : 3;

// Moves the vector at an offset of each source and destination, and COUNT - 1 more, `step` bytes
// apart.
template <class E, u32 COUNT>
TOPO_DEVICE void copy_vectors(const Stage& stage, u64 offset, u32 step) {
  Vector values[COUNT];
  const u8* source = stage.places[0] + offset;
  TOPO_UNROLL
  for (u32 i = 0; i < COUNT; i++) values[i] = load_vector(source + i * step);
  if (stage.pre_multiply) {
    TOPO_UNROLL
    for (u32 i = 0; i < COUNT; i++) values[i] = multiply_vector<E>(values[i], stage.scalar);
  }
  if (stage.finish) {
    TOPO_UNROLL
    for (u32 i = 0; i < COUNT; i++) values[i] = divide_vector<E>(values[i], stage.divisor);
  }
  TOPO_ROLLED
  for (u32 destination = 0; destination < stage.destination_count; destination++) {
    u8* place = stage.places[MOST_OPERANDS + destination] + offset;
    TOPO_UNROLL
    for (u32 i = 0; i < COUNT; i++) store_vector(place + i * step, values[i]);
  }
}

template <class E, u32 COUNT>
TOPO_DEVICE void reduce_vectors(const Stage& stage, u64 offset, u32 step) {
  Vector sum[COUNT];
  const u8* first = stage.places[0] + offset;
  TOPO_UNROLL
  for (u32 i = 0; i < COUNT; i++) sum[i] = load_vector(first + i * step);
  TOPO_ROLLED
  for (u32 source = 1; source < stage.source_count; source++) {
    const u8* place = stage.places[source] + offset;
    Vector next[COUNT];
    TOPO_UNROLL
    for (u32 i = 0; i < COUNT; i++) next[i] = load_vector(place + i * step);
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
  for (u32 destination = 0; destination < stage.destination_count; destination++) {
    u8* place = stage.places[MOST_OPERANDS + destination] + offset;
    TOPO_UNROLL
    for (u32 i = 0; i < COUNT; i++) store_vector(place + i * step, sum[i]);
  }
}

// Moves a word of every source and destination, or the rest of one.
template <class E>
TOPO_DEVICE void move_word(const Stage& stage, u64 offset, u64 bytes) {
  u64 sum = 0;
  TOPO_ROLLED
  for (u32 source = 0; source < stage.source_count; source++) {
    u64 next = load_word<E>(stage.places[source] + offset, bytes);
    if (stage.pre_multiply >> source & 1) next = multiply_word<E>(next, stage.scalar);
    sum = source == 0 ? next : reduce_word<E>(stage.operation, sum, next);
  }
  if (stage.finish) sum = divide_word<E>(sum, stage.divisor);
  TOPO_ROLLED
  for (u32 destination = 0; destination < stage.destination_count; destination++)
    store_word<E>(stage.places[MOST_OPERANDS + destination] + offset, sum, bytes);
}

struct Simple {
  template <class E>
  TOPO_DEVICE static void move(const Stage& stage, u32 worker, u32 workers, Patience&) {
    if (stage.multicast & (FROM_ALL | TO_ALL)) return Multicast::move<E>(stage, worker, workers);
    const u64 bytes = stage.bytes;
    const u64 start = (u64)stage.places[0];
    u32 differ = 0;
    TOPO_ROLLED
    for (u32 i = 1; i < stage.source_count; i++) differ |= (u32)((u64)stage.places[i] ^ start);
    TOPO_ROLLED
    for (u32 i = 0; i < stage.destination_count; i++) differ |= (u32)((u64)stage.places[MOST_OPERANDS + i] ^ start);
    // Bytes before the first vector's boundary and after the last vector are moved word by word; so
    // is everything, if the places are never aligned together.
    u64 head = (16 - (start & 15)) & 15;
    if ((differ & 15) != 0 || head > bytes) head = bytes;
    const u32 vectors = (u32)((bytes - head) / 16);
    const u32 step = workers * 16;
    u32 vector = worker;
    if (stage.source_count == 1) {
      TOPO_ROLLED
      for (; vector + (COPIED - 1) * workers < vectors; vector += COPIED * workers) {
        copy_vectors<E, COPIED>(stage, head + (u64)vector * 16, step);
        schedule_point();
      }
      TOPO_ROLLED
      for (; vector < vectors; vector += workers) copy_vectors<E, 1>(stage, head + (u64)vector * 16, step);
    } else {
      TOPO_ROLLED
      for (; vector + (REDUCED<E> - 1) * workers < vectors; vector += REDUCED<E> * workers) {
        reduce_vectors<E, REDUCED<E>>(stage, head + (u64)vector * 16, step);
        schedule_point();
      }
      TOPO_ROLLED
      for (; vector < vectors; vector += workers) reduce_vectors<E, 1>(stage, head + (u64)vector * 16, step);
    }
    // Words if all places are aligned together, else elements.
    const u32 width = ((differ | (u32)start) & 3) == 0 ? 8 : (u32)sizeof(typename E::Storage);
    u64 at = (u64)worker * width;
    u64 end = head;
    for (;;) {
      if (at >= end) {
        if (end == bytes) break;
        // Continue after the vectors.
        at = head + (u64)vectors * 16 + (u64)worker * width;
        end = bytes;
        continue;
      }
      const u64 left = end - at;
      move_word<E>(stage, at, left < width ? left : width);
      at += (u64)workers * width;
      schedule_point();
    }
  }
};

}  // namespace TOPO_NAMESPACE
