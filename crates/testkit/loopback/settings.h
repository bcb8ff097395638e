/* Counters and warnings of the plug-in, and the settings with which tests change it. */

#pragma once

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

/* A setting, from the compiler's options or the environment. */
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

/* The code with which a function must fail now, or 0. It does not return if it must hang. */
static int fault(const char *function, int *calls) {
    const char *value = setting(function);
    if (value == NULL)
        return SUCCESS;
    while (strcmp(value, "hang") == 0)
        pause();
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
