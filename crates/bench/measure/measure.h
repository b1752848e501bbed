/* The measuring program: one portable set of sources, MPI-3 calls only, built by the mpicc of every
 * implementation that is compared.
 *
 *   harness ── one Unix socket per rank ──> rank 0, rank 1, ...   "pingpong size=8 iterations=1000"
 *           <── answer of rank 0 ────────── rank 0                "ok 243.1 241.9 ..."
 *
 * Between two requests every rank sleeps in read() on its own socket, outside of MPI. A job that is
 * not measured therefore uses no processor, whatever its MPI does while it waits, so jobs of several
 * implementations exist side by side and are asked in random order.
 *
 * All times come from clock_gettime(CLOCK_MONOTONIC), the same for every implementation; all ranks
 * run on one machine, so the clock is also the same for every rank. Every value that a workload
 * reports is nanoseconds per operation, the mean over the iterations of one sample.
 */
#ifndef WEFT_MEASURE_H
#define WEFT_MEASURE_H

#include <mpi.h>
#include <stddef.h>

/* A workload's data about its job and the request that it serves. */
struct task {
    int rank;
    int ranks;
    const char *request; /* the whole line, "verb key=value key=value" */
    double *values;      /* rank 0: nanoseconds per operation, one per sample */
    int samples;         /* how many values are wanted */
    int iterations;      /* operations in one sample */
    int warmup;          /* operations before the first sample, not reported */
};

/* Where the value of key starts in the request, or NULL. */
const char *task_text(const struct task *task, const char *key);
/* The value of key in the request, or fallback. */
long task_number(const struct task *task, const char *key, long fallback);
/* Whether the request has key=word. */
int task_is(const struct task *task, const char *key, const char *word);

/* Nanoseconds of the monotonic clock. */
double now(void);
/* Ends the job with a sentence on standard error. */
void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* A buffer of at least bytes, on its own pages, every page touched. */
char *buffer(size_t bytes);
/* Fills a buffer with the pattern of a seed; checks that it has it. */
void pattern_fill(char *bytes, size_t length, unsigned seed);
void pattern_check(const char *bytes, size_t length, unsigned seed, const char *where);

/* The workloads; each is called on all ranks at once, after a barrier. */
void pingpong(struct task *task);
void bandwidth(struct task *task);
void copy(struct task *task);
void raw(struct task *task);
void switches(struct task *task);
void flags(struct task *task);
void stream(struct task *task);
void exchange(struct task *task);
void collective(struct task *task);
void collective_form(struct task *task);
void routine(struct task *task);
void oneway(struct task *task);
void matching(struct task *task);
void threads(struct task *task);
void carried(struct task *task);
void idle(struct task *task);
void settle(struct task *task);
void burn(struct task *task);
void instructions(struct task *task);
void packing(struct task *task);
void gaps(struct task *task);
void rma(struct task *task);
void io(struct task *task);
void beside(struct task *task);
void polling(struct task *task);

#endif
