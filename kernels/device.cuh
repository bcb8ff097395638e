// Threads, barriers and memory. The only file that depends on the compiler: NVIDIA's for GPUs, or
// the host's for the emulator (crates/kernel-emulator/host/device_host.h).
#pragma once

#ifndef TOPO_NAMESPACE
#define TOPO_NAMESPACE topo
#endif

#include "arguments.h"

namespace TOPO_NAMESPACE {

// The element type with which a switch reduces a vector.
enum Reduced : u32 {
  NOT_REDUCED, UNSIGNED_32, SIGNED_32, UNSIGNED_64, SIGNED_64, HALF, BRAIN, SINGLE, DOUBLE
};

}  // namespace TOPO_NAMESPACE

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

#define TOPO_DEVICE __device__ __forceinline__
#define TOPO_UNROLL _Pragma("unroll")
#define TOPO_ROLLED _Pragma("unroll 1")
// Blocks of a multiprocessor. For compute capability 8.6, 8.9 and 12.0 the compiler needs more
// registers; one block there has enough bytes in flight for their memory.
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ == 860 || __CUDA_ARCH__ == 890 || __CUDA_ARCH__ >= 1200)
#define TOPO_BLOCKS 1
#else
#define TOPO_BLOCKS 2
#endif
#define TOPO_ENTRY(name, body)                                                                          \
  extern "C" __global__ void __launch_bounds__(448, TOPO_BLOCKS)                                        \
      name(const __grid_constant__ TOPO_NAMESPACE::Launch launch) {                                     \
    __shared__ TOPO_NAMESPACE::Shared shared;                                                           \
    body(launch, shared);                                                                               \
  }

namespace TOPO_NAMESPACE {

TOPO_DEVICE u32 thread() { return threadIdx.x; }
TOPO_DEVICE u32 threads() { return blockDim.x; }
// The same, read again: that costs less than to keep them where registers are few.
TOPO_DEVICE u32 thread_again() {
  u32 value;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(value));
  return value;
}

TOPO_DEVICE u32 threads_again() {
  u32 value;
  asm volatile("mov.u32 %0, %%ntid.x;" : "=r"(value));
  return value;
}

TOPO_DEVICE u32 block() { return blockIdx.x; }

// Waits until `count` threads have arrived; all their earlier memory accesses are then visible.
// Threads of a warp may arrive one after the other, which the forms `bar` do not allow.
TOPO_DEVICE void barrier_sync(u32 barrier, u32 count) {
  asm volatile("barrier.sync %0, %1;" ::"r"(barrier), "r"(count) : "memory");
}

// Arrives at a barrier without waiting.
TOPO_DEVICE void barrier_arrive(u32 barrier, u32 count) {
  asm volatile("barrier.arrive %0, %1;" ::"r"(barrier), "r"(count) : "memory");
}

// All 32 threads of the warp must call these.
TOPO_DEVICE void warp_sync() { __syncwarp(); }
TOPO_DEVICE bool warp_all(bool yes) { return __all_sync(0xffffffffu, yes); }

TOPO_DEVICE u64 address_of(const void* pointer) { return __cvta_generic_to_global(pointer); }

// Once this has read the value of a `store_release`, this thread, and all threads that meet it at a
// barrier, see everything that the writer wrote before. `system`: all GPUs and processors.
TOPO_DEVICE u64 load_acquire(const u64* word) {
  u64 value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(address_of(word)) : "memory");
  return value;
}

TOPO_DEVICE void store_release(u64* word, u64 value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(address_of(word)), "l"(value) : "memory");
}

TOPO_DEVICE u32 load_volatile(const u32* word) {
  u32 value;
  asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(value) : "l"(address_of(word)) : "memory");
  return value;
}

// A word of shared memory that several threads may store at once.
TOPO_DEVICE u32 load_flag(const u32* word) { return *(const volatile u32*)word; }
TOPO_DEVICE void store_flag(u32* word, u32 value) { *(volatile u32*)word = value; }

// Other blocks see these stores only after a `store_release`; this block sees others' only after a
// `load_acquire`.
template <class T>
TOPO_DEVICE T load(const T* place) {
  return *place;
}

template <class T>
TOPO_DEVICE void store(T* place, T value) {
  *place = value;
}

// As `load` and `store`, of a buffer table; the emulator counts them apart.
template <class T>
TOPO_DEVICE T load_control(const T* place) {
  return *place;
}

template <class T>
TOPO_DEVICE void store_control(T* place, T value) {
  *place = value;
}

// 16 bytes at an address that is a multiple of 16.
struct Vector {
  u64 low, high;
};

TOPO_DEVICE Vector load_vector(const u8* place) {
  Vector value;
  asm volatile("ld.global.v2.u64 {%0, %1}, [%2];" : "=l"(value.low), "=l"(value.high) : "l"(address_of(place)));
  return value;
}

TOPO_DEVICE void store_vector(u8* place, Vector value) {
  asm volatile("st.global.v2.u64 [%0], {%1, %2};" ::"l"(address_of(place)), "l"(value.low), "l"(value.high)
               : "memory");
}

// An LL line: {data, flag, data, flag}; each half is stored and loaded as a whole.
TOPO_DEVICE void store_line(u8* place, u64 data, u32 flag) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %2};" ::"l"(address_of(place)), "r"((u32)data),
               "r"(flag), "r"((u32)(data >> 32))
               : "memory");
}

// Loads COUNT lines, `step` bytes apart, and takes their data. Returns whether all have the flag.
template <u32 COUNT>
TOPO_DEVICE bool load_lines(const u8* place, u64 step, u32 flag, u64 (&data)[COUNT]) {
  u32 first[COUNT], second[COUNT];
  TOPO_UNROLL
  for (u32 i = 0; i < COUNT; i++) {
    u32 low, high;
    asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(low), "=r"(first[i]), "=r"(high), "=r"(second[i])
                 : "l"(address_of(place + i * step))
                 : "memory");
    data[i] = low | (u64)high << 32;
  }
  bool all = true;
  TOPO_UNROLL
  for (u32 i = 0; i < COUNT; i++) all = all && first[i] == flag && second[i] == flag;
  return all;
}

// A thread's 16 bytes of an LL128 line; with `carries`, the last 8 are the flag. All threads of the
// warp call this together, so that a line is stored as a whole.
TOPO_DEVICE void store_line_part(u8* place, u64 low, u64 high, bool active, bool carries) {
  (void)carries;
  // A line is one store only if its threads store together.
  __syncwarp();
  if (active) {
    asm volatile("st.volatile.global.v2.u64 [%0], {%1, %2};" ::"l"(address_of(place)), "l"(low), "l"(high)
                 : "memory");
  }
}

TOPO_DEVICE void load_line_part(const u8* place, u64& low, u64& high, bool carries) {
  (void)carries;
  asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(low), "=l"(high)
               : "l"(address_of(place))
               : "memory");
}

// Makes stores through one address of a place visible through its other addresses, to everything
// ordered after this.
TOPO_DEVICE void alias_fence() { asm volatile("fence.proxy.alias;" ::: "memory"); }

// Multicast needs compute capability 9.0.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

#define TOPO_REDUCE_VECTOR(what)                                                        \
  asm volatile("multimem.ld_reduce.relaxed.sys.global." what " {%0, %1, %2, %3}, [%4];" \
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])         \
               : "l"(address_of(place))                                                 \
               : "memory")
#define TOPO_REDUCE_32(what)                                                \
  TOPO_UNROLL                                                               \
  for (u32 i = 0; i < 4; i++)                                               \
    asm volatile("multimem.ld_reduce.relaxed.sys.global." what " %0, [%1];" \
                 : "=r"(words[i])                                           \
                 : "l"(address_of(place + 4 * i))                           \
                 : "memory")
#define TOPO_REDUCE_64(what)                                              \
  asm volatile("multimem.ld_reduce.relaxed.sys.global." what " %0, [%1];" \
               : "=l"(value.low)                                          \
               : "l"(address_of(place))                                   \
               : "memory");                                               \
  asm volatile("multimem.ld_reduce.relaxed.sys.global." what " %0, [%1];" \
               : "=l"(value.high)                                         \
               : "l"(address_of(place + 8))                               \
               : "memory")

// The 16 bytes at a place of all ranks, reduced. The host checks that the switch has this operation
// for this type.
template <class E, class Fold>
TOPO_DEVICE Vector multicast_load(const u8* place, u32 operation, Fold) {
  Vector value = {};
  if (E::MULTICAST == UNSIGNED_64 || E::MULTICAST == SIGNED_64 || E::MULTICAST == DOUBLE) {
    if (E::MULTICAST == DOUBLE) {
      TOPO_REDUCE_64("add.f64");
    } else if (operation == SUM) {
      TOPO_REDUCE_64("add.u64");
    } else if (E::MULTICAST == UNSIGNED_64) {
      if (operation == MINIMUM) {
        TOPO_REDUCE_64("min.u64");
      } else {
        TOPO_REDUCE_64("max.u64");
      }
    } else if (operation == MINIMUM) {
      TOPO_REDUCE_64("min.s64");
    } else {
      TOPO_REDUCE_64("max.s64");
    }
    return value;
  }
  u32 words[4] = {};
  if (E::MULTICAST == HALF) {
    if (operation == MINIMUM) {
      TOPO_REDUCE_VECTOR("min.v4.f16x2");
    } else if (operation == MAXIMUM) {
      TOPO_REDUCE_VECTOR("max.v4.f16x2");
    } else {
      TOPO_REDUCE_VECTOR("add.acc::f32.v4.f16x2");
    }
  } else if (E::MULTICAST == BRAIN) {
    if (operation == MINIMUM) {
      TOPO_REDUCE_VECTOR("min.v4.bf16x2");
    } else if (operation == MAXIMUM) {
      TOPO_REDUCE_VECTOR("max.v4.bf16x2");
    } else {
      TOPO_REDUCE_VECTOR("add.acc::f32.v4.bf16x2");
    }
  } else if (E::MULTICAST == SINGLE) {
    TOPO_REDUCE_VECTOR("add.v4.f32");
  } else if (E::MULTICAST == UNSIGNED_32 || E::MULTICAST == SIGNED_32) {
    if (operation == SUM) {
      TOPO_REDUCE_32("add.u32");
    } else if (E::MULTICAST == UNSIGNED_32) {
      if (operation == MINIMUM) {
        TOPO_REDUCE_32("min.u32");
      } else {
        TOPO_REDUCE_32("max.u32");
      }
    } else if (operation == MINIMUM) {
      TOPO_REDUCE_32("min.s32");
    } else {
      TOPO_REDUCE_32("max.s32");
    }
  }
  value.low = words[0] | (u64)words[1] << 32;
  value.high = words[2] | (u64)words[3] << 32;
  return value;
}

// Stores 16 bytes at a place of all ranks. The type only makes them four parts.
TOPO_DEVICE void multicast_store(u8* place, Vector value) {
  asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(address_of(place)),
               "r"((u32)value.low), "r"((u32)(value.low >> 32)), "r"((u32)value.high), "r"((u32)(value.high >> 32))
               : "memory");
}

#else

// Programs of such a device use no multicast.
template <class E, class Fold>
TOPO_DEVICE Vector multicast_load(const u8*, u32, Fold) {
  return Vector{};
}

TOPO_DEVICE void multicast_store(u8*, Vector) {}

#endif

// Between two polls of memory that another thread writes.
TOPO_DEVICE void spin_pause() {}

// Where the emulator may switch threads; nothing on a GPU.
TOPO_DEVICE void schedule_point() {}

// Tells the emulator that a step begins, and whether it is direct; nothing on a GPU.
TOPO_DEVICE void count_step(bool) {}

// Tells the emulator that a step uses an end, and whether shared memory has it; nothing on a GPU.
TOPO_DEVICE void count_end(bool) {}

// Tells the emulator that what this thread has loaded is used; nothing on a GPU.
TOPO_DEVICE void count_used() {}

// Records what this thread waits for, for a report; nothing on a GPU.
TOPO_DEVICE void note(const char*, const void*, u64) {}

// Time since an unknown start, equal for all blocks, ns.
TOPO_DEVICE u64 clock_ns() {
  u64 time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}

TOPO_DEVICE float half_to_float(u16 bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

TOPO_DEVICE u16 float_to_half(float value) {
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

TOPO_DEVICE u32 float_bits(float value) { return __float_as_uint(value); }
TOPO_DEVICE float bits_float(u32 bits) { return __uint_as_float(bits); }

// Sums and products of two 16-bit floats, one in each half of a word. They are rounded once. That
// gives the bits of a 32-bit result that is rounded to 16 bits: 24 bits are at least two more than
// twice those of either type, so the first rounding never decides the second one. A NaN is 0x7fff
// both ways.
#define TOPO_PAIRS_OF_HALVES
#define TOPO_PAIR(name, operation)                                                           \
  TOPO_DEVICE u32 name(u32 one, u32 other) {                                                 \
    u32 result;                                                                              \
    asm(operation : "=r"(result) : "r"(one), "r"(other));                                    \
    return result;                                                                           \
  }
TOPO_PAIR(add_halves, "add.rn.f16x2 %0, %1, %2;")
TOPO_PAIR(multiply_halves, "mul.rn.f16x2 %0, %1, %2;")
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define TOPO_PAIRS_OF_BRAINS
#if __CUDA_ARCH__ >= 900
TOPO_PAIR(add_brains, "add.rn.bf16x2 %0, %1, %2;")
TOPO_PAIR(multiply_brains, "mul.rn.bf16x2 %0, %1, %2;")
#else
// Times 1, and plus -0: both change nothing.
TOPO_PAIR(add_brains, "{ .reg .b32 one; mov.b32 one, 0x3f803f80; fma.rn.bf16x2 %0, %1, one, %2; }")
TOPO_PAIR(multiply_brains, "{ .reg .b32 zero; mov.b32 zero, 0x80008000; fma.rn.bf16x2 %0, %1, %2, zero; }")
#endif

// Rounds to the nearest, half to even. Every NaN becomes 0x7fff.
TOPO_DEVICE u16 float_to_brain(float value) {
  u16 bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
#else
TOPO_DEVICE u16 float_to_brain(float value) {
  const u32 bits = float_bits(value);
  return (u16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
#endif

}  // namespace TOPO_NAMESPACE

#else
#include "host/device_host.h"
#endif
