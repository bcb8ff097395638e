/* Handles, listening sockets, and the communicators that they make. */

#pragma once

#include "settings.h"

enum { LISTENING = 0x4c495354, SENDING = 0x53454e44, RECEIVING = 0x52454356, REQUEST = 0x52455155, HANDLE = 0x48414e44 };
enum { MOST_REQUESTS = 32, MOST_REGISTRATIONS = 8 };

struct handle {
    int magic;
    uint16_t port;
    int device;
    /* State of the connecting side between calls. */
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
    /* The destination of withheld data. */
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
    /* The plug-in's mapping of a DMA-BUF, and the begin of the memory in it. */
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
    /* Of a sender: posted receives of the peer. Of a receiver: words still to be written. */
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
    /* The first calls do nothing, to detect callers that call only once. */
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
