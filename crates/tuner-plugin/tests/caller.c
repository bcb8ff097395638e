/* Calls a tuner plug-in as NCCL does, with each version of its tables of functions. Says what it
   answers, and what it logs, on standard output. Usage: caller PLUGIN NODES RANKS */

#define _GNU_SOURCE

#include <dlfcn.h>
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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
    /* From version 6 on. */
    int (*chunk)(void *, int, size_t, int, int, int, size_t *);
} tuner_v6;

#define CONSTANTS(name, rows)                                                                          \
    typedef struct {                                                                                   \
        double base[7][3], hardware[3][7][3];                                                          \
        double ll[rows][3], ring_ll128[rows][3], tree_ll128[rows][3], tree[rows][3], nvls_tree[rows][3]; \
    } name

CONSTANTS(constants_v5, 4);
CONSTANTS(constants_v7, 5);

#define AT(field, v5, v7)                                                                              \
    _Static_assert(offsetof(constants_v5, field) == v5 && offsetof(constants_v7, field) == v7, #field)

AT(hardware, 168, 168);
AT(ll, 672, 672);
AT(ring_ll128, 768, 792);
AT(tree_ll128, 864, 912);
AT(tree, 960, 1032);
AT(nvls_tree, 1056, 1152);
_Static_assert(sizeof(constants_v5) == 1152 && sizeof(constants_v7) == 1272, "size");

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

/* Memory of some bytes; a plug-in that touches the byte behind it ends this program. */
static void *edge(size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *two = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (two == MAP_FAILED || bytes > page || mprotect(two + page, page, PROT_NONE) != 0)
        exit(5);
    return memset(two + page - bytes, 0x5a, bytes);
}

/* What no NCCL should do. */
static void misuse(tuner_v6 *of, size_t nodes, size_t ranks) {
    const int all_reduce = 4;
    float table[ALGORITHMS][PROTOCOLS] = {{0}};
    void *context = NULL;
    int channels = 0;
    of->init(NULL, 7, ranks, nodes, NULL, NULL, NULL);
    of->init(&context, 7, 0, (size_t)-1, NULL, NULL, NULL);
    of->finalize(context);
    of->init(&context, 7, ranks, nodes, NULL, NULL, NULL);
    of->information(context, 99, 8, 1, (float **)table, ALGORITHMS, PROTOCOLS, 0, &channels);
    of->information(context, -1, 8, 1, (float **)table, 1 << 20, PROTOCOLS, 0, &channels);
    of->information(context, all_reduce, 8, 1, (float **)table, INT_MAX, INT_MAX, 0, &channels);
    of->information(context, all_reduce, 8, 1, (float **)table, 0, -PROTOCOLS, 0, &channels);
    of->information(context, all_reduce, 8, 1, NULL, ALGORITHMS, PROTOCOLS, 0, NULL);
    of->information(context, all_reduce, 8, 0, (float **)table, ALGORITHMS, PROTOCOLS, 0, NULL);
    of->information(NULL, all_reduce, 8, 1, (float **)table, ALGORITHMS, PROTOCOLS, 0, &channels);
    /* The file's choices are 0/0, and 1/2, which this table lacks. */
    float *one = edge(sizeof *one);
    of->information(context, all_reduce, 1000, 1, (float **)one, 1, 1, 0, &channels);
    of->information(context, all_reduce, 1u << 20, 1, (float **)one, 1, 1, 0, &channels);
    of->chunk(context, -5, 8, 300, 1, 1, NULL);
    of->chunk(NULL, all_reduce, 1000, 0, 0, 2, edge(sizeof(size_t)));
    of->finalize(context);
    of->finalize(NULL);
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
    tuner_v6 *v7 = dlsym(library, "ncclTunerPlugin_v7");
    if (v3 == NULL || v4 == NULL || v5 == NULL || v6 == NULL || v7 == NULL)
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
    tuner_v6 *newest[] = {v5, v6, v7};
    const char *versions[] = {"v5", "v6", "v7"};
    const size_t sizes[] = {sizeof(constants_v5), sizeof(constants_v5), sizeof(constants_v7)};
    for (int at = 0; at < 3; at++) {
        tuner_v6 *tuner = newest[at];
        void *constants = edge(sizes[at]), *kept = memcpy(edge(sizes[at]), constants, sizes[at]);
        if (tuner->init(&context, 7, ranks, nodes, say, &domains, constants) != 0)
            return 4;
        for (int size = 0; size < 3; size++) {
            fill(table);
            channels = 0;
            code = tuner->information(context, all_reduce, bytes[size], 1, (float **)table, ALGORITHMS, PROTOCOLS, 0, &channels);
            show(versions[at], code, table, channels);
        }
        if (tuner != v5) {
            size_t chunk = 524288;
            code = tuner->chunk(context, all_reduce, bytes[0], 0, 0, 2, &chunk);
            printf("chunk code %d %zu\n", code, chunk);
            code = tuner->chunk(context, all_reduce, bytes[0], 1, 0, 2, &chunk);
            printf("chunk of another code %d %zu\n", code, chunk);
        }
        tuner->finalize(context);
        if (memcmp(constants, kept, sizes[at]) != 0)
            return 6;
    }

    misuse(v6, nodes, ranks);
    misuse(v7, nodes, ranks);
    dlclose(library);
    puts("end");
    return 0;
}
