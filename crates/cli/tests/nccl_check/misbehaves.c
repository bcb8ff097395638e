/* A library that misbehaves while it is loaded. MODE names how. */

#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "hangs.c"

static void hang(void) {
    for (;;)
        pause();
}

/* Writes without end. */
static void flood(const char *unit) {
    static char block[4096];
    size_t length = strlen(unit);
    for (size_t at = 0; at < sizeof block; at++)
        block[at] = unit[at % length];
    for (;;)
        for (int stream = 1; stream <= 2; stream++)
            if (write(stream, block, sizeof block) < 0)
                hang();
}

/* Leaves a daemon outside of the group, which keeps all streams. */
static void leave_daemon(void) {
    if (fork())
        return;
    setsid();
    signal(SIGTERM, SIG_IGN);
    char text[40];
    int length = snprintf(text, sizeof text, "daemon %d\n", getpid());
    (void)!write(2, text, length);
    sleep(600);
    _exit(0);
}

static void close_streams(int first, int last) {
    for (int stream = first; stream <= last; stream++)
        close(stream);
}

/* Of this machine nothing is found below /sys, and its processors are not asked. */
static void expect_another_machine(void) {
    char path[4096];
    cpu_set_t last;
    CPU_ZERO(&last);
    CPU_SET(CPU_SETSIZE - 1, &last);
    if (!access("/sys/devices", F_OK) || realpath("/sys/devices", path) || opendir("/sys"))
        _exit(4);
    if (fopen("/sys/devices/system/cpu/online", "r") || open("/sys/devices", O_RDONLY) >= 0)
        _exit(5);
    if (sched_setaffinity(0, sizeof last, &last))
        _exit(6);
    if (access("/proc/self", F_OK) || !realpath("/proc/self", path))
        _exit(7);
}

/* Modes that begin with the communicator. */
static int is_late(void) {
    return !strcmp(MODE, "crash") || !strcmp(MODE, "another-machine") ||
           !strcmp(MODE, "system-error");
}

int fail_to_start(void) {
    if (!strcmp(MODE, "crash"))
        *(volatile int *)8 = 1;
    if (!strcmp(MODE, "another-machine"))
        expect_another_machine();
    return 2;
}

__attribute__((constructor)) static void misbehave(void) {
    const char *mode = MODE;
    if (is_late())
        return;
    if (!strcmp(mode, "spin"))
        for (;;)
            *(volatile int *)&(int){0} = 1;
    if (!strcmp(mode, "daemon"))
        leave_daemon();
    if (!strcmp(mode, "daemon-exit")) {
        leave_daemon();
        /* The log then has the daemon's line. */
        sleep(1);
        _exit(0);
    }
    if (!strcmp(mode, "signals")) {
        sigset_t all;
        sigfillset(&all);
        sigprocmask(SIG_BLOCK, &all, 0);
    }
    if (!strcmp(mode, "flood"))
        flood("A");
    if (!strcmp(mode, "flood-lines"))
        flood("\n");
    if (!strcmp(mode, "flood-controls"))
        flood("\033[2J");
    if (!strcmp(mode, "garbage")) {
        char block[4096];
        memset(block, 0xff, sizeof block);
        for (int stream = 0; stream < 30; stream++) {
            fcntl(stream, F_SETFL, O_NONBLOCK);
            (void)!write(stream, block, sizeof block);
        }
    }
    if (!strcmp(mode, "close-output"))
        close_streams(1, 1);
    if (!strcmp(mode, "close-all"))
        close_streams(0, 99);
    if (!strcmp(mode, "output-is-log"))
        dup2(2, 1);
    if (!strcmp(mode, "exit"))
        _exit(0);
    if (!strcmp(mode, "child-exit")) {
        if (!fork())
            sleep(600);
        _exit(3);
    }
    if (!strcmp(mode, "long-id")) {
        static char id[1 << 20];
        memset(id, 'A', sizeof id - 1);
        dprintf(1, "{\"id\":\"%s\"}\n", id);
    }
    if (!strcmp(mode, "silent-host")) {
        const char *host = getenv("NCCL_HOSTID");
        if (host && !strcmp(host, "topo-host-1"))
            close_streams(1, 1);
        else
            dprintf(1, "{\"unusable\":\"the first host says why\"}\n");
    }
    if (!strcmp(mode, "abort"))
        abort();
    if (!strcmp(mode, "memory"))
        for (int at = 0; at < 10; at++) {
            char *memory = malloc(100 << 20);
            if (memory)
                memset(memory, 1, 100 << 20);
        }
    hang();
}
