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
