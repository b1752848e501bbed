/* Partitioned communication around a ring: threads make partitions ready, other threads wait for theirs; other numbers of
 * partitions on the two sides, elements with gaps, and the mistakes that a program can make. */
#include "check.h"
#include <pthread.h>

#define THREADS 4
#define EACH 6
#define COUNT 50
#define SENT (THREADS * EACH)
#define RECEIVED (SENT / 2)
static MPI_Request sending, receiving;
static int out[SENT * COUNT], in[SENT * COUNT], number;

static int value(int rank, int place) { return number * 1000003 + rank * 7919 + place; }

static void *produce(void *argument) {
    int me = (int)(long)argument;
    for (int one = EACH - 1; one >= 0; one--) {
        int partition = one * THREADS + me;
        for (int i = 0; i < COUNT; i++) out[partition * COUNT + i] = value(check_rank, partition * COUNT + i);
        CHECK(MPI_Pready(partition, sending) == MPI_SUCCESS);
    }
    return NULL;
}

static void *consume(void *argument) {
    int me = (int)(long)argument, from = (check_rank + check_size - 1) % check_size;
    for (int partition = me; partition < RECEIVED; partition += THREADS) {
        int there = 0;
        while (!there) CHECK(MPI_Parrived(receiving, partition, &there) == MPI_SUCCESS);
        for (int i = partition * 2 * COUNT; i < (partition + 1) * 2 * COUNT; i++) CHECK(in[i] == value(from, i));
    }
    return NULL;
}

static void with_threads(void) {
    int to = (check_rank + 1) % check_size, from = (check_rank + check_size - 1) % check_size;
    MPI_Psend_init(out, SENT, COUNT, MPI_INT, to, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &sending);
    MPI_Precv_init_c(in, RECEIVED, 2 * COUNT, MPI_INT, from, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &receiving);
    for (number = 0; number < 20; number++) {
        pthread_t threads[2 * THREADS];
        MPI_Status status;
        int count, there;
        memset(in, 255, sizeof in);
        MPI_Request both[2] = {sending, receiving};
        MPI_Startall(2, both);
        for (long me = 0; me < THREADS; me++) {
            pthread_create(&threads[me], NULL, produce, (void *)me);
            pthread_create(&threads[THREADS + me], NULL, consume, (void *)me);
        }
        MPI_Wait(&receiving, &status);
        MPI_Wait(&sending, MPI_STATUS_IGNORE);
        for (int i = 0; i < 2 * THREADS; i++) pthread_join(threads[i], NULL);
        MPI_Get_count(&status, MPI_INT, &count);
        CHECK(count == SENT * COUNT && status.MPI_SOURCE == from && status.MPI_TAG == 3);
        MPI_Parrived(receiving, 0, &there);
        CHECK(there && receiving != MPI_REQUEST_NULL);
    }
    MPI_Request_free(&sending);
    MPI_Request_free(&receiving);
    CHECK(sending == MPI_REQUEST_NULL && receiving == MPI_REQUEST_NULL);
}

/* Ranges and lists, and a large message. */
static void ranges(void) {
    enum { PARTS = 8, LENGTH = 100000 };
    char *from = malloc(PARTS * LENGTH), *into = malloc(PARTS * LENGTH);
    MPI_Request requests[2];
    int list[] = {7, 4, 5, 6};
    MPI_Psend_init(from, PARTS, LENGTH, MPI_CHAR, (check_rank + 1) % check_size, 0, MPI_COMM_WORLD, MPI_INFO_NULL,
                   &requests[0]);
    MPI_Precv_init(into, 5, PARTS * LENGTH / 5, MPI_CHAR, (check_rank + check_size - 1) % check_size, 0,
                   MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
    for (int round = 0; round < 3; round++) {
        fill((unsigned char *)from, PARTS * LENGTH, round);
        MPI_Startall(2, requests);
        MPI_Pready_list(4, list, requests[0]);
        MPI_Pready_range(0, 3, requests[0]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        CHECK(intact((unsigned char *)into, PARTS * LENGTH, round));
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    free(from);
    free(into);
}

static int class_of(int code) {
    int class = 0;
    MPI_Error_class(code, &class);
    return class;
}

static void mistakes(void) {
    int buffer[4] = {0}, flag = 0, beyond[] = {0, 4};
    MPI_Request request, other;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Psend_init(buffer, -1, 1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_INFO_NULL, &request)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Psend_init(buffer, 1, -1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_INFO_NULL, &request)) == MPI_ERR_COUNT);
    CHECK(class_of(MPI_Psend_init(buffer, 1, 1, MPI_INT, 1, 0, MPI_COMM_SELF, MPI_INFO_NULL, &request)) == MPI_ERR_RANK);
    CHECK(class_of(MPI_Precv_init(buffer, 1, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_SELF, MPI_INFO_NULL, &request)) ==
          MPI_ERR_RANK);
    CHECK(class_of(MPI_Precv_init(buffer, 1, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_SELF, MPI_INFO_NULL, &request)) ==
          MPI_ERR_TAG);
    MPI_Psend_init(buffer, 4, 1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_INFO_NULL, &request);
    MPI_Precv_init(buffer, 4, 1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_INFO_NULL, &other);
    CHECK(class_of(MPI_Pready(0, request)) == MPI_ERR_REQUEST);
    CHECK(class_of(MPI_Pready(0, MPI_REQUEST_NULL)) == MPI_ERR_REQUEST);
    CHECK(class_of(MPI_Parrived(request, 0, &flag)) == MPI_ERR_REQUEST);
    CHECK(MPI_Parrived(MPI_REQUEST_NULL, 0, &flag) == MPI_SUCCESS && flag);
    CHECK(class_of(MPI_Parrived(other, 4, &flag)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Parrived(other, -1, &flag)) == MPI_ERR_ARG);
    MPI_Start(&other);
    MPI_Start(&request);
    CHECK(class_of(MPI_Pready(0, other)) == MPI_ERR_REQUEST);
    CHECK(class_of(MPI_Pready(4, request)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Pready(-1, request)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Pready_range(2, 1, request)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Pready_list(2, beyond, request)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Pready(0, request)) == MPI_ERR_ARG); /* by the list */
    CHECK(class_of(MPI_Request_free(&request)) == MPI_ERR_REQUEST);
    MPI_Pready_range(1, 3, request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Wait(&other, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);
    MPI_Request_free(&other);
}

int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    with_threads();
    ranges();
    mistakes();
    check_done("partitioned");
    return 0;
}
