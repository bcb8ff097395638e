/* An MPI program whose collectives run on topo: MPI starts the ranks and broadcasts the id.
 * mpicc mpi.c $(pkg-config --cflags --libs topo) -o mpi && mpirun -n 4 ./mpi */
#include <stdio.h>
#include <mpi.h>
#include <topo.h>

#define CHECK(call) \
    if ((call) != TOPO_OK) { \
        fprintf(stderr, "rank %d: %s\n", rank, topo_last_error()); \
        MPI_Abort(MPI_COMM_WORLD, 1); \
    }

int main(int count, char **arguments) {
    int rank, ranks;
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);

    topo_id id;
    if (rank == 0) CHECK(topo_unique_id(&id, NULL));
    MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    topo_comm *comm;
    CHECK(topo_comm_init(&comm, &id, (uint32_t)rank, (uint32_t)ranks, NULL));

    double mine[1000], sum[1000];
    for (int i = 0; i < 1000; i++) mine[i] = rank + i;
    /* In place of MPI_Allreduce(mine, sum, 1000, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD): */
    CHECK(topo_run(comm, TOPO_ALL_REDUCE, mine, sum, 1000, TOPO_F64, TOPO_SUM, 0));
    printf("rank %d of %d: sum %g\n", rank, ranks, sum[999]);

    CHECK(topo_comm_destroy(comm));
    MPI_Finalize();
    return 0;
}
