#include "fiber.h"

#include <sys/mman.h>

#include <vector>

#ifdef TOPO_ASAN
extern "C" void __asan_unpoison_memory_region(void const volatile*, size_t);
#endif
#ifdef TOPO_TSAN
extern "C" {
void* __tsan_create_fiber(unsigned);
void __tsan_destroy_fiber(void*);
void __tsan_switch_to_fiber(void*, unsigned);
void* __tsan_get_current_fiber();
}
#endif

namespace emulator {
namespace {

// Stacks of this thread, kept for the next launch.
struct Stacks {
  std::vector<char*> all;
  ~Stacks() {
    for (char* stack : all) munmap(stack, STACK_BYTES);
  }
  char* take(size_t number) {
    while (all.size() <= number) {
      void* stack = mmap(nullptr, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (stack == MAP_FAILED) return nullptr;
      all.push_back(static_cast<char*>(stack));
    }
    return all[number];
  }
};

thread_local Stacks stacks;

#if defined(__x86_64__)
extern "C" void topo_switch(void** from, void* to);
asm(R"(
.text
.p2align 4
.globl topo_switch
.hidden topo_switch
.type topo_switch, @function
topo_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size topo_switch, .-topo_switch
)");
#endif

}  // namespace

Execution this_execution() {
  Execution execution;
#ifdef TOPO_TSAN
  execution.tsan = __tsan_get_current_fiber();
#endif
  return execution;
}

bool begin(Execution& execution, size_t number, void (*function)()) {
  char* stack = stacks.take(number);
  if (stack == nullptr) return false;
  execution.stack = stack;
#ifdef TOPO_ASAN
  __asan_unpoison_memory_region(stack, STACK_BYTES);
#endif
#if defined(__x86_64__)
  void** top = reinterpret_cast<void**>(stack + STACK_BYTES);
  // As after a call: the stack above the return address is aligned to 16 bytes, and there is no
  // caller to return to.
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(function);
  for (int i = 0; i < 6; i++) *--top = nullptr;
  execution.stack_pointer = top;
#else
  getcontext(&execution.machine);
  execution.machine.uc_stack.ss_sp = stack;
  execution.machine.uc_stack.ss_size = STACK_BYTES;
  execution.machine.uc_link = nullptr;
  makecontext(&execution.machine, function, 0);
#endif
#ifdef TOPO_TSAN
  execution.tsan = __tsan_create_fiber(0);
#endif
  return true;
}

void switch_to(Execution& from, Execution& to) {
#ifdef TOPO_TSAN
  __tsan_switch_to_fiber(to.tsan, 1);
#endif
#if defined(__x86_64__)
  topo_switch(&from.stack_pointer, to.stack_pointer);
#else
  swapcontext(&from.machine, &to.machine);
#endif
}

void forget([[maybe_unused]] Execution& execution) {
#ifdef TOPO_TSAN
  if (execution.tsan != nullptr) __tsan_destroy_fiber(execution.tsan);
#endif
}

}  // namespace emulator
