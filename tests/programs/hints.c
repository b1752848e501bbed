/* Threads on communicators with hints: on one that receives no MPI_ANY_TAG messages are divided by their tags among engines, which
 * each thread uses all of here. Sends, receives, probes, cancels, persistent requests and lists over several engines; thread 0 also
 * makes communicators and meets the other ranks meanwhile. */
#include "check.h"
#include <pthread.h>

#define MOST 32
#define TAGS 5 /* of each thread: more than a rank has engines */
#define LONG 20000 /* beyond what goes with its envelope */
static MPI_Comm comm;
static int threads = 8, rounds = 20;

static int tag_of(int thread, int number) { return thread + number * threads; }

static int length_of(int round, int number) {
    static const int lengths[] = {0, 8, 700, LONG};
    return lengths[(round + number) % 4];
}

/* All tags at once: sent in one order, received in another, and completed one by one. */
static void several(int me, int peer, int round) {
    static const int orders[] = {1, 2, 3, 4};
    unsigned char *out = malloc(TAGS * LONG), *in = calloc(TAGS, LONG);
    MPI_Request requests[2 * TAGS];
    for (int one = 0; one < TAGS; one++) {
        int number = (one * orders[round % 4]) % TAGS;
        MPI_Irecv(in + number * LONG, LONG, MPI_BYTE, peer, tag_of(me, number), comm, &requests[number]);
    }
    for (int number = 0; number < TAGS; number++) {
        int length = length_of(round, number);
        fill(out + number * LONG, length, me + number + round);
        if (number % 2) MPI_Isend(out + number * LONG, length, MPI_BYTE, peer, tag_of(me, number), comm, &requests[TAGS + number]);
        else MPI_Issend(out + number * LONG, length, MPI_BYTE, peer, tag_of(me, number), comm, &requests[TAGS + number]);
    }
    for (int ended = 0; ended < 2 * TAGS; ended++) {
        int place = -1, flag = 0, count;
        MPI_Status status;
        if (ended % 3 == 0)
            while (!flag) MPI_Testany(2 * TAGS, requests, &place, &flag, &status);
        else MPI_Waitany(2 * TAGS, requests, &place, &status);
        CHECK(place >= 0 && place < 2 * TAGS && requests[place] == MPI_REQUEST_NULL);
        if (place >= TAGS) continue;
        MPI_Get_count(&status, MPI_BYTE, &count);
        CHECK(status.MPI_TAG == tag_of(me, place) && count == length_of(round, place));
        CHECK(intact(in + place * LONG, count, me + place + round));
    }
    free(out);
    free(in);
}

/* Probed before it is received; and a receive without a send is cancelled. */
static void probed(int me, int peer, int round) {
    int out = round * MOST + me, in = -1, flag = 0, tag = tag_of(me, round % TAGS);
    MPI_Request sent, never;
    MPI_Message message;
    MPI_Status status;
    MPI_Irecv(&in, 1, MPI_INT, peer, tag_of(me, TAGS + round % 3), comm, &never);
    MPI_Isend(&out, 1, MPI_INT, peer, tag, comm, &sent);
    if (round % 2) MPI_Mprobe(peer, tag, comm, &message, &status);
    else
        while (!flag) MPI_Improbe(peer, tag, comm, &flag, &message, &status);
    MPI_Cancel(&never);
    MPI_Wait(&never, &status);
    MPI_Test_cancelled(&status, &flag);
    CHECK(flag && in == -1);
    MPI_Mrecv(&in, 1, MPI_INT, &message, &status);
    CHECK(in == out && status.MPI_TAG == tag);
    MPI_Wait(&sent, MPI_STATUS_IGNORE);
}

/* Both ways in one call, whose tags belong to two engines or to one. */
static void exchanged(int me, int peer, int round) {
    int out = round, in = -1;
    int low = tag_of(me, round % TAGS), high = tag_of(me, (round + 1 + round % 3) % TAGS);
    int own = check_rank < peer ? low : high, its = check_rank < peer ? high : low;
    MPI_Sendrecv(&out, 1, MPI_INT, peer, own, &in, 1, MPI_INT, peer, its, comm, MPI_STATUS_IGNORE);
    CHECK(in == round);
}

/* What one thread alone may do: all ranks meet, and make communicators of this one. */
static void together(int round) {
    int sum = 0;
    MPI_Comm copy;
    MPI_Allreduce(&round, &sum, 1, MPI_INT, MPI_SUM, comm);
    CHECK(sum == round * check_size);
    if (round % 10) return;
    MPI_Comm_dup(comm, &copy);
    MPI_Barrier(copy);
    MPI_Comm_free(&copy);
}

static void *work(void *argument) {
    int me = (int)(long)argument, peer = check_rank ^ 1, out[2], in[2];
    MPI_Request again[4];
    for (int one = 0; one < 2; one++) {
        MPI_Recv_init(&in[one], 1, MPI_INT, peer, tag_of(me, one), comm, &again[one]);
        MPI_Send_init(&out[one], 1, MPI_INT, peer, tag_of(me, one), comm, &again[2 + one]);
    }
    for (int round = 0; round < rounds; round++) {
        if (me == 0) together(round);
        several(me, peer, round);
        probed(me, peer, round);
        exchanged(me, peer, round);
        out[0] = round;
        out[1] = -round;
        MPI_Startall(4, again);
        MPI_Waitall(4, again, MPI_STATUSES_IGNORE);
        CHECK(in[0] == round && in[1] == -round);
    }
    for (int one = 0; one < 4; one++) MPI_Request_free(&again[one]);
    return NULL;
}

int main(int argc, char **argv) {
    static const char *const hints[] = {"mpi_assert_no_any_tag", "mpi_assert_allow_overtaking", "mpi_assert_no_any_source"};
    int provided;
    if (argc > 1) threads = atoi(argv[1]);
    if (argc > 2) rounds = atoi(argv[2]);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    CHECK(provided == MPI_THREAD_MULTIPLE && threads <= MOST && check_size % 2 == 0);
    /* The first hint, the first two, all; and the second one alone. */
    for (int kind = 1; kind <= 4; kind++) {
        pthread_t ids[MOST];
        MPI_Info info;
        MPI_Info_create(&info);
        for (int hint = 0; hint < 3; hint++)
            if (kind < 4 ? hint < kind : hint == 1) MPI_Info_set(info, hints[hint], "true");
        MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
        MPI_Info_free(&info);
        for (long i = 0; i < threads; i++) CHECK(pthread_create(&ids[i], NULL, work, (void *)i) == 0);
        for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
        MPI_Comm_free(&comm);
    }
    check_done("hints");
    return 0;
}
