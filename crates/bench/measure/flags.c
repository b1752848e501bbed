/* The limit of collectives on this machine: what they take among processes that do nothing but set and read flags in
 * shared memory, without a message-passing library. The processes are children of rank 0, each on a core, in turn;
 * the other ranks sleep meanwhile.
 *
 *   row of a process:  epoch | data ...      in cache lines of its own; each has ROWS of them, used in turn
 *
 * Each collective is an epoch. In it every process shows that it has arrived, with the data that others need, and
 * reads the rows of those that it needs. What has arrived at an epoch has ended those before it: so whoever
 * shows data waits until all have arrived at the epoch ROWS - 1 before, and overwrites nothing that is still read. */
#define _GNU_SOURCE
#include "collective.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_PROCESSES 64
#define ROWS 2
#define LINE 64
#define LINE_PAIR (2 * LINE) /* the prefetcher takes pairs of lines */

/* Looks at the flag of a process of another core before this core is given away: about a context switch. */
#define LOOKS 48

/* Of this process. */
static struct {
    char *rows;
    size_t room; /* bytes from row to row */
    size_t data; /* offset of the data in a row: short ones share a line with the epoch, longer ones have lines alone */
    int process;
    int processes;
    int cores;
    long epoch;
    long arrived; /* the epoch at which all are known to have arrived */
} mine;

static char *row_of(int process, long epoch)
{
    size_t index = (size_t)(epoch % ROWS) * (size_t)mine.processes + (size_t)process;
    return mine.rows + index * mine.room;
}

static _Atomic long *flag_of(int process, long epoch)
{
    return (_Atomic long *)row_of(process, epoch);
}

/* Bytes that a process shows in this epoch at an offset. All their lines are requested at once. */
static const char *shown(int process, size_t offset, size_t size)
{
    const char *data = row_of(process, mine.epoch) + mine.data + offset;
    for (size_t at = 0; at < size; at += LINE)
        __builtin_prefetch(data + at);
    return data;
}

/* The loads of the next look begin when those of this one have ended: otherwise they take the line away from the
 * process that writes it. */
static void look_again(void)
{
#if defined(__x86_64__)
    __builtin_ia32_lfence();
#elif defined(__aarch64__)
    __asm__ volatile("dmb ishld" ::: "memory");
#endif
}

/* A process that shares its core with others yields it to one that it waits for there at once, and where it waits
 * for one of another core, after some looks. */
static void wait_for(int process, long epoch)
{
    _Atomic long *flag = flag_of(process, epoch);
    int is_shared = mine.processes > mine.cores, is_here = process % mine.cores == mine.process % mine.cores;

    for (int looks = 1; atomic_load_explicit(flag, memory_order_acquire) < epoch; looks++)
        if (is_shared && (is_here || looks % LOOKS == 0))
            sched_yield();
        else
            look_again();
}

/* First for those of this core: the others run meanwhile. */
static void wait_for_all(long epoch)
{
    for (int core = 0; core < mine.cores; core++)
        for (int process = (mine.process + core) % mine.cores; process < mine.processes; process += mine.cores)
            if (process != mine.process)
                wait_for(process, epoch);
    mine.arrived = epoch;
}

/* Begins an epoch. */
static void begin(void)
{
    mine.epoch++;
}

/* The row in which data of this epoch are shown, once nobody reads the data before. */
static char *room_for_data(void)
{
    if (mine.arrived < mine.epoch - ROWS + 1)
        wait_for_all(mine.epoch - ROWS + 1);
    return row_of(mine.process, mine.epoch) + mine.data;
}

/* Shows that this process has arrived, and its data. */
static void arrive(void)
{
    atomic_store_explicit(flag_of(mine.process, mine.epoch), mine.epoch, memory_order_release);
}

/* An epoch in which this process shows the block `out`, or nothing. */
static void arrive_with(const struct call *call, int is_shown)
{
    begin();
    if (is_shown)
        memcpy(room_for_data(), call->out, (size_t)call->size);
    arrive();
}

static void barrier(const void *argument)
{
    (void)argument;
    begin();
    arrive();
    wait_for_all(mine.epoch);
}

static void bcast(const void *argument)
{
    const struct call *call = argument;

    arrive_with(call, call->rank == 0);
    if (call->rank == 0)
        return;
    wait_for(0, mine.epoch);
    memcpy(call->out, shown(0, 0, (size_t)call->size), (size_t)call->size);
}

/* Copies the blocks that all have shown at an offset. */
static void take_blocks(const struct call *call, size_t offset)
{
    size_t size = (size_t)call->size;

    wait_for_all(mine.epoch);
    for (int process = 0; process < call->ranks; process++)
        memcpy(call->in + (size_t)process * size,
               process == call->rank ? call->out + offset : shown(process, offset, size), size);
}

static void gather(const void *argument)
{
    const struct call *call = argument;

    arrive_with(call, call->rank > 0);
    if (call->rank == 0)
        take_blocks(call, 0);
}

static void allgather(const void *argument)
{
    const struct call *call = argument;

    arrive_with(call, 1);
    take_blocks(call, 0);
}

static void alltoall(const void *argument)
{
    const struct call *call = argument;
    size_t size = (size_t)call->size;

    begin();
    char *room = room_for_data();
    for (int process = 0; process < call->ranks; process++)
        if (process != call->rank)
            memcpy(room + (size_t)process * size, call->out + (size_t)process * size, size);
    arrive();
    take_blocks(call, (size_t)call->rank * size);
}

/* Two doubles in one instruction: not every compiler finds that by itself. */
typedef double two __attribute__((vector_size(16), aligned(8), may_alias));

static void add(double *into, const double *one, const double *other, int count)
{
    int index = 0;

    for (; index + 2 <= count; index += 2)
        *(two *)(into + index) = *(const two *)(one + index) + *(const two *)(other + index);
    if (index < count)
        into[index] = one[index] + other[index];
}

/* Adds up what all have shown, where it is. */
static void take_sum(const struct call *call)
{
    const char *sum = call->out;

    wait_for_all(mine.epoch);
    for (int process = 0; process < call->ranks; process++)
        if (process != call->rank) {
            const char *theirs = shown(process, 0, (size_t)call->size);
            add((double *)call->in, (const double *)sum, (const double *)theirs, call->size / 8);
            sum = call->in;
        }
}

static void reduce(const void *argument)
{
    const struct call *call = argument;

    arrive_with(call, call->rank > 0);
    if (call->rank == 0)
        take_sum(call);
}

static void allreduce(const void *argument)
{
    const struct call *call = argument;

    arrive_with(call, 1);
    take_sum(call);
}

/* What one process does: samples of its own, as nanoseconds of all iterations. */
static void measure(const struct task *task, const struct call *call, double *samples)
{
    static operation *const calls[] = {barrier, bcast, gather, allgather, allreduce, reduce, alltoall};

    prove_call(call, calls[call->kind]);
    barrier(call);
    time_apart(task->warmup, calls[call->kind], barrier, call);
    for (int sample = 0; sample < task->samples; sample++)
        samples[sample] = time_apart(task->iterations, calls[call->kind], barrier, call);
}

/* The cores of cores=A,B,...; returns how many. */
static int cores_of(const struct task *task, int *cores)
{
    int count = 0;

    for (const char *at = task_text(task, "cores"); at && *at >= '0' && *at <= '9' && count < MAX_PROCESSES;) {
        char *end;
        cores[count++] = (int)strtol(at, &end, 10);
        at = *end == ',' ? end + 1 : NULL;
    }
    return count;
}

static void stay_on(int core)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(core, &set);
    if (sched_setaffinity(0, sizeof set, &set))
        fail("cannot stay on core %d: %s", core, strerror(errno));
}

/* Memory that processes share. */
static char *shared(size_t bytes)
{
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        fail("no shared memory of %zu bytes: %s", bytes, strerror(errno));
    return memory;
}

/* Waits until all have ended; if one fails, ends the others, which would wait for it. */
static void collect(const pid_t *children, int count)
{
    int failed = 0;

    for (int left = count; left > 0;) {
        int status, ours = 0;
        pid_t ended = waitpid(-1, &status, 0);
        if (ended < 0)
            fail("a process that sets flags is gone: %s", strerror(errno));
        for (int child = 0; child < count; child++)
            ours += children[child] == ended;
        left -= ours;
        if (ours && status && !failed++)
            for (int child = 0; child < count; child++)
                kill(children[child], SIGKILL);
    }
    if (failed)
        fail("a process that sets flags has failed");
}

/* processes=N on cores=A,B,...; call and size as of collective. */
void flags(struct task *task)
{
    int processes = (int)task_number(task, "processes", 2), cores[MAX_PROCESSES];
    pid_t parent = getpid(), children[MAX_PROCESSES];

    if (task->rank > 0)
        return;
    mine.processes = processes;
    mine.cores = cores_of(task, cores);
    if (processes < 2 || processes > MAX_PROCESSES || mine.cores < 1)
        fail("not a request: %s", task->request);
    struct call call = call_of(task, 0, processes);
    size_t data = (size_t)call.size * (size_t)(call.kind == ALLTOALL ? processes : 1);
    mine.data = data + sizeof(long) <= LINE_PAIR ? sizeof(long) : LINE;
    mine.room = (mine.data + data + LINE_PAIR - 1) / LINE_PAIR * LINE_PAIR;
    size_t room = mine.room * ROWS * (size_t)processes;
    size_t results = (size_t)processes * (size_t)task->samples * sizeof(double);
    mine.rows = shared(room);
    double *samples = (double *)shared(results);
    for (int process = 0; process < processes; process++) {
        pid_t child = children[process] = fork();
        if (child < 0)
            fail("no process that sets flags: %s", strerror(errno));
        if (child > 0)
            continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(0);
        stay_on(cores[process % mine.cores]);
        call.rank = mine.process = process;
        measure(task, &call, samples + (size_t)process * (size_t)task->samples);
        _exit(0);
    }
    collect(children, processes);
    for (int sample = 0; sample < task->samples; sample++) {
        double sum = 0;
        for (int process = 0; process < processes; process++)
            sum += samples[(size_t)process * (size_t)task->samples + (size_t)sample];
        task->values[sample] = sum / processes / task->iterations;
    }
    munmap(samples, results);
    munmap(mine.rows, room);
    call_free(&call);
}
