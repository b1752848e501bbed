/*
 * Requests that nobody has ended when the job ends.
 *
 * run: 2 receive
 * says: left over by rank 0 of 2 at MPI_Finalize, and likewise by another rank
 * says: request  never completed: receive on MPI_COMM_WORLD
 *
 * run: 1 receives
 * says: requests  3 never completed: receive on MPI_COMM_SELF
 *
 * run: 2 synchronous
 * says: request  never completed: send on MPI_COMM_WORLD
 * says: message  never received
 *
 * run: 2 unasked
 * says: request  ended, but never waited for or tested on MPI_COMM_WORLD
 *
 * run: 2 barrier
 * says: request  ended, but never waited for or tested on MPI_COMM_WORLD
 *
 * run: 2 reduction
 * says: request  never completed: collective on MPI_COMM_WORLD
 *
 * run: 1 started
 * says: request  never completed: receive on MPI_COMM_SELF
 *
 * run: 1 kept
 * never: weft
 *
 * run: 1 kept
 * options: --check
 * says: requests  2 persistent and never freed on MPI_COMM_SELF: 1 made by MPI_
 * says: at leaks-requests.c:
 *
 * run: 1 general
 * says: request  never completed
 *
 * run: 2 receive
 * options: --check
 * says: never completed: receive on MPI_COMM_WORLD: made by MPI_Irecv at leaks-requests.c:
 * says: (receive)
 *
 * run: 2 receive
 * options: --check=strict
 * exit: 120
 * says: never completed: receive
 *
 * run: 2 receive
 * options: --check=off
 * never: weft
 */
#include <mpi.h>
#include <string.h>

static int rank, other, values[4];
static MPI_Request requests[4];

static void receive(void) {
    MPI_Irecv(values, 1, MPI_INT, other, 5, MPI_COMM_WORLD, &requests[0]);
}

static void receives(void) {
    for (int i = 0; i < 3; i++)
        MPI_Irecv(&values[i], 1, MPI_INT, 0, i, MPI_COMM_SELF, &requests[i]);
}

static void synchronous(void) {
    if (rank == 0)
        MPI_Issend(values, 1, MPI_INT, 1, 5, MPI_COMM_WORLD, &requests[0]);
}

static void unasked(void) {
    if (rank == 0)
        MPI_Irecv(values, 1, MPI_INT, 1, 5, MPI_COMM_WORLD, &requests[0]);
    else
        MPI_Send(values, 1, MPI_INT, 0, 5, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void barrier(void) {
    MPI_Ibarrier(MPI_COMM_WORLD, &requests[0]);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void reduction(void) {
    if (rank == 0)
        MPI_Ireduce(values, values + 1, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD, &requests[0]);
}

static void started(void) {
    MPI_Recv_init(values, 1, MPI_INT, 0, 5, MPI_COMM_SELF, &requests[0]);
    MPI_Start(&requests[0]);
}

static void kept(void) {
    MPI_Recv_init(values, 1, MPI_INT, 0, 5, MPI_COMM_SELF, &requests[0]);
    MPI_Send_init(values, 1, MPI_INT, 0, 5, MPI_COMM_SELF, &requests[1]);
}

static int query(void *state, MPI_Status *status) {
    (void)state;
    MPI_Status_set_elements(status, MPI_INT, 0);
    return MPI_SUCCESS;
}

static int drop(void *state) {
    (void)state;
    return MPI_SUCCESS;
}

static int cancel(void *state, int complete) {
    (void)state, (void)complete;
    return MPI_SUCCESS;
}

static void general(void) {
    MPI_Grequest_start(query, drop, cancel, NULL, &requests[0]);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        {"receive", receive}, {"receives", receives},   {"synchronous", synchronous}, {"unasked", unasked}, {"general", general},
        {"barrier", barrier}, {"reduction", reduction}, {"started", started},         {"kept", kept},
    };
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    other = 1 - rank;
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        if (argc > 1 && strcmp(argv[1], cases[i].name) == 0)
            cases[i].run();
    MPI_Finalize();
    return 0;
}
