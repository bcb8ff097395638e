/* Collectives on GPUs in the order of streams: `gpu CASE RANKS GPUS`. Ranks are processes, threads,
 * or threads of several processes, as the case says; rank r uses GPU r modulo GPUS. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <topo.h>

static __thread uint32_t rank;
static uint32_t ranks, gpus;
static topo_id id;

#include "check.h"

/* The driver's functions that the programs call. */
#define FUNCTIONS(F) \
    F(cuInit, (unsigned)) \
    F(cuDeviceGet, (int *, int)) \
    F(cuDevicePrimaryCtxRetain, (void **, int)) \
    F(cuDevicePrimaryCtxRelease_v2, (int)) \
    F(cuCtxSetCurrent, (void *)) \
    F(cuCtxGetCurrent, (void **)) \
    F(cuCtxSynchronize, (void)) \
    F(cuStreamCreate, (void **, unsigned)) \
    F(cuStreamDestroy_v2, (void *)) \
    F(cuStreamSynchronize, (void *)) \
    F(cuStreamWaitEvent, (void *, void *, unsigned)) \
    F(cuStreamBeginCapture_v2, (void *, int)) \
    F(cuStreamEndCapture, (void *, void **)) \
    F(cuGraphDestroy, (void *)) \
    F(cuEventCreate, (void **, unsigned)) \
    F(cuEventDestroy_v2, (void *)) \
    F(cuEventRecord, (void *, void *)) \
    F(cuMemAlloc_v2, (uint64_t *, size_t)) \
    F(cuMemFree_v2, (uint64_t)) \
    F(cuMemcpyHtoDAsync_v2, (uint64_t, const void *, size_t, void *)) \
    F(cuMemcpyDtoHAsync_v2, (void *, uint64_t, size_t, void *)) \
    F(cuMemcpyDtoDAsync_v2, (uint64_t, uint64_t, size_t, void *)) \
    F(cuMemsetD8Async, (uint64_t, unsigned char, size_t, void *)) \
    F(cuModuleLoadData, (void **, const void *)) \
    F(cuModuleUnload, (void *)) \
    F(cuModuleGetFunction, (void **, void *, const char *)) \
    F(cuLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
                       unsigned, void *, void **, void **)) \
    F(topo_phantom_waits, (void))

#define DECLARE(name, arguments) static int(*name) arguments;
FUNCTIONS(DECLARE)

static void load_driver(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    EXPECT(driver);
#define LOAD(name, arguments) EXPECT((name = (int(*) arguments)dlsym(driver, #name)));
    FUNCTIONS(LOAD)
    EXPECT(cuInit(0) == 0);
}

#define RIGHT(call) EXPECT((call) == 0)

/* What a rank has: its communicator, context and streams. */
struct own {
    topo_comm *comm;
    void *context;
    int device;
    void *streams[3];
};

static topo_options options_of(uint32_t timeout_ms) {
    return (topo_options){.bytes = sizeof(topo_options),
                          .flags = TOPO_CUDA,
                          .join_timeout_ms = 60000,
                          .timeout_ms = timeout_ms,
                          .gpu = rank % gpus};
}

static struct own begin(uint32_t timeout_ms) {
    struct own own;
    RIGHT(cuDeviceGet(&own.device, (int)(rank % gpus)));
    RIGHT(cuDevicePrimaryCtxRetain(&own.context, own.device));
    topo_options options = options_of(timeout_ms);
    CHECK(topo_comm_init(&own.comm, &id, rank, ranks, &options));
    RIGHT(cuCtxSetCurrent(own.context));
    /* The last one waits for the legacy stream, and that one for it. */
    for (int i = 0; i < 3; i++) RIGHT(cuStreamCreate(&own.streams[i], i < 2));
    return own;
}

/* Waits until all collectives have ended: those of other GPUs of this process end later. */
static int ended(struct own *own) {
    int found;
    while ((found = topo_comm_query(own->comm)) == TOPO_PENDING) usleep(1000);
    return found;
}

static void end(struct own *own) {
    void *current = NULL;
    CHECK(topo_comm_destroy(own->comm));
    /* The context of the caller is as it was. */
    RIGHT(cuCtxGetCurrent(&current));
    EXPECT(current == own->context);
    for (int i = 0; i < 3; i++) RIGHT(cuStreamDestroy_v2(own->streams[i]));
    RIGHT(cuDevicePrimaryCtxRelease_v2(own->device));
}

/* Numbers that are equal on all ranks. */
static uint32_t next(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

enum { OPERATIONS = 1000, BUFFERS = 12, SIZES = 3, MOST = 1024, MOST_RANKS = 4, EVERY = 17 };
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

static int gate[2];

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
    RIGHT(cuStreamEndCapture(stream, &graph));
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

static void (*case_of_threads)(void);

static void *run_rank(void *number) {
    rank = (uint32_t)(uintptr_t)number;
    case_of_threads();
    return NULL;
}

/* Runs ranks, each in a thread: `first` and the `number` - 1 after it. */
static void run_threads(uint32_t first, uint32_t number) {
    pthread_t threads[MOST_RANKS];
    for (uintptr_t r = 0; r < number; r++)
        EXPECT(pthread_create(&threads[r], NULL, run_rank, (void *)(first + r)) == 0);
    for (uint32_t r = 0; r < number; r++) EXPECT(pthread_join(threads[r], NULL) == 0);
}

int main(int count, char **arguments) {
    /* Threads of a process; 0: all ranks are in one. */
    static const struct {
        const char *name;
        void (*run)(void);
        uint32_t threads;
    } cases[] = {{"processes", processes, 1}, {"threads", threads, 0}, {"both", both, 2},
                 {"misuse", misuse, 1},       {"lacking", lacking, 1}, {"aborts", aborts, 1},
                 {"a_peer_dies", a_peer_dies, 1}};
    EXPECT(count == 4);
    ranks = (uint32_t)atoi(arguments[2]);
    gpus = (uint32_t)atoi(arguments[3]);
    EXPECT(ranks <= MOST_RANKS && pipe(gate) == 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(cases[i].name, arguments[1]) != 0) continue;
        uint32_t width = cases[i].threads ? cases[i].threads : ranks;
        int tube[2], failed = 0, killed = strcmp(cases[i].name, "a_peer_dies") == 0;
        EXPECT(pipe(tube) == 0);
        for (uint32_t child = width; child < ranks && rank == 0; child += width)
            if (fork() == 0) rank = child;
        if (rank == 0) {
            CHECK(topo_unique_id(&id, NULL));
            for (uint32_t r = width; r < ranks; r += width)
                EXPECT(write(tube[1], &id, sizeof id) == sizeof id);
        } else {
            EXPECT(read(tube[0], &id, sizeof id) == sizeof id);
        }
        if (strcmp(cases[i].name, "lacking") != 0) load_driver();
        case_of_threads = cases[i].run;
        run_threads(rank, width);
        for (int status; rank == 0 && wait(&status) > 0;)
            failed |= killed ? !WIFSIGNALED(status) : status != 0;
        return failed;
    }
    fprintf(stderr, "unknown case %s\n", arguments[1]);
    return 2;
}
