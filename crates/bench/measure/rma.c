/* One-sided communication on a window that the implementation allocated: rank 0 is the origin, rank 1 the target, which
 * waits in a barrier meanwhile, or takes part where the epoch is collective. */
#include "measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct access {
    MPI_Win window;
    char *out;    /* origin data */
    char *in;     /* results */
    char *memory; /* this rank's part of the window */
    int size;
    int batch; /* operations between two flushes, or within an epoch */
    int peer;  /* the rank to access, -1: none */
};

static void put(const struct access *access)
{
    MPI_Put(access->out, access->size, MPI_CHAR, access->peer, 0, access->size, MPI_CHAR, access->window);
}

static void get(const struct access *access)
{
    MPI_Get(access->in, access->size, MPI_CHAR, access->peer, 0, access->size, MPI_CHAR, access->window);
}

static void accumulate(const struct access *access)
{
    int count = access->size / 8;
    MPI_Accumulate(access->out, count, MPI_DOUBLE, access->peer, 0, count, MPI_DOUBLE, MPI_SUM, access->window);
}

static void fetch_and_op(const struct access *access)
{
    MPI_Fetch_and_op(access->out, access->in, MPI_INT64_T, access->peer, 0, MPI_SUM, access->window);
}

static void compare_and_swap(const struct access *access)
{
    /* Compares with the previous result: about every second one swaps. */
    MPI_Compare_and_swap(access->out, access->in + 8, access->in, MPI_INT64_T, access->peer, 0, access->window);
}

/* The epochs: each runs the batch, and completes it at the origin and the target. The call is known where one is compiled, so that no more is
 * timed beside the calls than in the loop of a program. */

#define INLINED static inline __attribute__((always_inline))

typedef void call(const struct access *access);

INLINED void batch(const struct access *access, call *once)
{
    for (int index = 0; access->peer >= 0 && index < access->batch; index++)
        once(access);
}

INLINED void flush(const struct access *access, call *once)
{
    batch(access, once);
    MPI_Win_flush(access->peer, access->window);
}

INLINED void fence(const struct access *access, call *once)
{
    batch(access, once);
    MPI_Win_fence(0, access->window);
}

INLINED void lock_all(const struct access *access, call *once)
{
    MPI_Win_lock_all(0, access->window);
    batch(access, once);
    MPI_Win_unlock_all(access->window);
}

INLINED void lock(const struct access *access, call *once)
{
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, access->peer, 0, access->window);
    batch(access, once);
    MPI_Win_unlock(access->peer, access->window);
}

/* That many epochs with this call. */
typedef void repeated(const struct access *access, int count);

#define REPEATED(once, epoch)                                                                                          \
    static void once##_##epoch(const struct access *access, int count)                                                 \
    {                                                                                                                  \
        for (int index = 0; index < count; index++)                                                                    \
            epoch(access, once);                                                                                       \
    }
#define EPOCHS(once)                                                                                                   \
    REPEATED(once, flush)                                                                                              \
    REPEATED(once, fence)                                                                                              \
    REPEATED(once, lock_all)                                                                                           \
    REPEATED(once, lock)

EPOCHS(put)
EPOCHS(get)
EPOCHS(accumulate)
EPOCHS(fetch_and_op)
EPOCHS(compare_and_swap)

/* Every call once with known data, checked by both sides. All ranks are within lock_all. */
static void prove(struct access access, int rank)
{
    size_t size = (size_t)access.size;
    long long *word = (long long *)access.memory, *out = (long long *)access.out, *in = (long long *)access.in;

    access.peer = 1;
    if (rank == 0) {
        pattern_fill(access.out, size, 3);
        put(&access);
        MPI_Win_flush(1, access.window);
        get(&access);
        MPI_Win_flush(1, access.window);
        pattern_check(access.in, size, 3, "put and get");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
        MPI_Win_sync(access.window);
        pattern_check(access.memory, size, 3, "put");
        memset(access.memory, 0, size < 16 ? 16 : size);
        MPI_Win_sync(access.window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        *out = 5;
        fetch_and_op(&access);
        MPI_Win_flush(1, access.window);
        if (*in != 0)
            fail("fetch_and_op found %lld, expected 0: the implementation delivered wrong data", *in);
        *out = 7, in[1] = 5;
        compare_and_swap(&access);
        MPI_Win_flush(1, access.window);
        if (*in != 5)
            fail("compare_and_swap found %lld, expected 5: the implementation delivered wrong data", *in);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
        MPI_Win_sync(access.window);
        if (*word != 7)
            fail("the window holds %lld, expected 7: the implementation delivered wrong data", *word);
        memset(access.memory, 0, 16);
        MPI_Win_sync(access.window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0 && size >= 8) {
        for (size_t index = 0; index < size / 8; index++)
            ((double *)access.out)[index] = (double)index;
        accumulate(&access);
        accumulate(&access);
        MPI_Win_flush(1, access.window);
        get(&access);
        MPI_Win_flush(1, access.window);
        for (size_t index = 0; index < size / 8; index++)
            if (((double *)access.in)[index] != 2.0 * (double)index)
                fail("accumulate of %zu doubles: element %zu is %g, expected %g", size / 8, index,
                     ((double *)access.in)[index], 2.0 * (double)index);
        memset(access.out, 0, size);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* call=…: what an epoch does; epoch=…: how it is completed; batch=N: how many of them; granularity=N: the info key
 * mpi_accumulate_granularity of the window. A value is the time of one epoch. */
void rma(struct task *task)
{
#define CALL(once)                                                                                                     \
    {                                                                                                                  \
        #once, { once##_flush, once##_fence, once##_lock_all, once##_lock }                                            \
    }
    enum { FLUSH, FENCE, LOCK_ALL, LOCK, KINDS };
    static const char *const names[KINDS] = {"flush", "fence", "lock_all", "lock"};
    static const struct {
        const char *name;
        repeated *epochs[KINDS];
    } calls[] = {CALL(put), CALL(get), CALL(accumulate), CALL(fetch_and_op), CALL(compare_and_swap)};
    struct access access = {.size = (int)task_number(task, "size", 8), .batch = (int)task_number(task, "batch", 1)};
    int kind = 0;
    repeated *epochs = NULL;
    MPI_Info info = MPI_INFO_NULL;

    while (kind < KINDS && !task_is(task, "epoch", names[kind]))
        kind++;
    for (size_t index = 0; kind < KINDS && index < sizeof calls / sizeof *calls; index++)
        if (task_is(task, "call", calls[index].name))
            epochs = calls[index].epochs[kind];
    if (!epochs)
        fail("no call or epoch of that name: %s", task->request);
    size_t room = (size_t)access.size + 64;
    access.out = buffer(room);
    access.in = buffer(room);
    if (task_number(task, "granularity", 0) > 0) {
        char text[32];
        snprintf(text, sizeof text, "%ld", task_number(task, "granularity", 0));
        MPI_Info_create(&info);
        MPI_Info_set(info, "mpi_accumulate_granularity", text);
    }
    MPI_Win_allocate((MPI_Aint)room, 1, info, MPI_COMM_WORLD, &access.memory, &access.window);
    if (info != MPI_INFO_NULL)
        MPI_Info_free(&info);
    memset(access.memory, 0, room);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, access.window);
    prove(access, task->rank);
    if (kind != FLUSH)
        MPI_Win_unlock_all(access.window);
    access.peer = task->rank == 0 ? 1 : -1;
    if (kind == FENCE) {
        /* The set-up of an implementation for a window in long use is not part of an epoch. */
        for (int warm = 0; warm < 16; warm++)
            MPI_Win_fence(warm == 0 ? MPI_MODE_NOPRECEDE : 0, access.window);
    }
    for (int sample = -1; (kind == FENCE || task->rank == 0) && sample < task->samples; sample++) {
        int count = sample < 0 ? task->warmup + 1 : task->iterations;
        double start = now();
        epochs(&access, count);
        if (sample >= 0)
            task->values[sample] = (now() - start) / task->iterations;
    }
    if (kind == FENCE)
        MPI_Win_fence(MPI_MODE_NOSUCCEED, access.window);
    MPI_Barrier(MPI_COMM_WORLD);
    if (kind == FLUSH)
        MPI_Win_unlock_all(access.window);
    MPI_Win_free(&access.window);
    free(access.out);
    free(access.in);
}
