/* Shared by the programs on GPUs: the driver's functions, ranks, cases. Ranks are processes,
 * threads, or threads of several processes, as the case says; rank r uses GPU r modulo the number
 * of GPUs. */
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
    F(cuMemCreate, (uint64_t *, size_t, const void *, uint64_t)) \
    F(cuMemRelease, (uint64_t)) \
    F(cuMemAddressReserve, (uint64_t *, size_t, size_t, uint64_t, uint64_t)) \
    F(cuMemAddressFree, (uint64_t, size_t)) \
    F(cuMemMap, (uint64_t, size_t, size_t, uint64_t, uint64_t)) \
    F(cuMemUnmap, (uint64_t, size_t)) \
    F(cuMemSetAccess, (uint64_t, size_t, const void *, size_t)) \
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

/* Copies between memory of GPUs that this process has asked for, and their bytes. */
static uint64_t (*topo_phantom_copied)(int);

#define DECLARE(name, arguments) static int(*name) arguments;
FUNCTIONS(DECLARE)

static void load_driver(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    EXPECT(driver);
#define LOAD(name, arguments) EXPECT((name = (int(*) arguments)dlsym(driver, #name)));
    FUNCTIONS(LOAD)
    EXPECT((topo_phantom_copied = (uint64_t(*)(int))dlsym(driver, "topo_phantom_copied")));
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

/* Flags besides TOPO_CUDA. */
static uint32_t more_flags;

static topo_options options_of(uint32_t timeout_ms) {
    return (topo_options){.bytes = sizeof(topo_options),
                          .flags = TOPO_CUDA | more_flags,
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

enum { MOST_RANKS = 4 };
static int gate[2];

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

/* A case by its name, and the ranks that are threads of a process; 0: all are. */
struct named_case {
    const char *name;
    void (*run)(void);
    uint32_t threads;
};

/* Runs the case that the arguments name. */
static int run_case(const struct named_case *cases, size_t number, int count, char **arguments) {
    EXPECT(count == 4);
    ranks = (uint32_t)atoi(arguments[2]);
    gpus = (uint32_t)atoi(arguments[3]);
    EXPECT(ranks <= MOST_RANKS && pipe(gate) == 0);
    for (size_t i = 0; i < number; i++) {
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
