/* Cost of waiting: processor time of a blocked rank, memory of an idle one, the share of a core. */
#define _GNU_SOURCE
#include "measure.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#define TAG 7

static double processor_time(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return 1e9 * (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e3 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* Rank 1 is blocked in MPI_Recv for `milliseconds` while rank 0 sleeps outside of MPI. A value is the
 * processor time that rank 1 used meanwhile, all its threads together. */
void idle(struct task *task)
{
    long milliseconds = task_number(task, "milliseconds", 1000);
    struct timespec pause = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    char byte = 0;

    for (int sample = 0; task->rank < 2 && sample < task->samples; sample++) {
        double spent = 0;
        if (task->rank == 0) {
            nanosleep(&pause, NULL);
            MPI_Send(&byte, 1, MPI_CHAR, 1, TAG, MPI_COMM_WORLD);
            MPI_Recv(&task->values[sample], 1, MPI_DOUBLE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            double before = processor_time();
            MPI_Recv(&byte, 1, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            spent = processor_time() - before;
            MPI_Send(&spent, 1, MPI_DOUBLE, 0, TAG, MPI_COMM_WORLD);
        }
    }
}

/* Every rank communicates with every other once, so that everything is set up; then the
 * harness reads the memory of the processes while they sleep. The value has no meaning. */
void settle(struct task *task)
{
    double *out = calloc((size_t)task->ranks, sizeof *out), *in = calloc((size_t)task->ranks, sizeof *in);
    MPI_Alltoall(out, 1, MPI_DOUBLE, in, 1, MPI_DOUBLE, MPI_COMM_WORLD);
    for (int distance = 1; distance < task->ranks; distance++)
        MPI_Sendrecv(out, 1, MPI_DOUBLE, (task->rank + distance) % task->ranks, TAG, in, 1, MPI_DOUBLE,
                     (task->rank + task->ranks - distance) % task->ranks, TAG, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int sample = 0; sample < task->samples; sample++)
        task->values[sample] = 1;
    free(out);
    free(in);
}

/* Works for `milliseconds` without any call; a value is the processor time that it got. */
void burn(struct task *task)
{
    long milliseconds = task_number(task, "milliseconds", 100);
    for (int sample = 0; sample < task->samples; sample++) {
        double end = now() + 1e6 * (double)milliseconds, before = processor_time();
        volatile unsigned long work = 0;
        while (now() < end)
            for (int index = 0; index < 1000; index++)
                work += (unsigned long)index;
        task->values[sample] = processor_time() - before;
    }
}
