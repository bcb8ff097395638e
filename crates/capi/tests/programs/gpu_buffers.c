/* Buffers that other processes access where they are: `gpu_buffers CASE RANKS GPUS`. */
#include "gpu_memory.h"

/* `COUNT` numbers are moved directly, and so are `FEW`. */
enum { COUNT = 64 << 10, FEW = 20 << 10, MANY = 70, RUNS = 10, MOST_TRIES = 100 };
/* Other memory at the same addresses. */
static void replace(const struct own *own, struct memory *it) {
    uint64_t before = it->base;
    if (it->kind == PLAIN) {
        RIGHT(cuMemFree_v2(it->base));
        RIGHT(cuMemAlloc_v2(&it->base, it->bytes));
    } else {
        RIGHT(cuMemUnmap(it->base, it->bytes));
        map(own, it);
    }
    EXPECT(it->base == before);
}

static uint32_t value(uint32_t of, uint32_t at, uint32_t round) {
    return (of + 1) * 2654435761u ^ (at * 40503u + round);
}

/* Whether no thread of this process copies beside this one. */
static int alone;

/* Runs a collective on numbers of this round, compares the result, and returns the copies of this
 * process. The input of an all-gather is behind its output. */
static uint64_t run(struct own *own, int collective, uint64_t address, uint32_t count) {
    static __thread uint32_t numbers[COUNT * MOST_RANKS], round;
    void *stream = own->streams[0];
    round++;
    uint32_t total = collective == TOPO_ALL_GATHER ? count * ranks : count;
    uint64_t input = collective == TOPO_ALL_GATHER ? address + 4 * total : address;
    for (uint32_t at = 0; at < count; at++) numbers[at] = value(rank, at, round);
    RIGHT(cuMemcpyHtoDAsync_v2(input, numbers, 4 * count, stream));
    RIGHT(cuStreamSynchronize(stream));
    uint64_t before = topo_phantom_copied(0), bytes = topo_phantom_copied(1);
    CHECK(topo_run_on(own->comm, collective, (void *)input, (void *)address, count, TOPO_U32, TOPO_SUM, 0,
                      stream));
    uint64_t copies = topo_phantom_copied(0) - before;
    bytes = topo_phantom_copied(1) - bytes;
    EXPECT(!alone || bytes == 4 * ((uint64_t)count + total) * (copies / 2));
    RIGHT(cuMemcpyDtoHAsync_v2(numbers, address, 4 * total, stream));
    RIGHT(cuStreamSynchronize(stream));
    for (uint32_t at = 0; at < total; at++) {
        uint32_t expected = 0;
        for (uint32_t other = 0; other < ranks; other++) expected += value(other, at, round);
        if (collective == TOPO_ALL_GATHER) expected = value(at / count, at % count, round);
        EXPECT(numbers[at] == expected);
    }
    return copies;
}

/* Whether any rank says yes. */
static int any(const struct own *own, uint32_t says) {
    CHECK(topo_run(own->comm, TOPO_ALL_REDUCE, &says, &says, 1, TOPO_U32, TOPO_MAXIMUM, 0));
    return says != 0;
}

/* Runs until no rank copies, if others open the memory; otherwise every run copies. Returns 0 if
 * it is not so. */
static int settles(struct own *own, int collective, uint64_t address, uint32_t count, int opens) {
    for (int tries = 0; tries < MOST_TRIES; tries++) {
        if (!any(own, run(own, collective, address, count) > 0)) return opens;
        usleep(2000);
    }
    return !opens;
}

/* Collectives on memory of a kind, which others open or not. */
static void on_memory(enum kind kind, int opens) {
    struct own own = begin(0);
    size_t bytes = 4 * COUNT * (MOST_RANKS + 2);
    struct memory memory = allocate(&own, kind, bytes), many[MANY];
    /* The first time it is copied into the window and out of it. */
    uint64_t first = run(&own, TOPO_ALL_REDUCE, memory.base, COUNT);
    EXPECT(!alone || first == 2);
    EXPECT(settles(&own, TOPO_ALL_REDUCE, memory.base, COUNT, opens));
    uint64_t copies = 0;
    int waits = topo_phantom_waits();
    for (int i = 0; i < RUNS; i++) copies += run(&own, TOPO_ALL_REDUCE, memory.base, COUNT);
    EXPECT(!alone || copies == (opens ? 0 : 2 * RUNS));
    /* The calls of this program that wait: two in each run. */
    EXPECT(!alone || topo_phantom_waits() - waits <= 2 * RUNS);
    /* Elsewhere in it, and for other collectives, nothing is new. */
    uint64_t inside = run(&own, TOPO_ALL_REDUCE, memory.base + 4096, COUNT);
    EXPECT(!alone || (inside == 0) == opens);
    run(&own, TOPO_ALL_GATHER, memory.base, COUNT);
    uint64_t gathered = run(&own, TOPO_ALL_GATHER, memory.base, COUNT);
    EXPECT(!alone || (gathered == 0) == opens);
    if (rank == 0 && alone)
        printf("copies of a run of %d bytes: at first %llu, then %g\n", 4 * COUNT, (unsigned long long)first,
               (double)copies / RUNS);
    /* Other memory at the same addresses is noticed. */
    for (int i = 0; i < 3; i++) {
        CHECK(ended(&own));
        any(&own, 0);
        replace(&own, &memory);
        uint64_t again = run(&own, TOPO_ALL_REDUCE, memory.base, COUNT);
        EXPECT(!alone || again == 2);
        EXPECT(settles(&own, TOPO_ALL_REDUCE, memory.base, COUNT, opens));
    }
    /* More allocations than others open at a time. */
    for (int i = 0; i < MANY; i++) many[i] = allocate(&own, kind, 4 * FEW);
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < MANY; i++) run(&own, TOPO_ALL_REDUCE, many[i].base, FEW);
    EXPECT(settles(&own, TOPO_ALL_REDUCE, many[1].base, FEW, opens));
    CHECK(ended(&own));
    any(&own, 0);
    for (int i = 0; i < MANY; i++) release(&many[i]);
    /* What was freed is closed when something new is used. */
    EXPECT(settles(&own, TOPO_ALL_REDUCE, memory.base, COUNT, opens));
    CHECK(ended(&own));
    any(&own, 0);
    release(&memory);
    end(&own);
}

/* Buffers in mappings of one reservation. Each can be shared, also without the first mapping, and
 * across two mappings. */
static void mappings(void) {
    struct own own = begin(0);
    uint64_t base = reserve();
    struct memory first = map_granules(&own, base, 0, 1), second = map_granules(&own, base, 1, 2);
    struct memory third = map_granules(&own, base, 3, 2), apart = map_granules(&own, base, 6, 1);
    uint64_t across = third.base - 2 * COUNT;
    EXPECT(run(&own, TOPO_ALL_REDUCE, second.base, COUNT) == 2);
    EXPECT(settles(&own, TOPO_ALL_REDUCE, second.base, COUNT, 1));
    EXPECT(run(&own, TOPO_ALL_REDUCE, across, COUNT) == 2);
    EXPECT(settles(&own, TOPO_ALL_REDUCE, across, COUNT, 1));
    EXPECT(run(&own, TOPO_ALL_REDUCE, second.base, COUNT) == 0);
    EXPECT(settles(&own, TOPO_ALL_REDUCE, apart.base, COUNT, 1));
    CHECK(ended(&own));
    any(&own, 0);
    RIGHT(cuMemUnmap(first.base, first.bytes));
    EXPECT(run(&own, TOPO_ALL_REDUCE, second.base + 4096, COUNT) == 0);
    /* Other memory in one of the two is noticed, and the other one is as it was. */
    CHECK(ended(&own));
    any(&own, 0);
    replace(&own, &third);
    EXPECT(run(&own, TOPO_ALL_REDUCE, second.base, COUNT) == 0);
    EXPECT(run(&own, TOPO_ALL_REDUCE, across, COUNT) == 2);
    EXPECT(settles(&own, TOPO_ALL_REDUCE, across, COUNT, 1));
    CHECK(ended(&own));
    any(&own, 0);
    RIGHT(cuMemUnmap(second.base, second.bytes));
    RIGHT(cuMemUnmap(third.base, third.bytes));
    RIGHT(cuMemUnmap(apart.base, apart.bytes));
    RIGHT(cuMemAddressFree(base, RESERVED));
    end(&own);
}

static void plain(void) { on_memory(PLAIN, 1); }
static void plain_closed(void) { on_memory(PLAIN, 0); }
static void virtual_(void) { on_memory(VIRTUAL, 1); }
static void private(void) { on_memory(PRIVATE, 0); }
static void copied(void) {
    more_flags = TOPO_COPIES;
    on_memory(PLAIN, 0);
}

int main(int count, char **arguments) {
    static const struct named_case cases[] = {{"plain", plain, 1},
                                              {"plain_closed", plain_closed, 1},
                                              {"virtual", virtual_, 1},
                                              {"private", private, 1},
                                              {"copied", copied, 1},
                                              {"mappings", mappings, 1},
                                              {"of_threads", virtual_, 2}};
    alone = count > 1 && strcmp(arguments[1], "of_threads") != 0;
    return run_case(cases, sizeof cases / sizeof *cases, count, arguments);
}
