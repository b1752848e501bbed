/* A ring of fibers over all ranks: a token goes from fiber 0 of rank 0 to fiber 0 of rank 1, ... and from the
 * last rank to the next fiber of rank 0. Each fiber is blocked in MPI_Recv until its turn.
 *
 *     mpicc ring.c -o ring && mpiexec -n 2 ./ring 1000          (fibers of each rank) */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <weft.h>

static int rank, size, fibers;

static void *member(void *argument) {
    int me = (int)(long)argument;
    int first = rank == 0 && me == 0, next_rank = (rank + 1) % size;
    int next = next_rank == 0 ? (me + 1) % fibers : me; /* a fiber is known by the tag */
    int from = (rank + size - 1) % size;
    long token = 0;
    if (first) {
        MPI_Send(&token, 1, MPI_LONG, next_rank, next, MPI_COMM_WORLD);
    }
    MPI_Recv(&token, 1, MPI_LONG, from, me, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    token++;
    if (first) {
        printf("the token has passed %ld fibers\n", token);
    } else {
        MPI_Send(&token, 1, MPI_LONG, next_rank, next, MPI_COMM_WORLD);
    }
    return NULL;
}

int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    fibers = argc > 1 ? atoi(argv[1]) : 100;

    weft_fiber *ring = malloc(fibers * sizeof *ring);
    for (long i = 0; i < fibers; i++) {
        if (weft_fiber_spawn(&ring[i], NULL, member, (void *)i) != 0) {
            fprintf(stderr, "%s\n", weft_error());
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    for (int i = 0; i < fibers; i++) weft_fiber_join(ring[i], NULL);
    free(ring);
    MPI_Finalize();
    return 0;
}
