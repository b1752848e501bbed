/*
 * A rank has gone to MPI_Finalize while the others are in a collective: its end is no barrier of theirs.
 *
 * run: 3 messages barrier
 * exit: 35
 * says: rank 0: MPI_Barrier for rank 2 to come, MPI_COMM_WORLD
 * says: rank 2: MPI_Finalize for rank 0 to come, MPI_COMM_WORLD
 * says: remedy: rank 2 is in MPI_Finalize and does nothing more for the others
 * never: has ended
 *
 * run: 2 messages barrier
 * exit: 35
 * says: rank 0: MPI_Barrier for rank 1 to come, MPI_COMM_WORLD
 * says: rank 1: MPI_Finalize for rank 0 to come, MPI_COMM_WORLD
 * never: has ended
 *
 * run: 3 messages allreduce
 * exit: 35
 * says: rank 0: MPI_Allreduce for rank 2 to come, MPI_COMM_WORLD
 * says: rank 2: MPI_Finalize for rank 0 to come, MPI_COMM_WORLD
 * never: has ended
 *
 * run: 3 messages bcast
 * exit: 16
 * says: rank 2 of MPI_COMM_WORLD is in MPI_Finalize, rank 0 in MPI_Bcast with root 0
 *
 * run: 3 board barrier
 * exit: 16
 * says: rank 2 of MPI_COMM_WORLD is in MPI_Finalize, rank 0 in MPI_Barrier
 * says: rank 0 is in MPI_Barrier at collectives.h:
 * never: has ended
 *
 * run: 3 board allreduce
 * exit: 16
 * says: rank 2 of MPI_COMM_WORLD is in MPI_Finalize, rank 0 in MPI_Allreduce with MPI_SUM
 * never: has ended
 */
#include "collectives.h"

/* messages|board, what all but the last rank do. */
int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!strcmp(argv[1], "board"))
        for (int i = 0; i < 8; i++) MPI_Barrier(MPI_COMM_WORLD);
    if (rank < size - 1) {
        call(argv[2], MPI_COMM_WORLD, 2, size);
        fprintf(stderr, "rank %d: the collective has ended\n", rank);
    }
    MPI_Finalize();
    return 0;
}
