// Reductions of 8-byte words, which hold 1 to 8 elements. The operation is known only at run time:
// all threads take the same branch, and memory is slower than it.
#pragma once

#include "element.cuh"

namespace TOPO_NAMESPACE {

template <class E>
union Word {
  static constexpr u32 COUNT = 8 / sizeof(typename E::Storage);
  u64 bits;
  typename E::Storage elements[COUNT];
};

// Whether the device adds and multiplies two elements at a time.
template <class E>
constexpr bool PAIRED = false;

// Sums and products of the elements of two words, for these types.
template <class E>
TOPO_DEVICE u64 add_pairs(u64 one, u64 other);
template <class E>
TOPO_DEVICE u64 multiply_pairs(u64 one, u64 other);

#define TOPO_WORDS(type, name, of_pair)                                                            \
  template <>                                                                                      \
  TOPO_DEVICE u64 name<type>(u64 one, u64 other) {                                                 \
    return of_pair((u32)one, (u32)other) | (u64)of_pair((u32)(one >> 32), (u32)(other >> 32)) << 32; \
  }
#ifdef TOPO_PAIRS_OF_HALVES
template <>
constexpr bool PAIRED<F16> = true;
TOPO_WORDS(F16, add_pairs, add_halves)
TOPO_WORDS(F16, multiply_pairs, multiply_halves)
#endif
#ifdef TOPO_PAIRS_OF_BRAINS
template <>
constexpr bool PAIRED<Bf16> = true;
TOPO_WORDS(Bf16, add_pairs, add_brains)
TOPO_WORDS(Bf16, multiply_pairs, multiply_brains)
#endif

template <class E>
TOPO_DEVICE u64 reduce_word(u32 operation, u64 one, u64 other) {
  Word<E> a, b;
  a.bits = one;
  b.bits = other;
  switch (operation) {
    case PRODUCT:
      if constexpr (PAIRED<E>) return multiply_pairs<E>(one, other);
      TOPO_UNROLL
      for (u32 i = 0; i < Word<E>::COUNT; i++)
        a.elements[i] = E::narrow(E::multiply(E::widen(a.elements[i]), E::widen(b.elements[i])));
      break;
    case MINIMUM:
      TOPO_UNROLL
      for (u32 i = 0; i < Word<E>::COUNT; i++)
        a.elements[i] = E::unchanged(E::minimum(E::widen(a.elements[i]), E::widen(b.elements[i])));
      break;
    case MAXIMUM:
      TOPO_UNROLL
      for (u32 i = 0; i < Word<E>::COUNT; i++)
        a.elements[i] = E::unchanged(E::maximum(E::widen(a.elements[i]), E::widen(b.elements[i])));
      break;
    default:
      if constexpr (PAIRED<E>) return add_pairs<E>(one, other);
      TOPO_UNROLL
      for (u32 i = 0; i < Word<E>::COUNT; i++)
        a.elements[i] = E::narrow(E::add(E::widen(a.elements[i]), E::widen(b.elements[i])));
  }
  return a.bits;
}

// Each element times the scalar, which is an element in the low bytes.
template <class E>
TOPO_DEVICE u64 multiply_word(u64 word, u64 scalar) {
  Word<E> a, factor;
  a.bits = word;
  factor.bits = scalar;
  if constexpr (PAIRED<E>) {
    TOPO_UNROLL
    for (u32 i = 1; i < Word<E>::COUNT; i++) factor.elements[i] = factor.elements[0];
    return multiply_pairs<E>(word, factor.bits);
  }
  TOPO_UNROLL
  for (u32 i = 0; i < Word<E>::COUNT; i++)
    a.elements[i] = E::narrow(E::multiply(E::widen(a.elements[i]), E::widen(factor.elements[0])));
  return a.bits;
}

template <class E>
TOPO_DEVICE u64 divide_word(u64 word, u32 by) {
  Word<E> a;
  a.bits = word;
  TOPO_UNROLL
  for (u32 i = 0; i < Word<E>::COUNT; i++) a.elements[i] = E::narrow(E::divide(E::widen(a.elements[i]), by));
  return a.bits;
}

template <>
TOPO_DEVICE u64 reduce_word<Moved>(u32, u64 one, u64) {
  return one;
}

template <>
TOPO_DEVICE u64 multiply_word<Moved>(u64 word, u64) {
  return word;
}

template <>
TOPO_DEVICE u64 divide_word<Moved>(u64 word, u32) {
  return word;
}

template <class E>
TOPO_DEVICE Vector reduce_vector(u32 operation, Vector one, Vector other) {
  return Vector{reduce_word<E>(operation, one.low, other.low), reduce_word<E>(operation, one.high, other.high)};
}

template <class E>
TOPO_DEVICE Vector multiply_vector(Vector value, u64 scalar) {
  return Vector{multiply_word<E>(value.low, scalar), multiply_word<E>(value.high, scalar)};
}

template <class E>
TOPO_DEVICE Vector divide_vector(Vector value, u32 by) {
  return Vector{divide_word<E>(value.low, by), divide_word<E>(value.high, by)};
}

// `bytes` bytes at a place that is aligned for elements: 8, or fewer at the end of a buffer, where
// the rest is 0.
template <class E>
TOPO_DEVICE u64 load_word(const u8* place, u64 bytes) {
  if (bytes >= 8 && ((u64)place & 7) == 0) return load((const u64*)place);
  if (bytes >= 8 && ((u64)place & 3) == 0) return load((const u32*)place) | (u64)load((const u32*)place + 1) << 32;
  Word<E> word;
  word.bits = 0;
  TOPO_UNROLL
  for (u32 i = 0; i < Word<E>::COUNT; i++)
    if ((i + 1) * sizeof(typename E::Storage) <= bytes) word.elements[i] = load((const typename E::Storage*)place + i);
  return word.bits;
}

template <class E>
TOPO_DEVICE void store_word(u8* place, u64 value, u64 bytes) {
  if (bytes >= 8 && ((u64)place & 7) == 0) {
    store((u64*)place, value);
    return;
  }
  if (bytes >= 8 && ((u64)place & 3) == 0) {
    store((u32*)place, (u32)value);
    store((u32*)place + 1, (u32)(value >> 32));
    return;
  }
  Word<E> word;
  word.bits = value;
  TOPO_UNROLL
  for (u32 i = 0; i < Word<E>::COUNT; i++)
    if ((i + 1) * sizeof(typename E::Storage) <= bytes) store((typename E::Storage*)place + i, word.elements[i]);
}

}  // namespace TOPO_NAMESPACE
