/* Collectives: how their calls are timed and proven, and those of MPI. */
#include "collective.h"

#include <stdlib.h>

double time_apart(int count, operation *call, operation *barrier, const void *argument)
{
    double spent = 0;

    for (int index = 0; index < count; index++) {
        double start = now();
        call(argument);
        spent += now() - start;
        barrier(argument);
    }
    return spent;
}

static void barrier(const void *argument)
{
    (void)argument;
    MPI_Barrier(MPI_COMM_WORLD);
}

void sample_collective(struct task *task, operation *call, const void *argument)
{
    MPI_Barrier(MPI_COMM_WORLD); /* the timed part must not wait for ranks that still check */
    for (int sample = -1; sample < task->samples; sample++) {
        double sum = 0, spent = time_apart(sample < 0 ? task->warmup : task->iterations, call, barrier, argument);
        MPI_Reduce(&spent, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        if (sample >= 0)
            task->values[sample] = sum / task->ranks / task->iterations;
    }
}

struct call call_of(const struct task *task, int rank, int ranks)
{
    static const char *const names[] = {"barrier", "bcast", "gather", "allgather", "allreduce", "reduce", "alltoall"};
    struct call call = {.size = (int)task_number(task, "size", 8), .rank = rank, .ranks = ranks};

    for (size_t kind = 0; kind < sizeof names / sizeof *names; kind++)
        if (task_is(task, "call", names[kind])) {
            call.name = names[kind];
            call.kind = (enum kind)kind;
        }
    if (!call.name)
        fail("no collective of that name: %s", task->request);
    call.out = buffer((size_t)call.size * (size_t)ranks);
    call.in = buffer((size_t)call.size * (size_t)ranks);
    return call;
}

void call_free(struct call *call)
{
    free(call->out);
    free(call->in);
}

void prove_call(const struct call *call, operation *once)
{
    size_t size = (size_t)call->size;
    int rank = call->rank, rooted = call->kind == GATHER || call->kind == REDUCE;

    if (call->kind == BARRIER) {
        once(call);
    } else if (call->kind == ALLREDUCE || call->kind == REDUCE) {
        double sum = call->ranks * (call->ranks - 1) / 2.0;
        for (int index = 0; index < call->size / 8; index++)
            ((double *)call->out)[index] = rank + index;
        once(call);
        for (int index = 0; (!rooted || rank == 0) && index < call->size / 8; index++)
            if (((double *)call->in)[index] != sum + (double)index * call->ranks)
                fail("%s of %d doubles on %d ranks: element %d is %g, expected %g", call->name, call->size / 8,
                     call->ranks, index, ((double *)call->in)[index], sum + (double)index * call->ranks);
    } else if (call->kind == BCAST) {
        pattern_fill(call->out, size, rank == 0 ? 77u : 0u);
        once(call);
        pattern_check(call->out, size, 77, "bcast");
    } else if (call->kind == ALLTOALL) {
        for (int to = 0; to < call->ranks; to++)
            pattern_fill(call->out + (size_t)to * size, size, (unsigned)(rank * call->ranks + to));
        once(call);
        for (int from = 0; from < call->ranks; from++)
            pattern_check(call->in + (size_t)from * size, size, (unsigned)(from * call->ranks + rank), call->name);
    } else {
        pattern_fill(call->out, size, (unsigned)rank);
        once(call);
        for (int from = 0; (!rooted || rank == 0) && from < call->ranks; from++)
            pattern_check(call->in + (size_t)from * size, size, (unsigned)from, call->name);
    }
}

static void bcast(const void *argument)
{
    const struct call *call = argument;
    MPI_Bcast(call->out, call->size, MPI_CHAR, 0, MPI_COMM_WORLD);
}

static void gather(const void *argument)
{
    const struct call *call = argument;
    MPI_Gather(call->out, call->size, MPI_CHAR, call->in, call->size, MPI_CHAR, 0, MPI_COMM_WORLD);
}

static void allgather(const void *argument)
{
    const struct call *call = argument;
    MPI_Allgather(call->out, call->size, MPI_CHAR, call->in, call->size, MPI_CHAR, MPI_COMM_WORLD);
}

static void allreduce(const void *argument)
{
    const struct call *call = argument;
    MPI_Allreduce(call->out, call->in, call->size / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void reduce(const void *argument)
{
    const struct call *call = argument;
    MPI_Reduce(call->out, call->in, call->size / 8, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
}

static void alltoall(const void *argument)
{
    const struct call *call = argument;
    MPI_Alltoall(call->out, call->size, MPI_CHAR, call->in, call->size, MPI_CHAR, MPI_COMM_WORLD);
}

void collective(struct task *task)
{
    static operation *const calls[] = {barrier, bcast, gather, allgather, allreduce, reduce, alltoall};
    struct call call = call_of(task, task->rank, task->ranks);

    prove_call(&call, calls[call.kind]);
    sample_collective(task, calls[call.kind], &call);
    call_free(&call);
}
