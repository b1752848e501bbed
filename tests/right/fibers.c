/*
 * Right programs of fibers on several workers: some wait long for MPI while another one of their rank computes, sleeps, waits for a thread or
 * is given from one worker to another, and only that one can end the waits.
 *
 * run: 2 1 yields
 * run: 2 2 yields
 * run: 2 2 computes
 * run: 2 2 sleeps
 * run: 3 2 thread
 * run: 2 4 thread
 * run: 2 2 chain
 * run: 3 4 chain
 * run: 2 4 migrating
 * run: 2 3 exchanges
 * run: 4 2 exchanges
 * run: 2 2 apart
 * run: 2 4 apart
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <weft.h>

enum { MOST = 64 };

static int rank, size, workers, fibers;
static const char *wanted;
static MPI_Comm own[MOST];
static weft_fiber started[MOST];
static volatile int told;

static int is(const char *name) { return strcmp(wanted, name) == 0; }

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static void *tells_later(void *fiber) {
    sleep(2);
    told = 1;
    weft_fiber_signal(*(weft_fiber *)fiber);
    return NULL;
}

/* Takes long, outside of MPI. */
static void takes_long(void) {
    double end = now() + 2;
    weft_fiber me = weft_fiber_self();
    pthread_t thread;
    if (is("yields") || is("migrating"))
        while (now() < end)
            weft_fiber_yield();
    else if (is("computes") || is("chain"))
        while (now() < end) {}
    else if (is("sleeps"))
        sleep(2);
    else if (is("thread")) {
        pthread_create(&thread, NULL, tells_later, &me);
        while (!told)
            weft_fiber_park();
        pthread_join(thread, NULL);
    }
}

/* The first takes long, then sends the messages for which all of the next rank wait; the one before it informs the last of a chain. */
static void *works(void *argument) {
    int number = (int)(long)argument, value = 0, next = (rank + 1) % size, before = (rank + size - 1) % size;
    if (is("exchanges") || is("apart")) {
        for (int i = 0; i < 2000; i++) {
            MPI_Sendrecv(&i, 1, MPI_INT, next, number, &value, 1, MPI_INT, before, number, own[number], MPI_STATUS_IGNORE);
            if (value != i)
                MPI_Abort(MPI_COMM_WORLD, 3);
            if (i % 500 == 0 && number == 0)
                usleep(400000);
        }
    } else if (number == 0) {
        if (rank == 0)
            takes_long();
        else
            MPI_Recv(&value, 1, MPI_INT, 0, MOST, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 0)
            for (int i = 1; i < size; i++)
                MPI_Send(&value, 1, MPI_INT, i, MOST, MPI_COMM_WORLD);
        for (int i = 1; i < fibers && !is("chain"); i++)
            MPI_Send(&value, 1, MPI_INT, next, i, MPI_COMM_WORLD);
        if (is("chain"))
            MPI_Send(&value, 1, MPI_INT, next, 1, MPI_COMM_WORLD);
    } else {
        if (is("chain") && number > 1)
            weft_fiber_join(started[number - 1], NULL);
        MPI_Recv(&value, 1, MPI_INT, before, number, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (is("chain") && number + 1 < fibers)
            MPI_Send(&value, 1, MPI_INT, next, number + 1, MPI_COMM_WORLD);
    }
    return NULL;
}

int main(int argc, char **argv) {
    int level;
    if (argc < 3)
        return 2;
    workers = atoi(argv[1]);
    wanted = argv[2];
    fibers = is("migrating") ? MOST : 4 * workers;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < fibers; i++) {
        own[i] = MPI_COMM_WORLD;
        if (is("apart"))
            MPI_Comm_dup(MPI_COMM_WORLD, &own[i]);
    }
    weft_fiber_set_workers(workers);
    for (int i = 0; i < fibers; i++) {
        weft_fiber_attributes attributes = WEFT_FIBER_ATTRIBUTES;
        attributes.worker = i % workers;
        attributes.migrating = is("migrating");
        if (weft_fiber_spawn(&started[i], &attributes, works, (void *)(long)i) != 0)
            MPI_Abort(MPI_COMM_WORLD, 4);
    }
    /* Of a chain each has joined the one before it. */
    for (int i = is("chain") ? fibers - 1 : 0; i < fibers; i++)
        weft_fiber_join(started[i], NULL);
    if (is("chain"))
        weft_fiber_join(started[0], NULL);
    for (int i = 0; i < fibers; i++)
        if (own[i] != MPI_COMM_WORLD)
            MPI_Comm_free(&own[i]);
    MPI_Finalize();
    return 0;
}
