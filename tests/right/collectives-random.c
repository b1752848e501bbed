/*
 * Collectives in random order, the same on all ranks, with roots, operations, sizes and datatypes that may differ where they may.
 * run: 2 1
 * run: 3 2
 * run: 4 3
 * run: 5 4
 * run: 8 5
 * run: 17 6
 * run: 3 7
 * options: --fabric=tcp
 * run: 3 8
 * options: --check=full
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int in[20000], out[20000 * 17], counts[64], places[64];

static unsigned long state;
static unsigned dice(unsigned below) {
    state = state * 6364136223846793005ul + 1442695040888963407ul;
    return (unsigned)(state >> 33) % below;
}

static void users(void *a, void *b, int *length, MPI_Datatype *type) {
    (void)type;
    for (int i = 0; i < *length; i++) ((int *)b)[i] += ((int *)a)[i];
}

/* One collective; all ranks draw alike. `type` may be another one with the same elements. */
static void one(MPI_Comm comm, int rank, int size, MPI_Datatype type, MPI_Op op) {
    static const int lengths[] = {0, 1, 2, 30, 300, 2000};
    int n = lengths[dice(6)], root = (int)dice((unsigned)size), total = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    for (int i = 0; i < size; i++) counts[i] = (int)dice(4), places[i] = total, total += counts[i];
    switch (dice(17)) {
    case 0: MPI_Barrier(comm); break;
    case 1: MPI_Bcast(in, n, type, root, comm); break;
    case 2: MPI_Gather(in, n, type, out, n, type, root, comm); break;
    case 3: MPI_Scatter(out, n, type, in, n, type, root, comm); break;
    case 4: MPI_Allgather(in, n, type, out, n, type, comm); break;
    case 5: MPI_Alltoall(in, n / 4, type, out, n / 4, type, comm); break;
    case 6: MPI_Reduce(in, out, n, type, op, root, comm); break;
    case 7: MPI_Allreduce(in, out, n, type, op, comm); break;
    case 8: MPI_Scan(in, out, n, type, op, comm); break;
    case 9: MPI_Exscan(in, out, n, type, op, comm); break;
    case 10: MPI_Reduce_scatter_block(out, in, n / 4, type, op, comm); break;
    case 11: MPI_Gatherv(in, counts[rank], type, out, counts, places, type, root, comm); break;
    case 12: MPI_Scatterv(out, counts, places, type, in, counts[rank], type, root, comm); break;
    case 13: MPI_Allgatherv(in, counts[rank], type, out, counts, places, type, comm); break;
    case 14: MPI_Reduce_scatter(in, out, counts, type, op, comm); break;
    case 15: MPI_Ibcast(in, n, type, root, comm, &request); break;
    case 16: MPI_Allreduce(MPI_IN_PLACE, out, n, type, op, comm); break;
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
    MPI_Comm comms[3];
    MPI_Op op;
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    state = strtoul(argv[1], NULL, 10);
    comms[0] = MPI_COMM_WORLD;
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &comms[2]);
    MPI_Op_create(users, 1, &op);
    for (int i = 0; i < 300; i++) {
        /* The two halves draw apart. */
        unsigned long before = state;
        int which = (int)dice(3), mine;
        MPI_Comm_rank(comms[which], &mine);
        MPI_Comm_size(comms[which], &size);
        one(comms[which], mine, size, rank % 2 ? MPI_INT : MPI_INT32_T, i % 5 ? (i % 2 ? MPI_SUM : MPI_MAX) : op);
        state = before * 2862933555777941757ul + 3037000493ul;
    }
    MPI_Op_free(&op);
    MPI_Comm_free(&comms[1]);
    MPI_Comm_free(&comms[2]);
    MPI_Finalize();
    return 0;
}
