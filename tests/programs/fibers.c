/* The C interface of fibers: its results, its state, and that blocking calls suspend the fiber only. */
#include "check.h"
#include <errno.h>
#include <weft.h>

static int order[64], steps;
static weft_fiber parked;
static volatile int woken;

static void *number(void *argument) {
    order[steps++] = (int)(long)argument;
    weft_fiber_yield();
    order[steps++] = (int)(long)argument;
    return (char *)argument + 1;
}

static void *keeps_errno(void *argument) {
    errno = (int)(long)argument;
    for (int i = 0; i < 10; i++) {
        weft_fiber_yield();
        CHECK(errno == (int)(long)argument);
    }
    return NULL;
}

static void *waits(void *argument) {
    (void)argument;
    while (!woken) CHECK(weft_fiber_park() == 0);
    return (void *)7L;
}

static void *joins_itself(void *argument) {
    (void)argument;
    return (void *)(long)weft_fiber_join(weft_fiber_self(), NULL);
}

/* A fiber is joined or detached once: all later calls are answered that there is none, while it runs and after
 * its end. */
static int may_end;

static void *ends_when_told(void *argument) {
    while (!may_end) weft_fiber_yield();
    return argument;
}

static void *detaches_itself(void *argument) {
    (void)argument;
    CHECK(weft_fiber_detach(weft_fiber_self()) == 0);
    CHECK(weft_fiber_detach(weft_fiber_self()) == -ESRCH);
    CHECK(weft_fiber_join(weft_fiber_self(), NULL) == -EDEADLK);
    return ends_when_told(NULL);
}

static void *joins_another(void *argument) {
    void *result = NULL;
    int code = weft_fiber_join(*(weft_fiber *)argument, &result);
    return code == 0 ? result : (void *)(long)code;
}

static void claimed_once(void) {
    weft_fiber detached, itself, joined, joiners[2];
    void *results[2];
    may_end = 0;
    CHECK(weft_fiber_spawn(&detached, NULL, ends_when_told, NULL) == 0);
    CHECK(weft_fiber_spawn(&itself, NULL, detaches_itself, NULL) == 0);
    CHECK(weft_fiber_spawn(&joined, NULL, ends_when_told, (void *)9L) == 0);
    CHECK(weft_fiber_detach(detached) == 0);
    for (int i = 0; i < 2; i++) CHECK(weft_fiber_spawn(&joiners[i], NULL, joins_another, &joined) == 0);
    for (int i = 0; i < 4; i++) {
        weft_fiber_yield();
        CHECK(weft_fiber_detach(detached) == -ESRCH && weft_fiber_join(detached, NULL) == -ESRCH);
    }
    CHECK(weft_fiber_detach(itself) == -ESRCH && weft_fiber_join(itself, NULL) == -ESRCH);
    CHECK(weft_fiber_detach(joined) == -ESRCH && weft_fiber_join(joined, NULL) == -ESRCH);
    /* Also while another fiber joins it, or none will. */
    CHECK(weft_fiber_signal(joined) == 0 && weft_fiber_signal(detached) == 0);
    may_end = 1;
    for (int i = 0; i < 2; i++) CHECK(weft_fiber_join(joiners[i], &results[i]) == 0);
    CHECK((long)results[0] + (long)results[1] == 9 - ESRCH); /* one of the two had it */
    for (int i = 0; i < 4; i++) weft_fiber_yield();
    weft_fiber all[] = { detached, itself, joined, joiners[0], joiners[1] };
    for (int i = 0; i < 5; i++) {
        CHECK(weft_fiber_join(all[i], NULL) == -ESRCH && weft_fiber_detach(all[i]) == -ESRCH);
        CHECK(weft_fiber_signal(all[i]) == -ESRCH);
    }
}

static void *on_one_worker(void *argument) {
    (void)argument;
    weft_fiber fibers[8];
    void *result;
    CHECK(weft_fiber_self() != 0 && weft_fiber_worker() >= 0);
    for (long i = 0; i < 8; i++) CHECK(weft_fiber_spawn(&fibers[i], NULL, number, (void *)i) == 0);
    for (long i = 0; i < 8; i++) {
        CHECK(weft_fiber_join(fibers[i], &result) == 0);
        CHECK((long)result == i + 1);
        CHECK(weft_fiber_join(fibers[i], NULL) == -ESRCH);
        CHECK(strstr(weft_error(), "names no fiber") != NULL);
    }
    CHECK(steps == 16);
    int seen = 0;
    for (int i = 0; i < 8; i++) seen |= 1 << order[i];
    CHECK(seen == 255); /* each once before any is run twice */
    for (long i = 0; i < 4; i++) {
        CHECK(weft_fiber_spawn(&fibers[i], NULL, keeps_errno, (void *)(i + 1)) == 0);
    }
    for (long i = 0; i < 4; i++) CHECK(weft_fiber_join(fibers[i], NULL) == 0);
    CHECK(weft_fiber_spawn(&parked, NULL, waits, NULL) == 0);
    weft_fiber_yield();
    woken = 1;
    CHECK(weft_fiber_signal(parked) == 0);
    CHECK(weft_fiber_join(parked, &result) == 0 && (long)result == 7);
    CHECK(weft_fiber_spawn(&fibers[0], NULL, joins_itself, NULL) == 0);
    CHECK(weft_fiber_join(fibers[0], &result) == 0 && (long)result == -EDEADLK);
    claimed_once();
    return NULL;
}

/* Ping-pong of one fiber with its partner at another rank; now and then the data are larger than one message. */
static void *plays(void *argument) {
    int tag = (int)(long)argument, other = check_rank ^ 1;
    size_t length = tag % 7 == 0 ? 100000 : 32;
    unsigned char *out = malloc(length), *in = malloc(length);
    for (int round = 0; round < 10; round++) {
        fill(out, length, tag + round);
        if (check_rank < other) MPI_Send(out, (int)length, MPI_BYTE, other, tag, MPI_COMM_WORLD);
        MPI_Recv(in, (int)length, MPI_BYTE, other, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(intact(in, length, tag + round));
        if (check_rank > other) MPI_Send(out, (int)length, MPI_BYTE, other, tag, MPI_COMM_WORLD);
    }
    free(out);
    free(in);
    return NULL;
}

int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    weft_fiber fibers[500], one;
    weft_fiber_attributes attributes = WEFT_FIBER_ATTRIBUTES;
    CHECK(weft_fiber_self() == 0 && weft_fiber_park() == -EPERM && weft_fiber_worker() == -EPERM);
    CHECK(weft_fiber_set_workers(0) == -EINVAL && weft_fiber_set_workers(65) == -EINVAL);
    CHECK(weft_fiber_join(0, NULL) == -ESRCH && weft_fiber_signal(12345) == -ESRCH);
    CHECK(weft_fiber_set_workers(2) == 0 && weft_fiber_workers() == 2);
    CHECK(weft_fiber_set_workers(2) == -EBUSY);
    CHECK(weft_fiber_spawn(&one, NULL, NULL, NULL) == -EINVAL);
    attributes.worker = 2;
    CHECK(weft_fiber_spawn(&one, &attributes, plays, NULL) == -EINVAL);
    attributes.worker = -1;
    attributes.stack = (size_t)1 << 40;
    CHECK(weft_fiber_spawn(&one, &attributes, plays, NULL) == -EINVAL);
    attributes.stack = 256 * 1024;
    attributes.worker = 1;
    CHECK(weft_fiber_spawn(&one, &attributes, on_one_worker, NULL) == 0);
    CHECK(weft_fiber_join(one, NULL) == 0);
    /* Of an odd number of ranks the last one has no partner. */
    if ((check_rank ^ 1) < check_size) {
        attributes = (weft_fiber_attributes)WEFT_FIBER_ATTRIBUTES;
        for (long i = 0; i < 500; i++) {
            attributes.migrating = i % 2;
            CHECK(weft_fiber_spawn(&fibers[i], &attributes, plays, (void *)i) == 0);
        }
        for (int i = 0; i < 500; i++) CHECK(weft_fiber_join(fibers[i], NULL) == 0);
    }
    check_done("fibers");
    return 0;
}
