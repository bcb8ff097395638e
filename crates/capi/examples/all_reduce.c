/* Ranks as forked processes: all-reduce, and a message to the next rank.
 * cc all_reduce.c $(pkg-config --cflags --libs topo) -o all_reduce && ./all_reduce 4 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <topo.h>

#define CHECK(call) \
    if ((call) != TOPO_OK) { fprintf(stderr, "rank %u: %s\n", rank, topo_last_error()); exit(1); }

int main(int count, char **arguments) {
    uint32_t ranks = count > 1 ? (uint32_t)atoi(arguments[1]) : 2, rank = 0;
    int up[2], failed = 0;
    if (pipe(up) != 0) return 1;
    for (uint32_t child = 1; child < ranks; child++)
        if (fork() == 0) { rank = child; break; }
    topo_id id;
    if (rank == 0) {
        CHECK(topo_unique_id(&id, NULL));
        for (uint32_t to = 1; to < ranks; to++)
            if (write(up[1], &id, sizeof id) != sizeof id) return 1;
    } else if (read(up[0], &id, sizeof id) != sizeof id) {
        return 1;
    }
    topo_comm *comm;
    CHECK(topo_comm_init(&comm, &id, rank, ranks, NULL));

    float values[1000];
    for (int i = 0; i < 1000; i++) values[i] = (float)rank + 1;
    CHECK(topo_run(comm, TOPO_ALL_REDUCE, values, values, 1000, TOPO_F32, TOPO_SUM, 0));
    uint32_t before = 0;
    CHECK(topo_group_start(comm));
    CHECK(topo_send(comm, &rank, 1, TOPO_U32, (rank + 1) % ranks));
    CHECK(topo_receive(comm, &before, 1, TOPO_U32, (rank + ranks - 1) % ranks));
    CHECK(topo_group_end(comm));
    printf("rank %u of %u: sum %g, message of rank %u\n", rank, ranks, values[999], before);
    fflush(stdout);

    CHECK(topo_comm_destroy(comm));
    for (int status; rank == 0 && wait(&status) > 0;) failed |= status != 0;
    return failed;
}
