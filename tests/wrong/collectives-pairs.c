/*
 * Ranks of a communicator in different collectives, or in one with different arguments: each of them gets an error.
 * exit: 0
 * says: rank 0: 
 * says: rank 1: 
 * says: rank 2: 
 * never: no error
 *
 * run: 3 board bcast allreduce
 * says: MPI_Bcast with root 0
 * says: MPI_Allreduce with MPI_SUM
 *
 * run: 3 board bcast bcast1
 * says: MPI_Bcast with root 0
 * says: MPI_Bcast with root 1
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
 * run: 3 board scatter scatter1
 * says: MPI_Scatter with root 0
 * says: MPI_Scatter with root 1
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
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One collective, by its name: digits at the end are the root. */
static int in[1 << 16], out[1 << 18], counts[64], places[64];

static int call(const char *name, MPI_Comm comm, int n, int size) {
    int root = name[strlen(name) - 1] == '1';
    MPI_Datatype type = strstr(name, "float") ? MPI_FLOAT : MPI_INT;
    MPI_Op op = strstr(name, "max") ? MPI_MAX : MPI_SUM;
    if (strstr(name, "longer")) n += 3;
    for (int i = 0; i < size; i++) counts[i] = n, places[i] = i * n;
#define IS(what) !strncmp(name, what, sizeof what - 1)
    if (IS("gatherv")) return MPI_Gatherv(in, n, type, out, counts, places, type, root, comm);
    if (IS("scatterv")) return MPI_Scatterv(out, counts, places, type, in, n, type, root, comm);
    if (IS("allgatherv")) return MPI_Allgatherv(in, n, type, out, counts, places, type, comm);
    if (IS("alltoallv")) return MPI_Alltoallv(in, counts, places, type, out, counts, places, type, comm);
    if (IS("barrier")) return MPI_Barrier(comm);
    if (IS("bcast")) return MPI_Bcast(in, n, type, root, comm);
    if (IS("gather")) return MPI_Gather(in, n, type, out, n, type, root, comm);
    if (IS("scatter")) return MPI_Scatter(out, n, type, in, n, type, root, comm);
    if (IS("allgather")) return MPI_Allgather(in, n, type, out, n, type, comm);
    if (IS("alltoall")) return MPI_Alltoall(in, n, type, out, n, type, comm);
    if (IS("reduce_block")) return MPI_Reduce_scatter_block(in, out, n, type, op, comm);
    if (IS("reduce")) return MPI_Reduce(in, out, n, type, op, root, comm);
    if (IS("allreduce")) return MPI_Allreduce(in, out, n, type, op, comm);
    if (IS("scan")) return MPI_Scan(in, out, n, type, op, comm);
    if (IS("exscan")) return MPI_Exscan(in, out, n, type, op, comm);
    fprintf(stderr, "no collective %s\n", name);
    exit(3);
}

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
