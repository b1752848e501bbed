/*
 * Receives from any source that messages of several ranks could match.
 * options: --check
 *
 * run: 3 receive
 * says: weft: warning: rank 0: MPI_Recv at check-sources.c:
 * says: takes a message from any source, and one of rank
 * says: with tag 5 on MPI_COMM_WORLD are here: which it gets is chance
 *
 * run: 3 later
 * says: MPI_Irecv at check-sources.c:
 *
 * run: 3 probe
 * says: MPI_Probe at check-sources.c:
 *
 * run: 3 mprobe
 * says: MPI_Mprobe at check-sources.c:
 *
 * run: 3 exchange
 * says: MPI_Sendrecv at check-sources.c:
 *
 * run: 3 anything
 * says: with tag 1
 * says: with tag 2
 *
 * run: 3 named
 * never: weft
 *
 * run: 3 tagged
 * never: weft
 *
 * run: 3 receive
 * options: --check=usual
 * never: weft
 */
#include <mpi.h>
#include <string.h>

static int rank, value;

/* Both others have sent when rank 0 continues. */
static void send(int tag) {
    if (rank > 0)
        MPI_Send(&rank, 1, MPI_INT, 0, tag, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void take(int source, int tag) {
    MPI_Recv(&value, 1, MPI_INT, source, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void receive(void) {
    send(5);
    for (int i = 0; rank == 0 && i < 2; i++)
        take(MPI_ANY_SOURCE, 5);
}

static void later(void) {
    MPI_Request request;
    send(5);
    for (int i = 0; rank == 0 && i < 2; i++) {
        MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

static void probe(void) {
    MPI_Status status;
    send(5);
    for (int i = 0; rank == 0 && i < 2; i++) {
        MPI_Probe(MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &status);
        take(status.MPI_SOURCE, 5);
    }
}

static void mprobe(void) {
    MPI_Message message;
    send(5);
    for (int i = 0; rank == 0 && i < 2; i++) {
        MPI_Mprobe(MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
        MPI_Mrecv(&value, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
    }
}

static void exchange(void) {
    send(5);
    for (int i = 0; rank == 0 && i < 2; i++)
        MPI_Sendrecv(&rank, 1, MPI_INT, MPI_PROC_NULL, 0, &value, 1, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
}

static void anything(void) {
    send(rank);
    for (int i = 0; rank == 0 && i < 2; i++)
        take(MPI_ANY_SOURCE, MPI_ANY_TAG);
}

static void named(void) {
    send(5);
    for (int i = 1; rank == 0 && i < 3; i++)
        take(i, 5);
}

static void tagged(void) {
    send(rank);
    for (int i = 1; rank == 0 && i < 3; i++)
        take(MPI_ANY_SOURCE, i);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        {"receive", receive}, {"later", later}, {"probe", probe}, {"mprobe", mprobe}, {"exchange", exchange},
        {"anything", anything}, {"named", named}, {"tagged", tagged},
    };
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        if (argc > 1 && strcmp(argv[1], cases[i].name) == 0)
            cases[i].run();
    MPI_Finalize();
    return 0;
}
