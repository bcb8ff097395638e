/* A management library of NVIDIA that misbehaves: MODE says how. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is(const char *mode) { return strcmp(MODE, mode) == 0; }

static void hang(void) {
    for (;;)
        pause();
}

__attribute__((constructor)) static void loaded(void) {
    if (is("hang-load"))
        hang();
    if (is("exit"))
        exit(0);
    if (is("noise"))
        printf("a line of the library\nand a half");
}

__attribute__((destructor)) static void unloaded(void) {
    if (is("hang-end"))
        hang();
}

#ifndef WITHOUT_INIT
int nvmlInit_v2(void) {
    if (is("hang-init"))
        hang();
    if (is("abort"))
        abort();
    /* A child that would outlive the process. */
    if (is("child") && fork() == 0) {
        FILE *file = fopen(getenv("CHILD"), "w");
        fprintf(file, "%d\n", (int)getpid());
        fclose(file);
        hang();
    }
    return 0;
}
#endif

int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = 0;
    return 0;
}

int nvmlSystemGetDriverVersion(char *text, unsigned bytes) {
    if (is("hang-answer"))
        hang();
    snprintf(text, bytes, "1.2.3");
    return 0;
}

#ifdef WITH_SHUTDOWN
int nvmlShutdown(void) { return 0; }
#endif
