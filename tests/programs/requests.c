/* Generalised requests, non-blocking duplication of communicators, datatypes by the range of numbers, and requests of what had
 * ended when it was begun. */
#include "check.h"
#include <pthread.h>
#include <unistd.h>

struct task {
    int queried, freed, cancelled, elements;
};
static int query(void *extra, MPI_Status *status) {
    struct task *task = extra;
    task->queried++;
    MPI_Status_set_elements(status, MPI_INT, task->elements);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = 11;
    status->MPI_TAG = 12;
    return MPI_SUCCESS;
}
static int release(void *extra) {
    ((struct task *)extra)->freed++;
    return MPI_SUCCESS;
}
static int cancel(void *extra, int complete) {
    ((struct task *)extra)->cancelled += complete ? 100 : 1;
    return MPI_SUCCESS;
}

static void *complete_later(void *request) {
    usleep(50000);
    MPI_Grequest_complete(*(MPI_Request *)request);
    return NULL;
}

static void generalised(void) {
    struct task task = {0, 0, 0, 7};
    MPI_Request request, copy;
    MPI_Status status;
    int flag, count;
    MPI_Grequest_start(query, release, cancel, &task, &request);
    MPI_Test(&request, &flag, &status);
    CHECK(!flag && task.queried == 0);
    MPI_Cancel(&request);
    CHECK(task.cancelled == 1);
    MPI_Grequest_complete(request);
    MPI_Request_get_status(request, &flag, &status);
    CHECK(flag && task.queried == 1 && task.freed == 0);
    MPI_Wait(&request, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(request == MPI_REQUEST_NULL && count == 7 && status.MPI_SOURCE == 11 && status.MPI_TAG == 12);
    CHECK(task.queried == 2 && task.freed == 1);

    /* Another thread completes it while this one sleeps. */
    pthread_t thread;
    MPI_Grequest_start(query, release, cancel, &task, &request);
    copy = request;
    pthread_create(&thread, NULL, complete_later, &copy);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    pthread_join(thread, NULL);
    CHECK(task.queried == 3 && task.freed == 2);

    /* In a list with another request. */
    int out = 5, in = 0, index;
    MPI_Request list[3];
    MPI_Status statuses[3];
    MPI_Irecv(&in, 1, MPI_INT, check_rank, 0, MPI_COMM_WORLD, &list[0]);
    MPI_Grequest_start(query, release, cancel, &task, &list[1]);
    MPI_Isend(&out, 1, MPI_INT, check_rank, 0, MPI_COMM_WORLD, &list[2]);
    MPI_Grequest_complete(list[1]);
    MPI_Waitall(3, list, statuses);
    MPI_Get_count(&statuses[1], MPI_INT, &count);
    CHECK(in == 5 && count == 7 && statuses[1].MPI_TAG == 12 && task.freed == 3);
    CHECK(list[1] == MPI_REQUEST_NULL);
    MPI_Grequest_start(query, release, cancel, &task, &list[1]);
    MPI_Grequest_complete(list[1]);
    MPI_Waitany(3, list, &index, &status);
    CHECK(index == 1 && status.MPI_SOURCE == 11 && task.freed == 4);

    /* Freed before it is complete: the data of the program are freed when it is. */
    MPI_Grequest_start(query, release, cancel, &task, &request);
    copy = request;
    MPI_Request_free(&request);
    CHECK(task.freed == 4);
    MPI_Grequest_complete(copy);
    CHECK(task.freed == 5);
}

static void copies(void) {
    int key, flag, result;
    void *value;
    MPI_Comm twin;
    MPI_Request request;
    MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, &key);
    MPI_Comm_idup(MPI_COMM_WORLD, &twin, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_compare(MPI_COMM_WORLD, twin, &result);
    CHECK(result == MPI_CONGRUENT);
    MPI_Comm_get_attr(twin, key, &value, &flag);
    CHECK(flag && value == &key);
    int sum = 0, one = 1, class;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, twin);
    CHECK(sum == check_size);
    /* Its errors go to its own handler. */
    MPI_Comm_set_errhandler(twin, MPI_ERRORS_RETURN);
    int much[2] = {1, 2};
    MPI_Irecv(&one, 1, MPI_INT, check_rank, 0, twin, &request);
    MPI_Send(much, 2, MPI_INT, check_rank, 0, twin);
    MPI_Error_class(MPI_Wait(&request, MPI_STATUS_IGNORE), &class);
    CHECK(class == MPI_ERR_TRUNCATE);
    MPI_Comm_free(&twin);
    MPI_Comm_delete_attr(MPI_COMM_WORLD, key);
    MPI_Comm_free_keyval(&key);
}

static void numbers(void) {
    MPI_Datatype one, two;
    int size, integers, addresses, datatypes, combiner, what[2], class;
    MPI_Type_create_f90_real(15, 300, &one);
    MPI_Type_create_f90_real(15, 300, &two);
    CHECK(one == two);
    MPI_Type_size(one, &size);
    CHECK(size == 8);
    MPI_Type_get_envelope(one, &integers, &addresses, &datatypes, &combiner);
    CHECK(integers == 2 && addresses == 0 && datatypes == 0 && combiner == MPI_COMBINER_F90_REAL);
    MPI_Type_get_contents(one, 2, 0, 0, what, NULL, NULL);
    CHECK(what[0] == 15 && what[1] == 300);
    double value = check_rank, sum = 0;
    MPI_Allreduce(&value, &sum, 1, one, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == check_size * (check_size - 1) / 2);
    MPI_Type_create_f90_integer(9, &one);
    MPI_Type_size(one, &size);
    CHECK(size == 4);
    MPI_Type_create_f90_complex(6, MPI_UNDEFINED, &one);
    MPI_Type_size(one, &size);
    CHECK(size == 8);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Error_class(MPI_Type_create_f90_integer(100, &two), &class);
    CHECK(class == MPI_ERR_ARG);
    MPI_Error_class(MPI_Type_free(&one), &class);
    CHECK(class == MPI_ERR_TYPE);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}

/* A status of a receive from nobody, whose MPI_ERROR was 77. */
static int from_nobody(const MPI_Status *status) {
    int count, cancelled;
    MPI_Get_count(status, MPI_INT, &count);
    MPI_Test_cancelled(status, &cancelled);
    return status->MPI_SOURCE == MPI_PROC_NULL && status->MPI_TAG == MPI_ANY_TAG && status->MPI_ERROR == 77 && count == 0 &&
           !cancelled;
}

/* Begins to receive from nobody, and to send to nobody. */
static void exchange_with_nobody(int *value, MPI_Request requests[2]) {
    MPI_Irecv(value, 1, MPI_INT, MPI_PROC_NULL, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(&check_size, 1, MPI_INT, MPI_PROC_NULL, 5, MPI_COMM_WORLD, &requests[1]);
}

static void with_nobody(void) {
    int value = 3, flag, index, count, places[3];
    MPI_Status status, statuses[3], fresh = {.MPI_SOURCE = 1, .MPI_TAG = 2, .MPI_ERROR = 77};
    MPI_Request requests[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Message message;
    MPI_Datatype pair;
    MPI_Type_vector(2, 1, 2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    for (int round = 0; round < 3; round++) {
        status = fresh;
        MPI_Recv(&value, 1, MPI_INT, MPI_PROC_NULL, round ? 4 : MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        CHECK(from_nobody(&status));
        MPI_Send(places, 1, round ? MPI_INT : pair, MPI_PROC_NULL, 4, MPI_COMM_WORLD);

        status = fresh;
        exchange_with_nobody(&value, requests);
        MPI_Request_get_status(requests[0], &flag, &status);
        CHECK(flag && from_nobody(&status) && requests[0] != MPI_REQUEST_NULL);
        status = fresh;
        MPI_Wait(&requests[0], &status);
        CHECK(from_nobody(&status) && requests[0] == MPI_REQUEST_NULL);
        MPI_Wait(&requests[1], &status);
        CHECK(status.MPI_SOURCE == MPI_ANY_SOURCE && requests[1] == MPI_REQUEST_NULL);

        status = fresh;
        exchange_with_nobody(&value, requests);
        MPI_Test(&requests[0], &flag, &status);
        CHECK(flag && from_nobody(&status) && requests[0] == MPI_REQUEST_NULL);
        MPI_Request_free(&requests[1]);
        CHECK(requests[1] == MPI_REQUEST_NULL);

        for (int test = 0; test < 2; test++) {
            status = fresh;
            exchange_with_nobody(&value, requests);
            if (test)
                MPI_Testany(3, requests, &index, &flag, &status);
            else
                MPI_Waitany(3, requests, &index, &status);
            CHECK(index == 0 && from_nobody(&status) && requests[0] == MPI_REQUEST_NULL && requests[1] != MPI_REQUEST_NULL);
            MPI_Wait(&requests[1], MPI_STATUS_IGNORE);

            statuses[0] = statuses[1] = statuses[2] = fresh;
            exchange_with_nobody(&value, requests);
            if (test)
                MPI_Testall(3, requests, &flag, statuses);
            else
                MPI_Waitall(3, requests, statuses);
            CHECK(from_nobody(&statuses[0]) && statuses[1].MPI_SOURCE == MPI_ANY_SOURCE);
            CHECK(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL);

            statuses[0] = fresh;
            exchange_with_nobody(&value, requests);
            if (test)
                MPI_Testsome(3, requests, &count, places, statuses);
            else
                MPI_Waitsome(3, requests, &count, places, statuses);
            CHECK(count == 2 && places[0] == 0 && places[1] == 1 && statuses[0].MPI_SOURCE == MPI_PROC_NULL);
        }

        exchange_with_nobody(&value, requests);
        MPI_Cancel(&requests[0]);
        status = fresh;
        MPI_Wait(&requests[0], &status);
        CHECK(from_nobody(&status));
        MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
        /* Beside a receive that is under way: the list is not ended at once. */
        MPI_Isend(&check_size, 1, MPI_INT, MPI_PROC_NULL, 6, MPI_COMM_WORLD, &requests[1]);
        MPI_Irecv(&places[0], 1, MPI_INT, 0, 6, MPI_COMM_SELF, &requests[0]);
        MPI_Irecv(&value, 1, MPI_INT, MPI_PROC_NULL, 6, MPI_COMM_WORLD, &requests[2]);
        MPI_Send(&round, 1, MPI_INT, 0, 6, MPI_COMM_SELF);
        statuses[2] = fresh;
        MPI_Waitall(3, requests, statuses);
        CHECK(places[0] == round && statuses[0].MPI_SOURCE == 0 && from_nobody(&statuses[2]));

        MPI_Mprobe(MPI_PROC_NULL, 4, MPI_COMM_WORLD, &message, &status);
        MPI_Imrecv(&value, 1, MPI_INT, &message, &requests[0]);
        status = fresh;
        MPI_Wait(&requests[0], &status);
        CHECK(from_nobody(&status));
        status = fresh;
        MPI_Sendrecv(&round, 1, MPI_INT, MPI_PROC_NULL, 4, &value, 1, MPI_INT, MPI_PROC_NULL, 4, MPI_COMM_WORLD, &status);
        CHECK(from_nobody(&status) && value == 3);
    }
    MPI_Type_free(&pair);
}

static void twice(void *in, void *inout, int *length, MPI_Datatype *datatype) {
    (void)datatype;
    for (int place = 0; place < *length; place++)
        ((int *)inout)[place] += 2 * ((int *)in)[place];
}

/* Non-blocking collectives of one rank: it gets what it gives. */
static void alone(void) {
    int out[2] = {4, 5}, into[2] = {0, 0}, flag;
    MPI_Op op;
    MPI_Op_create(twice, 0, &op);
    MPI_Comm self;
    MPI_Comm_dup(MPI_COMM_SELF, &self);
    MPI_Request requests[4];
    MPI_Iallreduce(out, into, 1, MPI_INT, MPI_SUM, self, &requests[0]);
    MPI_Iscan(out + 1, into + 1, 1, MPI_INT, op, self, &requests[1]);
    MPI_Ibarrier(self, &requests[2]);
    MPI_Ibcast(out, 2, MPI_INT, 0, self, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    CHECK(into[0] == 4 && into[1] == 5 && requests[3] == MPI_REQUEST_NULL);
    MPI_Ialltoall(out, 2, MPI_INT, into, 2, MPI_INT, self, &requests[0]);
    MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
    CHECK(flag && into[0] == 4 && into[1] == 5);
    MPI_Iexscan(out, into, 2, MPI_INT, op, self, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    /* Wrong arguments are refused where they are given. */
    int class;
    MPI_Comm_set_errhandler(self, MPI_ERRORS_RETURN);
    MPI_Error_class(MPI_Ibcast(out, 2, MPI_INT, 1, self, &requests[0]), &class);
    CHECK(class == MPI_ERR_ROOT);
    MPI_Error_class(MPI_Ialltoall(out, 2, MPI_INT, into, 1, MPI_INT, self, &requests[0]), &class);
    CHECK(class == MPI_ERR_TRUNCATE);
    MPI_Comm_free(&self);
    MPI_Op_free(&op);
}

int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    generalised();
    copies();
    numbers();
    with_nobody();
    alone();
    check_done("requests");
    return 0;
}
