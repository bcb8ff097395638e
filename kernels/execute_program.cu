// The kernels: each runs the lanes of bound programs, one block per lane, or several blocks with a
// share of it each.
#include "roles.cuh"

namespace TOPO_NAMESPACE {

template <class E>
TOPO_DEVICE void execute(const Launch& launch, Shared& shared) {
  const Part* parts = launch.more != nullptr ? launch.more : launch.parts;
  u32 own = block();
  u32 index = 0;
  for (; index < launch.count; index++) {
    const u32 blocks = parts[index].lane_count * parts[index].shares;
    if (own < blocks) break;
    own -= blocks;
  }
  if (index == launch.count) return;
  const Part& part = parts[index];
  const u32 lane = own / part.shares;
  const u32 role = thread() / WARP;
  if (role == WAITER) {
    const bool speaks = thread() % WARP == 0;
    if (speaks && part.profile != nullptr) part.profile[2 * own] = clock_ns();
    if (speaks && own == 0 && part.buffer_table != nullptr) {
      for (u32 i = 0; i < 3; i++) store_control(&part.buffer_table->buffers[i], (u64)part.buffers[i] - part.origins[i]);
      store_release(&part.buffer_table->launch, part.launch);
    }
    Waiter(part, lane, own % part.shares, shared, launch.abort).run();
    if (speaks && part.profile != nullptr) part.profile[2 * own + 1] = clock_ns();
  } else if (role == POSTER) {
    post(shared);
  } else if (part.protocol == SIMPLE) {
    work<Simple, E>(shared);
  } else if (part.protocol == LL) {
    work<LowLatency, E>(shared);
  } else {
    work<LowLatency128, E>(shared);
  }
}

}  // namespace TOPO_NAMESPACE

// If no types are chosen, all types of elements.
#ifndef TOPO_ELEMENTS
#define TOPO_ELEMENTS(entry) \
  entry(move, Moved) entry(i8, I8) entry(u8, U8) entry(i32, I32) entry(u32, U32) entry(i64, I64) entry(u64, U64) \
      entry(f16, F16) entry(bf16, Bf16) entry(f32, F32) entry(f64, F64)
#endif

#ifndef TOPO_NAME
#define TOPO_NAME(name) topo_run_##name
#endif
#define TOPO_ONE(name, type) TOPO_ENTRY(TOPO_NAME(name), TOPO_NAMESPACE::execute<TOPO_NAMESPACE::type>)
TOPO_ELEMENTS(TOPO_ONE)
