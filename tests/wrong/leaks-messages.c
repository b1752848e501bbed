/*
 * Messages that nobody has received when the job ends.
 * exit: 0
 *
 * run: 2 one
 * says: weft: warning: left over by rank 1 of 2 at MPI_Finalize
 * says: message  never received: 12 bytes from rank 0 with tag 5 on MPI_COMM_WORLD
 * never: likewise
 *
 * run: 4 many
 * says: left over by rank 0 of 4 at MPI_Finalize
 * says: messages  3 never received: 12 bytes in all from ranks 1 to 3 with tag 5 on MPI_COMM_WORLD
 *
 * run: 4 ring
 * says: left over by rank 0 of 4 at MPI_Finalize, and likewise by 3 other ranks
 * says: message  never received: 4 bytes from rank 3 with tag 1 on MPI_COMM_WORLD
 * never: left over by rank 1
 *
 * run: 2 tags
 * says: never received: 4 bytes from rank 0 with tag 1 on MPI_COMM_WORLD
 * says: never received: 4 bytes from rank 0 with tag 4 on MPI_COMM_WORLD
 * says: messages  6 more, with other tags or on other communicators
 *
 * run: 2 large
 * says: message  never received: 4194304 bytes from rank 0 with tag 5 on MPI_COMM_WORLD
 * says: left over by rank 0 of 2
 * says: request  never completed: send on MPI_COMM_WORLD
 *
 * run: 2 communicator
 * says: on twin
 * says: communicator
 *
 * run: 2 buffered
 * says: message  never received: 4 bytes from rank 0 with tag 5 on MPI_COMM_WORLD
 *
 * run: 1 self
 * says: left over by rank 0 of 1 at MPI_Finalize
 * says: message  never received: 4 bytes from rank 0 with tag 5 on MPI_COMM_SELF
 *
 * run: 2 probed
 * says: message  never received: 4 bytes from rank 0 with tag 5 on MPI_COMM_WORLD
 *
 * run: 2 matched
 * says: matched message  never received: made by MPI_Mprobe
 *
 * run: 2 matched
 * options: --check
 * says: matched message  never received: made by MPI_Mprobe at leaks-messages.c:
 * says: (matched)
 *
 * run: 3 reversed
 * says: left over by rank 2 of 3 at MPI_Finalize
 * says: never received: 4 bytes from rank 2 with tag 5 on reversed
 *
 * run: 2 one
 * options: --check=off
 * never: weft
 *
 * run: 2 one
 * options: --check=strict
 * exit: 120
 * says: message  never received: 12 bytes from rank 0 with tag 5 on MPI_COMM_WORLD
 * says: --check=strict
 *
 * run: 2 one
 * options: --check
 * says: message  never received: 12 bytes from rank 0 with tag 5 on MPI_COMM_WORLD
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

static int rank, size, values[3];

static void one(void) {
    if (rank == 0)
        MPI_Send(values, 3, MPI_INT, 1, 5, MPI_COMM_WORLD);
}

static void many(void) {
    if (rank > 0)
        MPI_Send(values, 1, MPI_INT, 0, 5, MPI_COMM_WORLD);
}

static void ring(void) {
    MPI_Send(values, 1, MPI_INT, (rank + 1) % size, 1, MPI_COMM_WORLD);
}

static void tags(void) {
    for (int tag = 1; rank == 0 && tag <= 10; tag++)
        MPI_Send(values, 1, MPI_INT, 1, tag, MPI_COMM_WORLD);
}

static void large(void) {
    static char bytes[4 << 20];
    MPI_Request request;
    if (rank == 0)
        MPI_Isend(bytes, sizeof bytes, MPI_CHAR, 1, 5, MPI_COMM_WORLD, &request);
}

static void communicator(void) {
    MPI_Comm twin;
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    MPI_Comm_set_name(twin, "twin");
    if (rank == 0)
        MPI_Send(values, 1, MPI_INT, 1, 5, twin);
}

static void buffered(void) {
    static char room[1 << 16];
    void *address;
    int bytes;
    MPI_Buffer_attach(room, sizeof room);
    if (rank == 0)
        MPI_Bsend(values, 1, MPI_INT, 1, 5, MPI_COMM_WORLD);
    MPI_Buffer_detach(&address, &bytes);
}

static void self(void) {
    MPI_Send(values, 1, MPI_INT, 0, 5, MPI_COMM_SELF);
}

static void probed(void) {
    if (rank == 0)
        MPI_Send(values, 1, MPI_INT, 1, 5, MPI_COMM_WORLD);
    else
        MPI_Probe(0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void matched(void) {
    MPI_Message message;
    if (rank == 0)
        MPI_Send(values, 1, MPI_INT, 1, 5, MPI_COMM_WORLD);
    else
        MPI_Mprobe(0, 5, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
}

static void reversed(void) {
    static MPI_Comm comm;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comm);
    MPI_Comm_set_name(comm, "reversed");
    if (rank == 0)
        MPI_Send(values, 1, MPI_INT, 0, 5, comm);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        {"one", one},           {"many", many}, {"ring", ring},     {"tags", tags},       {"large", large},
        {"communicator", communicator}, {"buffered", buffered}, {"self", self}, {"probed", probed}, {"matched", matched},
        {"reversed", reversed},
    };
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        if (argc > 1 && strcmp(argv[1], cases[i].name) == 0)
            cases[i].run();
    MPI_Finalize();
    return 0;
}
