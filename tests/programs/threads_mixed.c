/* MPI_THREAD_MULTIPLE: threads that do different things at once, each with its like at the peer: exact receives and wildcards, waits and
 * polls, probes, cancelled receives, communicators made and freed, on communicators with hints and without. Arguments: threads, turns. */
#include "check.h"
#include <pthread.h>

#define MOST 64
#define LONG 70000
static MPI_Comm anything, exact, divided, own[MOST];
static int peer, turns;

/* What one thread sends and receives. */
struct messages {
    int me, turn, length;
    unsigned char out[LONG], in[LONG];
};

static void came(const struct messages *m, const MPI_Status *status) {
    int length;
    MPI_Get_count(status, MPI_BYTE, &length);
    CHECK(length == m->length && status->MPI_SOURCE == peer && intact(m->in, length, m->me + m->turn));
}

/* The receive is begun first; it is waited for, or polled. */
static void posted(struct messages *m, MPI_Comm comm, int polls) {
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Irecv(m->in, LONG, MPI_BYTE, MPI_ANY_SOURCE, m->me, comm, &requests[0]);
    MPI_Isend(m->out, m->length, MPI_BYTE, peer, m->me, comm, &requests[1]);
    if (polls)
        for (int over = 0; !over;) MPI_Testall(2, requests, &over, statuses);
    else
        MPI_Waitall(2, requests, statuses);
    came(m, &statuses[0]);
}

/* The message is found before it is received. */
static void probed(struct messages *m, MPI_Comm comm, int polls) {
    MPI_Request request;
    MPI_Status status;
    int length;
    MPI_Isend(m->out, m->length, MPI_BYTE, peer, m->me, comm, &request);
    if (polls)
        for (int there = 0; !there;) MPI_Iprobe(peer, m->me, comm, &there, &status);
    else
        MPI_Probe(peer, m->me, comm, &status);
    MPI_Get_count(&status, MPI_BYTE, &length);
    CHECK(length == m->length);
    MPI_Recv(m->in, length, MPI_BYTE, peer, m->me, comm, &status);
    came(m, &status);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* All threads receive any message here: each gets one, whoever sent it. */
static void any(const struct messages *m, int way) {
    int out[4] = {check_rank, m->me, m->turn, check_rank * 1000003 + m->me * 1009 + m->turn}, in[4];
    MPI_Request request;
    MPI_Message message;
    MPI_Status status;
    MPI_Isend(out, 4, MPI_INT, peer, m->me, anything, &request);
    if (way == 0) {
        MPI_Recv(in, 4, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, anything, &status);
    } else {
        if (way == 1)
            MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, anything, &message, &status);
        else
            for (int there = 0; !there;) MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, anything, &there, &message, &status);
        MPI_Mrecv(in, 4, MPI_INT, &message, &status);
    }
    CHECK(in[3] == in[0] * 1000003 + in[1] * 1009 + in[2] && status.MPI_SOURCE == in[0] && status.MPI_TAG == in[1]);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* A receive is cancelled while its message is under way: one of the two gets it. */
static void cancelled(struct messages *m, MPI_Comm comm) {
    MPI_Request send, receive;
    MPI_Status status;
    int is_cancelled;
    MPI_Isend(m->out, m->length, MPI_BYTE, peer, MOST + m->me, comm, &send);
    MPI_Irecv(m->in, LONG, MPI_BYTE, peer, MOST + m->me, comm, &receive);
    MPI_Cancel(&receive);
    MPI_Wait(&receive, &status);
    MPI_Test_cancelled(&status, &is_cancelled);
    if (is_cancelled) MPI_Recv(m->in, LONG, MPI_BYTE, peer, MOST + m->me, comm, &status);
    came(m, &status);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
}

/* A communicator is made, used, and freed while a receive of it is under way. */
static void made(const struct messages *m, int way) {
    int from = (check_rank + check_size - 1) % check_size, out = check_rank * MOST + m->me, in = -1;
    MPI_Comm comm;
    MPI_Info info;
    MPI_Request request;
    MPI_Info_create(&info);
    MPI_Info_set(info, way % 2 ? "mpi_assert_no_any_tag" : "mpi_assert_allow_overtaking", "true");
    if (way < 2) {
        MPI_Comm_dup_with_info(own[m->me], info, &comm);
    } else if (way == 2) {
        MPI_Comm_split(own[m->me], 0, check_rank, &comm);
    } else {
        MPI_Comm_idup(own[m->me], &comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Info_free(&info);
    MPI_Irecv(&in, 1, MPI_INT, from, 3, comm, &request);
    MPI_Send(&out, 1, MPI_INT, (check_rank + 1) % check_size, 3, comm);
    MPI_Comm_free(&comm);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(in == from * MOST + m->me);
}

/* Requests of several communicators in one list. */
static void apart(const struct messages *m, int way) {
    MPI_Comm comms[3] = {divided, exact, own[m->me]};
    MPI_Request requests[6];
    int in[3], out = m->me * 5 + check_rank, count, indices[6];
    for (int one = 0; one < 3; one++) {
        MPI_Irecv(&in[one], 1, MPI_INT, peer, 2 * MOST + m->me + one * MOST, comms[one], &requests[one]);
        MPI_Isend(&out, 1, MPI_INT, peer, 2 * MOST + m->me + one * MOST, comms[one], &requests[3 + one]);
    }
    for (int left = 6; left; left -= count) {
        if (way == 0) {
            MPI_Waitsome(6, requests, &count, indices, MPI_STATUSES_IGNORE);
        } else if (way == 1) {
            MPI_Testsome(6, requests, &count, indices, MPI_STATUSES_IGNORE);
        } else {
            MPI_Waitany(6, requests, indices, MPI_STATUS_IGNORE);
            count = 1;
        }
    }
    for (int one = 0; one < 3; one++) CHECK(in[one] == m->me * 5 + peer);
}

static void *body(void *argument) {
    struct messages *m = argument;
    /* Both ends draw the same. */
    unsigned draw = 104729u * (unsigned)m->me + 7919u;
    for (m->turn = 0; m->turn < turns; m->turn++) {
        draw = draw * 1103515245u + 12345u;
        unsigned kind = draw >> 16 & 7, way = draw >> 20 & 3;
        MPI_Comm comm = draw >> 23 & 1 ? divided : exact;
        m->length = draw >> 24 & 3 ? (int)(draw >> 16 & 255) : (int)(draw >> 8) % LONG;
        fill(m->out, (size_t)m->length, m->me + m->turn);
        if (kind < 2)
            posted(m, comm, way & 1);
        else if (kind == 2)
            probed(m, comm, way & 1);
        else if (kind == 3)
            any(m, (int)way);
        else if (kind == 4)
            cancelled(m, comm);
        else if (kind == 5 && way == 0)
            made(m, m->turn % 4);
        else if (kind == 6)
            apart(m, (int)way);
        else {
            int in = m->me + check_rank, sum = 0, all = check_size * m->me + check_size * (check_size - 1) / 2;
            MPI_Allreduce(&in, &sum, 1, MPI_INT, MPI_SUM, own[m->me]);
            CHECK(sum == all);
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    int provided, threads = argc > 1 ? atoi(argv[1]) : 24, there;
    turns = argc > 2 ? atoi(argv[2]) : 100;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    CHECK(provided == MPI_THREAD_MULTIPLE && threads > 0 && threads <= MOST && (check_size == 1 || check_size % 2 == 0));
    peer = check_size == 1 ? 0 : check_rank ^ 1;
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
    MPI_Comm_dup(MPI_COMM_WORLD, &anything);
    MPI_Comm_dup(MPI_COMM_WORLD, &exact);
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &divided);
    for (int i = 0; i < threads; i++) MPI_Comm_dup_with_info(MPI_COMM_WORLD, i % 3 ? MPI_INFO_NULL : info, &own[i]);
    MPI_Info_free(&info);
    pthread_t ids[MOST];
    struct messages *all = calloc(MOST, sizeof *all);
    for (int i = 0; i < threads; i++) {
        all[i].me = i;
        CHECK(pthread_create(&ids[i], NULL, body, &all[i]) == 0);
    }
    for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    free(all);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm used[2] = {anything, exact};
    for (int i = 0; i < 2; i++) {
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, used[i], &there, MPI_STATUS_IGNORE);
        CHECK(!there);
    }
    for (int i = 0; i < threads; i++) MPI_Comm_free(&own[i]);
    MPI_Comm_free(&anything);
    MPI_Comm_free(&exact);
    MPI_Comm_free(&divided);
    check_done("threads_mixed");
    return 0;
}
