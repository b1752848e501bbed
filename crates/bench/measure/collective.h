/* Collectives, timed as the OSU loops do: each call alone on every rank, an untimed barrier after
 * it; the value of a sample is the mean over iterations and ranks. */
#ifndef WEFT_COLLECTIVE_H
#define WEFT_COLLECTIVE_H

#include "measure.h"

/* What all ranks do together; the argument is what this rank does it with. */
typedef void operation(const void *argument);

/* Nanoseconds in `count` calls, a barrier after each. */
double time_apart(int count, operation *call, operation *barrier, const void *argument);
/* Takes the samples of a task for a collective of all ranks of the job. */
void sample_collective(struct task *task, operation *call, const void *argument);

enum kind { BARRIER, BCAST, GATHER, ALLGATHER, ALLREDUCE, REDUCE, ALLTOALL };

/* A collective with the data of one rank. */
struct call {
    const char *name;
    enum kind kind;
    int size; /* bytes of a block */
    int rank;
    int ranks;
    char *out;
    char *in;
};

/* The collective that a request asks for, and buffers for it. */
struct call call_of(const struct task *task, int rank, int ranks);
void call_free(struct call *call);
/* One call with known data, checked on every rank; a struct call is its argument. */
void prove_call(const struct call *call, operation *once);

#endif
