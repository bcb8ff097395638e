/* Buffers in windows, which the switch reduces and stores where they are: `gpu_windows CASE RANKS
 * GPUS`. */
#include "gpu_memory.h"

/* `COUNT` numbers are so many that NVLS is chosen once memory is registered. */
enum { COUNT = 320 << 10, ODD = COUNT + 1, FEW = 1000 };

static uint32_t value(uint32_t of, uint32_t at, uint32_t round) {
    return (of + 1) * 2654435761u ^ (at * 40503u + round);
}

/* Elements of a rank's input and output. */
static uint32_t inputs(int collective, uint32_t count) {
    return collective == TOPO_REDUCE_SCATTER ? count * ranks : count;
}
static uint32_t outputs(int collective, uint32_t count) {
    return collective == TOPO_ALL_GATHER ? count * ranks : count;
}

static uint32_t expected(int collective, uint32_t count, uint32_t at, uint32_t round) {
    if (collective == TOPO_ALL_GATHER) return value(at / count, at % count, round);
    uint32_t sum = 0, offset = collective == TOPO_REDUCE_SCATTER ? rank * count : 0;
    for (uint32_t other = 0; other < ranks; other++) sum += value(other, offset + at, round);
    return sum;
}

static int any(const struct own *own, uint32_t says) {
    CHECK(topo_run(own->comm, TOPO_ALL_REDUCE, &says, &says, 1, TOPO_U32, TOPO_MAXIMUM, 0));
    return says != 0;
}

/* Runs a collective on buffers one behind the other, compares the result and 16 bytes behind it,
 * and returns whether it used registered memory where it is. */
static int run(struct own *own, int collective, uint64_t address, uint32_t count) {
    static __thread uint32_t numbers[COUNT * (MOST_RANKS + 1)], round;
    void *stream = own->streams[0];
    round++;
    uint32_t in = inputs(collective, count), out = outputs(collective, count);
    uint64_t output = address + (4 * (uint64_t)in + 15) / 16 * 16;
    for (uint32_t at = 0; at < in; at++) numbers[at] = value(rank, at, round);
    RIGHT(cuMemcpyHtoDAsync_v2(address, numbers, 4 * in, stream));
    RIGHT(cuMemsetD8Async(output, 7, 4 * out + 16, stream));
    RIGHT(cuStreamSynchronize(stream));
    any(own, 0);
    uint64_t before = topo_phantom_multicasts();
    any(own, 0);
    CHECK(topo_run_on(own->comm, collective, (void *)address, (void *)output, count, TOPO_U32, TOPO_SUM, 0,
                      stream));
    RIGHT(cuMemcpyDtoHAsync_v2(numbers, output, 4 * out + 16, stream));
    RIGHT(cuStreamSynchronize(stream));
    for (uint32_t at = 0; at < out; at++) EXPECT(numbers[at] == expected(collective, count, at, round));
    for (uint32_t at = out; at < out + 4; at++) EXPECT(numbers[at] == 0x07070707);
    any(own, 0);
    return topo_phantom_multicasts() > before;
}

/* The number of a window, or 0 and the reason that it has none. */
static uint32_t register_(const struct own *own, uint64_t address, size_t bytes, const char *reason) {
    uint32_t window = 0;
    int code = topo_comm_register(own->comm, (void *)address, bytes, &window);
    if (reason == NULL) {
        CHECK(code);
        EXPECT(window > 0);
        return window;
    }
    EXPECT(code == TOPO_INVALID);
    if (strstr(topo_last_error(), reason) == NULL) fprintf(stderr, "%s\n", topo_last_error());
    EXPECT(strstr(topo_last_error(), reason) != NULL);
    return 0;
}

/* Other memory at the same addresses. */
static void replace(const struct own *own, struct memory *it) {
    RIGHT(cuMemUnmap(it->base, it->bytes));
    map(own, it);
}

static const int collectives[] = {TOPO_ALL_REDUCE, TOPO_ALL_GATHER, TOPO_REDUCE_SCATTER};

/* Whether all collectives use registered memory where it is. */
static int all(struct own *own, uint64_t address, uint32_t count) {
    int found = 1;
    for (int i = 0; i < 3; i++) found &= run(own, collectives[i], address, count);
    return found;
}

static void windows(void) {
    struct own own = begin(0);
    size_t bytes = 4 * ((size_t)COUNT * (MOST_RANKS + 1) + 4096);
    struct memory one = allocate(&own, VIRTUAL, bytes), two = allocate(&own, VIRTUAL, bytes);
    struct memory plain = allocate(&own, PLAIN, 4096);
    int last = rank + 1 == ranks;
    EXPECT(!all(&own, one.base, COUNT));
    /* What cannot be registered is refused on all ranks, which stay usable. */
    register_(&own, plain.base, 4096, "cuMemCreate");
    register_(&own, last ? one.base + 16 : one.base, 4096, "registers 4096 bytes from byte 16 on");
    register_(&own, one.base, last ? 8192 : 4096, "registers 8192 bytes");
    register_(&own, one.base, one.bytes + 1, "are mapped");
    register_(&own, one.base, 0, "0 bytes");
    EXPECT(topo_comm_deregister(own.comm, 1) == TOPO_INVALID);
    EXPECT(!run(&own, TOPO_ALL_REDUCE, one.base, COUNT));
    /* From here on the switch reduces and stores the buffers, anywhere in them. */
    uint32_t window = register_(&own, one.base, one.bytes, NULL);
    EXPECT(all(&own, one.base, COUNT));
    EXPECT(all(&own, one.base + 4096, COUNT));
    /* Not buffers that are elsewhere on one rank, on all, or that have an odd end. */
    EXPECT(!run(&own, TOPO_ALL_REDUCE, last ? one.base + 64 : one.base, COUNT));
    EXPECT(!run(&own, TOPO_ALL_REDUCE, last ? two.base : one.base, COUNT));
    EXPECT(!run(&own, TOPO_ALL_REDUCE, two.base, COUNT));
    EXPECT(!run(&own, TOPO_ALL_REDUCE, one.base, ODD));
    EXPECT(!run(&own, TOPO_ALL_REDUCE, one.base, FEW));
    EXPECT(!run(&own, TOPO_ALL_REDUCE, one.base + 4, COUNT));
    /* A part of memory that begins where no granule does. */
    EXPECT(register_(&own, two.base + 48, two.bytes - 48, NULL) != window);
    EXPECT(all(&own, two.base + 48, COUNT));
    EXPECT(all(&own, one.base, COUNT));
    /* Other memory at the addresses of a window is not taken for it. */
    CHECK(ended(&own));
    any(&own, 0);
    replace(&own, &one);
    EXPECT(!run(&own, TOPO_ALL_REDUCE, one.base, COUNT));
    CHECK(topo_comm_deregister(own.comm, window));
    EXPECT(topo_comm_deregister(own.comm, window) == TOPO_INVALID);
    EXPECT(register_(&own, one.base, one.bytes, NULL) == window);
    EXPECT(all(&own, one.base, COUNT));
    /* A window of memory that is gone does not hide a new one. */
    CHECK(ended(&own));
    any(&own, 0);
    replace(&own, &one);
    uint32_t later = register_(&own, one.base, one.bytes, NULL);
    EXPECT(later != window && all(&own, one.base, COUNT));
    CHECK(topo_comm_deregister(own.comm, later));
    CHECK(topo_comm_deregister(own.comm, window));
    EXPECT(!run(&own, TOPO_ALL_REDUCE, one.base, COUNT));
    EXPECT(run(&own, TOPO_ALL_REDUCE, two.base + 48, COUNT));
    /* Ranks that do not deregister alike cannot register alike. */
    uint32_t three = register_(&own, one.base, one.bytes, NULL), four = register_(&own, one.base, 4096, NULL);
    CHECK(topo_comm_deregister(own.comm, last ? three : four));
    register_(&own, one.base, 4096, "as window");
    CHECK(topo_comm_deregister(own.comm, last ? four : three));
    CHECK(ended(&own));
    any(&own, 0);
    release(&one);
    release(&two);
    release(&plain);
    end(&own);
}

/* A window of the second mapping of a reservation. Other memory there is not taken for it, although
 * the first mapping stays. */
static void mappings(void) {
    struct own own = begin(0);
    uint64_t base = reserve();
    struct memory first = map_granules(&own, base, 0, 1), second = map_granules(&own, base, 1, 4);
    register_(&own, base, RESERVED, "are mapped");
    register_(&own, base, 2 * GRANULARITY, "are mapped");
    uint32_t window = register_(&own, second.base, second.bytes, NULL);
    EXPECT(all(&own, second.base, COUNT));
    CHECK(ended(&own));
    any(&own, 0);
    replace(&own, &second);
    EXPECT(!run(&own, TOPO_ALL_REDUCE, second.base, COUNT));
    EXPECT(!run(&own, TOPO_ALL_GATHER, second.base, COUNT));
    uint32_t later = register_(&own, second.base, second.bytes, NULL);
    EXPECT(all(&own, second.base, COUNT));
    /* The first mapping is not needed. */
    CHECK(ended(&own));
    any(&own, 0);
    RIGHT(cuMemUnmap(first.base, first.bytes));
    EXPECT(all(&own, second.base, COUNT));
    CHECK(topo_comm_deregister(own.comm, window));
    CHECK(topo_comm_deregister(own.comm, later));
    EXPECT(register_(&own, second.base, second.bytes, NULL) > 0);
    EXPECT(all(&own, second.base, COUNT));
    CHECK(ended(&own));
    any(&own, 0);
    RIGHT(cuMemUnmap(second.base, second.bytes));
    RIGHT(cuMemAddressFree(base, RESERVED));
    end(&own);
}

/* Where the GPUs have no multicast, and where there is one rank. */
static void without(void) {
    struct own own = begin(0);
    struct memory memory = allocate(&own, VIRTUAL, 4 * (size_t)COUNT * (MOST_RANKS + 1) + 4096);
    register_(&own, memory.base, memory.bytes, ranks == 1 ? NULL : "multicast");
    EXPECT(!all(&own, memory.base, COUNT));
    CHECK(ended(&own));
    any(&own, 0);
    release(&memory);
    end(&own);
}

/* The multicast of scratch memory cannot be made on a rank: all ranks do without, also later. */
static void fall_back(void) {
    struct own own = begin(0);
    struct memory memory = allocate(&own, VIRTUAL, 4 * (size_t)COUNT * (MOST_RANKS + 1) + 4096);
    uint32_t window = register_(&own, memory.base, memory.bytes, NULL);
    for (int i = 0; i < 2; i++)
        for (int kind = 0; kind < 3; kind++) EXPECT(!run(&own, collectives[kind], memory.base, COUNT));
    CHECK(topo_comm_deregister(own.comm, window));
    CHECK(ended(&own));
    any(&own, 0);
    release(&memory);
    end(&own);
}

int main(int count, char **arguments) {
    static const struct named_case cases[] = {
        {"processes", windows, 1}, {"threads", windows, 0}, {"both", windows, 2}, {"without", without, 1},
        {"mappings", mappings, 1}, {"fall_back", fall_back, 1}, {"fall_back_together", fall_back, 0}};
    return run_case(cases, sizeof cases / sizeof *cases, count, arguments);
}
