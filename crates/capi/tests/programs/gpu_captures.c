/* Programs that capture graphs of their own work while collectives are in flight: `gpu_captures
 * CASE RANKS GPUS`. */
#include "gpu_memory.h"

enum { COUNT = 16 << 10, CALLS = 6, QUESTIONS = 20 };

static void *asks(void *comm) {
    for (int i = 0; i < QUESTIONS; i++) {
        int found = topo_comm_query(comm);
        EXPECT(found == TOPO_OK || found == TOPO_PENDING);
    }
    return NULL;
}

/* Waits for all ranks, by memory of the host. */
static void meet(const struct own *own) {
    uint32_t one = 1;
    CHECK(topo_run(own->comm, TOPO_ALL_REDUCE, &one, &one, 1, TOPO_U32, TOPO_SUM, 0));
}

static void reduce(const struct own *own, uint64_t address, uint32_t count) {
    CHECK(topo_run_on(own->comm, TOPO_ALL_REDUCE, (void *)address, (void *)address, count, TOPO_U32, TOPO_SUM,
                      0, own->streams[0]));
}

/* Captures work in a mode on a stream, while collectives run and while one is called for the first
 * time. Nothing of it breaks the capture, and nothing fails. */
static void capture(struct own *own, uint64_t address, int mode, void *stream) {
    static __thread uint32_t found[COUNT], round;
    uint32_t last = COUNT - 64 * ++round, expected = 1;
    struct memory own_work = allocate(own, PLAIN, 4096);
    void *graph = NULL;
    pthread_t thread;
    for (uint32_t at = 0; at < COUNT; at++) found[at] = 1;
    RIGHT(cuMemcpyHtoDAsync_v2(address, found, sizeof found, own->streams[0]));
    RIGHT(cuStreamSynchronize(own->streams[0]));
    meet(own);
    RIGHT(cuStreamBeginCapture_v2(stream, mode));
    for (int i = 0; i < CALLS; i++) reduce(own, address, COUNT);
    asks(own->comm);
    EXPECT(pthread_create(&thread, NULL, asks, own->comm) == 0);
    RIGHT(cuMemsetD8Async(own_work.base, (unsigned char)round, own_work.bytes, stream));
    reduce(own, address, last);
    EXPECT(pthread_join(thread, NULL) == 0);
    RIGHT(cuStreamEndCapture(stream, &graph));
    RIGHT(cuGraphDestroy(graph));
    /* The program's own calls that wait would break the captures of other ranks. */
    meet(own);
    RIGHT(cuMemcpyDtoHAsync_v2(found, address, sizeof found, own->streams[0]));
    RIGHT(cuStreamSynchronize(own->streams[0]));
    for (int i = 0; i < CALLS; i++) expected *= ranks;
    for (uint32_t at = 0; at < COUNT; at++) EXPECT(found[at] == (at < last ? expected * ranks : expected));
    CHECK(ended(own));
    release(&own_work);
}

static void captures(void) {
    struct own own = begin(0);
    struct memory memory = allocate(&own, PLAIN, 4 * COUNT);
    reduce(&own, memory.base, COUNT);
    /* Global, thread-local, relaxed; a stream that waits for the legacy stream, and one that does
     * not. */
    for (int mode = 0; mode < 3; mode++)
        for (int i = 1; i < 3; i++) capture(&own, memory.base, mode, own.streams[i]);
    meet(&own);
    release(&memory);
    end(&own);
}

int main(int count, char **arguments) {
    static const struct named_case cases[] = {
        {"processes", captures, 1}, {"threads", captures, 0}, {"both", captures, 2}};
    return run_case(cases, sizeof cases / sizeof *cases, count, arguments);
}
