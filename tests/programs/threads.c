/* MPI_THREAD_MULTIPLE: threads of two ranks talk in pairs, each on its own tag or communicator; also on one whose members receive no
 * MPI_ANY_TAG, where messages are divided by their tags. */
#include "check.h"
#include <pthread.h>

#define MOST 256
#define WINDOW 16
static MPI_Comm comms[MOST];
static int rounds = 500;

static void *talk(void *argument) {
    int me = (int)(long)argument, peer = check_rank ^ 1;
    MPI_Comm comm = comms[me];
    for (int i = 0; i < rounds; i++) {
        unsigned char out[300], in[300];
        int length = (i * 37 + me) % 300;
        MPI_Status status;
        fill(out, length, me + i);
        if (check_rank < peer) {
            MPI_Send(out, length, MPI_BYTE, peer, me, comm);
            MPI_Recv(in, 300, MPI_BYTE, peer, me, comm, &status);
        } else {
            MPI_Recv(in, 300, MPI_BYTE, peer, me, comm, &status);
            MPI_Send(out, length, MPI_BYTE, peer, me, comm);
        }
        int count;
        MPI_Get_count(&status, MPI_BYTE, &count);
        CHECK(count == length && intact(in, length, me + i));
    }
    return NULL;
}

/* Windows to oneself and to the peer at once: contents, order within a tag, and a wildcard for the source. */
static void *carry(void *argument) {
    int me = (int)(long)argument, peer = check_rank ^ 1;
    MPI_Comm comm = comms[me];
    for (int i = 0; i < rounds / WINDOW + 1; i++) {
        int own[WINDOW], from[WINDOW], out[WINDOW];
        MPI_Request requests[4 * WINDOW];
        MPI_Status statuses[4 * WINDOW];
        for (int one = 0; one < WINDOW; one++) {
            MPI_Irecv(&own[one], 1, MPI_INT, check_rank, MOST + me, comm, &requests[one]);
            MPI_Irecv(&from[one], 1, MPI_INT, MPI_ANY_SOURCE, 2 * MOST + me, comm, &requests[WINDOW + one]);
        }
        for (int one = 0; one < WINDOW; one++) {
            out[one] = (i * MOST + me) * WINDOW + one;
            MPI_Isend(&out[one], 1, MPI_INT, check_rank, MOST + me, comm, &requests[2 * WINDOW + one]);
            MPI_Isend(&out[one], 1, MPI_INT, peer, 2 * MOST + me, comm, &requests[3 * WINDOW + one]);
        }
        MPI_Waitall(4 * WINDOW, requests, statuses);
        for (int one = 0; one < WINDOW; one++) {
            CHECK(own[one] == out[one] && from[one] == out[one]);
            CHECK(statuses[WINDOW + one].MPI_SOURCE == peer && statuses[WINDOW + one].MPI_TAG == 2 * MOST + me);
        }
    }
    return NULL;
}

/* All members give the hint: it holds, and stays. */
static MPI_Comm no_any_tag(void) {
    static const char key[] = "mpi_assert_no_any_tag";
    MPI_Info info;
    MPI_Comm comm, other;
    char value[8];
    int length = sizeof value, flag;
    MPI_Info_create(&info);
    MPI_Info_set(info, key, "true");
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
    /* Some members give the hint, others do not. */
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, check_rank == 0 ? info : MPI_INFO_NULL, &other);
    /* Decided when it was made; and what nobody understands is not kept. */
    MPI_Info_set(info, key, "false");
    MPI_Info_set(info, "unknown_to_all", "true");
    MPI_Comm_set_info(comm, info);
    MPI_Info_free(&info);
    MPI_Comm_get_info(comm, &info);
    MPI_Info_get_string(info, key, &length, value, &flag);
    CHECK(flag && strcmp(value, "true") == 0);
    MPI_Info_get_string(info, "unknown_to_all", &length, value, &flag);
    CHECK(!flag);
    MPI_Info_free(&info);
    MPI_Comm_get_info(other, &info);
    length = sizeof value;
    MPI_Info_get_string(info, key, &length, value, &flag);
    CHECK(flag && strcmp(value, "false") == 0);
    MPI_Info_free(&info);
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, other, &flag, MPI_STATUS_IGNORE);
    CHECK(!flag);
    MPI_Comm_free(&other);
    return comm;
}

int main(int argc, char **argv) {
    int provided, threads = argc > 1 ? atoi(argv[1]) : 16;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    CHECK(provided == MPI_THREAD_MULTIPLE && threads <= MOST);
    if (threads > 64) rounds = 100;
    MPI_Comm divided = no_any_tag();
    for (int shared = 0; shared < 3; shared++) {
        pthread_t ids[MOST];
        for (int i = 0; i < threads; i++)
            if (shared) comms[i] = shared == 1 ? MPI_COMM_WORLD : divided;
            else MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        if ((check_rank ^ 1) < check_size) {
            void *(*bodies[])(void *) = {talk, carry};
            for (int body = 0; body < 2; body++) {
                for (long i = 0; i < threads; i++) CHECK(pthread_create(&ids[i], NULL, bodies[body], (void *)i) == 0);
                for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
            }
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (!shared)
            for (int i = 0; i < threads; i++) MPI_Comm_free(&comms[i]);
    }
    MPI_Comm_free(&divided);
    check_done("threads");
    return 0;
}
