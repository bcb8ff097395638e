/* Collectives on GPUs in the order of streams: `gpu CASE RANKS GPUS`. */
#include "gpu.h"

/* Numbers that are equal on all ranks. */
static uint32_t next(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

enum { OPERATIONS = 1000, BUFFERS = 12, SIZES = 3, MOST = 1024, EVERY = 17 };
static const uint32_t sizes[SIZES] = {64, 256, MOST};
static const char PTX[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry topo_phantom_affine(.param .align 8 .b8 argument[24]) { ret; }\n";

/* A buffer has room for a block of each rank. */
typedef uint32_t buffer[MOST * MOST_RANKS];

/* An operation: what it does, on which stream, from which buffer to which. */
struct operation {
    int kind, stream, from, to;
    uint32_t count, factor, added, root;
};
enum { COPY, KERNEL, FILL, UPLOAD, ALL_REDUCE, IN_PLACE, ALL_GATHER, REDUCE_SCATTER, BROADCAST };

static struct operation draw(uint64_t *state, int number) {
    struct operation it;
    it.kind = number % EVERY == 0 ? ALL_REDUCE + (int)(next(state) % 5) : (int)(next(state) % 4);
    it.stream = (int)(next(state) % 3);
    it.from = (int)(next(state) % BUFFERS);
    it.to = (it.from + 1 + (int)(next(state) % (BUFFERS - 1))) % BUFFERS;
    if (it.kind == IN_PLACE || it.kind == KERNEL || it.kind == FILL || it.kind == UPLOAD) it.from = it.to;
    it.count = sizes[next(state) % SIZES];
    it.factor = 2 * (next(state) % 50) + 1;
    it.added = next(state);
    it.root = next(state) % ranks;
    return it;
}

static uint32_t uploaded(const struct operation *it, uint32_t of, uint32_t at) {
    return it->added ^ (of * 2654435761u) ^ (at * 40503u);
}

/* Does an operation for all ranks at once, one after the other. */
static void do_serially(const struct operation *it, buffer model[MOST_RANKS][BUFFERS]) {
    static buffer result[MOST_RANKS];
    uint32_t blocks = it->kind == ALL_GATHER ? ranks : 1;
    for (uint32_t own = 0; own < ranks; own++) {
        for (uint32_t at = 0; at < it->count * blocks; at++) {
            uint32_t value = model[own][it->from][at], sum = 0;
            uint32_t in = it->kind == REDUCE_SCATTER ? own * it->count + at : at;
            for (uint32_t other = 0; other < ranks; other++) sum += model[other][it->from][in];
            switch (it->kind) {
            case KERNEL: value = value * it->factor + it->added; break;
            case FILL: value = (it->added & 0xff) * 0x01010101u; break;
            case UPLOAD: value = uploaded(it, own, at); break;
            case ALL_REDUCE:
            case IN_PLACE:
            case REDUCE_SCATTER: value = sum; break;
            case ALL_GATHER: value = model[at / it->count][it->from][at % it->count]; break;
            case BROADCAST: value = model[it->root][it->from][at]; break;
            }
            result[own][at] = value;
        }
    }
    for (uint32_t own = 0; own < ranks; own++)
        memcpy(model[own][it->to], result[own], sizeof(uint32_t) * it->count * blocks);
}

/* Enqueues an operation on its stream. */
static void enqueue(struct own *own, void *kernel, const uint64_t *memory, const struct operation *it) {
    void *stream = own->streams[it->stream];
    uint64_t from = memory[it->from], to = memory[it->to];
    size_t bytes = sizeof(uint32_t) * it->count;
    struct {
        uint64_t numbers, count;
        uint32_t factor, added;
    } argument = {to, it->count, it->factor, it->added};
    void *arguments[] = {&argument};
    static __thread uint32_t values[MOST];
    int collective = TOPO_ALL_REDUCE;
    switch (it->kind) {
    case COPY: RIGHT(cuMemcpyDtoDAsync_v2(to, from, bytes, stream)); return;
    case KERNEL: RIGHT(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL)); return;
    case FILL: RIGHT(cuMemsetD8Async(to, (unsigned char)it->added, bytes, stream)); return;
    case UPLOAD:
        for (uint32_t at = 0; at < it->count; at++) values[at] = uploaded(it, rank, at);
        RIGHT(cuMemcpyHtoDAsync_v2(to, values, bytes, stream));
        return;
    case ALL_GATHER: collective = TOPO_ALL_GATHER; break;
    case REDUCE_SCATTER: collective = TOPO_REDUCE_SCATTER; break;
    case BROADCAST: collective = TOPO_BROADCAST; break;
    }
    CHECK(topo_run_on(own->comm, collective, (void *)from, (void *)to, it->count, TOPO_U32, TOPO_SUM,
                      it->root, stream));
}

/* As an allocator does that gives memory of one stream to another: the stream that uses a buffer
 * waits for the one that used it before. */
static void guard(struct own *own, void *event, int *used_by, const struct operation *it) {
    int both[] = {it->from, it->to};
    for (int i = 0; i < 2; i++) {
        int before = used_by[both[i]];
        if (before != it->stream) {
            RIGHT(cuEventRecord(event, own->streams[before]));
            RIGHT(cuStreamWaitEvent(own->streams[it->stream], event, 0));
        }
        used_by[both[i]] = it->stream;
    }
}

/* 1,000 copies, kernels and collectives on three streams leave what a serial run leaves, and no
 * call waits. Of ranks that are processes, the others do nothing until the first has enqueued
 * all. */
static void mixed(int apart) {
    static buffer(*model)[BUFFERS];
    static pthread_mutex_t only = PTHREAD_MUTEX_INITIALIZER;
    struct own own = begin(0);
    void *module, *kernel, *event;
    uint64_t memory[BUFFERS], state = 1;
    int used_by[BUFFERS] = {0};
    RIGHT(cuModuleLoadData(&module, PTX));
    RIGHT(cuModuleGetFunction(&kernel, module, "topo_phantom_affine"));
    RIGHT(cuEventCreate(&event, 2));
    for (int i = 0; i < BUFFERS; i++) {
        RIGHT(cuMemAlloc_v2(&memory[i], sizeof(buffer)));
        RIGHT(cuMemsetD8Async(memory[i], 0, sizeof(buffer), own.streams[0]));
    }
    /* Each kind and size once. */
    for (int kind = ALL_REDUCE; kind <= BROADCAST; kind++) {
        for (int size = 0; size < SIZES; size++) {
            for (uint32_t root = 0; root < (kind == BROADCAST ? ranks : 1); root++) {
                struct operation it = {kind, 0, 0, kind == IN_PLACE ? 0 : 1, sizes[size], 0, 0, root};
                enqueue(&own, kernel, memory, &it);
            }
        }
    }
    /* A stream's priority is that of its collectives. */
    EXPECT(!apart || topo_phantom_urgent() == 0);
    RIGHT(cuStreamSynchronize(own.streams[0]));
    struct operation urgent = {ALL_REDUCE, 1, 0, 1, sizes[0], 0, 0, 0};
    enqueue(&own, kernel, memory, &urgent);
    EXPECT(topo_phantom_urgent() > 0);
    RIGHT(cuStreamSynchronize(own.streams[1]));
    for (int i = 0; i < BUFFERS; i++)
        RIGHT(cuMemsetD8Async(memory[i], 0, sizeof(buffer), own.streams[0]));
    RIGHT(cuStreamSynchronize(own.streams[0]));
    CHECK(ended(&own));

    char byte = 0;
    if (apart && rank > 0) EXPECT(read(gate[0], &byte, 1) == 1);
    int waits = topo_phantom_waits();
    for (int number = 0; number < OPERATIONS; number++) {
        struct operation it = draw(&state, number);
        guard(&own, event, used_by, &it);
        enqueue(&own, kernel, memory, &it);
    }
    if (apart && rank == 0) {
        EXPECT(topo_comm_query(own.comm) == TOPO_PENDING);
        EXPECT(topo_phantom_waits() == waits);
        for (uint32_t other = 1; other < ranks; other++) EXPECT(write(gate[1], &byte, 1) == 1);
    }
    EXPECT(!apart || topo_phantom_waits() == waits);

    pthread_mutex_lock(&only);
    if (!model) {
        model = calloc(MOST_RANKS * BUFFERS, sizeof(buffer));
        state = 1;
        for (int number = 0; number < OPERATIONS; number++) {
            struct operation it = draw(&state, number);
            do_serially(&it, model);
        }
    }
    pthread_mutex_unlock(&only);
    RIGHT(cuCtxSynchronize());
    buffer *found = malloc(sizeof(buffer));
    for (int i = 0; i < BUFFERS; i++) {
        RIGHT(cuMemcpyDtoHAsync_v2(found, memory[i], sizeof(buffer), own.streams[0]));
        RIGHT(cuStreamSynchronize(own.streams[0]));
        for (uint32_t at = 0; at < MOST * ranks; at++) {
            if ((*found)[at] != model[rank][i][at]) {
                fprintf(stderr, "rank %u: buffer %d, number %u is %u, expected %u\n", rank, i, at,
                        (*found)[at], model[rank][i][at]);
                exit(1);
            }
        }
        RIGHT(cuMemFree_v2(memory[i]));
    }
    CHECK(ended(&own));
    free(found);
    RIGHT(cuEventDestroy_v2(event));
    RIGHT(cuModuleUnload(module));
    end(&own);
}

static void processes(void) { mixed(1); }
static void threads(void) { mixed(0); }
static void both(void) { mixed(0); }

/* What cannot be run is refused in one sentence, and the communicator stays usable. */
static void misuse(void) {
    struct own own = begin(0);
    uint64_t memory;
    uint32_t here[64] = {0};
    void *stream = own.streams[0], *graph;
    RIGHT(cuMemAlloc_v2(&memory, 256));
    RIGHT(cuMemsetD8Async(memory, 1, 256, stream));
    void *there = (void *)memory;
#define REFUSED(input, output, stream, why) \
    EXPECT(topo_run_on(own.comm, TOPO_ALL_REDUCE, input, output, 64, TOPO_U32, TOPO_SUM, 0, \
                       stream) == TOPO_INVALID && \
           strstr(topo_last_error(), why))
    REFUSED(here, there, stream, "the input at 0x");
    REFUSED(there, here, stream, "is not in memory of GPU");
    REFUSED(there, there, (void *)2, "another one for each thread");
    REFUSED(there, there, (void *)12345, "is no stream of GPU");
    RIGHT(cuStreamBeginCapture_v2(stream, 1));
    REFUSED(there, there, stream, "captures a CUDA graph");
    EXPECT(strstr(topo_last_error(), "capture the rest as another graph"));
    RIGHT(cuStreamEndCapture(stream, &graph));
    RIGHT(cuGraphDestroy(graph));
    RIGHT(cuStreamBeginCapture_v2(own.streams[2], 2));
    REFUSED(there, there, NULL, "the legacy stream of GPU");
    EXPECT(strstr(topo_last_error(), "captures a CUDA graph"));
    RIGHT(cuStreamEndCapture(own.streams[2], &graph));
    RIGHT(cuGraphDestroy(graph));
    EXPECT(topo_run_on(own.comm, TOPO_ALL_REDUCE, there, there, 64, TOPO_U32, TOPO_BIT_AND, 0, stream) ==
           TOPO_INVALID);
    /* Also on the legacy stream, and on memory of the host by the other calls. */
    for (int i = 0; i < 2; i++)
        CHECK(topo_run_on(own.comm, TOPO_ALL_REDUCE, there, there, 64, TOPO_U32, TOPO_SUM, 0,
                          i ? NULL : stream));
    RIGHT(cuCtxSynchronize());
    RIGHT(cuMemcpyDtoHAsync_v2(here, memory, 256, stream));
    RIGHT(cuStreamSynchronize(stream));
    CHECK(ended(&own));
    for (int i = 0; i < 64; i++) EXPECT(here[i] == 0x01010101u * ranks * ranks);
    CHECK(topo_run(own.comm, TOPO_ALL_REDUCE, here, here, 64, TOPO_U32, TOPO_SUM, 0));
    EXPECT(here[0] == 0x01010101u * ranks * ranks * ranks);
    RIGHT(cuMemFree_v2(memory));
    end(&own);
}

/* A communicator for hosts says what it lacks, and so does one for GPUs without a driver. */
static void lacking(void) {
    topo_options options = options_of(0);
    topo_comm *comm;
    if (getenv("TOPO_PHANTOM_MACHINE") == NULL) {
        EXPECT(topo_comm_init(&comm, &id, rank, ranks, &options) == TOPO_SYSTEM);
        EXPECT(strstr(topo_last_error(), "there is no NVIDIA driver"));
        return;
    }
    options.flags = 0;
    uint32_t value = 1;
    CHECK(topo_comm_init(&comm, &id, rank, ranks, &options));
    EXPECT(topo_run_on(comm, TOPO_ALL_REDUCE, &value, &value, 1, TOPO_U32, TOPO_SUM, 0, NULL) ==
           TOPO_INVALID);
    EXPECT(strstr(topo_last_error(), "the communicator has no GPU"));
    EXPECT(topo_comm_query(comm) == TOPO_INVALID);
    CHECK(topo_comm_destroy(comm));
}

static void *abort_it(void *comm) {
    CHECK(topo_comm_abort(comm));
    return NULL;
}

/* Rank 0 has enqueued collectives that never end by themselves: its peers are gone, or it is told
 * to end by another thread. Its stream continues, and the error is told. */
static void ends_early(int killed) {
    struct own own = begin(120000);
    uint64_t memory;
    void *stream = own.streams[0];
    RIGHT(cuMemAlloc_v2(&memory, 4096));
    RIGHT(cuMemsetD8Async(memory, 0, 4096, stream));
    void *there = (void *)memory;
    char byte = 0;
#define RUN() \
    topo_run_on(own.comm, TOPO_ALL_REDUCE, there, there, 1024, TOPO_U32, TOPO_SUM, 0, stream)
    CHECK(RUN());
    RIGHT(cuStreamSynchronize(stream));
    if (rank > 0) {
        EXPECT(read(gate[0], &byte, 1) == 1);
        if (killed) raise(SIGKILL);
        while (ended(&own) == TOPO_OK && RUN() == TOPO_OK) usleep(1000);
        EXPECT(strstr(topo_last_error(), "topo_comm_abort was called"));
    } else {
        for (int i = 0; i < 5; i++) CHECK(RUN());
        EXPECT(topo_comm_query(own.comm) == TOPO_PENDING);
        pthread_t thread;
        if (!killed) {
            EXPECT(pthread_create(&thread, NULL, abort_it, own.comm) == 0);
            EXPECT(pthread_join(thread, NULL) == 0);
        }
        for (uint32_t other = 1; other < ranks; other++) EXPECT(write(gate[1], &byte, 1) == 1);
        RIGHT(cuStreamSynchronize(stream));
        EXPECT(ended(&own) == TOPO_FAILED);
        EXPECT(strstr(topo_last_error(), killed ? "rank 1" : "abort"));
        EXPECT(RUN() == TOPO_FAILED);
    }
    RIGHT(cuStreamSynchronize(stream));
    RIGHT(cuMemFree_v2(memory));
    end(&own);
}

static void a_peer_dies(void) { ends_early(1); }
static void aborts(void) { ends_early(0); }

int main(int count, char **arguments) {
    static const struct named_case cases[] = {
        {"processes", processes, 1}, {"threads", threads, 0}, {"both", both, 2},
        {"misuse", misuse, 1},       {"lacking", lacking, 1}, {"aborts", aborts, 1},
        {"a_peer_dies", a_peer_dies, 1}};
    return run_case(cases, sizeof cases / sizeof *cases, count, arguments);
}
