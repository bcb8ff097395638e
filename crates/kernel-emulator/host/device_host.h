// device.cuh for the host's compiler.
//
// With TOPO_WEAK, memory keeps no more order than a GPU promises (weak_memory.h); without, as much
// as the processor does.
//
// Not emulated: threads of a warp in lockstep, scopes narrower than the system, and time.
#pragma once

#include <time.h>

#include <cstring>

#include "counts.h"
#include "emulator.h"
#include "multicast.h"

// Whether accesses are counted (counts.h).
#ifndef TOPO_COUNTED
#define TOPO_COUNTED 0
#endif

#define TOPO_DEVICE inline
#define TOPO_UNROLL
#define TOPO_ROLLED
#define TOPO_ENTRY(name, body)                                                                       \
  extern "C" void name(const TOPO_NAMESPACE::Launch* launch) {                                       \
    body(*launch, *static_cast<TOPO_NAMESPACE::Shared*>(                                             \
                      emulator::shared_memory(sizeof(TOPO_NAMESPACE::Shared))));                     \
  }

namespace TOPO_NAMESPACE {

inline u32 thread() { return emulator::context().thread; }
inline u32 thread_again() { return thread(); }
inline u32 threads() { return emulator::context().threads; }
inline u32 threads_again() { return threads(); }
inline u32 block() { return emulator::context().block; }

inline void barrier_sync(u32 barrier, u32 count) { emulator::barrier_sync(barrier, count); }
inline void barrier_arrive(u32 barrier, u32 count) { emulator::barrier_arrive(barrier, count); }
inline void warp_sync() { emulator::warp_vote(true); }
inline bool warp_all(bool yes) { return emulator::warp_vote(yes); }

inline void count_access(const void* place, size_t bytes, bool store, emulator::Kind kind) {
  if (TOPO_COUNTED) emulator::count(place, bytes, store, kind);
}

inline void count_used() {
  if (TOPO_COUNTED) emulator::count_used();
}

inline void count_step(bool reaches) {
  if (TOPO_COUNTED) emulator::count_step(reaches);
}

inline void count_end(bool kept) {
  if (TOPO_COUNTED) emulator::count_end(kept);
}

inline u64 load_acquire(const u64* word) {
  count_access(word, sizeof *word, false, emulator::Kind::CONTROL);
  const u64 value = __atomic_load_n(word, __ATOMIC_ACQUIRE);
  if (TOPO_WEAK) emulator::weak_acquire();
  return value;
}

inline void store_release(u64* word, u64 value) {
  count_access(word, sizeof value, true, emulator::Kind::CONTROL);
  if (TOPO_WEAK) emulator::weak_release();
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
  emulator::stored();
}

inline u32 load_volatile(const u32* word) { return __atomic_load_n(word, __ATOMIC_RELAXED); }
inline u32 load_flag(const u32* word) { return __atomic_load_n(word, __ATOMIC_RELAXED); }
inline void store_flag(u32* word, u32 value) { __atomic_store_n(word, value, __ATOMIC_RELAXED); }

template <class T>
inline T load(const T* place, emulator::Kind kind = emulator::Kind::DATA) {
  count_access(place, sizeof *place, false, kind);
  if (!TOPO_WEAK) return *place;
  T value;
  emulator::weak_load(place, &value, sizeof value, false);
  return value;
}

template <class T>
inline void store(T* place, T value, emulator::Kind kind = emulator::Kind::DATA) {
  count_access(place, sizeof value, true, kind);
  if (TOPO_WEAK)
    emulator::weak_store(place, &value, sizeof value);
  else
    *place = value;
}

// Memory that others may write meanwhile, in one piece each. A line orders only its own data: data
// read for it was read before. ThreadSanitizer knows no such order, so for it lines release and
// acquire; weak memory shows that nothing else relies on them.
#ifdef TOPO_TSAN
constexpr int LINE_ACQUIRE = __ATOMIC_ACQUIRE, LINE_RELEASE = __ATOMIC_RELEASE;
#else
constexpr int LINE_ACQUIRE = __ATOMIC_RELAXED, LINE_RELEASE = __ATOMIC_RELAXED;
#endif

inline u64 load_shared(const u64* place) {
  if (!TOPO_WEAK) return __atomic_load_n(place, LINE_ACQUIRE);
  u64 value;
  emulator::weak_load(place, &value, sizeof value, true);
  return value;
}

inline void store_shared(u64* place, u64 value) {
  if (TOPO_WEAK)
    emulator::weak_store(place, &value, sizeof value);
  else
    __atomic_store_n(place, value, LINE_RELEASE);
}

struct alignas(16) Vector {
  u64 low, high;
};

inline Vector load_vector(const u8* place) { return load(reinterpret_cast<const Vector*>(place)); }
inline void store_vector(u8* place, Vector value) { store(reinterpret_cast<Vector*>(place), value); }

// Only halves of a line are stored as a whole. Here the second half sometimes comes first, and
// other threads run between them.
inline void store_line(u8* place, u64 data, u32 flag) {
  count_access(place, 16, true, emulator::Kind::LINE);
  u64* words = reinterpret_cast<u64*>(place);
  const u64 high_flag = (u64)flag << 32;
  store_shared(words + 1, (data >> 32) | high_flag);
  emulator::point();
  store_shared(words, (data & 0xffffffffu) | high_flag);
  emulator::stored();
}

inline bool load_line(const u8* place, u32 flag, u64& data) {
  count_access(place, 16, false, emulator::Kind::LINE);
  const u64* words = reinterpret_cast<const u64*>(place);
  const u64 low = load_shared(words);
  const u64 high = load_shared(words + 1);
  data = (low & 0xffffffffu) | high << 32;
  return (u32)(low >> 32) == flag && (u32)(high >> 32) == flag;
}

template <u32 COUNT>
inline bool load_lines(const u8* place, u64 step, u32 flag, u64 (&data)[COUNT]) {
  bool all = true;
  for (u32 i = 0; i < COUNT; i++) all = load_line(place + i * step, flag, data[i]) && all;
  return all;
}

// GPUs store a line as a whole. Here the flag is stored last, or, with weak memory, the whole line
// becomes visible at once.
inline void store_line_part(u8* place, u64 low, u64 high, bool active, bool carries) {
  if (active) count_access(place, 16, true, emulator::Kind::LINE);
  u64* words = reinterpret_cast<u64*>(place);
  if (TOPO_WEAK) {
    emulator::weak_line_part(place, low, high, active);
  } else {
    if (active) {
      store_shared(words, low);
      if (!carries) store_shared(words + 1, high);
    }
    emulator::warp_vote(true);
    if (active && carries) __atomic_store_n(words + 1, high, __ATOMIC_RELEASE);
  }
  emulator::stored();
}

inline void load_line_part(const u8* place, u64& low, u64& high, bool carries) {
  count_access(place, 16, false, emulator::Kind::LINE);
  const u64* words = reinterpret_cast<const u64*>(place);
  high = carries && !TOPO_WEAK ? __atomic_load_n(words + 1, __ATOMIC_ACQUIRE) : load_shared(words + 1);
  low = load_shared(words);
}

// Here all addresses of a place are equivalent.
inline void alias_fence() {}

template <class E, class Fold>
inline Vector multicast_load(const u8* place, u32 operation, Fold fold) {
  const emulator::ThroughSwitch through;
  Vector sum = {};
  bool first = true;
  for (const uint64_t own : emulator::multicast_places(place)) {
    count_access(reinterpret_cast<void*>(own), 16, false, emulator::Kind::SWITCH);
    u64* words = reinterpret_cast<u64*>(own);
    const u64 low = load_shared(words);
    const Vector next = {low, load_shared(words + 1)};
    sum = first ? next : fold(operation, sum, next);
    first = false;
    emulator::point();
  }
  return sum;
}

inline void multicast_store(u8* place, Vector value) {
  const emulator::ThroughSwitch through;
  for (const uint64_t own : emulator::multicast_places(place)) {
    count_access(reinterpret_cast<void*>(own), 16, true, emulator::Kind::SWITCH);
    store_shared(reinterpret_cast<u64*>(own), value.low);
    store_shared(reinterpret_cast<u64*>(own) + 1, value.high);
    emulator::point();
  }
}

// As `load` and `store`, of a buffer table.
template <class T>
inline T load_control(const T* place) {
  return load(place, emulator::Kind::CONTROL);
}

template <class T>
inline void store_control(T* place, T value) {
  store(place, value, emulator::Kind::CONTROL);
}

inline void spin_pause() { emulator::spun(); }

inline void schedule_point() { emulator::point(); }
inline void note(const char* what, const void* place, u64 value) { emulator::note(what, place, value); }

inline u64 clock_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (u64)now.tv_sec * 1000000000ull + (u64)now.tv_nsec;
}

inline u32 float_bits(float value) {
  u32 bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float bits_float(u32 bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// Rounded to the nearest, half to even. A NaN is the caller's.
inline u16 float_to_brain(float value) {
  const u32 bits = float_bits(value);
  return (u16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline float half_to_float(u16 bits) {
  const u32 sign = (u32)(bits & 0x8000) << 16;
  const u32 exponent = bits >> 10 & 31;
  const u32 fraction = bits & 1023;
  if (exponent == 31) return bits_float(sign | 0x7f800000u | fraction << 13);
  if (exponent != 0) return bits_float(sign | (exponent + 112) << 23 | fraction << 13);
  // A fraction of 2^-24; exact.
  const float small = (float)fraction * 5.9604644775390625e-8f;
  return bits_float(sign | float_bits(small));
}

// Rounded to the nearest, half to even, as on GPUs.
inline u16 float_to_half(float value) {
  const u32 bits = float_bits(value);
  const u16 sign = (u16)(bits >> 16 & 0x8000);
  const u32 size = bits & 0x7fffffffu;
  if (size > 0x7f800000u) return (u16)(sign | 0x7fff);
  // 65520 and more round to infinity.
  if (size >= 0x477ff000u) return (u16)(sign | 0x7c00);
  if (size < 0x38800000u) {
    // Below 2^-14 halves are multiples of 2^-24, so adding a half rounds.
    const float shifted = bits_float(size) + 0.5f;
    return (u16)(sign | (float_bits(shifted) - 0x3f000000u));
  }
  const u32 rounded = size + 0xfff + (size >> 13 & 1);
  return (u16)(sign | (rounded - (112u << 23)) >> 13);
}

}  // namespace TOPO_NAMESPACE
