// Points of execution with stacks of their own, and switches between them. Compiled without
// sanitizers, which it informs.
#pragma once

#include <cstddef>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace emulator {

constexpr size_t STACK_BYTES = 64 << 10;

// Where an execution continues.
struct Execution {
#if defined(__x86_64__)
  void* stack_pointer = nullptr;
#else
  ucontext_t machine;
#endif
#ifdef TOPO_TSAN
  void* tsan = nullptr;
#endif
  // The lowest address of the stack.
  char* stack = nullptr;
};

// Whether an address is on the stack of an execution.
inline bool on_stack(const Execution& execution, const void* address) {
  const char* at = static_cast<const char*>(address);
  return execution.stack != nullptr && at >= execution.stack && at < execution.stack + STACK_BYTES;
}

// The execution of the calling thread.
Execution this_execution();

// Makes an execution that begins with a function, on this thread's stack of this number. The
// function must not return. Returns false if there is no memory for the stack.
bool begin(Execution& execution, size_t stack, void (*function)());

// Continues another execution; returns when something switches back.
void switch_to(Execution& from, Execution& to);

// Frees what sanitizers keep about an execution.
void forget(Execution& execution);

}  // namespace emulator
