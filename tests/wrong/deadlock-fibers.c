/*
 * Fibers of each rank on several workers (threads that run them): one at least waits for the other rank, the others wait for each other, or
 * have nothing to do. A worker without a fiber that can run sleeps until one of its own process wakes it.
 * exit: 35
 * says: ended by a deadlock: ranks 0 and 1 wait for each other
 * says: rank 0: a fiber:
 *
 * run: 2 1 each
 * says: rank 0: a fiber: MPI_Recv for a message from rank 1, tag 1000, MPI_COMM_WORLD, at deadlock-fibers.c:
 * says: rank 0: a fiber: waits for a message from rank 1, tag 1001, MPI_COMM_WORLD
 * run: 2 2 each
 * run: 2 4 each
 * run: 2 2 joined
 * run: 2 3 parked
 * run: 2 2 exchanged
 * run: 2 4 exchanged
 * run: 2 4 many
 * says: rank 0: 296 more threads or fibers wait
 * run: 2 3 migrating
 * run: 2 2 apart
 * run: 2 4 apart
 * run: 2 2 collective
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft.h>

enum { MOST = 300 };

static int rank, workers, fibers;
static const char *wanted;
static MPI_Comm own[MOST];

static int is(const char *name) { return strcmp(wanted, name) == 0; }

/* The message that nobody sends. */
static void *receives(void *argument) {
    int number = (int)(long)argument, value = 0;
    if (is("exchanged") || is("migrating"))
        for (int i = 0; i < 300; i++)
            MPI_Sendrecv(&i, 1, MPI_INT, 1 - rank, number, &value, 1, MPI_INT, 1 - rank, number, own[number], MPI_STATUS_IGNORE);
    if (is("collective") && rank == 0)
        MPI_Barrier(own[number]);
    else
        MPI_Recv(&value, 1, MPI_INT, 1 - rank, 1000 + number, own[number], MPI_STATUS_IGNORE);
    return NULL;
}

static void *parks(void *argument) {
    for (;;)
        weft_fiber_park();
    return argument;
}

static void *joins(void *argument) {
    weft_fiber_join(*(weft_fiber *)argument, NULL);
    return NULL;
}

int main(int argc, char **argv) {
    weft_fiber started[MOST];
    int level;
    if (argc < 3)
        return 2;
    workers = atoi(argv[1]);
    wanted = argv[2];
    fibers = is("many") || is("migrating") ? MOST : 2 * workers;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < fibers; i++) {
        own[i] = MPI_COMM_WORLD;
        if (is("apart") || is("collective"))
            MPI_Comm_dup(MPI_COMM_WORLD, &own[i]);
    }
    weft_fiber_set_workers(workers);
    for (int i = 0; i < fibers; i++) {
        weft_fiber_attributes attributes = WEFT_FIBER_ATTRIBUTES;
        attributes.worker = i % workers;
        attributes.migrating = is("migrating");
        if (i > 0 && is("parked"))
            weft_fiber_spawn(&started[i], &attributes, parks, NULL);
        else if (i > 0 && is("joined"))
            weft_fiber_spawn(&started[i], &attributes, joins, &started[i - 1]);
        else
            weft_fiber_spawn(&started[i], &attributes, receives, (void *)(long)i);
    }
    weft_fiber_join(started[fibers - 1], NULL);
    for (int i = 0; i < fibers - 1; i++)
        weft_fiber_join(started[i], NULL);
    MPI_Finalize();
    return 0;
}
