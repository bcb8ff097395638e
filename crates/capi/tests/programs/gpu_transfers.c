/* Transfers on memory of GPUs in the order of streams: `gpu_transfers CASE RANKS GPUS`. */
#include "gpu.h"

enum { ROUNDS = 40, MOST = 1 << 20, SHORT = 100 };

/* Numbers in memory of a GPU, with a block of `MOST` for each rank. */
struct numbers {
    uint64_t address;
};

static struct numbers allocate(void) {
    struct numbers it;
    RIGHT(cuMemAlloc_v2(&it.address, sizeof(uint32_t) * MOST * ranks));
    return it;
}

static void *at(struct numbers it, uint64_t number) { return (void *)(it.address + 4 * number); }

static uint32_t value(uint32_t from, uint32_t to, uint32_t number, uint32_t round) {
    return ((from * 64 + to) * 2654435761u) ^ (number * 40503u) ^ (round << 20);
}

static __thread uint32_t *here;

/* Sets numbers for a rank, and compares numbers that came from one, in the order of a stream. */
static void fill(struct numbers it, uint64_t first, uint32_t count, uint32_t to, uint32_t round, void *stream) {
    for (uint32_t i = 0; i < count; i++) here[i] = value(rank, to, i, round);
    RIGHT(cuMemcpyHtoDAsync_v2(it.address + 4 * first, here, 4 * (size_t)count, stream));
    RIGHT(cuStreamSynchronize(stream));
}

static void expect(struct numbers it, uint64_t first, uint32_t count, uint32_t from, uint32_t round,
                   void *stream) {
    RIGHT(cuMemcpyDtoHAsync_v2(here, it.address + 4 * first, 4 * (size_t)count, stream));
    RIGHT(cuStreamSynchronize(stream));
    for (uint32_t i = 0; i < count; i++) {
        if (here[i] == value(from, rank, i, round)) continue;
        fprintf(stderr, "rank %u, round %u: number %u of %u from rank %u is wrong\n", rank, round, i, count,
                from);
        exit(1);
    }
}

/* How many numbers a rank sends to another in a round: none, few, or more than FIFOs hold. */
static uint32_t count_of(uint32_t from, uint32_t to, uint32_t round) {
    static const uint32_t counts[] = {1, 0, SHORT, 4096, 70000, 300, 20000, 7};
    uint32_t drawn = (from * 7 + to * 3 + round) % 8;
    return round % 10 == 9 && from == 0 ? MOST : counts[drawn];
}

/* An all-to-all with counts, also as a group, between collectives on another stream. */
static void all_to_all(struct own *own, struct numbers in, struct numbers out, uint32_t round) {
    void *stream = own->streams[round % 2];
    size_t sent[MOST_RANKS], received[MOST_RANKS];
    uint64_t from[MOST_RANKS], to[MOST_RANKS], sends = 0, receives = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        from[r] = sends;
        to[r] = receives;
        sends += sent[r] = count_of(rank, r, round);
        receives += received[r] = count_of(r, rank, round);
        fill(in, from[r], (uint32_t)sent[r], r, round, stream);
    }
    if (round % 3 == 0) {
        CHECK(topo_all_to_all_v_on(own->comm, at(in, 0), sent, at(out, 0), received, TOPO_U32, stream));
    } else {
        CHECK(topo_group_start(own->comm));
        for (uint32_t r = 0; r < ranks; r++) {
            uint32_t peer = round % 2 ? r : ranks - 1 - r;
            CHECK(topo_send_on(own->comm, at(in, from[peer]), sent[peer], TOPO_U32, peer, stream));
            CHECK(topo_receive_on(own->comm, at(out, to[peer]), received[peer], TOPO_U32, peer, stream));
        }
        CHECK(topo_group_end(own->comm));
    }
    for (uint32_t r = 0; r < ranks; r++) expect(out, to[r], (uint32_t)received[r], r, round, stream);
}

/* Each rank passes numbers on that came from the one before it, without waiting on the host. */
static void pass_on(struct own *own, struct numbers in, struct numbers out, uint32_t round) {
    void *stream = own->streams[0];
    uint32_t next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    fill(in, 0, SHORT, rank, round, stream);
    for (uint32_t step = 0; step < ranks; step++) {
        CHECK(topo_group_start(own->comm));
        CHECK(topo_send_on(own->comm, at(in, 0), SHORT, TOPO_U32, next, stream));
        CHECK(topo_receive_on(own->comm, at(out, 0), SHORT, TOPO_U32, before, stream));
        CHECK(topo_group_end(own->comm));
        struct numbers other = in;
        in = out;
        out = other;
    }
    /* They have been at every rank. */
    expect(in, 0, SHORT, rank, round, stream);
}

/* Messages between two ranks keep their order, in a group and one by one. */
static void in_order(struct own *own, struct numbers in, struct numbers out, uint32_t round) {
    enum { MESSAGES = 5, APART = 1000 };
    void *stream = own->streams[2];
    if (rank > 1) return;
    for (int grouped = 0; grouped < 2; grouped++) {
        for (uint32_t i = 0; i < MESSAGES; i++)
            if (rank == 0) fill(in, i * APART, SHORT + i, 1, round + i, stream);
        if (grouped) CHECK(topo_group_start(own->comm));
        for (uint32_t i = 0; i < MESSAGES; i++) {
            if (rank == 0)
                CHECK(topo_send_on(own->comm, at(in, i * APART), SHORT + i, TOPO_U32, 1, stream));
            else
                CHECK(topo_receive_on(own->comm, at(out, i * APART), SHORT + i, TOPO_U32, 0, stream));
        }
        if (grouped) CHECK(topo_group_end(own->comm));
        RIGHT(cuStreamSynchronize(stream));
        for (uint32_t i = 0; i < MESSAGES && rank == 1; i++)
            expect(out, i * APART, SHORT + i, 0, round + i, stream);
    }
}

/* Whether no thread of this process calls beside this one. */
static int alone;

static void transfers(void) {
    struct own own = begin(0);
    struct numbers in = allocate(), out = allocate();
    void *stream = own.streams[0];
    for (uint32_t round = 0; round < ROUNDS; round++) {
        all_to_all(&own, in, out, round);
        pass_on(&own, in, out, round);
        if (round % 8 == 0) in_order(&own, in, out, round);
        if (round % 4) continue;
        fill(in, 0, SHORT, 0, 0, stream);
        CHECK(topo_run_on(own.comm, TOPO_ALL_REDUCE, at(in, 0), at(in, 0), SHORT, TOPO_U32, TOPO_SUM, 0, stream));
        RIGHT(cuStreamSynchronize(stream));
    }
    CHECK(ended(&own));
    /* Once all is known, calls do not wait, and ask for no copy. */
    int waits = topo_phantom_waits();
    uint64_t copies = topo_phantom_copied(0);
    uint32_t next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    for (int i = 0; i < 20; i++) {
        CHECK(topo_group_start(own.comm));
        CHECK(topo_send_on(own.comm, at(in, 0), SHORT, TOPO_U32, next, stream));
        CHECK(topo_receive_on(own.comm, at(out, 0), SHORT, TOPO_U32, before, stream));
        CHECK(topo_group_end(own.comm));
    }
    EXPECT(!alone || topo_phantom_waits() == waits);
    EXPECT(!alone || topo_phantom_copied(0) == copies);
    RIGHT(cuStreamSynchronize(stream));
    CHECK(ended(&own));

    /* What cannot be run is refused, and the communicator stays usable. */
    CHECK(topo_group_start(own.comm));
    CHECK(topo_send_on(own.comm, at(in, 0), 1, TOPO_U32, next, stream));
    CHECK(topo_receive_on(own.comm, at(out, 0), 1, TOPO_U32, before, own.streams[1]));
    EXPECT(topo_group_end(own.comm) == TOPO_INVALID && strstr(topo_last_error(), "of one stream"));
    EXPECT(topo_send_on(own.comm, at(in, 0), 1, TOPO_U32, ranks, stream) == TOPO_INVALID);
    EXPECT(topo_send_on(own.comm, here, 1, TOPO_U32, next, stream) == TOPO_INVALID);
    EXPECT(strstr(topo_last_error(), "is not in memory of GPU"));
    EXPECT(topo_send_on(own.comm, at(in, 0), 1, TOPO_U32, rank, stream) == TOPO_INVALID);
    EXPECT(strstr(topo_last_error(), "in the same group"));
    in_order(&own, in, out, 3);
    RIGHT(cuCtxSynchronize());
    CHECK(ended(&own));
    RIGHT(cuMemFree_v2(in.address));
    RIGHT(cuMemFree_v2(out.address));
    end(&own);
}

static void of_process(void) {
    here = malloc(sizeof(uint32_t) * MOST);
    transfers();
    free(here);
}

int main(int count, char **arguments) {
    static const struct named_case cases[] = {{"processes", of_process, 1}, {"threads", of_process, 0},
                                              {"both", of_process, 2}};
    alone = count > 1 && strcmp(arguments[1], "processes") == 0;
    return run_case(cases, sizeof cases / sizeof *cases, count, arguments);
}
