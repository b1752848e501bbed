/* A switch between two processes of one core: the two ranks yield it to each other in turn. */
#define _GNU_SOURCE
#include "measure.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

static void stay_on(const cpu_set_t *cores)
{
    if (sched_setaffinity(0, sizeof *cores, cores))
        fail("cannot stay on one core: %s", strerror(errno));
}

/* The value is the time until each of `ranks` processes on `cores` cores has run once. */
void switches(struct task *task)
{
    double rounds = (double)task_number(task, "ranks", 2) / (double)task_number(task, "cores", 1);
    long round = 0, mine = task->rank;
    cpu_set_t before, one;
    _Atomic long *word; /* whose turn it is, for both */
    MPI_Win window;
    MPI_Aint bytes;
    int unit, core = 0;

    if (task->ranks != 2)
        fail("two processes yield a core to each other, here are %d", task->ranks);
    MPI_Win_allocate_shared(64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &word, &window);
    MPI_Win_shared_query(window, 0, &bytes, &unit, &word);
    if (sched_getaffinity(0, sizeof before, &before))
        fail("cannot read which cores may be used: %s", strerror(errno));
    while (core < CPU_SETSIZE && !CPU_ISSET(core, &before))
        core++;
    MPI_Bcast(&core, 1, MPI_INT, 0, MPI_COMM_WORLD);
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    stay_on(&one);
    atomic_store(word, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int sample = -1; sample < task->samples; sample++) {
        int count = sample < 0 ? task->warmup + 1 : task->iterations;
        double start = now();
        for (int index = 0; index < count; index++, round++) {
            while (atomic_load_explicit(word, memory_order_acquire) != 2 * round + mine)
                sched_yield();
            atomic_store_explicit(word, 2 * round + mine + 1, memory_order_release);
        }
        if (sample >= 0)
            task->values[sample] = (now() - start) / 2 / task->iterations * rounds;
    }
    stay_on(&before);
    MPI_Win_free(&window);
}
