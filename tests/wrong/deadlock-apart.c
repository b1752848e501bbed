/*
 * Each rank waits for any of several messages on communicators of their own, which a rank may serve by several engines. Nobody sends one.
 * exit: 35
 * never: wait for something outside
 *
 * run: 1 any
 * says: ended by a deadlock: rank 0 waits for itself
 * says: rank 0: MPI_Waitany for a message from rank 0, tag 1, first or for a message from rank 0, tag 1, second or for a message from rank 0, tag 1, third, at deadlock-apart.c:
 * run: 1 some
 * says: ended by a deadlock: rank 0 waits for itself
 * says: rank 0: MPI_Waitsome for a message from rank 0, tag 1, first or for a message
 * run: 2 any
 * says: ended by a deadlock: ranks 0 and 1 wait for each other
 * says: rank 1: MPI_Waitany for a message from rank 0, tag 1, first or for a message
 * run: 1 fiber
 * says: ended by a deadlock: rank 0 waits for itself
 * says: rank 0: a fiber: MPI_Waitany for a message from rank 0, tag 1, first or for a message
 */
#include <mpi.h>
#include <string.h>
#include <weft.h>

enum { COUNT = 3 };

static MPI_Request requests[COUNT];

static void *waits(void *wanted) {
    int index, indices[COUNT];
    if (strcmp(wanted, "some") == 0)
        MPI_Waitsome(COUNT, requests, &index, indices, MPI_STATUSES_IGNORE);
    else
        MPI_Waitany(COUNT, requests, &index, MPI_STATUS_IGNORE);
    return NULL;
}

int main(int argc, char **argv) {
    static const char *const names[COUNT] = {"first", "second", "third"};
    int level, rank, size, values[COUNT];
    MPI_Comm comms[COUNT];
    weft_fiber fiber;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < COUNT; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        MPI_Comm_set_name(comms[i], names[i]);
        MPI_Irecv(&values[i], 1, MPI_INT, (rank + 1) % size, 1, comms[i], &requests[i]);
    }
    if (strcmp(argv[1], "fiber") == 0) {
        weft_fiber_spawn(&fiber, NULL, waits, argv[1]);
        weft_fiber_join(fiber, NULL);
    } else
        waits(argv[1]);
    MPI_Finalize();
    return 0;
}
