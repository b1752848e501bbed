/*
 * Collectives between two groups (an intercommunicator of ranks 0, 1 and 2, 3) that do not fit: each rank gets an error that names both sides,
 * from this collective or, those that have only sent or had nothing to do, from the next.
 * exit: 0
 * says: rank 0: MPI_ERR
 * says: rank 1: MPI_ERR
 * says: rank 2: MPI_ERR
 * says: rank 3: MPI_ERR
 * never: no error
 *
 * run: 4 bcast allreduce
 * says: MPI_Bcast with root 0 of the group with the lowest rank
 * says: MPI_Allreduce with MPI_SUM
 *
 * run: 4 allreduce allreduce-max
 * says: MPI_Allreduce with MPI_SUM
 * says: MPI_Allreduce with MPI_MAX
 *
 * run: 4 allreduce allreduce-float
 * says: MPI_Allreduce with MPI_SUM of MPI_INT
 * says: MPI_Allreduce with MPI_SUM of MPI_FLOAT
 *
 * run: 4 bcast bcast-float
 * says: MPI_Bcast with root 0 of the group with the lowest rank of MPI_INT
 * says: MPI_Bcast with root 0 of the group with the lowest rank of MPI_FLOAT
 *
 * run: 4 gather gather-float
 * says: MPI_Gather with root 0 of the group with the lowest rank of MPI_INT
 * says: MPI_Gather with root 0 of the group with the lowest rank of MPI_FLOAT
 *
 * run: 4 reduce reduce-max
 * says: MPI_Reduce with root 0 of the group with the lowest rank with MPI_SUM
 * says: MPI_Reduce with root 0 of the group with the lowest rank with MPI_MAX
 *
 * run: 4 gather reduce
 * says: MPI_Gather with root 0
 * says: MPI_Reduce with root 0
 *
 * run: 4 allgather alltoall
 * says: MPI_Allgather
 * says: MPI_Alltoall
 *
 * run: 4 bcast bcast1
 * says: MPI_Bcast with root 1 of the group with the lowest rank
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int in[64], out[256];

/* The root is of the first group: rank 0 of it, whatever the others believe. */
static int call(const char *name, MPI_Comm comm, int rank) {
    MPI_Datatype type = strstr(name, "float") ? MPI_FLOAT : MPI_INT;
    MPI_Op op = strstr(name, "max") ? MPI_MAX : MPI_SUM;
    int root = rank == 0 ? MPI_ROOT : rank == 1 ? MPI_PROC_NULL : name[strlen(name) - 1] == '1';
    if (!strncmp(name, "bcast", 5))
        return MPI_Bcast(in, 4, type, root, comm);
    if (!strncmp(name, "gather", 6))
        return MPI_Gather(in, 4, type, out, 4, type, root, comm);
    if (!strncmp(name, "reduce", 6))
        return MPI_Reduce(in, out, 4, type, op, root, comm);
    if (!strncmp(name, "allreduce", 9))
        return MPI_Allreduce(in, out, 4, type, op, comm);
    if (!strncmp(name, "allgather", 9))
        return MPI_Allgather(in, 4, type, out, 4, type, comm);
    return MPI_Alltoall(in, 4, type, out, 4, type, comm);
}

/* What the ranks of the one group do, and those of the other. */
int main(int argc, char **argv) {
    int rank, code, length;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Comm half, both;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank < 2 ? 2 : 0, 5, &both);
    MPI_Comm_set_errhandler(both, MPI_ERRORS_RETURN);
    code = call(argv[rank < 2 ? 1 : 2], both, rank);
    if (code == MPI_SUCCESS)
        code = MPI_Barrier(both);
    if (code == MPI_SUCCESS)
        strcpy(text, "no error");
    else
        MPI_Error_string(code, text, &length);
    fprintf(stderr, "rank %d: %s\n", rank, text);
    MPI_Comm_free(&half);
    MPI_Finalize();
    return 0;
}
