/*
 * Ranks of a communicator in different collectives, or in one with different arguments: each of them gets an error.
 * exit: 0
 * says: rank 0: 
 * says: rank 1: 
 * says: rank 2: 
 * never: no error
 *
 * run: 3 board bcast allreduce
 * says: is in MPI_Allreduce at collectives.h:
 * says: MPI_Bcast with root 0
 * says: MPI_Allreduce with MPI_SUM
 *
 * run: 3 board allreduce allreduce-max
 * says: MPI_Allreduce with MPI_SUM
 * says: MPI_Allreduce with MPI_MAX
 *
 * run: 3 board barrier allreduce
 * says: MPI_Barrier
 * says: MPI_Allreduce with MPI_SUM
 *
 * run: 3 board barrier bcast
 * says: MPI_Barrier
 * says: MPI_Bcast with root 0
 *
 * run: 3 board allgather alltoall
 * says: MPI_Allgather
 * says: MPI_Alltoall
 *
 * run: 3 board allgather allreduce
 * says: MPI_Allgather
 * says: MPI_Allreduce with MPI_SUM
 *
 * run: 3 board reduce allreduce
 * says: MPI_Reduce with root 0 with MPI_SUM
 * says: MPI_Allreduce with MPI_SUM
 *
 * run: 3 board allreduce reduce
 * says: MPI_Allreduce with MPI_SUM
 * says: MPI_Reduce with root 0 with MPI_SUM
 *
 * run: 3 board reduce reduce1
 * says: MPI_Reduce with root 0 with MPI_SUM
 * says: MPI_Reduce with root 1
 *
 * run: 3 board gather gather1
 * says: MPI_Gather with root 0
 * says: MPI_Gather with root 1
 *
 * run: 3 board scan exscan
 * says: MPI_Scan
 * says: MPI_Exscan
 *
 * run: 3 board allreduce-float allreduce
 * says: MPI_Allreduce with MPI_SUM of MPI_FLOAT
 * says: MPI_Allreduce with MPI_SUM
 *
 * run: 3 board bcast-float bcast
 * says: MPI_Bcast with root 0 of MPI_FLOAT
 * says: MPI_Bcast with root 0
 *
 * run: 3 board reduce-float reduce
 * says: MPI_Reduce with root 0 with MPI_SUM of MPI_FLOAT
 * says: MPI_Reduce with root 0 with MPI_SUM
 *
 * run: 3 board scatter bcast
 * says: MPI_Scatter with root 0
 * says: MPI_Bcast with root 0
 *
 * run: 3 board gather bcast
 * says: MPI_Gather with root 0
 * says: MPI_Bcast with root 0
 *
 * run: 3 board gather scatter
 * says: MPI_Gather with root 0
 * says: MPI_Scatter with root 0
 *
 * run: 3 board alltoall-float alltoall
 * says: MPI_Alltoall of MPI_FLOAT
 * says: MPI_Alltoall
 *
 * run: 3 board allgather-float allgather
 * says: MPI_Allgather of MPI_FLOAT
 * says: MPI_Allgather
 *
 * run: 3 board reduce_block allreduce
 * says: MPI_Reduce_scatter_block
 * says: MPI_Allreduce with MPI_SUM
 *
 * run: 3 board alltoall barrier
 * says: MPI_Alltoall
 * says: MPI_Barrier
 *
 * run: 3 board allreduce barrier
 * says: MPI_Allreduce with MPI_SUM
 * says: MPI_Barrier
 */
#include "collectives.h"

/* board|messages|large, what rank 0 does, what the others do: all of them must get an error, from this collective or,
   those that have only sent, from the next. */
int main(int argc, char **argv) {
    int rank, size, code, length;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int n = strcmp(argv[1], "large") ? 2 : 12000;
    if (!strcmp(argv[1], "board"))
        for (int i = 0; i < 8; i++) MPI_Barrier(MPI_COMM_WORLD);
    code = call(argv[rank == 0 ? 2 : 3], MPI_COMM_WORLD, n, size);
    if (code == MPI_SUCCESS) code = MPI_Barrier(MPI_COMM_WORLD);
    if (code == MPI_SUCCESS) strcpy(text, "no error");
    else MPI_Error_string(code, text, &length);
    fprintf(stderr, "rank %d: %s\n", rank, text);
    MPI_Finalize();
    return 0;
}
