/* Two ranks with many threads each: each thread of one plays ping-pong with its counterpart at the other, identified by
 * its tag. Threads are those of POSIX, or Weft's fibers where the library has them. */
#define _GNU_SOURCE
#include "measure.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#pragma weak weft_fiber_spawn
#pragma weak weft_fiber_join
#pragma weak weft_fiber_yield
#pragma weak weft_fiber_set_workers
/* As weft_fiber.h declares them; the other implementations have no such header. */
int weft_fiber_spawn(uint64_t *fiber, const void *attributes, void *(*body)(void *), void *argument);
int weft_fiber_join(uint64_t fiber, void **result);
int weft_fiber_yield(void);
int weft_fiber_set_workers(int workers);

/* One round of all threads of a rank. */
struct round {
    const struct task *task;
    MPI_Comm *comms; /* one for all, or one for each thread */
    int threads, size, turns, own;
    char *memory;         /* two buffers of each thread */
    volatile int started; /* fibers: all have reached their first call */
    volatile int go;
    pthread_barrier_t barrier;
    void (*body)(struct round *round, int number);
};

struct member {
    struct round *round;
    int number;
};

static void play(struct round *round, int number)
{
    int size = round->size, peer = 1 - round->task->rank;
    size_t stride = ((size_t)size + 63) / 64 * 64;
    char *out = round->memory + 2 * stride * (size_t)number, *in = out + stride;
    MPI_Comm comm = round->comms[round->own ? number : 0];
    for (int turn = 0; turn < round->turns; turn++) {
        if (round->task->rank == 0)
            MPI_Send(out, size, MPI_CHAR, peer, number, comm);
        MPI_Recv(in, size, MPI_CHAR, peer, number, comm, MPI_STATUS_IGNORE);
        if (round->task->rank == 1)
            MPI_Send(out, size, MPI_CHAR, peer, number, comm);
    }
    if (size >= 4 && memcmp(in, &number, 4))
        fail("thread %d got the message of another: the implementation delivered wrong data", number);
}

/* The buffers carry the number of their thread. */
static void mark(struct round *round)
{
    size_t stride = ((size_t)round->size + 63) / 64 * 64;
    for (int number = 0; number < round->threads && round->size >= 4; number++)
        memcpy(round->memory + 2 * stride * (size_t)number, &number, 4);
}

/* Messages of one thread to itself, in windows. */
#define WINDOW 32

static void carry(struct round *round, int number)
{
    MPI_Comm comm = round->comms[round->own ? number : 0];
    MPI_Request requests[2 * WINDOW];
    int rank = round->task->rank, out[WINDOW], in[WINDOW];
    for (int turn = 0; turn < round->turns; turn++) {
        for (int one = 0; one < WINDOW; one++)
            MPI_Irecv(&in[one], 4, MPI_CHAR, rank, number, comm, &requests[one]);
        for (int one = 0; one < WINDOW; one++) {
            out[one] = number * WINDOW + one;
            MPI_Isend(&out[one], 4, MPI_CHAR, rank, number, comm, &requests[WINDOW + one]);
        }
        MPI_Waitall(2 * WINDOW, requests, MPI_STATUSES_IGNORE);
        if (memcmp(in, out, sizeof in))
            fail("thread %d got other messages than it sent: the implementation delivered wrong data", number);
    }
}

static void *posix_thread(void *argument)
{
    struct member *member = argument;
    pthread_barrier_wait(&member->round->barrier);
    member->round->body(member->round, member->number);
    pthread_barrier_wait(&member->round->barrier);
    return NULL;
}

static double with_posix_threads(struct round *round, struct member *members)
{
    pthread_t *threads = calloc((size_t)round->threads, sizeof *threads);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 * 1024);
    pthread_barrier_init(&round->barrier, NULL, (unsigned)round->threads + 1);
    for (int number = 0; number < round->threads; number++)
        if (pthread_create(&threads[number], &small, posix_thread, &members[number]))
            fail("%d of %d threads could be created", number, round->threads);
    MPI_Barrier(MPI_COMM_WORLD);
    double began = now();
    pthread_barrier_wait(&round->barrier);
    pthread_barrier_wait(&round->barrier);
    double took = now() - began;
    for (int number = 0; number < round->threads; number++)
        pthread_join(threads[number], NULL);
    pthread_barrier_destroy(&round->barrier);
    free(threads);
    return took;
}

static void *fiber(void *argument)
{
    struct member *member = argument;
    member->round->started++;
    while (!member->round->go)
        weft_fiber_yield();
    member->round->body(member->round, member->number);
    return NULL;
}

struct coordinator {
    struct round *round;
    struct member *members;
    double took;
};

/* Starts the others, lets each reach its first call, and times from there. */
static void *coordinate(void *argument)
{
    struct coordinator *coordinator = argument;
    struct round *round = coordinator->round;
    uint64_t *fibers = calloc((size_t)round->threads, sizeof *fibers);
    round->started = round->go = 0;
    for (int number = 0; number < round->threads; number++)
        if (weft_fiber_spawn(&fibers[number], NULL, fiber, &coordinator->members[number]))
            fail("%d of %d fibers could be started", number, round->threads);
    while (round->started < round->threads)
        weft_fiber_yield();
    MPI_Barrier(MPI_COMM_WORLD);
    double began = now();
    round->go = 1;
    for (int number = 0; number < round->threads; number++)
        weft_fiber_join(fibers[number], NULL);
    coordinator->took = now() - began;
    free(fibers);
    return NULL;
}

static double with_fibers(struct round *round, struct member *members)
{
    struct coordinator coordinator = {round, members, 0};
    uint64_t first;
    if (weft_fiber_spawn(&first, NULL, coordinate, &coordinator) || weft_fiber_join(first, NULL))
        fail("no fiber could be started");
    return coordinator.took;
}

/* Time of one message: that of the whole round over the messages of all threads, both ways.
 * threads=N, size=S, kind=posix|fibers, own=1: a communicator for each thread. */
void threads(struct task *task)
{
    struct round round = {0};
    int fibers = task_is(task, "kind", "fibers");
    round.task = task;
    round.body = play;
    round.threads = (int)task_number(task, "threads", 14);
    round.size = (int)task_number(task, "size", 64);
    round.own = task_is(task, "own", "1");
    if (task->ranks != 2)
        fail("two ranks play, there are %d", task->ranks);
    if (round.threads < 1)
        fail("%d threads cannot play, at least one can", round.threads);
    if (fibers && !weft_fiber_spawn)
        fail("this implementation has no fibers");
    int comms = round.own ? round.threads : 1;
    round.comms = calloc((size_t)comms, sizeof *round.comms);
    for (int comm = 0; comm < comms; comm++)
        MPI_Comm_dup(MPI_COMM_WORLD, &round.comms[comm]);
    size_t stride = ((size_t)round.size + 63) / 64 * 64;
    round.memory = buffer(2 * stride * (size_t)round.threads);
    mark(&round);
    struct member *members = calloc((unsigned)round.threads, sizeof *members);
    for (int number = 0; number < round.threads; number++)
        members[number] = (struct member){&round, number};
    double (*run)(struct round *, struct member *) = fibers ? with_fibers : with_posix_threads;
    /* Iterations are messages of all threads one way; every thread plays as often. */
    round.turns = task->warmup / round.threads;
    if (round.turns > 0)
        run(&round, members);
    round.turns = (task->iterations + round.threads - 1) / round.threads;
    for (int sample = 0; sample < task->samples; sample++)
        task->values[sample] = run(&round, members) / (2.0 * round.turns * round.threads);
    for (int comm = 0; comm < comms; comm++)
        MPI_Comm_free(&round.comms[comm]);
    free(round.comms);
    free(round.memory);
    free(members);
}

/* Time of a whole round of POSIX threads that send to themselves, over the messages of all of them.
 * threads=N, own=1: a communicator for each thread; hint=1: one with the hint that no receive is for any tag. One rank, so that each thread may have a
 * core. */
void carried(struct task *task)
{
    struct round round = {0};
    round.task = task;
    round.body = carry;
    round.threads = (int)task_number(task, "threads", 1);
    round.own = task_is(task, "own", "1");
    int comms = round.own ? round.threads : 1;
    round.comms = calloc((size_t)comms, sizeof *round.comms);
    MPI_Info info = MPI_INFO_NULL;
    if (task_is(task, "hint", "1")) {
        MPI_Info_create(&info);
        MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
    }
    for (int comm = 0; comm < comms; comm++)
        MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &round.comms[comm]);
    if (info != MPI_INFO_NULL)
        MPI_Info_free(&info);
    struct member *members = calloc((size_t)round.threads, sizeof *members);
    for (int number = 0; number < round.threads; number++)
        members[number] = (struct member){&round, number};
    round.turns = task->warmup / (WINDOW * round.threads) + 1;
    with_posix_threads(&round, members);
    round.turns = task->iterations / (WINDOW * round.threads) + 1;
    for (int sample = 0; sample < task->samples; sample++)
        task->values[sample] = with_posix_threads(&round, members) / ((double)round.turns * WINDOW * round.threads);
    for (int comm = 0; comm < comms; comm++)
        MPI_Comm_free(&round.comms[comm]);
    free(round.comms);
    free(members);
}
