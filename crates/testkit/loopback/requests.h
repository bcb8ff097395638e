/* Registered memory, and the messages that communicators send and receive. */

#pragma once

#include "connections.h"

static int is_communicator(struct communicator *it) { return it && (it->magic == SENDING || it->magic == RECEIVING); }

static int new_registration(struct communicator *communicator, struct registration own, void **to) {
    for (int at = 0; at < MOST_REGISTRATIONS; at++) {
        struct registration *it = &communicator->registrations[at];
        if (it->used)
            continue;
        *it = own;
        it->used = 1;
        *to = it;
        ADD(open_registrations, 1);
        return SUCCESS;
    }
    VIOLATION("more registrations than anyone needs");
}

static int l_register(void *of, void *data, size_t size, int type, void **to) {
    FAULT("REGMR");
    struct communicator *communicator = of;
    NEED(is_communicator(communicator), "regMr of something that is no communicator");
    NEED(data && size && to, "regMr of nothing");
    NEED(type == 1 || type == 2, "regMr of memory of kind %d", type);
    NEED(number("MEMORY", 1) & type, "regMr of memory of kind %d, which it does not take", type);
    ADD(of_devices, type == 2);
    return new_registration(communicator, (struct registration){.type = type, .data = data, .size = size, .begins = data}, to);
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
    struct registration own = {.type = type, .data = data, .size = size, .mapped = mapped, .begins = mapped + begins,
                               .mapped_size = size + begins};
    ADD(dma_bufs, 1);
    return new_registration(communicator, own, to);
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

/* The plug-in's address of registered memory. */
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

/* Sends or receives bytes. Returns 1 if all are moved, 0 if not yet, -1 if the peer is gone. */
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

/* Refuses every seventh request, as the interface allows. */
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
