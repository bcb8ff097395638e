/* topo: collectives of processes on CPUs and GPUs, on one host or several.
 *
 * Every function but topo_version, topo_result_text, topo_last_error, topo_comm_rank and
 * topo_comm_ranks returns a topo_result. All ranks call the same collectives in the same order,
 * with equal counts, types, operations and roots.
 *
 * Threads: one thread at a time may call with a communicator; a second one gets TOPO_BUSY. Any
 * thread may wait, test and abort. Communicators are independent of each other.
 *
 * Processes: a forked child cannot use its parent's communicators (TOPO_FORKED). The library
 * installs no signal handlers, and binds no thread to a core.
 */
#ifndef TOPO_H
#define TOPO_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct topo_comm topo_comm;

typedef enum topo_result {
    TOPO_OK = 0,
    TOPO_INVALID = 1,  /* an argument is wrong; the communicator stays usable */
    TOPO_BUSY = 2,     /* another thread is in a call with this communicator */
    TOPO_FAILED = 3,   /* a rank failed, left or aborted; only topo_comm_destroy is left */
    TOPO_TIMEOUT = 4,  /* waited too long for a rank; only topo_comm_destroy is left */
    TOPO_FORKED = 5,   /* the communicator belongs to the parent of this process */
    TOPO_SYSTEM = 6,   /* not enough memory, or the system refuses something */
    TOPO_INTERNAL = 7, /* a defect of the library */
    TOPO_PENDING = 8   /* not done yet; not an error */
} topo_result;

typedef enum topo_collective {
    TOPO_BROADCAST = 0,      /* the root's `count` elements to all */
    TOPO_REDUCE = 1,         /* `count` elements, reduced to the root */
    TOPO_ALL_GATHER = 2,     /* `count` elements of each rank to all */
    TOPO_REDUCE_SCATTER = 3, /* ranks * `count` elements, reduced; `count` to each rank */
    TOPO_ALL_REDUCE = 4,     /* `count` elements, reduced to all */
    TOPO_ALL_TO_ALL = 5,     /* `count` elements from each rank to each rank */
    TOPO_GATHER = 6,         /* `count` elements of each rank to the root */
    TOPO_SCATTER = 7         /* `count` elements of the root's to each rank */
} topo_collective;

typedef enum topo_type {
    TOPO_I8 = 0,
    TOPO_U8 = 1,
    TOPO_I32 = 2,
    TOPO_U32 = 3,
    TOPO_I64 = 4,
    TOPO_U64 = 5,
    TOPO_F16 = 6,
    TOPO_BF16 = 7,
    TOPO_F32 = 8,
    TOPO_F64 = 9,
    TOPO_I16 = 10
} topo_type;

typedef enum topo_operation {
    TOPO_SUM = 0,
    TOPO_PRODUCT = 1,
    TOPO_MINIMUM = 2,
    TOPO_MAXIMUM = 3,
    TOPO_AVERAGE = 4, /* integers are rounded towards zero */
    TOPO_BIT_AND = 5, /* these three are for integers */
    TOPO_BIT_OR = 6,
    TOPO_BIT_XOR = 7
} topo_operation;

/* A unique id: a text with its terminating zero. Each process that knows it can join: keep it
 * secret. */
typedef struct topo_id {
    char text[256];
} topo_id;

/* Compare the collectives of all ranks before each runs; on a difference all get TOPO_INVALID,
 * with both calls in the text. Costs an all-gather of 128 bytes per collective. */
#define TOPO_DEBUG 1u

/* Most buffers of large collectives come from topo_alloc: the library chooses its algorithms for
 * them. All memory is right with and without it. */
#define TOPO_ALLOCATED 2u

/* Collectives run on memory of GPUs, too: topo_run_on. Each rank gives `gpu`. */
#define TOPO_CUDA 4u

/* Buffers of topo_run_on are copied where other processes would access them: for programs that free
 * memory of a GPU while communicators that used it are left. Without it, others have that memory
 * open. */
#define TOPO_COPIES 8u

/* Zeros are the defaults. All ranks give equal flags, timeout_ms, blocks and plans. A plan, which
 * topo plan -o wrote, is of as many ranks; communicators that are split off have none. blocks 0: at
 * most 32, and a quarter of those that fit; UINT32_MAX: all that fit, only if no other communicator
 * of this process runs at the same time. */
typedef struct topo_options {
    uint32_t bytes;           /* sizeof(topo_options) */
    uint32_t flags;           /* a sum of the flags above */
    uint32_t join_timeout_ms; /* how long joining may take; 0: one minute */
    uint32_t timeout_ms;      /* longest wait of a call for another rank; 0: ten minutes */
    const char *interfaces;   /* network interfaces, as NCCL_SOCKET_IFNAME names them, or NULL */
    const char *host_id;      /* replaces the identity of this host, or NULL */
    const char *plan;         /* the file of a plan whose channels, NICs and proxies are used, or NULL */
    uint32_t gpu;             /* with TOPO_CUDA: CUDA's number of this rank's GPU, from 0 */
    uint32_t blocks;          /* most thread blocks of a collective on it */
} topo_options;

/* The version of the library, such as "0.1.0". */
const char *topo_version(void);

/* What a result means, in a few words. */
const char *topo_result_text(topo_result result);

/* The text of this thread's last error; valid until its next error. */
const char *topo_last_error(void);

/* Makes an id. One rank of this process must join with it; all bytes go to the other ranks. */
int topo_unique_id(topo_id *id, const topo_options *options);

/* Frees an id with which no rank of this process joins: it listens until then. */
int topo_unique_id_free(const topo_id *id);

/* Joins the other ranks and returns when all have joined. `options` may be NULL. */
int topo_comm_init(topo_comm **comm, const topo_id *id, uint32_t rank, uint32_t ranks,
                   const topo_options *options);

/* A communicator of the ranks with this color, ordered by `order` and then by rank; NULL for a
 * color below 0. All ranks call it together. */
int topo_comm_split(topo_comm *comm, int32_t color, int32_t order, topo_comm **part);

/* Ends a communicator when everything that was started is done, and frees its memory. Later calls
 * with it, and those with a value that never was one, are TOPO_INVALID. */
int topo_comm_destroy(topo_comm *comm);

/* Makes all calls of all ranks with this communicator fail soon. Abort frees nothing: call
 * topo_comm_destroy afterwards, when no other thread is in a call. */
int topo_comm_abort(topo_comm *comm);

/* The own rank and the number of ranks; -1 for NULL. */
int topo_comm_rank(const topo_comm *comm);
int topo_comm_ranks(const topo_comm *comm);

/* How this rank reaches another, with NCCL's names: "P2P" in its process, "SHM" on its host, "NET"
 * on others. NULL if there is no such rank. */
const char *topo_comm_transport(const topo_comm *comm, uint32_t rank);

/* Channels over which collectives may run: those of the plan, if there is one; -1 for NULL. */
int topo_comm_channels(const topo_comm *comm);

/* Runs a collective and returns when it is done. Operation and root are ignored where there are
 * none; where only the root has an input or output, the others may give NULL.
 *
 * In place, on all ranks or on none: input == output; for TOPO_ALL_GATHER the input is the rank's
 * block of the output, for TOPO_REDUCE_SCATTER the output is its block of the input. Otherwise
 * buffers must not overlap. TOPO_GATHER and TOPO_SCATTER take separate buffers. */
int topo_run(topo_comm *comm, topo_collective collective, const void *input, void *output,
             size_t count, topo_type type, topo_operation operation, uint32_t root);

/* Starts a collective; it runs behind those that were started before. The caller leaves the buffers
 * alone until topo_wait or topo_test has returned TOPO_OK or an error. */
int topo_start(topo_comm *comm, topo_collective collective, const void *input, void *output,
               size_t count, topo_type type, topo_operation operation, uint32_t root,
               uint64_t *work);

/* Runs a collective on memory of this rank's GPU (TOPO_CUDA) in the order of a stream of it, a
 * CUstream or cudaStream_t: behind the work that the stream has, and before what it gets later. The
 * call returns as soon as the collective is enqueued; the buffers belong to it until the stream has
 * passed it. Ranks that are threads of one process call it each in a thread of their own, and the
 * calls return together.
 *
 * The call waits on the host only: the first time of each kind and size, for the other ranks and
 * until earlier collectives have ended; for those also after a rank of another process has used new
 * memory, which is opened then; and while 64 collectives have not ended. topo_run and the
 * others take host memory. The stream captures no graph, and is not that of each thread
 * (cudaStreamPerThread).
 *
 * A collective whose rank is gone or waits too long ends early, and its stream continues; its
 * output is undefined then. topo_comm_query and the next call say so. */
int topo_run_on(topo_comm *comm, topo_collective collective, const void *input, void *output,
                size_t count, topo_type type, topo_operation operation, uint32_t root,
                void *stream);

/* Sends and receives on memory of this rank's GPU in the order of a stream, as topo_run_on: they
 * match in order with those of the other rank on its stream, and with no others. Between
 * topo_group_start and topo_group_end, which enqueues all together, no order of them waits for each
 * other; all have one stream. Otherwise a send may wait for its receive, and what the stream gets
 * later with it: two ranks that both send first use a group. An all-to-all with counts is a
 * group. */
int topo_send_on(topo_comm *comm, const void *input, size_t count, topo_type type, uint32_t to,
                 void *stream);
int topo_receive_on(topo_comm *comm, void *output, size_t count, topo_type type, uint32_t from,
                    void *stream);
int topo_all_to_all_v_on(topo_comm *comm, const void *input, const size_t *sent, void *output,
                         const size_t *received, topo_type type, void *stream);

/* Registers memory of this rank's GPU, a window, whose number is stored in *window, which may be
 * NULL. All ranks call it together, in the same order with collectives; ranks of one process call
 * it from different threads. It waits until collectives before it have ended.
 *
 * All ranks give as many bytes, which begin at the same distance from a multiple of the memory's
 * granularity, in virtual memory whose handles other processes can open: of cuMemCreate, of
 * ncclMemAlloc, of PyTorch's symmetric memory. TOPO_INVALID on all ranks says why it cannot be
 * registered.
 *
 * Collectives whose buffers are at the same place of a window on all ranks then run where they are,
 * reduced and stored by the switch (NVLS). If one rank's buffer is elsewhere, all ranks copy. The
 * memory may be freed when collectives on it have ended: its window is never used again, and keeps
 * the GPU's memory until topo_comm_deregister, which all ranks call in the same order, or
 * topo_comm_destroy. There are 62 windows at most. */
int topo_comm_register(topo_comm *comm, void *memory, size_t bytes, uint32_t *window);
int topo_comm_deregister(topo_comm *comm, uint32_t window);

/* Whether everything that these calls enqueued has ended (TOPO_OK), or not (TOPO_PENDING), or why
 * it failed. Any thread may ask. Ask behind a wait for the stream, until it is not pending: only
 * TOPO_OK says that the outputs are right. */
int topo_comm_query(topo_comm *comm);

/* Sends to a rank, or receives from it, with tag 0; transfers between two ranks match in order. */
int topo_send(topo_comm *comm, const void *input, size_t count, topo_type type, uint32_t to);
int topo_receive(topo_comm *comm, void *output, size_t count, topo_type type, uint32_t from);

/* Receives the next message of any other rank, and stores that rank in *from, which may be NULL. It
 * is as long as each message that may come, and of at least one byte. Receives that were called
 * earlier come first. In a group, *from is stored when the group ends. */
int topo_receive_any(topo_comm *comm, void *output, size_t count, topo_type type, uint32_t *from);

/* Starts a transfer, which runs in the background beside the others and beside collectives: no
 * order of them, and no waiting elsewhere, keeps one from running. */
int topo_start_send(topo_comm *comm, const void *input, size_t count, topo_type type, uint32_t to,
                    uint64_t *work);
int topo_start_receive(topo_comm *comm, void *output, size_t count, topo_type type, uint32_t from,
                       uint64_t *work);
int topo_start_receive_any(topo_comm *comm, void *output, size_t count, topo_type type,
                           uint32_t *from, uint64_t *work);

/* An all-to-all with counts for each rank: sent[i] elements for rank i, received[i] from it, one
 * block behind the other. Input and output must not overlap. */
int topo_all_to_all_v(topo_comm *comm, const void *input, const size_t *sent, void *output,
                      const size_t *received, topo_type type);
int topo_start_all_to_all_v(topo_comm *comm, const void *input, const size_t *sent, void *output,
                            const size_t *received, topo_type type, uint64_t *work);

/* The same with a tag, 0 to 2147483647: a receive gets the next message of the rank with its tag.
 * Messages with different tags never wait for each other. A send of up to 32 KiB does not wait for
 * its receive, unless eight such messages of its tag wait for theirs. Between hosts each tag has a
 * connection between its two ranks and class of lengths, made at its first message and kept. A rank
 * has at most 1024 of them and 1 GiB of their memory (2 MiB each); one more ends the communicator,
 * so take few tags there and use them again. `from` may be TOPO_ANY_RANK, as in topo_receive_any,
 * which takes a connection for each rank of other hosts. The rank from which it received
 * is stored in *source; `source` may be NULL. */
#define TOPO_ANY_RANK UINT32_MAX
int topo_send_tagged(topo_comm *comm, const void *input, size_t count, topo_type type, uint32_t to,
                     uint32_t tag);
int topo_receive_tagged(topo_comm *comm, void *output, size_t count, topo_type type, uint32_t from,
                        uint32_t tag, uint32_t *source);
int topo_start_send_tagged(topo_comm *comm, const void *input, size_t count, topo_type type,
                           uint32_t to, uint32_t tag, uint64_t *work);
int topo_start_receive_tagged(topo_comm *comm, void *output, size_t count, topo_type type,
                              uint32_t from, uint32_t tag, uint32_t *source, uint64_t *work);

/* The longest wait for another rank of the calls that follow; 0: that of the options. All ranks
 * set the same. A wait that is over ends the communicator (TOPO_TIMEOUT). */
int topo_comm_timeout(topo_comm *comm, uint32_t timeout_ms);

/* Says where the next call of this thread is; TOPO_DEBUG names it when ranks disagree. With
 * TOPO_CALL_SITES defined before this header, the calls below say it by themselves. */
int topo_call_site(const char *file, uint32_t line);

/* A group: sends and receives in between return at once, and topo_group_end runs all of
 * them together. No order of them waits for each other. */
int topo_group_start(topo_comm *comm);
int topo_group_end(topo_comm *comm);

/* Whether work is done (TOPO_OK or its error) or not (TOPO_PENDING); topo_wait waits without limit,
 * topo_wait_for for some milliseconds. Each says once that work is done: afterwards it is unknown
 * (TOPO_INVALID). */
int topo_test(topo_comm *comm, uint64_t work);
int topo_wait(topo_comm *comm, uint64_t work);
int topo_wait_for(topo_comm *comm, uint64_t work, uint32_t longest_ms);

/* Waits until all works of a list are done, and returns the first error of them; or until any of
 * them is done, and stores its place in *at. Zeros in the list are no works: put one in the place
 * of work that is done. */
int topo_wait_all(topo_comm *comm, const uint64_t *works, size_t count);
int topo_wait_any(topo_comm *comm, const uint64_t *works, size_t count, size_t *at);

/* Memory that the other ranks of the host access directly: the fastest for large messages. Both
 * wait until everything that was started is done. */
int topo_alloc(topo_comm *comm, size_t bytes, void **memory);
int topo_free(topo_comm *comm, void *memory);

#ifdef __cplusplus
}
#endif

#ifdef TOPO_CALL_SITES
#define topo_run(...) (topo_call_site(__FILE__, __LINE__), topo_run(__VA_ARGS__))
#define topo_start(...) (topo_call_site(__FILE__, __LINE__), topo_start(__VA_ARGS__))
#define topo_send(...) (topo_call_site(__FILE__, __LINE__), topo_send(__VA_ARGS__))
#define topo_receive(...) (topo_call_site(__FILE__, __LINE__), topo_receive(__VA_ARGS__))
#define topo_send_tagged(...) (topo_call_site(__FILE__, __LINE__), topo_send_tagged(__VA_ARGS__))
#define topo_receive_tagged(...) \
    (topo_call_site(__FILE__, __LINE__), topo_receive_tagged(__VA_ARGS__))
#define topo_start_send(...) (topo_call_site(__FILE__, __LINE__), topo_start_send(__VA_ARGS__))
#define topo_start_receive(...) \
    (topo_call_site(__FILE__, __LINE__), topo_start_receive(__VA_ARGS__))
#define topo_start_receive_any(...) \
    (topo_call_site(__FILE__, __LINE__), topo_start_receive_any(__VA_ARGS__))
#define topo_start_send_tagged(...) \
    (topo_call_site(__FILE__, __LINE__), topo_start_send_tagged(__VA_ARGS__))
#define topo_start_receive_tagged(...) \
    (topo_call_site(__FILE__, __LINE__), topo_start_receive_tagged(__VA_ARGS__))
#define topo_receive_any(...) (topo_call_site(__FILE__, __LINE__), topo_receive_any(__VA_ARGS__))
#define topo_group_end(...) (topo_call_site(__FILE__, __LINE__), topo_group_end(__VA_ARGS__))
#endif

#endif
