/* The time of collectives that are enqueued on streams (topo.h), all ranks as threads on GPU 0.
 *
 *     cc -O2 on_streams.c -I../../capi/include -I/usr/local/cuda/include -o on_streams \
 *         -L../../../target/library -L/usr/local/cuda/lib64 -ltopo_c -lcudart -lpthread
 *     LD_LIBRARY_PATH=../../../target/library ./on_streams RANKS
 *
 * A line for each size: `gpu_us` by events around 400 calls in a row, `host_us` that the calls
 * took, and `alone_us`, the time of a call while fewer than ten have not ended.
 */
#include <cuda_runtime.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "topo.h"

enum { MOST_RANKS = 64, CALLS = 400, ROUNDS = 20, FEW = 10 };
static const size_t LARGEST = 64u << 20;

static topo_id id;
static int ranks;
static pthread_barrier_t together;

static void check(int error, const char *what, const char *why) {
    if (error == 0) return;
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

#define TOPO(call) check((call), #call, topo_last_error())
#define CUDA(call)                                              \
    do {                                                        \
        cudaError_t error = (call);                             \
        check(error, #call, cudaGetErrorString(error));         \
    } while (0)

static double now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e6 + now.tv_nsec * 1e-3;
}

/* Enqueues `calls` collectives. Returns the time on the host, µs. */
static double enqueue(topo_comm *comm, float *values, size_t bytes, int calls, cudaStream_t stream) {
    double began = now_us();
    for (int i = 0; i < calls; i++)
        TOPO(topo_run_on(comm, TOPO_ALL_REDUCE, values, values, bytes / sizeof *values, TOPO_F32, TOPO_SUM, 0, stream));
    return now_us() - began;
}

static void *run(void *of) {
    int rank = (int)(size_t)of;
    topo_options options = {.bytes = sizeof options, .flags = TOPO_CUDA, .timeout_ms = 20000, .join_timeout_ms = 20000};
    topo_comm *comm;
    float *values;
    cudaStream_t stream;
    cudaEvent_t begin, end;
    CUDA(cudaSetDevice(0));
    TOPO(topo_comm_init(&comm, &id, rank, ranks, &options));
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA(cudaMalloc((void **)&values, LARGEST));
    CUDA(cudaMemset(values, 0, LARGEST));
    CUDA(cudaEventCreate(&begin));
    CUDA(cudaEventCreate(&end));
    CUDA(cudaDeviceSynchronize());
    for (size_t bytes = 1024; bytes <= LARGEST; bytes *= 16) {
        enqueue(comm, values, bytes, ROUNDS, stream);
        CUDA(cudaStreamSynchronize(stream));
        pthread_barrier_wait(&together);
        CUDA(cudaEventRecord(begin, stream));
        double host = enqueue(comm, values, bytes, CALLS, stream);
        CUDA(cudaEventRecord(end, stream));
        CUDA(cudaEventSynchronize(end));
        float milliseconds;
        CUDA(cudaEventElapsedTime(&milliseconds, begin, end));
        double alone = 0;
        for (int round = 0; round < ROUNDS; round++) {
            CUDA(cudaStreamSynchronize(stream));
            pthread_barrier_wait(&together);
            alone += enqueue(comm, values, bytes, FEW, stream);
        }
        if (rank == 0)
            printf("{\"ranks\": %d, \"bytes\": %zu, \"gpu_us\": %.2f, \"host_us\": %.2f, \"alone_us\": %.2f}\n", ranks,
                   bytes, 1e3 * milliseconds / CALLS, host / CALLS, alone / (ROUNDS * FEW));
        pthread_barrier_wait(&together);
    }
    CUDA(cudaStreamSynchronize(stream));
    int ended;
    while ((ended = topo_comm_query(comm)) == TOPO_PENDING);
    TOPO(ended);
    TOPO(topo_comm_destroy(comm));
    return NULL;
}

int main(int count, char **arguments) {
    ranks = count > 1 ? atoi(arguments[1]) : 2;
    if (ranks < 1 || ranks > MOST_RANKS) return fprintf(stderr, "expected 1 to %d ranks\n", MOST_RANKS), 2;
    pthread_t threads[MOST_RANKS];
    pthread_barrier_init(&together, NULL, ranks);
    TOPO(topo_unique_id(&id, NULL));
    for (int i = 0; i < ranks; i++) pthread_create(&threads[i], NULL, run, (void *)(size_t)i);
    for (int i = 0; i < ranks; i++) pthread_join(threads[i], NULL);
}
