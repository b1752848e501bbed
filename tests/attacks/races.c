/* Many threads, each with a thread of another rank, do what MPI allows them to do at once: sends of all
 * kinds, probes, matched probes, cancellations that race with what they cancel, communicators that are made
 * and freed. The seed determines what each pair does next, and every byte is checked. */
#include "../programs/check.h"
#include <pthread.h>

#define MOST 64
#define WINDOW 8
#define LONGEST 70000
#define NOBODY 9999 /* a tag that is never sent */
static MPI_Comm comms[MOST];
static int rounds, seed;

typedef struct {
    int tag, peer, lower, value;
    unsigned char *out, *in;
    MPI_Comm comm;
} Side;

static unsigned mixed(unsigned number) {
    number ^= number >> 16, number *= 0x7feb352d, number ^= number >> 15, number *= 0x846ca68b;
    return number ^ number >> 16;
}

static void check_in(const Side *side, MPI_Status *status, int length, int value) {
    int count;
    MPI_Get_count(status, MPI_BYTE, &count);
    CHECK(count == length && status->MPI_SOURCE == side->peer && status->MPI_TAG == side->tag);
    CHECK(intact(side->in, length, value));
}

/* One message each way; the first one synchronous, found by a probe. */
static void exchange(Side *side, int length) {
    MPI_Status status;
    int found = 0;
    fill(side->out, length, side->value);
    if (side->lower) {
        MPI_Ssend(side->out, length, MPI_BYTE, side->peer, side->tag, side->comm);
        MPI_Recv(side->in, LONGEST, MPI_BYTE, side->peer, side->tag, side->comm, &status);
    } else {
        while (!found) MPI_Iprobe(side->peer, side->tag, side->comm, &found, &status);
        MPI_Recv(side->in, LONGEST, MPI_BYTE, MPI_ANY_SOURCE, side->tag, side->comm, &status);
        MPI_Send(side->out, length, MPI_BYTE, side->peer, side->tag, side->comm);
    }
    check_in(side, &status, length, side->value);
}

/* A window one way, taken by matched probes in order. */
static void matched(Side *side, int length) {
    MPI_Request requests[WINDOW];
    for (int i = 0; i < WINDOW; i++) {
        int part = (length + i) / WINDOW;
        if (side->lower) {
            fill(side->out + i * part, part, side->value + i);
            MPI_Isend(side->out + i * part, part, MPI_BYTE, side->peer, side->tag, side->comm, &requests[i]);
            if (i % 3 == 0) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        } else {
            MPI_Message message;
            MPI_Status status;
            MPI_Mprobe(MPI_ANY_SOURCE, side->tag, side->comm, &message, &status);
            MPI_Mrecv(side->in, LONGEST, MPI_BYTE, &message, &status);
            check_in(side, &status, part, side->value + i);
        }
    }
    if (side->lower) MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
}

/* A receive that is taken back while its message is on the way: it has the data, or the next one has. */
static void cancelled(Side *side, int length) {
    MPI_Request request;
    MPI_Status status;
    int taken_back;
    MPI_Irecv(side->in, LONGEST, MPI_BYTE, MPI_ANY_SOURCE, NOBODY, side->comm, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &taken_back);
    CHECK(taken_back);
    fill(side->out, length, side->value);
    if (side->lower) {
        MPI_Send(side->out, length, MPI_BYTE, side->peer, side->tag, side->comm);
        return;
    }
    MPI_Irecv(side->in, LONGEST, MPI_BYTE, side->peer, side->tag, side->comm, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &taken_back);
    if (taken_back)
        MPI_Recv(side->in, LONGEST, MPI_BYTE, side->peer, side->tag, side->comm, &status);
    check_in(side, &status, length, side->value);
}

/* Receives that are waited for in any order. */
static void any(Side *side, int length) {
    MPI_Request requests[2 * WINDOW];
    int part = length / WINDOW, done = 0;
    for (int i = 0; i < WINDOW; i++) {
        fill(side->out + i * part, part, side->value + i);
        MPI_Irecv(side->in + i * part, part, MPI_BYTE, side->peer, side->tag, side->comm, &requests[i]);
    }
    for (int i = 0; i < WINDOW; i++)
        MPI_Isend(side->out + i * part, part, MPI_BYTE, side->peer, side->tag, side->comm, &requests[WINDOW + i]);
    while (done < 2 * WINDOW) {
        int at = MPI_UNDEFINED, flag = 0;
        if (done % 2) MPI_Waitany(2 * WINDOW, requests, &at, MPI_STATUS_IGNORE), flag = 1;
        else MPI_Testany(2 * WINDOW, requests, &at, &flag, MPI_STATUS_IGNORE);
        if (!flag) continue;
        CHECK(at != MPI_UNDEFINED);
        if (at < WINDOW) CHECK(intact(side->in + at * part, part, side->value + at));
        done++;
    }
}

static void *play(void *argument) {
    int me = (int)(long)argument, peer = check_rank ^ 1;
    Side side = {me, peer, check_rank < peer, 0, malloc(LONGEST), malloc(LONGEST), MPI_COMM_NULL};
    for (int round = 0; round < rounds; round++) {
        unsigned chance = mixed(mixed(seed * 1000003u + me) + round);
        int length = chance % 16 == 0 ? LONGEST : (int)(chance >> 8) % 3000;
        void (*acts[])(Side *, int) = {exchange, matched, cancelled, any};
        side.comm = chance & 1 ? comms[me] : MPI_COMM_WORLD;
        side.value = (int)(chance >> 20);
        int own = (chance >> 1) % 4 == 0;
        if (own) MPI_Comm_dup(comms[me], &side.comm);
        acts[(chance >> 4) % 4](&side, length);
        if (own) MPI_Comm_free(&side.comm);
    }
    free(side.out);
    free(side.in);
    return NULL;
}

int main(int argc, char **argv) {
    int provided, threads = argc > 1 ? atoi(argv[1]) : 8;
    rounds = argc > 2 ? atoi(argv[2]) : 50;
    seed = argc > 3 ? atoi(argv[3]) : 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    CHECK(provided == MPI_THREAD_MULTIPLE && threads <= MOST && check_size % 2 == 0);
    pthread_t ids[MOST];
    for (int i = 0; i < threads; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (long i = 0; i < threads; i++) CHECK(pthread_create(&ids[i], NULL, play, (void *)i) == 0);
    for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    for (int i = 0; i < threads; i++) MPI_Comm_free(&comms[i]);
    check_done("races");
    return 0;
}
