/* Instructions of one call, counted one by one: a second process steps the calling thread through it (ptrace). The
 * count is exact and the same on any machine that runs the same code, however busy it is. It contains no waiting: a call
 * that waits would count its polls, so each call is made when everything that it needs is there. */
#define _GNU_SOURCE
#include "measure.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TAG 3
#define GO 4
#define OTHER 5
#define CALLS 16
#define FEW 4 /* of calls of many instructions */
#define KEPT 128 /* objects made and freed, after which those that are dropped in place of the freed ones are like these */
#define LONGEST 4096

enum { WAITING, READY, COUNTING, DONE, REFUSED };

static struct meter {
    volatile int state;
    volatile long count;
} *meter;

static long self;
static int left_out; /* count calls that a profile leaves out */
static int warm_up;  /* make the calls, but count nothing */
static MPI_Request requests[CALLS];
static char words[CALLS][LONGEST];
static int bytes;

/* Stops the other threads of a process until this one ends: then the thread that makes calls recorded again after a period does not run. */
static void stop_others(pid_t process)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", process);
    DIR *threads = opendir(path);
    for (struct dirent *entry; threads && (entry = readdir(threads));) {
        pid_t thread = atoi(entry->d_name);
        int status;
        if (thread > 0 && thread != process && !ptrace(PTRACE_SEIZE, thread, 0, 0) && !ptrace(PTRACE_INTERRUPT, thread, 0, 0))
            waitpid(thread, &status, __WALL);
    }
    if (threads)
        closedir(threads);
}

/* The second process: steps its parent from the moment that the state is COUNTING until it is DONE. */
static void step_parent(pid_t parent)
{
    int status;
    if (ptrace(PTRACE_SEIZE, parent, 0, 0) || ptrace(PTRACE_INTERRUPT, parent, 0, 0) ||
        waitpid(parent, &status, __WALL) != parent) {
        meter->state = REFUSED;
        _exit(0);
    }
    if (left_out)
        stop_others(parent);
    meter->state = READY;
    long count = 0, deliver = 0;
    while (meter->state != DONE) {
        if (ptrace(PTRACE_SINGLESTEP, parent, 0, deliver) || waitpid(parent, &status, __WALL) != parent ||
            !WIFSTOPPED(status))
            _exit(0);
        deliver = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
        count += meter->state == COUNTING;
    }
    meter->count = count;
    ptrace(PTRACE_DETACH, parent, 0, 0);
    _exit(0);
}

/* Makes calls until a profile leaves them out, which it does for the rest of a period of 50 ms of the time of day: most of it must
 * still remain. */
static void spend_profile(void)
{
    enum { PERIOD = 50 * 1000 * 1000, SOON = 2 * 1000 * 1000, TURNS = 3000 };
    struct timespec time;
    do
        clock_gettime(CLOCK_REALTIME, &time);
    while (time.tv_nsec % PERIOD < SOON / 2 || time.tv_nsec % PERIOD > SOON);
    for (int turn = 0; turn < TURNS; turn++) {
        MPI_Request none[2];
        int flag;
        MPI_Send(words[0], 0, MPI_BYTE, MPI_PROC_NULL, TAG, MPI_COMM_WORLD);
        MPI_Recv(words[0], 0, MPI_BYTE, MPI_PROC_NULL, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Isend(words[0], 0, MPI_BYTE, MPI_PROC_NULL, TAG, MPI_COMM_WORLD, &none[0]);
        MPI_Irecv(words[0], 0, MPI_BYTE, MPI_PROC_NULL, TAG, MPI_COMM_WORLD, &none[1]);
        MPI_Test(&none[0], &flag, MPI_STATUS_IGNORE);
        MPI_Wait(&none[1], MPI_STATUS_IGNORE);
        MPI_Iprobe(MPI_PROC_NULL, TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    }
}

/* Instructions from the call of body to its return, the call and this counter's own few among them. Both processes run on one core meanwhile: at
 * each step one wakes the other, which takes ten times as long where a core has to be woken as well. */
static long steps_of(void (*body)(void))
{
    cpu_set_t allowed, one;
    if (warm_up) {
        body();
        return 0;
    }
    if (!meter) {
        meter = mmap(NULL, sizeof *meter, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (meter == MAP_FAILED)
            fail("no memory for the counter: %s", strerror(errno));
    }
    if (left_out)
        spend_profile();
    /* Where the system does not tell, it takes longer. */
    int core = sched_getcpu(), knows = core >= 0 && !sched_getaffinity(0, sizeof allowed, &allowed);
    if (knows) {
        CPU_ZERO(&one);
        CPU_SET(core, &one);
        sched_setaffinity(0, sizeof one, &one);
    }
    meter->state = WAITING;
    pid_t parent = getpid(), child = fork();
    if (child < 0)
        fail("cannot start a process that counts: %s", strerror(errno));
    if (child == 0)
        step_parent(parent);
    prctl(PR_SET_PTRACER, child, 0, 0, 0);
    while (meter->state == WAITING)
        sched_yield();
    if (meter->state == REFUSED)
        fail("this system does not let a process be stepped through (ptrace); allow it, or do without this experiment");
    meter->state = COUNTING;
    body();
    meter->state = DONE;
    waitpid(child, NULL, 0);
    if (knows)
        sched_setaffinity(0, sizeof allowed, &allowed);
    return meter->count;
}

static void nothing(void) {}

static void send(void)
{
    for (int call = 0; call < CALLS; call++)
        MPI_Send(words[call], bytes, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
}

static void isend_wait(void)
{
    for (int call = 0; call < CALLS; call++) {
        MPI_Isend(words[call], bytes, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &requests[call]);
        MPI_Wait(&requests[call], MPI_STATUS_IGNORE);
    }
}

static void receive(void)
{
    for (int call = 0; call < CALLS; call++)
        MPI_Recv(words[call], bytes, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void irecv(void)
{
    for (int call = 0; call < CALLS; call++)
        MPI_Irecv(words[call], bytes, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &requests[call]);
}

static void irecv_wait(void)
{
    irecv();
    for (int call = 0; call < CALLS; call++)
        MPI_Wait(&requests[call], MPI_STATUS_IGNORE);
}

/* Persistent requests in the place of those. */
static void keep_sends(void)
{
    for (int call = 0; call < CALLS; call++)
        MPI_Send_init(words[call], bytes, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &requests[call]);
}

static void keep_receives(void)
{
    for (int call = 0; call < CALLS; call++)
        MPI_Recv_init(words[call], bytes, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &requests[call]);
}

static void free_each(void)
{
    for (int call = 0; call < CALLS; call++)
        MPI_Request_free(&requests[call]);
}

static void start_each(void)
{
    for (int call = 0; call < CALLS; call++)
        MPI_Start(&requests[call]);
}

static void start_wait(void)
{
    for (int call = 0; call < CALLS; call++) {
        MPI_Start(&requests[call]);
        MPI_Wait(&requests[call], MPI_STATUS_IGNORE);
    }
}

static void wait_each(void)
{
    for (int call = 0; call < CALLS; call++)
        MPI_Wait(&requests[call], MPI_STATUS_IGNORE);
}

static void wait_all(void)
{
    MPI_Waitall(CALLS, requests, MPI_STATUSES_IGNORE);
}

/* A matched probe and the receive of what it has found. */
static void probe_and_receive(void)
{
    for (int call = 0; call < CALLS; call++) {
        MPI_Message message;
        MPI_Mprobe(0, TAG, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
        MPI_Mrecv(words[call], bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    }
}

static void wait_any(void)
{
    int index;
    for (int call = 0; call < CALLS; call++)
        MPI_Waitany(CALLS, requests, &index, MPI_STATUS_IGNORE);
}

/* A datatype that is made, committed and freed. */
static void datatype(void)
{
    for (int call = 0; call < CALLS; call++) {
        MPI_Datatype made;
        MPI_Type_vector(8, 2, 4, MPI_DOUBLE, &made);
        MPI_Type_commit(&made);
        MPI_Type_free(&made);
    }
}

static void indexed(void)
{
    int lengths[64], places[64];
    for (int block = 0; block < 64; block++) {
        lengths[block] = 1 + block % 3;
        places[block] = 5 * block;
    }
    for (int call = 0; call < FEW; call++) {
        MPI_Datatype made;
        MPI_Type_indexed(64, lengths, places, MPI_DOUBLE, &made);
        MPI_Type_commit(&made);
        MPI_Type_free(&made);
    }
}

static void group(void)
{
    for (int call = 0; call < CALLS; call++) {
        MPI_Group all;
        MPI_Comm_group(MPI_COMM_WORLD, &all);
        MPI_Group_free(&all);
    }
}

static void allreduce_alone(void)
{
    double value = 1, sum;
    for (int call = 0; call < CALLS; call++)
        MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF);
}

static void iallreduce_alone(void)
{
    double value = 1, sum;
    for (int call = 0; call < CALLS; call++) {
        MPI_Iallreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF, &requests[call]);
        MPI_Wait(&requests[call], MPI_STATUS_IGNORE);
    }
}

/* What a rank at the edge of a grid does. */
static void nobody(void)
{
    for (int call = 0; call < CALLS; call++) {
        MPI_Irecv(words[0], bytes, MPI_BYTE, MPI_PROC_NULL, TAG, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(words[1], bytes, MPI_BYTE, MPI_PROC_NULL, TAG, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
}

static void dims(void)
{
    for (int call = 0; call < CALLS; call++) {
        int sizes[3] = {0, 0, 0};
        MPI_Dims_create(48, 3, sizes);
    }
}

/* With three parts of different datatypes. */
static void structure(void)
{
    int lengths[3] = {1, 2, 3};
    MPI_Aint places[3] = {0, 8, 32};
    MPI_Datatype parts[3] = {MPI_INT, MPI_DOUBLE, MPI_CHAR};
    for (int call = 0; call < CALLS; call++) {
        MPI_Datatype made;
        MPI_Type_create_struct(3, lengths, places, parts, &made);
        MPI_Type_commit(&made);
        MPI_Type_free(&made);
    }
}

static void edge(void)
{
    for (int call = 0; call < CALLS; call++)
        MPI_Sendrecv(words[0], bytes, MPI_BYTE, MPI_PROC_NULL, TAG, words[1], bytes, MPI_BYTE, MPI_PROC_NULL, TAG, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
}

/* A synchronous message to oneself. */
static void ssend_self(void)
{
    for (int call = 0; call < CALLS; call++) {
        MPI_Irecv(words[0], bytes, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &requests[0]);
        MPI_Ssend(words[1], bytes, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    }
}

/* Persistent requests of a message to oneself: made by each count, freed after it. */
static MPI_Request kept[2];

static void keep_requests(void)
{
    MPI_Send_init(words[0], bytes, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &kept[0]);
    MPI_Recv_init(words[1], bytes, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &kept[1]);
}

static void free_requests(void)
{
    MPI_Request_free(&kept[0]);
    MPI_Request_free(&kept[1]);
}

static void start_all(void)
{
    for (int call = 0; call < CALLS; call++) {
        MPI_Startall(2, kept);
        MPI_Waitall(2, kept, MPI_STATUSES_IGNORE);
    }
}

static const struct local {
    const char *name;
    void (*body)(void);
    int calls;
    void (*before)(void), (*after)(void);
} locals[] = {{"datatype", datatype, CALLS, nothing, nothing},
              {"indexed", indexed, FEW, nothing, nothing},
              {"struct", structure, CALLS, nothing, nothing},
              {"group", group, CALLS, nothing, nothing},
              {"allreduce_alone", allreduce_alone, CALLS, nothing, nothing},
              {"nobody", nobody, CALLS, nothing, nothing},
              {"edge", edge, CALLS, nothing, nothing},
              {"ssend_self", ssend_self, CALLS, nothing, nothing},
              {"startall", start_all, CALLS, keep_requests, free_requests},
              {"iallreduce_alone", iallreduce_alone, CALLS, nothing, nothing},
              {"dims", dims, CALLS, nothing, nothing}};

/* The call of the request if that takes no other rank, or NULL. */
static const struct local *local_of(const struct task *task)
{
    for (size_t index = 0; index < sizeof locals / sizeof *locals; index++)
        if (task_is(task, "call", locals[index].name))
            return &locals[index];
    return NULL;
}

static void test(void)
{
    int flag;
    for (int call = 0; call < CALLS; call++)
        MPI_Test(&requests[call], &flag, MPI_STATUS_IGNORE);
}

static void probe(void)
{
    int flag;
    for (int call = 0; call < CALLS; call++)
        MPI_Iprobe(0, TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

/* One-sided: an operation on the memory of rank 1 and its completion, within lock_all. */
static MPI_Win window;

static void put_flush(void)
{
    for (int call = 0; call < CALLS; call++) {
        MPI_Put(words[call], bytes, MPI_CHAR, 1, 0, bytes, MPI_CHAR, window);
        MPI_Win_flush(1, window);
    }
}

/* Into pairs of doubles at the target, with as much room between them. */
static MPI_Datatype pairs;

static void put_vector(void)
{
    for (int call = 0; call < CALLS; call++) {
        MPI_Put(words[call], bytes / 8, MPI_DOUBLE, 1, 0, 1, pairs, window);
        MPI_Win_flush(1, window);
    }
}

static void get_flush(void)
{
    for (int call = 0; call < CALLS; call++) {
        MPI_Get(words[call], bytes, MPI_CHAR, 1, 0, bytes, MPI_CHAR, window);
        MPI_Win_flush(1, window);
    }
}

static void fetch_and_op(void)
{
    for (int call = 0; call < CALLS; call++) {
        MPI_Fetch_and_op(words[0], words[call], MPI_INT64_T, 1, 0, MPI_SUM, window);
        MPI_Win_flush(1, window);
    }
}

static void compare_and_swap(void)
{
    for (int call = 0; call < CALLS; call++) {
        MPI_Compare_and_swap(words[0], words[1], words[call], MPI_INT64_T, 1, 0, window);
        MPI_Win_flush(1, window);
    }
}

static void accumulate(void)
{
    for (int call = 0; call < CALLS; call++) {
        MPI_Accumulate(words[call], bytes / 8, MPI_INT64_T, 1, 0, bytes / 8, MPI_INT64_T, MPI_SUM, window);
        MPI_Win_flush(1, window);
    }
}

static const struct {
    const char *name;
    void (*body)(void);
} one_sided[] = {{"put", put_flush},           {"put_vector", put_vector},
                 {"get", get_flush},           {"fetch_and_op", fetch_and_op},
                 {"accumulate", accumulate},   {"compare_and_swap", compare_and_swap}};

/* The body of a one-sided call of the request, or NULL. */
static void (*one_sided_of(const struct task *task))(void)
{
    for (size_t index = 0; index < sizeof one_sided / sizeof *one_sided; index++)
        if (task_is(task, "call", one_sided[index].name))
            return one_sided[index].body;
    return NULL;
}

/* Long enough for the other rank to make its calls, outside of MPI: a rank that sleeps inside must be woken. */
static void pause_outside(void)
{
    struct timespec pause = {0, 300 * 1000 * 1000};
    nanosleep(&pause, NULL);
}

/* Rank 1 stays outside of MPI until rank 0 has counted, however long steps take here: it sends its process id, and waits for
 * a signal. */
static void wait_outside(void)
{
    sigset_t counted;
    sigemptyset(&counted);
    sigaddset(&counted, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &counted, NULL);
    long process = getpid();
    MPI_Send(&process, 1, MPI_LONG, 0, GO, MPI_COMM_WORLD);
    struct timespec limit = {60, 0};
    if (sigtimedwait(&counted, NULL, &limit) != SIGUSR2)
        fail("rank 0 has not counted within a minute");
}

/* Counts while rank 1 waits outside, and informs it. */
static long steps_alone(void (*body)(void))
{
    long process;
    MPI_Recv(&process, 1, MPI_LONG, 1, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    long steps = steps_of(body);
    kill((pid_t)process, SIGUSR2);
    return steps;
}

/* Rank 1 announces that it is about to sleep outside of MPI, so that it does not see what rank 0 sends afterwards. */
static void go(int rank)
{
    char nothing = 0;
    if (rank == 1)
        MPI_Send(&nothing, 1, MPI_BYTE, 0, GO, MPI_COMM_WORLD);
    else if (rank == 0)
        MPI_Recv(&nothing, 1, MPI_BYTE, 1, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* A collective of two without waiting: the other rank is in it already, or has done its part. There it is held by a signal, in whose handler it waits outside
 * of MPI until rank 0 has counted. It may have been about to sleep: a message cancels that, which is not counted. */
static pid_t other;

/* Whether the signal came within a second. */
static int await_signal(int number)
{
    sigset_t awaited;
    sigemptyset(&awaited);
    sigaddset(&awaited, number);
    struct timespec limit = {1, 0};
    return sigtimedwait(&awaited, NULL, &limit) == number;
}

static void hold(int number)
{
    (void)number;
    int saved = errno;
    kill(other, SIGUSR1);
    await_signal(SIGUSR2);
    errno = saved;
}

static void barrier(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

static void bcast(void)
{
    MPI_Bcast(words[0], bytes, MPI_BYTE, 1, MPI_COMM_WORLD);
}

static void gather(void)
{
    MPI_Gather(words[0], bytes, MPI_BYTE, words[1], bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static void allgather(void)
{
    MPI_Allgather(words[0], bytes, MPI_BYTE, words[1], bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static void alltoall(void)
{
    MPI_Alltoall(words[0], bytes, MPI_BYTE, words[1], bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static void reduce(void)
{
    MPI_Reduce(words[0], words[1], bytes / 8, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
}

static void allreduce(void)
{
    MPI_Allreduce(words[0], words[1], bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static const int lengths[] = {1, 1}, places[] = {0, 1};

static void gatherv(void)
{
    MPI_Gatherv(words[0], 1, MPI_DOUBLE, words[1], lengths, places, MPI_DOUBLE, 0, MPI_COMM_WORLD);
}

static void scatterv(void)
{
    MPI_Scatterv(words[0], lengths, places, MPI_DOUBLE, words[1], 1, MPI_DOUBLE, 1, MPI_COMM_WORLD);
}

static void allgatherv(void)
{
    MPI_Allgatherv(words[0], 1, MPI_DOUBLE, words[1], lengths, places, MPI_DOUBLE, MPI_COMM_WORLD);
}

static void alltoallv(void)
{
    MPI_Alltoallv(words[0], lengths, places, MPI_DOUBLE, words[1], lengths, places, MPI_DOUBLE, MPI_COMM_WORLD);
}

static void reduce_scatter(void)
{
    MPI_Reduce_scatter(words[0], words[1], lengths, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void reduce_scatter_block(void)
{
    MPI_Reduce_scatter_block(words[0], words[1], 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

/* The rank that counts is the first: it waits for nobody. */
static void scan(void)
{
    MPI_Scan(words[0], words[1], 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void exscan(void)
{
    MPI_Exscan(words[0], words[1], 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void maxloc(void)
{
    MPI_Allreduce(words[0], words[1], 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
}

static void ibcast(void)
{
    MPI_Ibcast(words[0], bytes, MPI_BYTE, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
}

static void iallreduce(void)
{
    MPI_Iallreduce(words[0], words[1], bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
}

static void ibarrier(void)
{
    MPI_Ibarrier(MPI_COMM_WORLD, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
}

static void igather(void)
{
    MPI_Igather(words[0], bytes, MPI_BYTE, words[1], bytes, MPI_BYTE, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
}

static void iscatter(void)
{
    MPI_Iscatter(words[0], bytes, MPI_BYTE, words[1], bytes, MPI_BYTE, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
}

static void iallgather(void)
{
    MPI_Iallgather(words[0], bytes, MPI_BYTE, words[1], bytes, MPI_BYTE, MPI_COMM_WORLD, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
}

static void ialltoall(void)
{
    MPI_Ialltoall(words[0], bytes, MPI_BYTE, words[1], bytes, MPI_BYTE, MPI_COMM_WORLD, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
}

static void ireduce(void)
{
    MPI_Ireduce(words[0], words[1], bytes / 8, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
}

/* A ring of all ranks, and a reduction that is begun again and again. */
static MPI_Comm ring;
static MPI_Request reduction;

static void keep(const struct task *task)
{
    int closed = 1, size = task->ranks;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &closed, 0, &ring);
    MPI_Allreduce_init(words[0], words[1], 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &reduction);
}

static void neighbor_alltoall(void)
{
    MPI_Neighbor_alltoall(words[0], bytes, MPI_BYTE, words[1], bytes, MPI_BYTE, ring);
}

static void start_allreduce(void)
{
    MPI_Start(&reduction);
    MPI_Wait(&reduction, MPI_STATUS_IGNORE);
}

/* The collective that is asked for, or none. */
static void (*collective_of(const struct task *task))(void)
{
    static const struct {
        const char *name;
        void (*body)(void);
    } all[] = {{"barrier", barrier},   {"bcast", bcast},   {"gather", gather},      {"allgather", allgather},
               {"alltoall", alltoall}, {"reduce", reduce}, {"allreduce", allreduce}, {"gatherv", gatherv},
               {"scatterv", scatterv}, {"allgatherv", allgatherv}, {"alltoallv", alltoallv},
               {"reduce_scatter", reduce_scatter}, {"reduce_scatter_block", reduce_scatter_block},
               {"scan", scan}, {"exscan", exscan}, {"maxloc", maxloc},
               {"ibcast", ibcast},     {"iallreduce", iallreduce}, {"ibarrier", ibarrier}, {"igather", igather},
               {"iscatter", iscatter}, {"iallgather", iallgather}, {"ialltoall", ialltoall}, {"ireduce", ireduce},
               {"neighbor_alltoall", neighbor_alltoall}, {"start_allreduce", start_allreduce}};
    for (size_t index = 0; index < sizeof all / sizeof *all; index++)
        if (task_is(task, "call", all[index].name))
            return all[index].body;
    return NULL;
}

/* The fewest instructions of several: in some the other rank may be held before it has arrived. */
static long least_of_meetings(int rank, void (*meet)(void))
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    sigaddset(&signals, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    struct sigaction action = {.sa_handler = hold, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    long mine = getpid(), theirs, least = 0;
    MPI_Sendrecv(&mine, 1, MPI_LONG, 1 - rank, GO, &theirs, 1, MPI_LONG, 1 - rank, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    other = (pid_t)theirs;
    for (int call = 0; call < CALLS; call++) {
        go(rank);
        if (rank == 1) {
            struct itimerval soon = {.it_value = {0, 2000}};
            setitimer(ITIMER_REAL, &soon, NULL);
            meet();
            MPI_Recv(&rank, 0, MPI_INT, 0, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            await_signal(SIGUSR1);
            MPI_Send(&rank, 0, MPI_INT, 1, GO, MPI_COMM_WORLD);
            long steps = steps_of(meet) - self;
            kill(other, SIGUSR2);
            if (!least || steps < least)
                least = steps;
        }
    }
    return least;
}

/* Counts on the rank that makes the call; the other one does its part for the call. */
static double count(const struct task *task)
{
    long steps = 0;
    int counter = 1; /* the rank that counts */
    int calls = CALLS;
    void (*access)(void) = one_sided_of(task), (*meet)(void) = collective_of(task);
    MPI_Barrier(MPI_COMM_WORLD);
    if (task_is(task, "call", "send") || task_is(task, "call", "isend")) {
        counter = 0;
        if (task->rank == 0)
            steps = steps_alone(task_is(task, "call", "send") ? send : isend_wait);
        else {
            wait_outside();
            receive();
        }
    } else if (task_is(task, "call", "start_send")) {
        counter = 0;
        if (task->rank == 0) {
            keep_sends();
            steps = steps_alone(start_wait);
            free_each();
        } else {
            wait_outside();
            receive();
        }
    } else if (task_is(task, "call", "unexpected") || task_is(task, "call", "irecv_unexpected")) {
        if (task->rank == 0)
            send();
        MPI_Barrier(MPI_COMM_WORLD);
        if (task->rank == 1) {
            /* A search for another message notices these. */
            for (int look = 0, flag; look < 4 * CALLS; look++)
                MPI_Iprobe(0, OTHER, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
            steps = steps_of(task_is(task, "call", "unexpected") ? receive : irecv_wait);
        }
    } else if (task_is(task, "call", "recv") || task_is(task, "call", "mprobe")) {
        go(task->rank);
        if (task->rank == 0)
            send();
        else {
            pause_outside();
            steps = steps_of(task_is(task, "call", "recv") ? receive : probe_and_receive);
        }
    } else if (local_of(task)) {
        const struct local *local = local_of(task);
        counter = 0;
        calls = local->calls;
        if (task->rank == 0) {
            local->before();
            /* What an object costs depends on those before it: their memory is used again. */
            for (int made = 0; made < KEPT; made += calls)
                local->body();
            steps = steps_of(local->body);
            local->after();
        }
    } else if (task_is(task, "call", "posted") || task_is(task, "call", "waitall") || task_is(task, "call", "waitany")) {
        if (task->rank == 1)
            irecv();
        go(task->rank);
        if (task->rank == 0)
            send();
        else {
            pause_outside();
            steps = steps_of(task_is(task, "call", "posted") ? wait_each : task_is(task, "call", "waitany") ? wait_any : wait_all);
        }
    } else if (task_is(task, "call", "test")) {
        if (task->rank == 1) {
            irecv();
            steps = steps_of(test);
        }
        go(task->rank);
        if (task->rank == 0)
            send();
        else
            wait_each();
    } else if (task_is(task, "call", "irecv") || task_is(task, "call", "start_recv")) {
        int is_kept = task_is(task, "call", "start_recv");
        if (task->rank == 1) {
            if (is_kept)
                keep_receives();
            steps = steps_of(is_kept ? start_each : irecv);
            MPI_Barrier(MPI_COMM_WORLD);
            MPI_Barrier(MPI_COMM_WORLD);
            steps += steps_of(wait_each) - self;
            if (is_kept)
                free_each();
        } else {
            MPI_Barrier(MPI_COMM_WORLD);
            send();
            MPI_Barrier(MPI_COMM_WORLD);
        }
    } else if (meet) {
        counter = 0;
        keep(task);
        if (task->rank < 2)
            steps = self + CALLS * least_of_meetings(task->rank, meet);
        MPI_Request_free(&reduction);
        MPI_Comm_free(&ring);
    } else if (task_is(task, "call", "iprobe")) {
        if (task->rank == 1)
            steps = steps_of(probe);
    } else if (access) {
        void *memory;
        counter = 0;
        MPI_Win_allocate(LONGEST, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
        MPI_Type_vector(bytes / 16, 2, 4, MPI_DOUBLE, &pairs);
        MPI_Type_commit(&pairs);
        MPI_Win_lock_all(0, window);
        if (task->rank == 0) {
            access(); /* the first use of a target attaches its memory */
            steps = steps_of(access);
        }
        MPI_Win_unlock_all(window);
        MPI_Win_free(&window);
        MPI_Type_free(&pairs);
    } else {
        fail("not a call whose instructions are counted: %s", task->request);
    }
    double value = (double)(steps - self) / calls;
    if (counter == 1) {
        if (task->rank == 1)
            MPI_Send(&value, 1, MPI_DOUBLE, 0, TAG, MPI_COMM_WORLD);
        else if (task->rank == 0)
            MPI_Recv(&value, 1, MPI_DOUBLE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    return value;
}

/* Instructions for one call between two ranks, size B. The first time warms up.
 * left_out=1: under mpiexec --profile or --timeline, while such calls are left out. */
void instructions(struct task *task)
{
    bytes = (int)task_number(task, "size", 8);
    left_out = task_is(task, "left_out", "1");
    if (bytes < 0 || bytes > LONGEST)
        fail("messages of 0 to %d bytes: %s", LONGEST, task->request);
    if (!self)
        self = steps_of(nothing);
    warm_up = 1;
    count(task);
    warm_up = 0;
    for (int sample = 0; sample < task->samples; sample++)
        task->values[sample] = count(task);
}
