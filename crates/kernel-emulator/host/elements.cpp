// Arithmetic of 16-bit floats in words, for a test.
#define TOPO_NAMESPACE topo_elements
#define TOPO_WEAK 0

#include "reduce.cuh"

#include <cstddef>

// Reduces words of four elements. `brain`: they are bf16, else f16.
extern "C" void topo_reduce(int brain, uint32_t operation, const uint64_t* ones, const uint64_t* others,
                            uint64_t* results, size_t count) {
  using namespace topo_elements;
  for (size_t i = 0; i < count; i++)
    results[i] =
        brain ? reduce_word<Bf16>(operation, ones[i], others[i]) : reduce_word<F16>(operation, ones[i], others[i]);
}

// Rounds 32-bit floats, given by their bits, to 16 bits.
extern "C" void topo_narrow(int brain, const uint32_t* floats, uint16_t* results, size_t count) {
  using namespace topo_elements;
  for (size_t i = 0; i < count; i++) {
    const float value = bits_float(floats[i]);
    results[i] = brain ? Bf16::narrow(value) : F16::narrow(value);
  }
}
