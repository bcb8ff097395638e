// What kernels call that are compiled with checks: GCC's option for ThreadSanitizer inserts these
// calls before loads and stores, and here they ask whether the access is allowed. With the real
// ThreadSanitizer no kernel is compiled so.
#ifndef TOPO_TSAN

#include "emulator.h"

using emulator::touch;

#define TOPO_ACCESS(bytes)                                                                    \
  void __tsan_read##bytes(void* place) { touch(place, bytes, false); }                        \
  void __tsan_write##bytes(void* place) { touch(place, bytes, true); }                        \
  void __tsan_unaligned_read##bytes(void* place) { touch(place, bytes, false); }              \
  void __tsan_unaligned_write##bytes(void* place) { touch(place, bytes, true); }

#define TOPO_ATOMIC(bits)                                                                     \
  uint##bits##_t __tsan_atomic##bits##_load(const uint##bits##_t* place, int) {               \
    touch(place, bits / 8, false);                                                            \
    return __atomic_load_n(place, __ATOMIC_SEQ_CST);                                          \
  }                                                                                           \
  void __tsan_atomic##bits##_store(uint##bits##_t* place, uint##bits##_t value, int) {        \
    touch(place, bits / 8, true);                                                             \
    __atomic_store_n(place, value, __ATOMIC_SEQ_CST);                                         \
  }

extern "C" {
TOPO_ACCESS(1)
TOPO_ACCESS(2)
TOPO_ACCESS(4)
TOPO_ACCESS(8)
TOPO_ACCESS(16)
TOPO_ATOMIC(8)
TOPO_ATOMIC(16)
TOPO_ATOMIC(32)
TOPO_ATOMIC(64)
void __tsan_read_range(void* place, size_t bytes) { touch(place, bytes, false); }
void __tsan_write_range(void* place, size_t bytes) { touch(place, bytes, true); }
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
}

#endif
