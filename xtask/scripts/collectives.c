/* Times MPI's collectives as `topo run --time` times ours: warm buffers, as many calls in a row as
 * fill the given time, and the slowest rank's average; then calls that are timed one by one, each
 * on the slowest rank. Usage:
 *
 *     collectives COLLECTIVE FROM_BYTES TO_BYTES FACTOR MILLISECONDS
 *
 * Rank 0 prints a line per size: bytes, microseconds, and the median, the 99th percentile and the
 * maximum of single calls. Sizes are those of nccl-tests: of the large side for collectives that
 * gather or scatter. The last rank answers a broadcast with another one, so that it cannot begin
 * before the first arrived. Half of the time of both is reported.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, ALL_TO_ALL, COLLECTIVES };
static const char *const names[COLLECTIVES] = {"all-reduce", "all-gather", "reduce-scatter", "broadcast", "all-to-all"};

static int rank, ranks;

/* Makes one call; two for a broadcast. */
static void call(int collective, float *in, float *out, int count)
{
    switch (collective) {
    case ALL_REDUCE:
        MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
    case ALL_GATHER:
        MPI_Allgather(in, count, MPI_FLOAT, out, count, MPI_FLOAT, MPI_COMM_WORLD);
        break;
    case REDUCE_SCATTER:
        MPI_Reduce_scatter_block(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
    case BROADCAST:
        MPI_Bcast(out, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
        MPI_Bcast(out, count, MPI_FLOAT, ranks - 1, MPI_COMM_WORLD);
        break;
    case ALL_TO_ALL:
        MPI_Alltoall(in, count, MPI_FLOAT, out, count, MPI_FLOAT, MPI_COMM_WORLD);
        break;
    }
}

/* Returns the seconds of `times` calls on the slowest rank. */
static double calls(int collective, float *in, float *out, int count, long times)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    for (long i = 0; i < times; i++)
        call(collective, in, out, count);
    double own = MPI_Wtime() - begin, slowest = 0;
    MPI_Allreduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

/* Single calls before the ranks compare their times, and the most of all. */
enum { CHUNK = 4096, MOST = 1 << 18 };

static double single[MOST + 1];

static int compare(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

/* Times calls one by one, each on the slowest rank, into `single`. Returns the count. */
static long singles(int collective, float *in, float *out, int count, double seconds, long chunk)
{
    chunk = chunk < 1 ? 1 : chunk > CHUNK ? CHUNK : chunk;
    long all = 0;
    double began = MPI_Wtime(), spent = 0;
    while (spent < seconds && all + chunk <= MOST) {
        MPI_Barrier(MPI_COMM_WORLD);
        double before = MPI_Wtime();
        for (long i = 0; i < chunk; i++) {
            call(collective, in, out, count);
            double now = MPI_Wtime();
            single[all + i] = now - before;
            before = now;
        }
        /* The element after them is the time spent, equal on all ranks. */
        single[all + chunk] = before - began;
        MPI_Allreduce(MPI_IN_PLACE, single + all, chunk + 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        all += chunk;
        spent = single[all];
    }
    qsort(single, all, sizeof single[0], compare);
    return all;
}

/* The smallest sorted time that at least `percent` percent of all do not exceed. */
static double percentile(long all, long percent)
{
    return single[(all * percent + 99) / 100 - 1];
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int collective = COLLECTIVES;
    if (argc == 6)
        for (collective = 0; collective < COLLECTIVES; collective++)
            if (strcmp(argv[1], names[collective]) == 0)
                break;
    if (collective == COLLECTIVES) {
        if (rank == 0)
            fprintf(stderr, "usage: %s COLLECTIVE FROM_BYTES TO_BYTES FACTOR MILLISECONDS\n", argv[0]);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    size_t from = strtoull(argv[2], NULL, 10), to = strtoull(argv[3], NULL, 10), factor = strtoull(argv[4], NULL, 10);
    double seconds = strtod(argv[5], NULL) / 1000;
    size_t most = to + 64 * sizeof(float);
    float *in = aligned_alloc(4096, (most + 4095) / 4096 * 4096), *out = aligned_alloc(4096, (most + 4095) / 4096 * 4096);
    if (!in || !out || factor < 2) {
        fprintf(stderr, "not enough memory, or a factor below 2\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    memset(in, 0, most);
    memset(out, 0, most);
    for (size_t bytes = from; bytes <= to; bytes *= factor) {
        int splits = collective != ALL_REDUCE && collective != BROADCAST;
        size_t elements = bytes / sizeof(float) / (splits ? ranks : 1);
        int count = (int)(elements ? elements : 1);
        /* Batches grow until one takes a tenth of the time; then one fills it. */
        long times = 1;
        double taken = calls(collective, in, out, count, 2);
        taken = calls(collective, in, out, count, times);
        while (taken < seconds / 10 && times < 1000000) {
            times *= 2;
            taken = calls(collective, in, out, count, times);
        }
        double best[3];
        long fill = (long)(seconds / 3 * times / taken);
        fill = fill < 1 ? 1 : fill;
        for (int i = 0; i < 3; i++)
            best[i] = calls(collective, in, out, count, fill) / fill;
        double low = best[0] < best[1] ? best[0] : best[1], high = best[0] < best[1] ? best[1] : best[0];
        double median = best[2] < low ? low : best[2] > high ? high : best[2];
        long all = singles(collective, in, out, count, seconds, (long)(seconds / median));
        if (rank == 0) {
            double scale = 1e6 / (collective == BROADCAST ? 2 : 1);
            printf("%zu %.3f %.3f %.3f %.3f\n", bytes, median * scale, percentile(all, 50) * scale,
                   percentile(all, 99) * scale, percentile(all, 100) * scale);
            fflush(stdout);
        }
    }
    MPI_Finalize();
    return 0;
}
