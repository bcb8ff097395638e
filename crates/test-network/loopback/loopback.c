/* A net plug-in for tests: devices of the loopback interface, joined by TCP, that behave as strictly as the interface
 * allows. Compiled once for each version of the ABI (-DVERSION=8 to 12; 7 and 0 export no table that is known).
 *
 * Whoever breaks a rule of the interface gets ncclInvalidUsage and a warning, and is counted. A message leaves only when
 * the other side has posted a receive for it, so requests are refused now and then, as by real NICs. At the end of the
 * process a line about everything that was called goes to the file TOPO_LOOPBACK_REPORT.
 *
 * TOPO_LOOPBACK_<FUNCTION>=CODE[:AFTER] lets a function fail, after so many calls that do not. TOPO_LOOPBACK_STALL=AFTER
 * swallows all later messages, TOPO_LOOPBACK_KILL=AFTER ends the process there. TOPO_LOOPBACK_ with DEVICES, NAME, LIMIT,
 * RECEIVES, SPEED, BYTES and MEMORY changes what it says of itself. TOPO_LOOPBACK_FLUSH=1 withholds what comes for memory of
 * GPUs until it is flushed. The same names without TOPO_LOOPBACK_ can be in -DSETTINGS="NAME=VALUE;...".
 *
 * Memory of GPUs is memory like any other here; of a DMA-BUF it maps the file and uses nothing else. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef VERSION
#error "-DVERSION=8 to 12"
#endif

enum { SUCCESS = 0, SYSTEM_ERROR = 2, INVALID_USAGE = 5, REMOTE_ERROR = 6 };

typedef void (*logger_function)(int, unsigned long, const char *, int, const char *, ...);
typedef int (*profiler_function)(void **, int, void *, int64_t, void *);

static logger_function logger;
static int started;
static struct {
    int inits, finalizes, listens, connects, accepts, sends, receives, refused, flushes, violations;
    int open_listens, open_sends, open_receives, open_registrations, open_requests;
    int of_devices, dma_bufs;
    long bytes;
} count;

#define ADD(what, by) __atomic_add_fetch(&count.what, by, __ATOMIC_RELAXED)
#define GET(what) __atomic_load_n(&count.what, __ATOMIC_RELAXED)
#define WARN(...)                                                        \
    do {                                                                 \
        if (logger)                                                      \
            logger(2, 0x10, __FILE__, __LINE__, "loopback: " __VA_ARGS__); \
    } while (0)
#define VIOLATION(...)      \
    do {                    \
        WARN(__VA_ARGS__);  \
        ADD(violations, 1); \
        return INVALID_USAGE; \
    } while (0)
#define NEED(holds, ...)            \
    do {                            \
        if (!(holds))               \
            VIOLATION(__VA_ARGS__); \
    } while (0)

#ifndef SETTINGS
#define SETTINGS ""
#endif

/* What is set: when it was compiled, or in the environment. */
static const char *setting(const char *name) {
    static __thread char text[128];
    size_t length = strlen(name);
    for (const char *at = SETTINGS; *at; at += strcspn(at, ";"), at += *at == ';')
        if (strncmp(at, name, length) == 0 && at[length] == '=') {
            snprintf(text, sizeof text, "%.*s", (int)strcspn(at + length + 1, ";"), at + length + 1);
            return text;
        }
    snprintf(text, sizeof text, "TOPO_LOOPBACK_%s", name);
    return getenv(text);
}

/* The code with which a function is to fail now, or 0. */
static int fault(const char *function, int *calls) {
    const char *value = setting(function);
    if (value == NULL)
        return SUCCESS;
    const char *colon = strchr(value, ':');
    int after = colon ? atoi(colon + 1) : 0;
    if (__atomic_fetch_add(calls, 1, __ATOMIC_RELAXED) < after)
        return SUCCESS;
    WARN("%s fails as asked", function);
    return atoi(value);
}
#define FAULT(function)                        \
    do {                                       \
        static int calls;                      \
        int code = fault(function, &calls);    \
        if (code)                              \
            return code;                       \
    } while (0)

static int number(const char *name, int otherwise) {
    const char *value = setting(name);
    return value ? atoi(value) : otherwise;
}

/* ---- objects ---- */

enum { LISTENING = 0x4c495354, SENDING = 0x53454e44, RECEIVING = 0x52454356, REQUEST = 0x52455155, HANDLE = 0x48414e44 };
enum { MOST_REQUESTS = 32, MOST_REGISTRATIONS = 8 };

struct handle {
    int magic;
    uint16_t port;
    int device;
    /* Notes of whoever connects, kept here between calls. */
    struct handle *place;
    int fd, calls;
};
_Static_assert(sizeof(struct handle) <= 128, "a handle has 128 bytes");

struct listening {
    int magic, fd, calls, accepted;
};

struct word {
    uint32_t size;
    int32_t tag;
};

struct request {
    int magic, used, done, flush, stalled;
    struct communicator *of;
    char *data;
    /* Where data belongs that is withheld. */
    char *belongs;
    size_t size, moved;
    struct word head;
    size_t head_moved;
    struct request *next;
};

struct registration {
    int used, type;
    char *data;
    size_t size;
    /* The own mapping of a DMA-BUF: all of it, and where the memory begins. */
    char *mapped, *begins;
    size_t mapped_size;
};

struct withheld {
    char *belongs, *data;
    size_t size;
};

struct communicator {
    int magic, fd, broken;
    struct request requests[MOST_REQUESTS];
    struct request *first, *last;
    struct registration registrations[MOST_REGISTRATIONS];
    struct withheld withheld[MOST_REQUESTS];
    /* Of a sender: receives that are posted over there. Of a receiver: words still to be written. */
    struct word credits[MOST_REQUESTS];
    int credit_count;
    size_t credit_moved;
    char partial[sizeof(struct word)];
    size_t partial_bytes;
};

static int nonblocking(int fd) {
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

static int init_common(logger_function log) {
    logger = log;
    ADD(inits, 1);
    FAULT("INIT");
    return SUCCESS;
}

static int l_devices(int *devices) {
    NEED(devices, "devices without a place for their number");
    FAULT("DEVICES_CALL");
    *devices = number("DEVICES", 2);
    return SUCCESS;
}

static int listen_common(int device, void *to, void **object) {
    FAULT("LISTEN");
    NEED(started, "listen before init");
    NEED(device >= 0 && device < number("DEVICES", 2), "listen on device %d", device);
    NEED(to && object, "listen without a place for its results");
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, length) || listen(fd, 1) || nonblocking(fd) ||
        getsockname(fd, (struct sockaddr *)&address, &length)) {
        WARN("cannot listen: %s", strerror(errno));
        return SYSTEM_ERROR;
    }
    struct handle handle = {.magic = HANDLE, .port = address.sin_port, .device = device, .fd = -1};
    memset(to, 0x5a, 128);
    memcpy(to, &handle, sizeof handle);
    struct listening *listening = calloc(1, sizeof *listening);
    listening->magic = LISTENING;
    listening->fd = fd;
    *object = listening;
    ADD(listens, 1);
    ADD(open_listens, 1);
    return SUCCESS;
}

static int connect_common(int device, void *from, void **object, void **offload) {
    FAULT("CONNECT");
    NEED(started, "connect before init");
    NEED(device >= 0 && device < number("DEVICES", 2), "connect from device %d", device);
    NEED(from && object && *object == NULL && offload && *offload == NULL, "connect without places for its results");
    struct handle *handle = from;
    NEED(handle->magic == HANDLE, "connect by something that is no handle");
    NEED(handle->calls == 0 || handle->place == handle, "connect by a handle that was moved in between");
    handle->place = handle;
    /* The first calls only take note, so that one who calls but once is found out. */
    if (++handle->calls < 3)
        return SUCCESS;
    if (handle->fd < 0) {
        handle->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        address.sin_port = handle->port;
        if (handle->fd < 0 || nonblocking(handle->fd))
            return SYSTEM_ERROR;
        if (connect(handle->fd, (struct sockaddr *)&address, sizeof address) && errno != EINPROGRESS) {
            WARN("cannot connect: %s", strerror(errno));
            return REMOTE_ERROR;
        }
        return SUCCESS;
    }
    struct sockaddr_in peer;
    socklen_t length = sizeof peer;
    if (getpeername(handle->fd, (struct sockaddr *)&peer, &length)) {
        int error = 0;
        socklen_t bytes = sizeof error;
        getsockopt(handle->fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
        if (error) {
            WARN("cannot connect: %s", strerror(error));
            return REMOTE_ERROR;
        }
        return SUCCESS;
    }
    struct communicator *communicator = calloc(1, sizeof *communicator);
    communicator->magic = SENDING;
    communicator->fd = handle->fd;
    *object = communicator;
    ADD(connects, 1);
    ADD(open_sends, 1);
    return SUCCESS;
}

static int l_accept(void *of, void **object, void **offload) {
    FAULT("ACCEPT");
    struct listening *listening = of;
    NEED(listening && listening->magic == LISTENING, "accept of something that does not listen");
    NEED(object && *object == NULL && offload && *offload == NULL, "accept without places for its results");
    NEED(!listening->accepted, "accept after somebody was accepted");
    if (++listening->calls < 2)
        return SUCCESS;
    int fd = accept4(listening->fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return SUCCESS;
    nonblocking(fd);
    struct communicator *communicator = calloc(1, sizeof *communicator);
    communicator->magic = RECEIVING;
    communicator->fd = fd;
    listening->accepted = 1;
    *object = communicator;
    ADD(accepts, 1);
    ADD(open_receives, 1);
    return SUCCESS;
}

static int is_communicator(struct communicator *it) { return it && (it->magic == SENDING || it->magic == RECEIVING); }

static int l_register(void *of, void *data, size_t size, int type, void **to) {
    FAULT("REGMR");
    struct communicator *communicator = of;
    NEED(is_communicator(communicator), "regMr of something that is no communicator");
    NEED(data && size && to, "regMr of nothing");
    NEED(type == 1 || type == 2, "regMr of memory of kind %d", type);
    NEED(number("MEMORY", 1) & type, "regMr of memory of kind %d, which it does not take", type);
    for (int at = 0; at < MOST_REGISTRATIONS; at++) {
        struct registration *it = &communicator->registrations[at];
        if (!it->used) {
            *it = (struct registration){.used = 1, .type = type, .data = data, .size = size, .begins = data};
            *to = it;
            ADD(open_registrations, 1);
            ADD(of_devices, type == 2);
            return SUCCESS;
        }
    }
    VIOLATION("more registrations than anyone needs");
}

static int l_register_dma_buf(void *of, void *data, size_t size, int type, uint64_t offset, int fd, void **to) {
    FAULT("REGMRDMABUF");
    struct communicator *communicator = of;
    NEED(is_communicator(communicator), "regMrDmaBuf of something that is no communicator");
    NEED(data && size && to, "regMrDmaBuf of nothing");
    NEED(number("MEMORY", 1) & 4, "regMrDmaBuf, though it takes none");
    NEED(type == 2, "regMrDmaBuf of memory of kind %d", type);
    size_t page = sysconf(_SC_PAGESIZE), begins = offset % page;
    char *mapped = mmap(NULL, size + begins, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset - begins);
    NEED(mapped != MAP_FAILED, "regMrDmaBuf of a file that cannot be mapped: %s", strerror(errno));
    for (int at = 0; at < MOST_REGISTRATIONS; at++) {
        struct registration *it = &communicator->registrations[at];
        if (!it->used) {
            *it = (struct registration){.used = 1, .type = type, .data = data, .size = size, .mapped = mapped,
                                        .begins = mapped + begins, .mapped_size = size + begins};
            *to = it;
            ADD(open_registrations, 1);
            ADD(dma_bufs, 1);
            return SUCCESS;
        }
    }
    VIOLATION("more registrations than anyone needs");
}

static struct registration *registration_of(struct communicator *communicator, void *handle) {
    struct registration *it = handle;
    int own = it >= communicator->registrations && it < communicator->registrations + MOST_REGISTRATIONS;
    return own && it->used ? it : NULL;
}

static int l_deregister(void *of, void *handle) {
    struct communicator *communicator = of;
    NEED(is_communicator(communicator), "deregMr of something that is no communicator");
    struct registration *it = registration_of(communicator, handle);
    NEED(it, "deregMr of something that was not registered here");
    if (it->mapped)
        munmap(it->mapped, it->mapped_size);
    it->used = 0;
    ADD(open_registrations, -1);
    return SUCCESS;
}

static int is_registered(struct communicator *communicator, void *handle, char *data, size_t size) {
    struct registration *it = registration_of(communicator, handle);
    return it && data >= it->data && size <= it->size && (size_t)(data - it->data) <= it->size - size;
}

/* Where it reads and writes what is registered. */
static char *reached(struct communicator *communicator, void *handle, char *data) {
    struct registration *it = registration_of(communicator, handle);
    return it->begins + (data - it->data);
}

static struct request *new_request(struct communicator *communicator) {
    for (int at = 0; at < MOST_REQUESTS; at++) {
        struct request *it = &communicator->requests[at];
        if (!it->used) {
            memset(it, 0, sizeof *it);
            it->magic = REQUEST;
            it->used = 1;
            it->of = communicator;
            ADD(open_requests, 1);
            return it;
        }
    }
    return NULL;
}

static void append(struct communicator *communicator, struct request *it) {
    if (communicator->last)
        communicator->last->next = it;
    else
        communicator->first = it;
    communicator->last = it;
}

static void pop(struct communicator *communicator) {
    communicator->first = communicator->first->next;
    if (communicator->first == NULL)
        communicator->last = NULL;
}

/* Moves bytes one way as far as it goes: 1 if all are moved, 0 if not yet, -1 if the other side is gone. */
static int move(int fd, int out, char *data, size_t size, size_t *moved) {
    while (*moved < size) {
        ssize_t some = out ? send(fd, data + *moved, size - *moved, MSG_NOSIGNAL) : recv(fd, data + *moved, size - *moved, 0);
        if (some < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return 0;
        if (some < 0 && errno == EINTR)
            continue;
        if (some <= 0)
            return -1;
        *moved += some;
    }
    return 1;
}

static int read_credits(struct communicator *it) {
    while (it->credit_count < MOST_REQUESTS) {
        int got = move(it->fd, 0, it->partial, sizeof it->partial, &it->partial_bytes);
        if (got <= 0)
            return got;
        memcpy(&it->credits[it->credit_count++], it->partial, sizeof it->partial);
        it->partial_bytes = 0;
    }
    return 0;
}

static int progress(struct communicator *it) {
    int out = it->magic == SENDING;
    if (!out)
        while (it->credit_count > 0) {
            int sent = move(it->fd, 1, (char *)&it->credits[0], sizeof(struct word), &it->credit_moved);
            if (sent < 0)
                return -1;
            if (sent == 0)
                break;
            it->credit_moved = 0;
            memmove(it->credits, it->credits + 1, --it->credit_count * sizeof(struct word));
        }
    while (it->first) {
        struct request *request = it->first;
        if (request->stalled)
            return 0;
        int done = move(it->fd, out, (char *)&request->head, sizeof request->head, &request->head_moved);
        if (done <= 0)
            return done;
        if (!out && request->moved == 0) {
            NEED(request->head.size <= request->size, "a message of %u bytes for a receive of %zu", request->head.size,
                 request->size);
            request->size = request->head.size;
        }
        done = move(it->fd, out, request->data, request->size, &request->moved);
        if (done <= 0)
            return done;
        request->done = 1;
        if (out)
            ADD(bytes, request->size);
        pop(it);
    }
    return 0;
}

/* Every seventh request is refused, for that is allowed. */
static int refuses(void) {
    static int calls;
    if (__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) % 7)
        return 0;
    ADD(refused, 1);
    return 1;
}

static int send_common(void *of, void *data, size_t size, int tag, void *handle, void **to) {
    FAULT("ISEND");
    struct communicator *communicator = of;
    NEED(communicator && communicator->magic == SENDING, "isend by something that does not send");
    NEED(to && *to == NULL, "isend without a place for its request");
    NEED(is_registered(communicator, handle, data, size), "isend of memory that is not registered here");
    if (communicator->broken || read_credits(communicator) < 0)
        return REMOTE_ERROR;
    if (communicator->credit_count == 0 || refuses())
        return SUCCESS;
    struct word credit = communicator->credits[0];
    NEED(credit.tag == tag, "isend with tag %d, but the receive has %d", tag, credit.tag);
    NEED(size <= credit.size, "isend of %zu bytes, but the receive takes %u", size, credit.size);
    struct request *request = new_request(communicator);
    NEED(request, "more than %d requests", MOST_REQUESTS);
    memmove(communicator->credits, communicator->credits + 1, --communicator->credit_count * sizeof credit);
    request->data = reached(communicator, handle, data);
    request->size = size;
    request->head = (struct word){size, tag};
    int killed = number("KILL", -1);
    if (killed >= 0 && GET(sends) >= killed)
        raise(SIGKILL);
    int after = number("STALL", -1);
    request->stalled = after >= 0 && GET(sends) >= after;
    append(communicator, request);
    ADD(sends, 1);
    *to = request;
    return SUCCESS;
}

static int receive_common(void *of, int n, void **data, size_t size, int *tags, void **handles, void **to) {
    FAULT("IRECV");
    struct communicator *communicator = of;
    NEED(communicator && communicator->magic == RECEIVING, "irecv by something that does not receive");
    NEED(n == 1 && data && tags && handles, "irecv of %d messages, but groups of 1 are all it takes", n);
    NEED(to && *to == NULL, "irecv without a place for its request");
    NEED(is_registered(communicator, handles[0], data[0], size), "irecv into memory that is not registered here");
    if (refuses())
        return SUCCESS;
    struct request *request = new_request(communicator);
    NEED(request, "more than %d requests", MOST_REQUESTS);
    request->data = reached(communicator, handles[0], data[0]);
    request->size = size;
    if (registration_of(communicator, handles[0])->type == 2 && number("FLUSH", 0)) {
        request->belongs = request->data;
        request->data = malloc(size);
    }
    append(communicator, request);
    NEED(communicator->credit_count < MOST_REQUESTS, "more receives than there is room for");
    communicator->credits[communicator->credit_count++] = (struct word){size, tags[0]};
    ADD(receives, 1);
    *to = request;
    return progress(communicator) < 0 ? REMOTE_ERROR : SUCCESS;
}

static int l_flush(void *of, int n, void **data, int *sizes, void **handles, void **to) {
    struct communicator *communicator = of;
    NEED(communicator && communicator->magic == RECEIVING, "iflush by something that does not receive");
    NEED(n == 1 && data && sizes && handles && to && *to == NULL, "iflush of %d messages", n);
    NEED(is_registered(communicator, handles[0], data[0], sizes[0]), "iflush of memory that is not registered here");
    struct request *request = new_request(communicator);
    NEED(request, "more than %d requests", MOST_REQUESTS);
    request->flush = 2;
    request->belongs = reached(communicator, handles[0], data[0]);
    ADD(flushes, 1);
    *to = request;
    return SUCCESS;
}

static int l_test(void *of, int *done, int *sizes) {
    FAULT("TEST");
    struct request *request = of;
    NEED(request && request->magic == REQUEST && request->used, "test of something that is no request, or done");
    NEED(done, "test without a place for its result");
    *done = 0;
    struct communicator *communicator = request->of;
    if (request->flush && --request->flush == 0) {
        request->done = 1;
        for (int at = 0; at < MOST_REQUESTS; at++) {
            struct withheld *it = &communicator->withheld[at];
            if (it->data && it->belongs == request->belongs) {
                memcpy(it->belongs, it->data, it->size);
                free(it->data);
                it->data = NULL;
            }
        }
        request->belongs = NULL;
    }
    if (!request->done && !request->flush) {
        int went = progress(communicator);
        if (went == INVALID_USAGE)
            return INVALID_USAGE;
        if (went < 0 && !request->done) {
            communicator->broken = 1;
            request->used = 0;
            ADD(open_requests, -1);
            WARN("the other side is gone");
            return REMOTE_ERROR;
        }
    }
    if (request->done) {
        for (int at = 0; request->belongs && at < MOST_REQUESTS; at++) {
            struct withheld *it = &communicator->withheld[at];
            if (it->data == NULL) {
                *it = (struct withheld){request->belongs, request->data, request->size};
                request->belongs = NULL;
            }
        }
        *done = 1;
        if (sizes)
            sizes[0] = (int)request->size;
        request->used = 0;
        ADD(open_requests, -1);
    }
    return SUCCESS;
}

static int close_common(struct communicator *it, int kind) {
    NEED(it && it->magic == kind, "close of something else");
    for (int at = 0; at < MOST_REGISTRATIONS; at++)
        NEED(!it->registrations[at].used, "close while memory is registered");
    for (int at = 0; at < MOST_REQUESTS; at++)
        free(it->withheld[at].data);
    it->magic = 0;
    close(it->fd);
    free(it);
    return SUCCESS;
}

static int l_close_send(void *of) {
    ADD(open_sends, -1);
    return close_common(of, SENDING);
}

static int l_close_receive(void *of) {
    ADD(open_receives, -1);
    return close_common(of, RECEIVING);
}

static int l_close_listen(void *of) {
    struct listening *listening = of;
    NEED(listening && listening->magic == LISTENING, "closeListen of something that does not listen");
    ADD(open_listens, -1);
    listening->magic = 0;
    close(listening->fd);
    free(listening);
    return SUCCESS;
}

static int l_get_device_registration(void *of, void *handle, void **to) {
    (void)of, (void)handle, (void)to;
    VIOLATION("getDeviceMr, though it offloads nothing");
}

static int l_receive_consumed(void *of, int n, void *request) {
    (void)of, (void)n, (void)request;
    VIOLATION("irecvConsumed, though it offloads nothing");
}

__attribute__((destructor)) static void report(void) {
    const char *path = setting("REPORT");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (file == NULL)
        return;
    fprintf(file,
            "v%d: %d inits, %d finalizes, %d listens, %d connects, %d accepts, %d sends, %d receives, %d refused, "
            "%d flushes, %ld bytes, %d of devices, %d DMA-BUFs; open: %d listening, %d sending, %d receiving, %d registered, %d requests; "
            "%d violations\n",
            VERSION, count.inits, count.finalizes, count.listens, count.connects, count.accepts, count.sends,
            count.receives, count.refused, count.flushes, count.bytes, count.of_devices, count.dma_bufs, count.open_listens, count.open_sends,
            count.open_receives, count.open_registrations, count.open_requests, count.violations);
    fclose(file);
}

/* ---- what differs between versions ---- */

#if VERSION >= 12
enum { TOGETHER = 8 };
#else
enum { TOGETHER = 4 };
#endif

struct properties {
    char *name;
    char *pciPath;
    uint64_t guid;
    int ptrSupport;
    int regIsGlobal;
#if VERSION >= 9
    int forceFlush;
#endif
    int speed;
    int port;
    float latency;
    int maxComms;
    int maxRecvs;
    int netDeviceType;
    int netDeviceVersion;
#if VERSION >= 9
    struct {
        int ndevs;
        int devs[TOGETHER];
    } vProps;
    size_t maxP2pBytes;
    size_t maxCollBytes;
#endif
#if VERSION >= 11
    int maxMultiRequestSize;
#endif
#if VERSION >= 12
    int16_t railId;
    int16_t planeId;
#endif
};

#if VERSION >= 8
_Static_assert(sizeof(struct properties) == (VERSION == 8 ? 64 : VERSION < 11 ? 104 : VERSION == 11 ? 112 : 128), "size");
#endif

struct config {
    int trafficClass;
};

static int l_get_properties(int device, struct properties *to) {
    static char names[8][16];
    NEED(device >= 0 && device < number("DEVICES", 2) && to, "getProperties of device %d", device);
    FAULT("GETPROPERTIES");
    char *name = names[device % 8];
    snprintf(name, sizeof names[0], "loop%d", device);
    const char *other = setting("NAME");
    if (other)
        name = strcmp(other, "null") == 0 ? NULL : strcmp(other, "latin1") == 0 ? (char *)"caf\xe9" : (char *)other;
    memset(to, 0, sizeof *to);
    to->name = name;
    to->pciPath = device == 0 ? "/sys/devices/pci0000:00/0000:00:05.0" : NULL;
    to->guid = 0x1234500000000000 + device;
    to->ptrSupport = number("MEMORY", 1);
    to->regIsGlobal = 0;
    to->speed = number("SPEED", 100000);
    to->port = 1 + device;
    to->latency = 1.5;
    to->maxComms = number("LIMIT", 1024);
    to->maxRecvs = number("RECEIVES", 1);
#if VERSION >= 9
    to->forceFlush = 1;
    to->vProps.ndevs = 1;
    to->vProps.devs[0] = device;
    to->maxP2pBytes = number("BYTES", 1 << 30);
    to->maxCollBytes = 1 << 30;
#endif
#if VERSION >= 11
    to->maxMultiRequestSize = 1;
#endif
#if VERSION >= 12
    to->railId = device;
    to->planeId = -1;
#endif
    return SUCCESS;
}

#if VERSION >= 11
static int context_object;
static int l_init(void **context, uint64_t communicator, struct config *config, logger_function log,
                  profiler_function profile) {
    logger = log;
    NEED(context && config && config->trafficClass == -1 && log && profile && communicator, "init without its arguments");
    *context = &context_object;
    started = 1;
    return init_common(log);
}
static int l_finalize(void *context) {
    ADD(finalizes, 1);
    NEED(context == &context_object, "finalize of another context");
    NEED(GET(open_sends) + GET(open_receives) + GET(open_listens) == 0, "finalize before all was closed");
    return SUCCESS;
}
static int l_set_attributes(void *context, void *attributes) {
    (void)context, (void)attributes;
    return SUCCESS;
}
static int l_listen(void *context, int device, void *handle, void **object) {
    NEED(context == &context_object, "listen in another context");
    return listen_common(device, handle, object);
}
static int l_connect(void *context, int device, void *handle, void **object, void **offload) {
    NEED(context == &context_object, "connect in another context");
    return connect_common(device, handle, object, offload);
}
#else
#if VERSION == 10
static int l_init(logger_function log, profiler_function profile) {
    logger = log;
    NEED(log && profile, "init without its arguments");
#else
static int l_init(logger_function log) {
    logger = log;
    NEED(log, "init without a logger");
#endif
    NEED(!started, "init for a second time");
    int code = init_common(log);
    started = code == SUCCESS;
    return code;
}
static int l_listen(int device, void *handle, void **object) { return listen_common(device, handle, object); }
#if VERSION == 10
static int l_connect(int device, struct config *config, void *handle, void **object, void **offload) {
    NEED(config && config->trafficClass == -1, "connect without its arguments");
#else
static int l_connect(int device, void *handle, void **object, void **offload) {
#endif
    return connect_common(device, handle, object, offload);
}
#endif

#if VERSION >= 10
static int l_send(void *of, void *data, size_t size, int tag, void *handle, void *parent, void **to) {
    NEED(parent == NULL, "isend for a profiler that is not there");
    return send_common(of, data, size, tag, handle, to);
}
static int l_receive(void *of, int n, void **data, size_t *sizes, int *tags, void **handles, void **parents, void **to) {
    NEED(sizes && parents && parents[0] == NULL, "irecv without its arguments");
    return receive_common(of, n, data, sizes[0], tags, handles, to);
}
#else
#if VERSION == 9
typedef size_t length;
#else
typedef int length;
#endif
static int l_send(void *of, void *data, length size, int tag, void *handle, void **to) {
    return send_common(of, data, size, tag, handle, to);
}
static int l_receive(void *of, int n, void **data, length *sizes, int *tags, void **handles, void **to) {
    NEED(sizes, "irecv without its arguments");
    return receive_common(of, n, data, sizes[0], tags, handles, to);
}
#endif

#if VERSION >= 9
static int l_make_together(int *device, void *properties) {
    (void)device, (void)properties;
    VIOLATION("makeVDevice, which nobody asked for");
}
#endif

struct table {
    const char *name;
    __typeof__(&l_init) init;
    __typeof__(&l_devices) devices;
    __typeof__(&l_get_properties) getProperties;
    __typeof__(&l_listen) listen;
    __typeof__(&l_connect) connect;
    __typeof__(&l_accept) accept;
    __typeof__(&l_register) regMr;
    __typeof__(&l_register_dma_buf) regMrDmaBuf;
    __typeof__(&l_deregister) deregMr;
    __typeof__(&l_send) isend;
    __typeof__(&l_receive) irecv;
    __typeof__(&l_flush) iflush;
    __typeof__(&l_test) test;
    __typeof__(&l_close_send) closeSend;
    __typeof__(&l_close_receive) closeRecv;
    __typeof__(&l_close_listen) closeListen;
    __typeof__(&l_get_device_registration) getDeviceMr;
    __typeof__(&l_receive_consumed) irecvConsumed;
#if VERSION >= 9
    __typeof__(&l_make_together) makeVDevice;
#endif
#if VERSION >= 11
    __typeof__(&l_finalize) finalize;
    __typeof__(&l_set_attributes) setNetAttr;
#endif
};

#define JOIN(a, b) a##b
#define SYMBOL(version) JOIN(ncclNetPlugin_v, version)

#if VERSION > 0
struct table SYMBOL(VERSION) = {
    .name = "Loopback",
    .init = l_init,
    .devices = l_devices,
    .getProperties = l_get_properties,
    .listen = l_listen,
    .connect = l_connect,
    .accept = l_accept,
    .regMr = l_register,
    .regMrDmaBuf = l_register_dma_buf,
    .deregMr = l_deregister,
#ifndef WITHOUT_ISEND
    .isend = l_send,
#endif
    .irecv = l_receive,
    .iflush = l_flush,
    .test = l_test,
    .closeSend = l_close_send,
    .closeRecv = l_close_receive,
    .closeListen = l_close_listen,
    .getDeviceMr = l_get_device_registration,
    .irecvConsumed = l_receive_consumed,
#if VERSION >= 9
    .makeVDevice = l_make_together,
#endif
#if VERSION >= 11
    .finalize = l_finalize,
    .setNetAttr = l_set_attributes,
#endif
};
#endif

#if VERSION == 12
/* Older tables beside it, of which only the symbols may be looked at. */
char ncclNetPlugin_v8[8];
char ncclNetPlugin_v7[8];
#endif
