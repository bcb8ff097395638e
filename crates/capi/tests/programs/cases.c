/* What a library must survive: `cases CASE RANKS`. Rank 0 forks the others. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#define TOPO_CALL_SITES
#include <topo.h>

static uint32_t rank, ranks;
static topo_id id;
static pid_t children[64];
/* Rank 0 writes to one and reads from the other. */
static int gate[2], joined[2];

#include "check.h"

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void start_ranks(void) {
    int tube[2];
    EXPECT(pipe(tube) == 0 && pipe(gate) == 0 && pipe(joined) == 0);
    for (uint32_t child = 1; child < ranks; child++) {
        pid_t pid = fork();
        if (pid == 0) {
            rank = child;
            /* The end of rank 0 ends a wait for it. */
            close(gate[1]);
            break;
        }
        children[child] = pid;
    }
    /* The end of all others ends rank 0's wait for them. */
    if (rank == 0) close(joined[1]);
    if (rank == 0) {
        CHECK(topo_unique_id(&id, NULL));
        for (uint32_t to = 1; to < ranks; to++) EXPECT(write(tube[1], &id, sizeof id) == sizeof id);
    } else {
        EXPECT(read(tube[0], &id, sizeof id) == sizeof id);
    }
}

/* Rank 0 lets the others continue, each of which waits for it. */
static void open_gate(void) {
    for (uint32_t to = 1; to < ranks; to++) EXPECT(write(gate[1], "", 1) == 1);
}

static void wait_at_gate(void) {
    char byte;
    EXPECT(read(gate[0], &byte, 1) == 1);
}

/* Rank 0 waits until all have joined. */
static void all_have_joined(void) {
    char byte;
    if (rank > 0) EXPECT(write(joined[1], "", 1) == 1);
    for (uint32_t other = 1; rank == 0 && other < ranks; other++) EXPECT(read(joined[0], &byte, 1) == 1);
}

/* Waits until another thread is in a call: before, there is no group to end. */
static void until_busy(topo_comm *comm) {
    int found;
    while ((found = topo_group_end(comm)) == TOPO_INVALID) usleep(1000);
    EXPECT(found == TOPO_BUSY);
}

/* An all-reduce of a number, beside a thread that asks until this one is in it. */
static int run_beside(topo_comm *comm, float *value) {
    int ended;
    do
        ended = topo_run(comm, TOPO_ALL_REDUCE, value, value, 1, TOPO_F32, TOPO_SUM, 0);
    while (ended == TOPO_BUSY);
    return ended;
}

static topo_comm *join(uint32_t flags) {
    char host[16];
    snprintf(host, sizeof host, "host%u", rank / 2);
    topo_options options = {.bytes = sizeof options,
                            .flags = flags,
                            .join_timeout_ms = 20000,
                            .plan = getenv("PLAN_FILE")};
    if (getenv("TWO_RANKS_A_HOST")) options.host_id = host;
    topo_comm *comm;
    CHECK(topo_comm_init(&comm, &id, rank, ranks, &options));
    return comm;
}

static int finish(void) {
    int failed = 0;
    for (int status; rank == 0 && wait(&status) > 0;) failed |= status != 0;
    return failed;
}

/* Every collective, with separate buffers and in the background. */
static void collectives(void) {
    topo_comm *comm = join(0);
    EXPECT(topo_comm_rank(comm) == (int)rank && topo_comm_ranks(comm) == (int)ranks);
    for (uint32_t other = 0; other < ranks; other++) {
        int apart = getenv("TWO_RANKS_A_HOST") && other / 2 != rank / 2;
        const char *expected = other == rank ? "P2P" : apart ? "NET" : "SHM";
        EXPECT(strcmp(topo_comm_transport(comm, other), expected) == 0);
    }
    EXPECT(topo_comm_transport(comm, ranks) == NULL && topo_comm_transport(NULL, 0) == NULL);
    const char *planned = getenv("PLAN_CHANNELS");
    EXPECT(topo_comm_channels(comm) > 0 && topo_comm_channels(NULL) == -1);
    EXPECT(planned == NULL || topo_comm_channels(comm) == atoi(planned));
    enum { N = 5000 };
    int32_t *in = malloc(sizeof *in * N * ranks), *out = malloc(sizeof *out * N * ranks);
    for (int collective = 0; collective < 8; collective++) {
        for (int background = 0; background < 2; background++) {
            for (uint32_t i = 0; i < N * ranks; i++) in[i] = (int32_t)(i % 97 + 1000 * rank);
            memset(out, 0xff, sizeof *out * N * ranks);
            if (background) {
                uint64_t work;
                CHECK(topo_start(comm, collective, in, out, N, TOPO_I32, TOPO_SUM, 1, &work));
                while (topo_test(comm, work) == TOPO_PENDING) usleep(100);
            } else {
                CHECK(topo_run(comm, collective, in, out, N, TOPO_I32, TOPO_SUM, 1));
            }
            int32_t sum = 1000 * (int32_t)(ranks * (ranks - 1) / 2);
            for (uint32_t block = 0; block < ranks; block++) {
                for (uint32_t i = 0; i < N; i += 7) {
                    int32_t found = out[block * N + i], own = (int32_t)((rank * N + i) % 97);
                    int32_t at = (int32_t)(i % 97);
                    int32_t reduced = (int32_t)ranks * at + sum, from = 1000 * (int32_t)block;
                    switch (collective) {
                    case TOPO_BROADCAST: EXPECT(block > 0 || found == at + 1000); break;
                    case TOPO_REDUCE: EXPECT(block > 0 || rank != 1 || found == reduced); break;
                    case TOPO_ALL_GATHER: EXPECT(found == at + from); break;
                    case TOPO_REDUCE_SCATTER:
                        EXPECT(block > 0 || found == (int32_t)ranks * own + sum);
                        break;
                    case TOPO_ALL_REDUCE: EXPECT(block > 0 || found == reduced); break;
                    case TOPO_ALL_TO_ALL: EXPECT(found == own + from); break;
                    case TOPO_GATHER: EXPECT(rank != 1 || found == at + from); break;
                    case TOPO_SCATTER: EXPECT(block > 0 || found == own + 1000); break;
                    }
                }
            }
        }
    }
    /* The communicator's memory, in place. */
    float *memory;
    CHECK(topo_alloc(comm, 1 << 20, (void **)&memory));
    for (int i = 0; i < 1 << 18; i++) memory[i] = 1;
    CHECK(topo_run(comm, TOPO_ALL_REDUCE, memory, memory, 1 << 18, TOPO_F32, TOPO_SUM, 0));
    EXPECT(memory[0] == (float)ranks && memory[(1 << 18) - 1] == (float)ranks);
    CHECK(topo_free(comm, memory));
    EXPECT(topo_free(comm, memory) == TOPO_INVALID);
    /* Halves of the communicator, in reverse order. */
    topo_comm *part;
    CHECK(topo_comm_split(comm, (int32_t)(rank % 2), -(int32_t)rank, &part));
    uint32_t value = rank, members = (ranks + 1 - rank % 2) / 2;
    EXPECT(topo_comm_ranks(part) == (int)members);
    EXPECT(topo_comm_rank(part) == (int)(members - 1 - rank / 2));
    CHECK(topo_run(part, TOPO_ALL_REDUCE, &value, &value, 1, TOPO_U32, TOPO_MAXIMUM, 0));
    EXPECT(value == rank % 2 + 2 * (members - 1));
    CHECK(topo_comm_split(comm, -1, 0, &part));
    EXPECT(part == NULL);
    free(in);
    free(out);
    CHECK(topo_comm_destroy(comm));
}

/* Both ranks start to send before they receive, in three forms. */
static void transfers(void) {
    topo_comm *comm = join(0);
    enum { N = 1 << 20 };
    uint32_t next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    int32_t *in = malloc(sizeof *in * N), *out = malloc(sizeof *out * N);
    for (int form = 0; form < 3; form++) {
        for (int i = 0; i < N; i++) in[i] = i + (int32_t)rank, out[i] = -1;
        uint64_t send, receive;
        if (form == 0) {
            CHECK(topo_start_send(comm, in, N, TOPO_I32, next, &send));
            CHECK(topo_start_receive(comm, out, N, TOPO_I32, before, &receive));
            CHECK(topo_wait(comm, send));
            CHECK(topo_wait(comm, receive));
        } else if (form == 1) {
            CHECK(topo_start_send(comm, in, N, TOPO_I32, next, &send));
            CHECK(topo_receive(comm, out, N, TOPO_I32, before));
            CHECK(topo_wait(comm, send));
        } else {
            CHECK(topo_group_start(comm));
            CHECK(topo_send(comm, in, N, TOPO_I32, next));
            EXPECT(topo_run(comm, TOPO_ALL_REDUCE, in, in, 1, TOPO_I32, 0, 0) == TOPO_INVALID);
            CHECK(topo_receive(comm, out, N, TOPO_I32, before));
            CHECK(topo_group_end(comm));
        }
        for (int i = 0; i < N; i++) EXPECT(out[i] == i + (int32_t)before);
    }
    free(in);
    free(out);
    CHECK(topo_comm_destroy(comm));
}

/* When another thread aborts a call: before it begins; once it has begun; once it has sent and
   waits. */
enum moment { BEFORE, BEGUN, WAITING };
struct abort {
    topo_comm *comm;
    enum moment moment;
};

static void *abort_at(void *argument) {
    struct abort *abort = argument;
    char byte;
    if (abort->moment == BEGUN) until_busy(abort->comm);
    if (abort->moment == WAITING) EXPECT(read(joined[0], &byte, 1) == 1);
    CHECK(topo_comm_abort(abort->comm));
    return NULL;
}

/* Rank 0 waits for what nobody sends. Rank 1 tells it that it has the message before. */
static int run_aborted(struct abort *abort) {
    topo_comm *comm = abort->comm;
    float value = 1;
    if (abort->moment != WAITING) return run_beside(comm, &value);
    CHECK(topo_group_start(comm));
    CHECK(topo_send(comm, &value, 1, TOPO_F32, 1));
    CHECK(topo_receive(comm, &value, 1, TOPO_F32, ranks - 1));
    return topo_group_end(comm);
}

/* Rank 0 waits for ranks that come late, until another of its threads aborts. */
static void aborts(void) {
    topo_comm *first = join(0);
    for (enum moment moment = BEFORE; moment <= WAITING; moment++) {
        struct abort abort = {.moment = moment};
        CHECK(topo_comm_split(first, 0, (int32_t)rank, &abort.comm));
        float value = 1;
        all_have_joined();
        double began = now();
        if (rank == 0) {
            pthread_t thread;
            pthread_create(&thread, NULL, abort_at, &abort);
            if (moment == BEFORE) pthread_join(thread, NULL);
            EXPECT(run_aborted(&abort) == TOPO_FAILED);
            EXPECT(strstr(topo_last_error(), "topo_comm_abort"));
            if (moment != BEFORE) pthread_join(thread, NULL);
            open_gate();
        } else {
            if (moment == WAITING && rank == 1) {
                CHECK(topo_receive(abort.comm, &value, 1, TOPO_F32, 0));
                EXPECT(write(joined[1], "", 1) == 1);
            }
            wait_at_gate();
            int ended = topo_run(abort.comm, TOPO_ALL_REDUCE, &value, &value, 1, TOPO_F32, TOPO_SUM, 0);
            EXPECT(ended == TOPO_FAILED && strstr(topo_last_error(), "topo_comm_abort"));
        }
        EXPECT(topo_run(abort.comm, TOPO_ALL_REDUCE, &value, &value, 1, TOPO_F32, 0, 0) == TOPO_FAILED);
        CHECK(topo_comm_destroy(abort.comm));
        EXPECT(now() - began < 10);
    }
    CHECK(topo_comm_destroy(first));
}

/* Rank 1 is killed in a collective. */
static void killed(void) {
    topo_comm *comm = join(0);
    float value = 1;
    if (rank == 1) {
        usleep(200000);
        kill(getpid(), SIGKILL);
    }
    double began = now();
    int ended = topo_run(comm, TOPO_ALL_REDUCE, &value, &value, 1, TOPO_F32, TOPO_SUM, 0);
    EXPECT(ended == TOPO_FAILED && strstr(topo_last_error(), "rank 1"));
    CHECK(topo_comm_destroy(comm));
    EXPECT(now() - began < 2.2);
    if (rank != 0) exit(0);
    int status;
    for (int left = 0; (left = wait(&status)) > 0;)
        EXPECT(left == children[1] ? WIFSIGNALED(status) : status == 0);
}

/* Nobody destroys the communicator. */
static void leaves(void) {
    topo_comm *comm = join(0);
    float value = 1;
    uint64_t work;
    CHECK(topo_run(comm, TOPO_ALL_REDUCE, &value, &value, 1, TOPO_F32, TOPO_SUM, 0));
    CHECK(topo_start(comm, TOPO_ALL_REDUCE, &value, &value, 1, TOPO_F32, TOPO_SUM, 0, &work));
    CHECK(topo_wait(comm, work));
}

/* A child of a rank. */
static void forks(void) {
    topo_comm *comm = join(0);
    pid_t pid = fork();
    float value = 1;
    if (pid == 0) {
        int ended = topo_run(comm, TOPO_ALL_REDUCE, &value, &value, 1, TOPO_F32, TOPO_SUM, 0);
        int refused = ended == TOPO_FORKED && strstr(topo_last_error(), "forked");
        refused = refused && topo_comm_destroy(comm) == TOPO_FORKED;
        exit(refused ? 0 : 1);
    }
    int status;
    EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
    CHECK(topo_run(comm, TOPO_ALL_REDUCE, &value, &value, 1, TOPO_F32, TOPO_SUM, 0));
    EXPECT(value == (float)ranks);
    CHECK(topo_comm_destroy(comm));
}

static void *run_one(void *comm) {
    static float value;
    return (void *)(intptr_t)run_beside(comm, &value);
}

/* A second thread while the first one waits for rank 1. */
static void busy(void) {
    topo_comm *comm = join(0);
    if (rank == 0) {
        pthread_t thread;
        void *ended;
        pthread_create(&thread, NULL, run_one, comm);
        until_busy(comm);
        float value = 1;
        EXPECT(topo_run(comm, TOPO_ALL_REDUCE, &value, &value, 1, TOPO_F32, 0, 0) == TOPO_BUSY);
        EXPECT(topo_comm_destroy(comm) == TOPO_BUSY);
        open_gate();
        pthread_join(thread, &ended);
        EXPECT((intptr_t)ended == TOPO_OK);
    } else {
        wait_at_gate();
        EXPECT((intptr_t)run_one(comm) == TOPO_OK);
    }
    CHECK(topo_comm_destroy(comm));
}

/* Different counts, then equal ones. */
static void disagrees(void) {
    topo_comm *comm = join(TOPO_DEBUG);
    float values[2] = {1, 1};
    int ended = topo_run(comm, TOPO_ALL_REDUCE, values, values, 1 + rank % 2, TOPO_F32, TOPO_SUM, 0);
    EXPECT(ended == TOPO_INVALID && strstr(topo_last_error(), "AllReduce of 1 f32, sum, in place"));
    EXPECT(strstr(topo_last_error(), "AllReduce of 2 f32"));
    CHECK(topo_run(comm, TOPO_ALL_REDUCE, values, values, 2, TOPO_F32, TOPO_SUM, 0));
    EXPECT(values[1] == (float)ranks);
    EXPECT(strstr(topo_last_error(), "cases.c:"));
    /* A receive that is longer than its send: the receiver says so, and the sender learns it. */
    if (rank == 0) {
        ended = topo_send(comm, values, 1, TOPO_F32, 1);
        if (ended == TOPO_OK) ended = topo_run(comm, TOPO_ALL_REDUCE, values, values, 1, TOPO_F32, 0, 0);
        EXPECT(ended == TOPO_FAILED);
    } else if (rank == 1) {
        EXPECT(topo_receive(comm, values, 2, TOPO_F32, 0) == TOPO_INVALID);
    } else {
        EXPECT(topo_run(comm, TOPO_ALL_REDUCE, values, values, 1, TOPO_F32, 0, 0) == TOPO_FAILED);
    }
    EXPECT(strstr(topo_last_error(), "rank 1 receives 8 bytes (cases.c:"));
    EXPECT(strstr(topo_last_error(), "rank 0 sends 4 bytes (cases.c:"));
    CHECK(topo_comm_destroy(comm));
}

/* Blocks of different lengths, i16 and bits. */
static void unequal(void) {
    topo_comm *comm = join(0);
    enum { N = 3000 };
    size_t sent[64], received[64], at = 0;
    int16_t *in = malloc(sizeof *in * N * 64 * 64), *out = calloc(N * 64 * 64, sizeof *out);
    for (uint32_t peer = 0; peer < ranks; peer++) {
        sent[peer] = (peer + 2 * rank) % 3 == 1 ? 0 : N * (1 + peer) + rank;
        received[peer] = (rank + 2 * peer) % 3 == 1 ? 0 : N * (1 + rank) + peer;
        for (size_t i = 0; i < sent[peer]; i++) in[at++] = (int16_t)(100 * rank + peer + i % 7);
    }
    /* A message that is sent before blocks of the same lengths, and received after them. */
    uint32_t next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    int16_t *message = calloc(N * 64 * 2, sizeof *message);
    for (int background = 0; background < 2; background++) {
        memset(out, 0xff, sizeof *out * N * ranks * (ranks + 1));
        uint64_t send;
        CHECK(topo_start_send(comm, message, sent[next], TOPO_I16, next, &send));
        if (background) {
            uint64_t work;
            CHECK(topo_start_all_to_all_v(comm, in, sent, out, received, TOPO_I16, &work));
            CHECK(topo_wait(comm, work));
        } else {
            CHECK(topo_all_to_all_v(comm, in, sent, out, received, TOPO_I16));
        }
        at = 0;
        for (uint32_t peer = 0; peer < ranks; peer++) {
            for (size_t i = 0; i < received[peer]; i++)
                EXPECT(out[at++] == (int16_t)(100 * peer + rank + i % 7));
        }
        memset(out, 0xff, sizeof *out * received[before]);
        CHECK(topo_receive(comm, out, received[before], TOPO_I16, before));
        for (size_t i = 0; i < received[before]; i++) EXPECT(out[i] == 0);
        CHECK(topo_wait(comm, send));
    }
    free(message);
    sent[rank]++;
    EXPECT(topo_all_to_all_v(comm, in, sent, out, received, TOPO_I16) == TOPO_INVALID);
    int16_t bits[3] = {(int16_t)(1 << rank), (int16_t)~(1 << rank), (int16_t)(1 << rank | 1 << 9)};
    CHECK(topo_run(comm, TOPO_ALL_REDUCE, bits, bits, 1, TOPO_I16, TOPO_BIT_OR, 0));
    CHECK(topo_run(comm, TOPO_ALL_REDUCE, bits + 1, bits + 1, 1, TOPO_I16, TOPO_BIT_AND, 0));
    CHECK(topo_run(comm, TOPO_ALL_REDUCE, bits + 2, bits + 2, 1, TOPO_I16, TOPO_BIT_XOR, 0));
    int16_t all = (int16_t)((1 << ranks) - 1);
    EXPECT(bits[0] == all && bits[1] == (int16_t)~all);
    EXPECT(bits[2] == (int16_t)(all | (ranks % 2) << 9));
    float number = 1;
    EXPECT(topo_run(comm, TOPO_ALL_REDUCE, &number, &number, 1, TOPO_F32, TOPO_BIT_OR, 0)
           == TOPO_INVALID);
    CHECK(topo_comm_destroy(comm));
}

/* Transfers that were started run whatever the caller does, in any order of peers. */
static void unordered(void) {
    topo_comm *first = join(0), *second;
    CHECK(topo_comm_split(first, 0, (int32_t)rank, &second));
    enum { N = 1 << 20, SMALL = 100 };
    uint32_t next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    float *in = malloc(sizeof *in * N), *out = calloc(N, sizeof *out), one = 1;
    for (int i = 0; i < N; i++) in[i] = (float)rank;
    /* Nobody waits for the send: the receiver, and then a barrier of another communicator, do. */
    uint64_t send, receive;
    CHECK(topo_start_send(first, in, N, TOPO_F32, next, &send));
    CHECK(topo_receive(first, out, N, TOPO_F32, before));
    EXPECT(out[0] == (float)before && out[N - 1] == (float)before);
    CHECK(topo_run(second, TOPO_ALL_REDUCE, &one, &one, 1, TOPO_F32, TOPO_SUM, 0));
    CHECK(topo_wait(first, send));
    if (rank == 0) CHECK(topo_start_send(first, in, N, TOPO_F32, 1, &send));
    if (rank == 1) CHECK(topo_receive(first, out, N, TOPO_F32, 0));
    CHECK(topo_run(second, TOPO_ALL_REDUCE, &one, &one, 1, TOPO_F32, TOPO_SUM, 0));
    if (rank == 0) CHECK(topo_wait(first, send));
    /* A receive that waits while later ones are done. */
    usleep(1000 * rank);
    if (ranks > 2) CHECK(topo_start_receive(first, out, N, TOPO_F32, next, &receive));
    uint64_t works[2][SMALL];
    uint32_t sent[SMALL], received[SMALL];
    for (uint32_t i = 0; i < SMALL; i++) {
        sent[i] = 1000 * rank + i;
        CHECK(topo_start_send(first, &sent[i], 1, TOPO_U32, next, &works[0][i]));
    }
    for (int i = 0; i < SMALL; i++)
        CHECK(topo_start_receive(first, &received[i], 1, TOPO_U32, before, &works[1][i]));
    for (int i = SMALL - 1; i >= 0; i--) {
        CHECK(topo_wait(first, works[1][i]));
        EXPECT(received[i] == 1000 * before + (uint32_t)i);
        CHECK(topo_wait(first, works[0][i]));
    }
    if (ranks > 2) {
        CHECK(topo_send(first, in, N, TOPO_F32, before));
        CHECK(topo_wait(first, receive));
        EXPECT(out[N - 1] == (float)next);
    }
    /* To itself, and without another end. */
    CHECK(topo_start_send(first, in, 10, TOPO_F32, rank, &send));
    CHECK(topo_receive(first, out, 10, TOPO_F32, rank));
    CHECK(topo_wait(first, send));
    EXPECT(out[9] == (float)rank);
    CHECK(topo_start_send(second, in, 10, TOPO_F32, rank, &send));
    CHECK(topo_comm_destroy(first));
    CHECK(topo_comm_destroy(second));
}

struct member {
    topo_comm *comm;
    int ended;
};

static void *run_many(void *argument) {
    struct member *own = argument;
    for (int i = 0; i < 200 && own->ended == TOPO_OK; i++) {
        double values[300];
        for (int j = 0; j < 300; j++) values[j] = i + j;
        own->ended = topo_run(own->comm, TOPO_ALL_REDUCE, values, values, 300, TOPO_F64, TOPO_SUM, 0);
        if (values[299] != ranks * (i + 299.0)) own->ended = TOPO_INTERNAL;
    }
    return NULL;
}

/* Two communicators in two threads; after an abort of one a new one takes its place. */
static void several(void) {
    topo_comm *first = join(0);
    struct member members[2] = {{.comm = first}, {.comm = NULL}};
    CHECK(topo_comm_split(first, 0, (int32_t)rank, &members[1].comm));
    for (int round = 0; round < 2; round++) {
        pthread_t threads[2];
        for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, run_many, &members[i]);
        for (int i = 0; i < 2; i++) {
            pthread_join(threads[i], NULL);
            EXPECT(members[i].ended == TOPO_OK);
        }
        double met = 1;
        CHECK(topo_run(first, TOPO_ALL_REDUCE, &met, &met, 1, TOPO_F64, TOPO_SUM, 0));
        if (round == 0) {
            if (rank == 0) CHECK(topo_comm_abort(members[1].comm));
            double value = 1;
            EXPECT(topo_run(members[1].comm, TOPO_ALL_REDUCE, &value, &value, 1, TOPO_F64, 0, 0)
                   == TOPO_FAILED);
            CHECK(topo_comm_destroy(members[1].comm));
            CHECK(topo_comm_split(first, 7, -(int32_t)rank, &members[1].comm));
        }
    }
    CHECK(topo_comm_destroy(members[1].comm));
    CHECK(topo_comm_destroy(first));
}

/* A wait that is shorter than the others'. */
static void timeouts(void) {
    topo_comm *comm = join(0);
    float value = 1;
    CHECK(topo_run(comm, TOPO_ALL_REDUCE, &value, &value, 1, TOPO_F32, 0, 0));
    CHECK(topo_comm_timeout(comm, 300));
    double began = now();
    if (rank == 0) {
        EXPECT(topo_run(comm, TOPO_ALL_REDUCE, &value, &value, 1, TOPO_F32, 0, 0) == TOPO_TIMEOUT);
        open_gate();
    } else {
        wait_at_gate();
        /* What rank 0 sent before its wait was over may be enough for this one. */
        topo_run(comm, TOPO_ALL_REDUCE, &value, &value, 1, TOPO_F32, 0, 0);
        EXPECT(topo_run(comm, TOPO_ALL_REDUCE, &value, &value, 1, TOPO_F32, 0, 0) == TOPO_FAILED);
        EXPECT(strstr(topo_last_error(), "rank 0"));
    }
    EXPECT(now() - began < 3);
    CHECK(topo_comm_destroy(comm));
}

/* Messages of any rank: rank 0 hands out work to each rank that asks. */
static void anyone(void) {
    topo_comm *comm = join(getenv("DEBUG_RANKS") ? TOPO_DEBUG : 0);
    enum { JOBS = 200, LONG = 70000 };
    uint32_t asks[2] = {rank, 0}, job = 0, from = 99, counts[64] = {0};
    if (rank == 0) {
        for (uint32_t given = 0; given < JOBS + ranks - 1; given++) {
            CHECK(topo_receive_any(comm, asks, 2, TOPO_U32, &from));
            EXPECT(from == asks[0] && from != 0 && from < ranks && asks[1] == counts[from]);
            counts[from]++;
            job = given < JOBS ? given : JOBS;
            CHECK(topo_send(comm, &job, 1, TOPO_U32, from));
        }
    } else {
        for (; job < JOBS; asks[1]++) {
            CHECK(topo_send(comm, asks, 2, TOPO_U32, 0));
            CHECK(topo_receive(comm, &job, 1, TOPO_U32, 0));
        }
    }
    float *in = malloc(sizeof *in * LONG), *out[3], met = 1;
    CHECK(topo_run(comm, TOPO_ALL_REDUCE, &met, &met, 1, TOPO_F32, TOPO_SUM, 0));
    /* Earlier receives come first, whichever rank they name; sends run beside them. */
    for (int i = 0; i < LONG; i++) in[i] = (float)rank;
    uint64_t works[4];
    uint32_t sources[3] = {99, 99, 99};
    if (rank == 0) {
        for (int i = 0; i < 3; i++) out[i] = malloc(sizeof **out * LONG);
        CHECK(topo_start_receive(comm, out[0], LONG, TOPO_F32, 1, &works[0]));
        CHECK(topo_start_receive_any(comm, out[1], LONG, TOPO_F32, &sources[1], &works[1]));
        CHECK(topo_start_receive_any(comm, out[2], LONG, TOPO_F32, NULL, &works[2]));
        CHECK(topo_start_send(comm, in, LONG, TOPO_F32, 1, &works[3]));
        for (int i = 3; i >= 0; i--) CHECK(topo_wait(comm, works[i]));
        EXPECT(out[0][LONG - 1] == 1 && out[1][LONG - 1] == (float)sources[1]);
        EXPECT(out[2][0] == 1 || out[2][0] == (float)(ranks - 1));
    } else if (rank == 1) {
        CHECK(topo_receive(comm, in, LONG, TOPO_F32, 0));
        EXPECT(in[7] == 0);
        for (int i = 0; i < LONG; i++) in[i] = 1;
        for (int i = ranks == 2 ? 0 : 1; i < 3; i++) CHECK(topo_send(comm, in, LONG, TOPO_F32, 0));
    } else if (rank + 1 == ranks) {
        CHECK(topo_send(comm, in, LONG, TOPO_F32, 0));
    }
    CHECK(topo_run(comm, TOPO_ALL_REDUCE, &met, &met, 1, TOPO_F32, TOPO_SUM, 0));
    if (rank == 0) {
        CHECK(topo_group_start(comm));
        for (uint32_t i = 1; i < 3; i++) CHECK(topo_receive_any(comm, out[i], 1, TOPO_F32, &sources[i]));
        CHECK(topo_group_end(comm));
        for (uint32_t i = 1; i < 3; i++) EXPECT(out[i][0] == (float)sources[i]);
    } else if (rank < 3) {
        for (uint32_t i = ranks == 2 ? 0 : 1; i < 2; i++) CHECK(topo_send(comm, in, 1, TOPO_F32, 0));
    }
    EXPECT(topo_receive_any(comm, in, 0, TOPO_F32, &from) == TOPO_INVALID);
    /* A group that sends both at once, to receives that follow each other. */
    CHECK(topo_run(comm, TOPO_ALL_REDUCE, &met, &met, 1, TOPO_F32, TOPO_SUM, 0));
    if (rank == 0) {
        CHECK(topo_group_start(comm));
        CHECK(topo_receive_any(comm, out[1], 3, TOPO_F32, &sources[1]));
        CHECK(topo_receive(comm, out[2], LONG - 1, TOPO_F32, 1));
        CHECK(topo_group_end(comm));
        EXPECT(sources[1] == 1 && out[1][2] == 1 && out[2][LONG - 2] == 1);
    } else if (rank == 1) {
        CHECK(topo_group_start(comm));
        CHECK(topo_send(comm, in, 3, TOPO_F32, 0));
        CHECK(topo_send(comm, in, LONG - 1, TOPO_F32, 0));
        CHECK(topo_group_end(comm));
    }
    CHECK(topo_run(comm, TOPO_ALL_REDUCE, &met, &met, 1, TOPO_F32, TOPO_SUM, 0));
    /* The others leave while rank 0 receives: what they sent before is there, and then nothing. */
    if (rank == 0) {
        for (uint32_t i = 1; i < ranks; i++) {
            CHECK(topo_receive_any(comm, in, 5, TOPO_F32, &from));
            EXPECT(in[4] == (float)from);
        }
        double began = now();
        EXPECT(topo_receive_any(comm, in, 5, TOPO_F32, &from) == TOPO_FAILED);
        EXPECT(now() - began < 3);
    } else {
        usleep(20000 * rank);
        for (int i = 0; i < 5; i++) in[i] = (float)rank;
        CHECK(topo_send(comm, in, 5, TOPO_F32, 0));
    }
    CHECK(topo_comm_destroy(comm));
}

/* Collectives and transfers that were started run beside each other. */
static void beside(void) {
    topo_comm *comm = join(getenv("DEBUG_RANKS") ? TOPO_DEBUG : 0);
    enum { N = 300000, ROUNDS = 6 };
    uint32_t next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks, from;
    float *in = malloc(sizeof *in * N), *out = calloc(N, sizeof *out), *sum = malloc(sizeof *sum * N);
    for (int i = 0; i < N; i++) in[i] = (float)rank;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t send, receive, reduce, gather;
        size_t count = round % 2 ? N : 10;
        float expected = (float)(ranks * (ranks - 1) / 2);
        /* A receive whose message is sent after the collective. */
        CHECK(topo_start_receive(comm, out, count, TOPO_F32, before, &receive));
        CHECK(topo_run(comm, TOPO_ALL_REDUCE, in, sum, count, TOPO_F32, TOPO_SUM, 0));
        EXPECT(sum[count - 1] == expected);
        CHECK(topo_start_send(comm, in, count, TOPO_F32, next, &send));
        CHECK(topo_wait(comm, receive));
        EXPECT(out[0] == (float)before && out[count - 1] == (float)before);
        CHECK(topo_wait(comm, send));
        /* A collective that waits for a rank which waits for a message. */
        if (rank % 2 == 0) {
            CHECK(topo_start(comm, TOPO_ALL_REDUCE, in, sum, count, TOPO_F32, TOPO_SUM, 0, &reduce));
            if (rank + 1 < ranks) CHECK(topo_start_send(comm, in, count, TOPO_F32, rank + 1, &send));
            CHECK(topo_wait(comm, reduce));
            if (rank + 1 < ranks) CHECK(topo_wait(comm, send));
        } else {
            CHECK(topo_receive_any(comm, out, count, TOPO_F32, &from));
            EXPECT(from == rank - 1 && out[count - 1] == (float)from);
            CHECK(topo_run(comm, TOPO_ALL_REDUCE, in, sum, count, TOPO_F32, TOPO_SUM, 0));
        }
        EXPECT(sum[0] == expected);
        /* Several collectives keep their order, whatever runs beside them. */
        float *all = malloc(sizeof *all * ranks * count);
        CHECK(topo_start_receive(comm, out, count, TOPO_F32, before, &receive));
        CHECK(topo_start(comm, TOPO_ALL_REDUCE, in, sum, count, TOPO_F32, TOPO_MAXIMUM, 0, &reduce));
        CHECK(topo_start(comm, TOPO_ALL_GATHER, sum, all, count, TOPO_F32, 0, 0, &gather));
        CHECK(topo_send(comm, in, count, TOPO_F32, next));
        CHECK(topo_wait(comm, gather));
        for (uint32_t i = 0; i < ranks; i++) EXPECT(all[i * count] == (float)(ranks - 1));
        CHECK(topo_wait(comm, reduce));
        CHECK(topo_wait(comm, receive));
        free(all);
    }
    CHECK(topo_comm_destroy(comm));
}

/* What must not end a receive: that a rank leaves whose message it need not be, and a time-out of a
 * later call. */
static void unneeded(void) {
    topo_comm *comm = join(0);
    float value = 1, first = 0, second = 0;
    uint64_t works[3];
    CHECK(topo_run(comm, TOPO_ALL_REDUCE, &value, &value, 1, TOPO_F32, TOPO_SUM, 0));
    if (rank == 0) {
        CHECK(topo_start_receive(comm, &first, 1, TOPO_F32, 1, &works[0]));
        CHECK(topo_start_receive_any(comm, &second, 1, TOPO_F32, NULL, &works[1]));
        /* Both are older than the time-out of the send. */
        usleep(2100000);
        CHECK(topo_comm_timeout(comm, 2000));
        CHECK(topo_start_send(comm, &value, 1, TOPO_F32, 1, &works[2]));
        open_gate();
        for (int i = 0; i < 3; i++) CHECK(topo_wait(comm, works[i]));
        EXPECT(first == 1 && second == 2);
    } else if (rank == 1) {
        wait_at_gate();
        CHECK(topo_receive(comm, &first, 1, TOPO_F32, 0));
        for (value = 1; value < 3; value++) CHECK(topo_send(comm, &value, 1, TOPO_F32, 0));
    }
    CHECK(topo_comm_destroy(comm));
}

#include "tags.h"
#include "misuse.h"

/* Transfers whose other ends do not exist end with the time, also beside each other. */
static void lonely(void) {
    topo_comm *comm = join(0);
    float value = 1, other[3];
    uint64_t works[3];
    CHECK(topo_run(comm, TOPO_ALL_REDUCE, &value, &value, 1, TOPO_F32, 0, 0));
    double began = now();
    if (rank == 0) {
        CHECK(topo_comm_timeout(comm, 500));
        CHECK(topo_start_receive(comm, &other[0], 1, TOPO_F32, 1, &works[0]));
        CHECK(topo_start_send(comm, &value, 1, TOPO_F32, ranks - 1, &works[1]));
        CHECK(topo_start_receive_any(comm, &other[1], 2, TOPO_F32, NULL, &works[2]));
        for (int i = 0; i < 3; i++) {
            int ended = topo_wait(comm, works[i]);
            /* A short message for another host leaves before its receive is there. */
            EXPECT(ended == TOPO_TIMEOUT || (ended == TOPO_OK && i == 1));
            if (ended != TOPO_OK) EXPECT(strstr(topo_last_error(), "waited"));
        }
    } else {
        EXPECT(topo_run(comm, TOPO_ALL_REDUCE, &value, &value, 1, TOPO_F32, 0, 0) == TOPO_FAILED);
        EXPECT(strstr(topo_last_error(), "rank 0"));
    }
    EXPECT(now() - began < 3);
    CHECK(topo_comm_destroy(comm));
}

int main(int count, char **arguments) {
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"collectives", collectives}, {"transfers", transfers}, {"aborts", aborts},
                 {"killed", killed},           {"leaves", leaves},       {"forks", forks},
                 {"busy", busy},               {"disagrees", disagrees},
                 {"unequal", unequal},     {"several", several},
                 {"timeouts", timeouts},   {"unordered", unordered},
                 {"anyone", anyone},           {"lonely", lonely},
                 {"beside", beside},           {"unneeded", unneeded},
                 {"tags", tags},               {"many_tags", many_tags},
                 {"misuse", misuse}};
    EXPECT(count == 3);
    ranks = (uint32_t)atoi(arguments[2]);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(cases[i].name, arguments[1]) == 0) {
            start_ranks();
            cases[i].run();
            return finish();
        }
    }
    fprintf(stderr, "unknown case %s\n", arguments[1]);
    return 2;
}
