/*
 * Two ranks that wait for each other, or for what never comes.
 * exit: 35
 * says: ended by a deadlock
 *
 * run: 2 receives
 * says: ranks 0 and 1 wait for each other
 * says: rank 0: MPI_Recv for a message from rank 1, tag 0, MPI_COMM_WORLD, at deadlock-pairs.c:
 * says: rank 1: MPI_Recv for a message from rank 0, tag 0, MPI_COMM_WORLD, at deadlock-pairs.c:
 * says: (receives)
 * says: remedy: all of them receive before anybody has sent
 *
 * run: 2 sends
 * says: rank 0: MPI_Send for rank 1 to receive, tag 3, MPI_COMM_WORLD
 * says: rank 1: MPI_Send for rank 0 to receive, tag 3, MPI_COMM_WORLD
 * says: remedy: all of them send before they receive
 *
 * run: 2 overruns
 * says: rank 0: MPI_Send for rank 1 to receive, tag 4, MPI_COMM_WORLD
 * says: rank 1: MPI_Send for rank 0 to receive, tag 4, MPI_COMM_WORLD
 * says: remedy: all of them send before they receive
 *
 * run: 2 synchronous
 * says: rank 1: MPI_Ssend for rank 0 to receive, tag 7
 *
 * run: 2 tags
 * says: rank 0: MPI_Recv for a message from rank 1, tag 6
 * says: never received: a message of 4 bytes from rank 1 to rank 0, tag 5, MPI_COMM_WORLD (rank 0 waits for tag 6)
 * says: remedy: let the tags of rank 1's send and rank 0's receive agree
 *
 * run: 2 communicators
 * says: rank 0: MPI_Recv for a message from rank 1, tag 5, twin
 * says: tag 5, MPI_COMM_WORLD (rank 0 waits in twin)
 *
 * run: 2 finalised
 * says: rank 1: MPI_Finalize
 * says: rank 0: MPI_Recv for a message from rank 1
 *
 * run: 2 probe
 * says: rank 0: MPI_Probe for a message from rank 1, tag 9
 *
 * run: 1 self
 * says: rank 0 waits for itself
 * says: rank 0: MPI_Ssend
 *
 * run: 2 wait
 * says: rank 0: MPI_Wait for a message from rank 1, any tag
 *
 * run: 2 waitall
 * says: rank 0: MPI_Waitall for a message from rank 1
 *
 * run: 2 waitany
 * says: rank 0: MPI_Waitany for a message from rank 1, tag 1, MPI_COMM_WORLD or for a message from rank 1, tag 2
 *
 * run: 2 mprobe
 * says: rank 0: MPI_Mprobe for a message from any rank, any tag
 *
 * run: 2 sendrecv
 * says: rank 0: MPI_Sendrecv
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

static int rank, other, value;

static void receives(void) {
    MPI_Recv(&value, 1, MPI_INT, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(&value, 1, MPI_INT, other, 0, MPI_COMM_WORLD);
}

static void sends(void) {
    enum { MANY = 1 << 20 };
    char *bytes = calloc(2, MANY);
    MPI_Send(bytes, MANY, MPI_CHAR, other, 3, MPI_COMM_WORLD);
    MPI_Recv(bytes + MANY, MANY, MPI_CHAR, other, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    free(bytes);
}

/* Small messages, but more than either takes that does not receive. */
static void overruns(void) {
    for (;;)
        MPI_Send(&value, 1, MPI_INT, other, 4, MPI_COMM_WORLD);
}

static void synchronous(void) {
    MPI_Ssend(&value, 1, MPI_INT, other, 7, MPI_COMM_WORLD);
    MPI_Recv(&value, 1, MPI_INT, other, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void tags(void) {
    if (rank == 1)
        MPI_Send(&value, 1, MPI_INT, 0, 5, MPI_COMM_WORLD);
    else
        MPI_Recv(&value, 1, MPI_INT, 1, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void communicators(void) {
    MPI_Comm twin;
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    MPI_Comm_set_name(twin, "twin");
    if (rank == 1)
        MPI_Send(&value, 1, MPI_INT, 0, 5, MPI_COMM_WORLD);
    else
        MPI_Recv(&value, 1, MPI_INT, 1, 5, twin, MPI_STATUS_IGNORE);
    MPI_Comm_free(&twin);
}

static void finalised(void) {
    if (rank == 0)
        MPI_Recv(&value, 1, MPI_INT, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void probe(void) {
    if (rank == 0)
        MPI_Probe(1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void mprobe(void) {
    MPI_Message message;
    if (rank == 0)
        MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
}

static void to_self(void) {
    MPI_Ssend(&value, 1, MPI_INT, rank, 0, MPI_COMM_WORLD);
}

static void wait_one(void) {
    MPI_Request request;
    MPI_Irecv(&value, 1, MPI_INT, other, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void wait_all(void) {
    MPI_Request requests[2];
    int values[2];
    MPI_Irecv(&values[0], 1, MPI_INT, other, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(&values[1], 1, MPI_INT, other, 2, MPI_COMM_WORLD, &requests[1]);
    MPI_Send(&value, 1, MPI_INT, other, 1, MPI_COMM_WORLD);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static void wait_any(void) {
    MPI_Request requests[2];
    int values[2], which;
    MPI_Irecv(&values[0], 1, MPI_INT, other, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(&values[1], 1, MPI_INT, other, 2, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitany(2, requests, &which, MPI_STATUS_IGNORE);
}

static void sendrecv(void) {
    int got;
    MPI_Sendrecv(&value, 1, MPI_INT, other, 1, &got, 1, MPI_INT, other, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        {"receives", receives}, {"sends", sends},       {"synchronous", synchronous}, {"tags", tags},
        {"overruns", overruns},
        {"finalised", finalised}, {"communicators", communicators}, {"probe", probe}, {"self", to_self},
        {"wait", wait_one},     {"waitall", wait_all},  {"waitany", wait_any},        {"mprobe", mprobe},
        {"sendrecv", sendrecv},
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
