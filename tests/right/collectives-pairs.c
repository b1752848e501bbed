/*
 * Each collective on a board and by messages, short and long: nothing is said.
 * run: 3 board allgather allgather
 * run: 3 board allgather-float allgather-float
 * run: 3 board allreduce allreduce
 * run: 3 messages allreduce allreduce
 * run: 3 large allreduce allreduce
 * run: 3 board allreduce-float allreduce-float
 * run: 3 board allreduce-max allreduce-max
 * run: 3 board alltoall alltoall
 * run: 3 board alltoall-float alltoall-float
 * run: 3 board barrier barrier
 * run: 3 board bcast bcast
 * run: 3 messages bcast bcast
 * run: 3 large bcast bcast
 * run: 3 board bcast-float bcast-float
 * run: 3 board bcast1 bcast1
 * run: 3 board exscan exscan
 * run: 3 board gather gather
 * run: 3 board gather1 gather1
 * run: 3 board reduce reduce
 * run: 3 board reduce-float reduce-float
 * run: 3 board reduce1 reduce1
 * run: 3 board reduce_block reduce_block
 * run: 3 board scan scan
 * run: 3 messages scan scan
 * run: 3 large scan scan
 * run: 3 board scatter scatter
 * run: 3 board scatter1 scatter1
 * run: 3 messages scatter1 scatter1
 * run: 3 large scatter1 scatter1
 * run: 3 board gatherv gatherv
 * run: 3 board scatterv scatterv
 * run: 3 board allgatherv allgatherv
 * run: 3 board alltoallv alltoallv
 * run: 3 board gatherv1 gatherv1
 * run: 3 messages gatherv1 gatherv1
 * run: 3 large gatherv1 gatherv1
 * run: 3 board scatterv1 scatterv1
 */
#include "../wrong/collectives.h"

/* board|messages|large, what rank 0 does, what the others do: the same. */
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
    if (code != MPI_SUCCESS) {
        MPI_Error_string(code, text, &length);
        fprintf(stderr, "rank %d: %s\n", rank, text);
    }
    MPI_Finalize();
    return 0;
}
