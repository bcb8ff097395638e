// Types of elements: how they are reduced. Integers wrap around; 16-bit floats are reduced as
// 32-bit ones.
#pragma once

#include "device.cuh"

namespace TOPO_NAMESPACE {

// `MULTICAST`: the type with which a switch reduces such elements. `Unsigned`: an unsigned type
// that wraps as the element does. `Divided`: the type in which it is divided. `unchanged`: as
// `narrow`, of a value that was widened.
template <class S, class Unsigned, class Divided>
struct Integer {
  typedef S Storage;
  typedef S Wide;
  // Types whose arithmetic needs so many registers that only few words are processed at a time.
  static constexpr bool SMALL = sizeof(S) == 1;
  static constexpr bool LARGE = false;
  static constexpr Reduced MULTICAST = sizeof(S) == 1   ? NOT_REDUCED
                                       : sizeof(S) == 4 ? ((S)-1 < 0 ? SIGNED_32 : UNSIGNED_32)
                                                        : ((S)-1 < 0 ? SIGNED_64 : UNSIGNED_64);
  TOPO_DEVICE static S widen(S value) { return value; }
  TOPO_DEVICE static S narrow(S value) { return value; }
  TOPO_DEVICE static S unchanged(S value) { return value; }
  TOPO_DEVICE static S add(S a, S b) { return (S)((Unsigned)a + (Unsigned)b); }
  TOPO_DEVICE static S multiply(S a, S b) { return (S)((Unsigned)a * (Unsigned)b); }
  TOPO_DEVICE static S minimum(S a, S b) { return a < b ? a : b; }
  TOPO_DEVICE static S maximum(S a, S b) { return a > b ? a : b; }
  TOPO_DEVICE static S divide(S value, u32 by) { return (S)((Divided)value / (Divided)by); }
};

// The minimum and maximum of a number and NaN are the number.
template <class F>
struct Floating {
  typedef F Wide;
  static constexpr bool SMALL = false;
  static constexpr bool LARGE = sizeof(F) == 8;
  TOPO_DEVICE static F add(F a, F b) { return a + b; }
  TOPO_DEVICE static F multiply(F a, F b) { return a * b; }
  TOPO_DEVICE static F minimum(F a, F b) { return a < b || b != b ? a : b; }
  TOPO_DEVICE static F maximum(F a, F b) { return a > b || b != b ? a : b; }
  TOPO_DEVICE static F divide(F value, u32 by) { return value / (F)by; }
};

template <class F>
struct Plain : Floating<F> {
  static constexpr Reduced MULTICAST = sizeof(F) == 4 ? SINGLE : DOUBLE;
  typedef F Storage;
  TOPO_DEVICE static F widen(F value) { return value; }
  TOPO_DEVICE static F narrow(F value) { return value; }
  TOPO_DEVICE static F unchanged(F value) { return value; }
};

typedef Integer<i8, u32, i32> I8;
typedef Integer<u8, u32, u32> U8;
typedef Integer<i32, u32, i32> I32;
typedef Integer<u32, u32, u32> U32;
typedef Integer<i64, u64, i64> I64;
typedef Integer<u64, u64, u64> U64;
typedef Plain<float> F32;
typedef Plain<double> F64;

struct F16 : Floating<float> {
  static constexpr Reduced MULTICAST = HALF;
  typedef u16 Storage;
  TOPO_DEVICE static u16 unchanged(float value) { return narrow(value); }
  TOPO_DEVICE static float widen(u16 bits) { return half_to_float(bits); }
  TOPO_DEVICE static u16 narrow(float value) { return float_to_half(value); }
};

struct Bf16 : Floating<float> {
  static constexpr Reduced MULTICAST = BRAIN;
  typedef u16 Storage;
  TOPO_DEVICE static float widen(u16 bits) { return bits_float((u32)bits << 16); }
  // A NaN stays a NaN, although its low bits are cut off.
  TOPO_DEVICE static u16 narrow(float value) { return value != value ? unchanged(value) : float_to_brain(value); }
  TOPO_DEVICE static u16 unchanged(float value) {
    return (u16)(float_bits(value) >> 16 | (value != value ? 0x40 : 0));
  }
};

// Bytes that are only moved.
struct Moved {
  typedef u8 Storage;
  static constexpr bool SMALL = false;
  static constexpr bool LARGE = false;
  static constexpr Reduced MULTICAST = NOT_REDUCED;
};

}  // namespace TOPO_NAMESPACE
