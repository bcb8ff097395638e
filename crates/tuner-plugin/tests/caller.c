/* Calls a tuner plug-in as NCCL does, with each version of its tables of functions. Says what it
   answers, and what it logs, on standard output. Usage: caller PLUGIN NODES RANKS */

#include <dlfcn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef void (*logger)(int, unsigned long, const char *, int, const char *, ...);

typedef struct {
    const char *name;
    int (*init)(size_t, size_t, logger, void **);
    int (*information)(void *, int, size_t, int, float **, int, int, int *);
    int (*destroy)(void *);
} tuner_v3;

typedef struct {
    const char *name;
    int (*init)(size_t, size_t, logger, void **);
    int (*information)(void *, int, size_t, int, float **, int, int, int, int *);
    int (*destroy)(void *);
} tuner_v4;

typedef struct {
    int domains, least, most;
} domains_v5;

typedef struct {
    const char *name;
    int (*init)(void **, uint64_t, size_t, size_t, logger, domains_v5 *, void *);
    int (*information)(void *, int, size_t, int, float **, int, int, int, int *);
    int (*finalize)(void *);
    /* Version 6 only. */
    int (*chunk)(void *, int, size_t, int, int, int, size_t *);
} tuner_v6;

/* What NCCL 2.22 has: without PAT. */
enum { ALGORITHMS = 6, PROTOCOLS = 3 };

static void say(int level, unsigned long flags, const char *file, int line, const char *format, ...) {
    (void)flags, (void)file, (void)line;
    va_list arguments;
    va_start(arguments, format);
    printf("level %d ", level);
    vprintf(format, arguments);
    putchar('\n');
    va_end(arguments);
}

static void fill(float table[ALGORITHMS][PROTOCOLS]) {
    for (int algorithm = 0; algorithm < ALGORITHMS; algorithm++)
        for (int protocol = 0; protocol < PROTOCOLS; protocol++)
            table[algorithm][protocol] = algorithm < 2 ? 10.0f + algorithm + protocol : -1.0f;
}

static void show(const char *version, int code, float table[ALGORITHMS][PROTOCOLS], int channels) {
    printf("%s code %d channels %d zero", version, code, channels);
    for (int algorithm = 0; algorithm < ALGORITHMS; algorithm++)
        for (int protocol = 0; protocol < PROTOCOLS; protocol++)
            if (table[algorithm][protocol] == 0.0f)
                printf(" %d/%d", algorithm, protocol);
    putchar('\n');
}

int main(int count, char **arguments) {
    if (count != 4)
        return 2;
    void *library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    size_t nodes = strtoull(arguments[2], NULL, 10), ranks = strtoull(arguments[3], NULL, 10);
    float table[ALGORITHMS][PROTOCOLS];
    void *context = NULL;
    int channels = 0, code;
    const size_t bytes[] = {1000, 1u << 20, (size_t)-1};
    const int all_reduce = 4;

    tuner_v3 *v3 = dlsym(library, "ncclTunerPlugin_v3");
    tuner_v4 *v4 = dlsym(library, "ncclTunerPlugin_v4");
    tuner_v6 *v5 = dlsym(library, "ncclTunerPlugin_v5");
    tuner_v6 *v6 = dlsym(library, "ncclTunerPlugin_v6");
    if (v3 == NULL || v4 == NULL || v5 == NULL || v6 == NULL)
        return 3;

    printf("name %s\n", v3->name);
    if (v3->init(ranks, nodes, say, &context) != 0)
        return 4;
    for (int at = 0; at < 3; at++) {
        fill(table);
        channels = 0;
        code = v3->information(context, all_reduce, bytes[at], 1, (float **)table, ALGORITHMS, PROTOCOLS, &channels);
        show("v3", code, table, channels);
    }
    v3->destroy(context);

    if (v4->init(ranks, nodes, say, &context) != 0)
        return 4;
    fill(table);
    channels = 0;
    code = v4->information(context, all_reduce, bytes[0], 1, (float **)table, ALGORITHMS, PROTOCOLS, 1, &channels);
    show("v4", code, table, channels);
    v4->destroy(context);

    domains_v5 domains = {1, (int)ranks, (int)ranks};
    tuner_v6 *newest[] = {v5, v6};
    for (int at = 0; at < 2; at++) {
        if (newest[at]->init(&context, 7, ranks, nodes, say, &domains, NULL) != 0)
            return 4;
        fill(table);
        channels = 0;
        code = newest[at]->information(context, all_reduce, bytes[0], 1, (float **)table, ALGORITHMS, PROTOCOLS, 0, &channels);
        show(at == 0 ? "v5" : "v6", code, table, channels);
        if (at == 1) {
            size_t chunk = 524288;
            code = v6->chunk(context, all_reduce, bytes[0], 0, 0, 2, &chunk);
            printf("chunk code %d %zu\n", code, chunk);
            code = v6->chunk(context, all_reduce, bytes[0], 1, 0, 2, &chunk);
            printf("chunk of another code %d %zu\n", code, chunk);
        }
        newest[at]->finalize(context);
    }

    /* What no NCCL should do. */
    v6->init(&context, 7, ranks, nodes, NULL, NULL, NULL);
    v6->information(context, 99, 8, 1, (float **)table, ALGORITHMS, PROTOCOLS, 0, &channels);
    v6->information(context, -1, 8, 1, (float **)table, 1 << 20, PROTOCOLS, 0, &channels);
    v6->information(context, all_reduce, 8, 1, NULL, ALGORITHMS, PROTOCOLS, 0, NULL);
    v6->information(context, all_reduce, 8, 0, (float **)table, ALGORITHMS, PROTOCOLS, 0, NULL);
    v6->information(NULL, all_reduce, 8, 1, (float **)table, ALGORITHMS, PROTOCOLS, 0, &channels);
    v6->chunk(context, -5, 8, 300, 1, 1, NULL);
    v6->finalize(context);
    v6->finalize(NULL);
    dlclose(library);
    puts("end");
    return 0;
}
