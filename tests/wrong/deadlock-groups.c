/*
 * More than two ranks, collectives, windows, threads; none of them can go on.
 * exit: 35
 * says: ended by a deadlock
 *
 * run: 3 ring
 * says: rank 0 waits for rank 1, that for rank 2, and that for rank 0
 * says: rank 2: MPI_Recv for a message from rank 0, tag 2
 *
 * run: 17 ring
 * says: that for rank 16, and that for rank 0
 * says: rank 16: MPI_Recv for a message from rank 0, tag 2
 *
 * run: 4 any
 * says: ranks 0, 1, 2, 3 wait for one another
 * says: rank 0: MPI_Recv for a message from any rank, any tag
 *
 * run: 3 missing
 * says: rank 0: MPI_Barrier for rank 2 to come, MPI_COMM_WORLD
 * says: rank 2: MPI_Recv for a message from rank 0, tag 4
 * says: remedy: let all ranks of the communicator call the collective
 *
 * run: 4 late
 * says: rank 3: MPI_Finalize
 * says: MPI_Allreduce for rank 3 to come, MPI_COMM_WORLD
 *
 * run: 4 halves
 * says: rank 0: MPI_Bcast for rank 2 to come, even
 * says: rank 2: MPI_Recv for a message from rank 0, tag 8, even
 *
 * run: 3 nonblocking
 * says: rank 0: MPI_Wait in MPI_Barrier for rank 1 to come
 *
 * run: 2 large
 * says: rank 0: MPI_Allreduce for rank 1 to come
 *
 * run: 2 persistent
 * says: rank 0: MPI_Wait for a message from rank 1, tag 3
 *
 * run: 2 fence
 * says: rank 0: MPI_Win_fence for rank 1 to come, at
 * says: rank 1: MPI_Recv
 *
 * run: 2 lock
 * says: rank 0: MPI_Win_lock
 *
 * run: 2 threads
 * says: rank 0: MPI_Recv for a message from rank 1, tag 1
 * says: rank 0: MPI_Recv for a message from rank 1, tag 2
 * says: (second)
 *
 * run: 2 creation
 * says: rank 0: MPI_Finalize for rank 1 to come, MPI_COMM_WORLD
 * says: remedy: rank 0 is in MPI_Finalize
 *
 * run: 3 crossed
 * says: rank 0: MPI_Ssend for rank 1 to receive, tag 1
 *
 * run: 2 nameless
 * says: a communicator of ranks 1, 0
 *
 * run: 2 pieces
 * says: rank 0: MPI_Send for rank 1 to receive, tag 2
 */
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static int rank, size, value;

static void ring(void) {
    MPI_Recv(&value, 1, MPI_INT, (rank + 1) % size, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(&value, 1, MPI_INT, (rank + size - 1) % size, 2, MPI_COMM_WORLD);
}

static void any(void) {
    MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void missing(void) {
    if (rank == size - 1)
        MPI_Recv(&value, 1, MPI_INT, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void late(void) {
    int sum;
    if (rank < size - 1)
        for (int i = 0; i < 10; i++)
            MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

static void halves(void) {
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Comm_set_name(half, rank % 2 ? "odd" : "even");
    if (rank == 2)
        MPI_Recv(&value, 1, MPI_INT, 0, 8, half, MPI_STATUS_IGNORE);
    MPI_Bcast(&value, 1, MPI_INT, 1, half);
    MPI_Comm_free(&half);
}

static void nonblocking(void) {
    MPI_Request request;
    if (rank != 1) {
        MPI_Ibarrier(MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(&value, 1, MPI_INT, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void large(void) {
    enum { MANY = 1 << 20 };
    int *values = calloc(2 * MANY, sizeof *values);
    if (rank == 1)
        MPI_Recv(values, 1, MPI_INT, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Allreduce(values, values + MANY, MANY, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    free(values);
}

static void persistent(void) {
    MPI_Request request;
    MPI_Recv_init(&value, 1, MPI_INT, 1 - rank, 3, MPI_COMM_WORLD, &request);
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);
}

static void fence(void) {
    MPI_Win window;
    int *base;
    MPI_Win_allocate(64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
    if (rank == 1)
        MPI_Recv(&value, 1, MPI_INT, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
}

static void lock(void) {
    MPI_Win window;
    int *base;
    MPI_Win_allocate(64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
    if (rank == 1) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, window);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Recv(&value, 1, MPI_INT, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, window);
    }
    MPI_Win_unlock(1, window);
    MPI_Win_free(&window);
}

static void *second(void *nothing) {
    int mine;
    MPI_Recv(&mine, 1, MPI_INT, 1 - rank, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return nothing;
}

static void threads(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, second, NULL);
    MPI_Recv(&value, 1, MPI_INT, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    pthread_join(thread, NULL);
}

static void creation(void) {
    MPI_Comm twin;
    if (rank == 1)
        MPI_Recv(&value, 1, MPI_INT, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    MPI_Comm_free(&twin);
}

static void crossed(void) {
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    MPI_Ssend(&value, 1, MPI_INT, next, 1, MPI_COMM_WORLD);
    MPI_Recv(&value, 1, MPI_INT, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void nameless(void) {
    MPI_Comm other;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &other);
    MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 1, other, MPI_STATUS_IGNORE);
    MPI_Comm_free(&other);
}

static void pieces(void) {
    enum { MANY = 1 << 18 };
    int *values = calloc(2 * MANY, sizeof *values);
    MPI_Datatype every_other;
    MPI_Type_vector(MANY, 1, 2, MPI_INT, &every_other);
    MPI_Type_commit(&every_other);
    if (rank == 0)
        MPI_Send(values, 1, every_other, 1, 2, MPI_COMM_WORLD);
    MPI_Type_free(&every_other);
    free(values);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        {"ring", ring},         {"any", any},           {"missing", missing},       {"late", late},
        {"halves", halves},     {"large", large},       {"nonblocking", nonblocking}, {"persistent", persistent},
        {"fence", fence},       {"lock", lock},         {"threads", threads},       {"creation", creation},
        {"crossed", crossed},   {"nameless", nameless}, {"pieces", pieces},
    };
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        if (argc > 1 && strcmp(argv[1], cases[i].name) == 0)
            cases[i].run();
    MPI_Finalize();
    return 0;
}
