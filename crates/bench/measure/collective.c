/* Collectives, timed as the OSU loops do: each call alone on every rank, an untimed barrier after
 * it; the value of a sample is the mean over iterations and ranks. */
#include "measure.h"

#include <stdlib.h>

struct call {
    const char *name;
    void (*once)(const struct call *call);
    char *out;
    char *in;
    int size;
    int ranks;
};

static void barrier(const struct call *call)
{
    (void)call;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void bcast(const struct call *call)
{
    MPI_Bcast(call->out, call->size, MPI_CHAR, 0, MPI_COMM_WORLD);
}

static void gather(const struct call *call)
{
    MPI_Gather(call->out, call->size, MPI_CHAR, call->in, call->size, MPI_CHAR, 0, MPI_COMM_WORLD);
}

static void allgather(const struct call *call)
{
    MPI_Allgather(call->out, call->size, MPI_CHAR, call->in, call->size, MPI_CHAR, MPI_COMM_WORLD);
}

static void allreduce(const struct call *call)
{
    MPI_Allreduce(call->out, call->in, call->size / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void reduce(const struct call *call)
{
    MPI_Reduce(call->out, call->in, call->size / 8, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
}

static void alltoall(const struct call *call)
{
    MPI_Alltoall(call->out, call->size, MPI_CHAR, call->in, call->size, MPI_CHAR, MPI_COMM_WORLD);
}

/* One call with known data, checked on every rank. */
static void prove(const struct call *call, int rank)
{
    size_t size = (size_t)call->size;
    int rooted = call->once == gather || call->once == reduce;

    if (call->once == barrier) {
        call->once(call);
    } else if (call->once == allreduce || call->once == reduce) {
        double sum = call->ranks * (call->ranks - 1) / 2.0;
        for (int index = 0; index < call->size / 8; index++)
            ((double *)call->out)[index] = rank + index;
        call->once(call);
        for (int index = 0; (!rooted || rank == 0) && index < call->size / 8; index++)
            if (((double *)call->in)[index] != sum + (double)index * call->ranks)
                fail("%s of %d doubles on %d ranks: element %d is %g, expected %g", call->name, call->size / 8,
                     call->ranks, index, ((double *)call->in)[index], sum + (double)index * call->ranks);
    } else if (call->once == bcast) {
        pattern_fill(call->out, size, rank == 0 ? 77u : 0u);
        call->once(call);
        pattern_check(call->out, size, 77, "bcast");
    } else if (call->once == alltoall) {
        for (int to = 0; to < call->ranks; to++)
            pattern_fill(call->out + (size_t)to * size, size, (unsigned)(rank * call->ranks + to));
        call->once(call);
        for (int from = 0; from < call->ranks; from++)
            pattern_check(call->in + (size_t)from * size, size, (unsigned)(from * call->ranks + rank), call->name);
    } else {
        pattern_fill(call->out, size, (unsigned)rank);
        call->once(call);
        for (int from = 0; (!rooted || rank == 0) && from < call->ranks; from++)
            pattern_check(call->in + (size_t)from * size, size, (unsigned)from, call->name);
    }
}

void collective(struct task *task)
{
    static const struct {
        const char *name;
        void (*once)(const struct call *call);
    } calls[] = {{"barrier", barrier}, {"bcast", bcast}, {"gather", gather}, {"allgather", allgather},
                 {"allreduce", allreduce}, {"reduce", reduce}, {"alltoall", alltoall}};
    struct call call = {.size = (int)task_number(task, "size", 8), .ranks = task->ranks};

    for (size_t index = 0; index < sizeof calls / sizeof *calls; index++)
        if (task_is(task, "call", calls[index].name)) {
            call.name = calls[index].name;
            call.once = calls[index].once;
        }
    if (!call.name)
        fail("no collective of that name: %s", task->request);
    call.out = buffer((size_t)call.size * (size_t)task->ranks);
    call.in = buffer((size_t)call.size * (size_t)task->ranks);
    prove(&call, task->rank);
    MPI_Barrier(MPI_COMM_WORLD); /* the timed part must not wait for ranks that still check */
    for (int sample = -1; sample < task->samples; sample++) {
        int count = sample < 0 ? task->warmup : task->iterations;
        double spent = 0, sum = 0;
        for (int index = 0; index < count; index++) {
            double start = now();
            call.once(&call);
            spent += now() - start;
            MPI_Barrier(MPI_COMM_WORLD);
        }
        MPI_Reduce(&spent, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        if (sample >= 0)
            task->values[sample] = sum / task->ranks / task->iterations;
    }
    free(call.out);
    free(call.in);
}
