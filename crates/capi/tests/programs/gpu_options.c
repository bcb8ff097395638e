/* Ranks that join with the plan of PLAN_FILE, if it is set, add numbers once: `gpu_options CASE
 * RANKS GPUS`. */
#include "gpu_memory.h"

enum { COUNT = 16 << 10 };

static void adds(void) {
    static __thread uint32_t numbers[COUNT];
    struct own own = begin(0);
    struct memory memory = allocate(&own, PLAIN, sizeof numbers);
    for (uint32_t at = 0; at < COUNT; at++) numbers[at] = at * (rank + 1);
    RIGHT(cuMemcpyHtoDAsync_v2(memory.base, numbers, sizeof numbers, own.streams[0]));
    void *address = (void *)memory.base;
    CHECK(topo_run_on(own.comm, TOPO_ALL_REDUCE, address, address, COUNT, TOPO_U32, TOPO_SUM, 0, own.streams[0]));
    RIGHT(cuMemcpyDtoHAsync_v2(numbers, memory.base, sizeof numbers, own.streams[0]));
    RIGHT(cuStreamSynchronize(own.streams[0]));
    for (uint32_t at = 0; at < COUNT; at++) EXPECT(numbers[at] == at * (ranks * (ranks + 1) / 2));
    CHECK(ended(&own));
    release(&memory);
    end(&own);
}

int main(int count, char **arguments) {
    static const struct named_case cases[] = {{"processes", adds, 1}, {"threads", adds, 0}};
    return run_case(cases, sizeof cases / sizeof *cases, count, arguments);
}
