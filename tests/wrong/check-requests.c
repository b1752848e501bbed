/*
 * Buffers of requests under way that are changed, given back or used twice; requests that are used wrongly.
 * options: --check
 *
 * run: 2 changed
 * says: weft: warning: rank 0: the buffer of MPI_Isend at check-requests.c:
 * says: (changed) was changed before MPI_Wait at check-requests.c:
 * says: leave it alone until then
 *
 * run: 2 changed
 * options: --check=full,strict
 * exit: 120
 * says: was changed before MPI_Wait
 *
 * run: 2 changed
 * options: --check=usual
 * never: weft
 *
 * run: 2 large
 * says: the buffer of MPI_Isend at check-requests.c:
 * says: was changed before MPI_Wait
 *
 * run: 2 synchronous
 * says: the buffer of MPI_Issend at check-requests.c:
 * says: was changed before MPI_Waitall at check-requests.c:
 *
 * run: 2 tested
 * says: was changed before MPI_Test at check-requests.c:
 *
 * run: 2 any
 * says: was changed before MPI_Waitany at check-requests.c:
 *
 * run: 2 some
 * says: was changed before MPI_Waitsome at check-requests.c:
 *
 * run: 2 persistent
 * says: the buffer of MPI_Send_init at check-requests.c:
 * says: was changed before MPI_Wait at check-requests.c:
 *
 * run: 2 unmapped
 * says: the buffer of MPI_Isend at check-requests.c:
 * says: was given back to the system before MPI_Wait
 *
 * run: 2 gaps
 * says: the buffer of MPI_Isend at check-requests.c:
 * says: was changed before MPI_Wait
 *
 * run: 1 receives
 * says: MPI_Irecv at check-requests.c:
 * says: receives into 4 bytes that MPI_Irecv at check-requests.c:
 * says: receives into, too, and has not ended
 *
 * run: 1 overlapping
 * says: receives into 8 bytes that MPI_Irecv at
 *
 * run: 1 sending
 * says: MPI_Isend at check-requests.c:
 * says: sends from 4 bytes that MPI_Irecv at check-requests.c:
 *
 * run: 1 receiving
 * says: MPI_Irecv at check-requests.c:
 * says: receives into 4 bytes that MPI_Issend at check-requests.c:
 * says: sends from, too
 *
 * run: 1 blocking
 * says: MPI_Recv at check-requests.c:
 * says: receives into 4 bytes that MPI_Irecv at check-requests.c:
 *
 * run: 1 blockingsend
 * says: MPI_Send at check-requests.c:
 * says: sends from 4 bytes that MPI_Irecv at check-requests.c:
 *
 * run: 1 exchange
 * says: MPI_Sendrecv at check-requests.c:
 *
 * run: 1 started
 * says: MPI_Start at check-requests.c:
 * says: receives into 4 bytes that MPI_Recv_init at check-requests.c:
 *
 * run: 1 startall
 * says: MPI_Startall at check-requests.c:
 * says: receives into 4 bytes that MPI_Recv_init at check-requests.c:
 *
 * run: 1 freed
 * says: MPI_Request_free at check-requests.c:
 * says: frees the receive of MPI_Irecv at check-requests.c:
 * says: nobody can know when its buffer is filled
 *
 * run: 1 forgotten
 * says: request  ended, but never waited for or tested
 * says: made by MPI_Isend at check-requests.c:
 *
 * run: 1 twice
 * exit: 7
 * says: is under way: wait for its end before it is started again
 * says: MPI_Start
 *
 * run: 1 stale
 * exit: 7
 * says: MPI_Wait
 * says: is not live
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static int rank, values[64], more[64];
static MPI_Request requests[3];

/* Rank 0 sends with a request, rank 1 receives so much. */
static void take(int count) {
    if (rank == 1)
        MPI_Recv(more, count, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void changed(void) {
    if (rank == 0) {
        MPI_Isend(values, 4, MPI_INT, 1, 5, MPI_COMM_WORLD, requests);
        values[2] = 7;
        MPI_Wait(requests, MPI_STATUS_IGNORE);
    }
    take(4);
}

static void large(void) {
    enum { MANY = 1 << 20 };
    static int bytes[MANY];
    if (rank == 0) {
        MPI_Isend(bytes, MANY, MPI_INT, 1, 5, MPI_COMM_WORLD, requests);
        bytes[MANY - 1] = 7;
        MPI_Wait(requests, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(bytes, MANY, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void synchronous(void) {
    if (rank == 0) {
        MPI_Issend(values, 4, MPI_INT, 1, 5, MPI_COMM_WORLD, requests);
        values[0]++;
        MPI_Waitall(1, requests, MPI_STATUSES_IGNORE);
    }
    take(4);
}

static void tested(void) {
    int done = 0;
    if (rank == 0) {
        MPI_Isend(values, 4, MPI_INT, 1, 5, MPI_COMM_WORLD, requests);
        values[0]++;
        while (!done)
            MPI_Test(requests, &done, MPI_STATUS_IGNORE);
    }
    take(4);
}

static void any(void) {
    int which;
    if (rank == 0) {
        requests[0] = MPI_REQUEST_NULL;
        MPI_Isend(values, 4, MPI_INT, 1, 5, MPI_COMM_WORLD, requests + 1);
        values[0]++;
        MPI_Waitany(2, requests, &which, MPI_STATUS_IGNORE);
    }
    take(4);
}

static void some(void) {
    int count, which[1];
    if (rank == 0) {
        MPI_Isend(values, 4, MPI_INT, 1, 5, MPI_COMM_WORLD, requests);
        values[0]++;
        MPI_Waitsome(1, requests, &count, which, MPI_STATUSES_IGNORE);
    }
    take(4);
}

static void persistent(void) {
    if (rank == 0) {
        MPI_Send_init(values, 4, MPI_INT, 1, 5, MPI_COMM_WORLD, requests);
        values[0] = 1;
        MPI_Start(requests);
        values[0] = 2;
        MPI_Wait(requests, MPI_STATUS_IGNORE);
        MPI_Request_free(requests);
    }
    take(4);
}

static void unmapped(void) {
    enum { BYTES = 1 << 16 };
    if (rank == 0) {
        void *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        MPI_Isend(memory, 4, MPI_INT, 1, 5, MPI_COMM_WORLD, requests);
        munmap(memory, BYTES);
        MPI_Wait(requests, MPI_STATUS_IGNORE);
    }
    take(4);
}

static void gaps(void) {
    MPI_Datatype type;
    MPI_Type_vector(2, 2, 4, MPI_INT, &type);
    MPI_Type_commit(&type);
    if (rank == 0) {
        MPI_Isend(values, 1, type, 1, 5, MPI_COMM_WORLD, requests);
        values[4] = 7;
        MPI_Wait(requests, MPI_STATUS_IGNORE);
    }
    take(4);
    MPI_Type_free(&type);
}

static void finish(int tag, int count) {
    for (int i = 0; i < count; i++)
        MPI_Send(more, 1, MPI_INT, 0, tag + i, MPI_COMM_SELF);
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
}

static void receives(void) {
    for (int i = 0; i < 2; i++)
        MPI_Irecv(values, 1, MPI_INT, 0, i, MPI_COMM_SELF, &requests[i]);
    finish(0, 2);
}

static void overlapping(void) {
    MPI_Irecv(values, 4, MPI_INT, 0, 0, MPI_COMM_SELF, &requests[0]);
    MPI_Irecv(values + 2, 4, MPI_INT, 0, 1, MPI_COMM_SELF, &requests[1]);
    finish(0, 2);
}

static void sending(void) {
    MPI_Irecv(values, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &requests[0]);
    MPI_Isend(values, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &requests[1]);
    MPI_Irecv(more + 9, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &requests[2]);
    MPI_Send(more, 1, MPI_INT, 0, 0, MPI_COMM_SELF);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
}

static void receiving(void) {
    MPI_Issend(values, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &requests[0]);
    MPI_Irecv(values, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static void blocking(void) {
    MPI_Irecv(values, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &requests[0]);
    MPI_Send(more, 1, MPI_INT, 0, 1, MPI_COMM_SELF);
    MPI_Recv(values, 1, MPI_INT, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    finish(0, 1);
}

static void blockingsend(void) {
    MPI_Irecv(values, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &requests[0]);
    MPI_Send(values, 1, MPI_INT, 0, 0, MPI_COMM_SELF);
    MPI_Wait(requests, MPI_STATUS_IGNORE);
}

static void exchange(void) {
    MPI_Irecv(values, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &requests[0]);
    MPI_Sendrecv(more, 1, MPI_INT, 0, 1, values, 1, MPI_INT, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    finish(0, 1);
}

static void started(void) {
    for (int i = 0; i < 2; i++)
        MPI_Recv_init(values, 1, MPI_INT, 0, i, MPI_COMM_SELF, &requests[i]);
    MPI_Start(&requests[0]);
    MPI_Start(&requests[1]);
    finish(0, 2);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

static void startall(void) {
    for (int i = 0; i < 2; i++)
        MPI_Recv_init(values, 1, MPI_INT, 0, i, MPI_COMM_SELF, &requests[i]);
    MPI_Startall(2, requests);
    finish(0, 2);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

static void freed(void) {
    MPI_Irecv(values, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &requests[0]);
    MPI_Request_free(&requests[0]);
    MPI_Send(more, 1, MPI_INT, 0, 0, MPI_COMM_SELF);
}

static void forgotten(void) {
    MPI_Irecv(values, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &requests[0]);
    MPI_Isend(more, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &requests[1]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
}

static void twice(void) {
    MPI_Recv_init(values, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &requests[0]);
    MPI_Start(&requests[0]);
    MPI_Start(&requests[0]);
}

static void stale(void) {
    MPI_Irecv(values, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &requests[0]);
    requests[1] = requests[0];
    finish(0, 1);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        {"changed", changed},   {"large", large},       {"synchronous", synchronous}, {"tested", tested},
        {"any", any},           {"some", some},         {"persistent", persistent},   {"unmapped", unmapped},
        {"gaps", gaps},         {"receives", receives}, {"overlapping", overlapping}, {"sending", sending},
        {"receiving", receiving}, {"blocking", blocking}, {"blockingsend", blockingsend}, {"exchange", exchange},
        {"started", started},   {"startall", startall}, {"freed", freed},             {"forgotten", forgotten},
        {"twice", twice},       {"stale", stale},
    };
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        if (argc > 1 && strcmp(argv[1], cases[i].name) == 0)
            cases[i].run();
    MPI_Finalize();
    return 0;
}
