/* Collectives by their names, for tests/wrong and tests/right. */
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
