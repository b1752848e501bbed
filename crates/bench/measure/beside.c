/* Waiting under difficult conditions: beside a process that computes all the time, and among more
 * ranks than cores that poll instead of waiting. */
#define _GNU_SOURCE
#include "measure.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define TAG 11
#define FOREIGN_MAX 8
#define FOREIGN_SECONDS 900

/* Starts a process that computes, on any core, until it is killed or its parent ends. It makes no
 * call of MPI. */
static pid_t foreign_start(void)
{
    pid_t parent = getpid(), child = fork();
    if (child < 0)
        fail("no foreign process: %s", strerror(errno));
    if (child > 0)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
    double end = now() + 1e9 * FOREIGN_SECONDS;
    volatile unsigned long work = 0;
    while (now() < end)
        for (int index = 0; index < 100000; index++)
            work += (unsigned long)index;
    _exit(0);
}

/* Ends it; returns the nanoseconds of processor time that it had. */
static double foreign_end(pid_t child)
{
    struct rusage usage;
    int status;
    kill(child, SIGKILL);
    if (wait4(child, &status, 0, &usage) != child)
        fail("the foreign process is gone: %s", strerror(errno));
    return 1e9 * (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e3 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static double received, sent;

static void pingpong_once(int rank)
{
    if (rank == 0) {
        MPI_Send(&sent, 8, MPI_CHAR, 1, TAG, MPI_COMM_WORLD);
        MPI_Recv(&received, 8, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
        MPI_Recv(&received, 8, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&sent, 8, MPI_CHAR, 0, TAG, MPI_COMM_WORLD);
    }
}

static void barrier_once(int rank)
{
    (void)rank;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void allreduce_once(int rank)
{
    double sum = 0, own = rank + 1;
    int ranks;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (sum != ranks * (ranks + 1) / 2.0)
        fail("allreduce of one double on %d ranks is %g", ranks, sum);
}

/* call=pingpong (a value is half a round trip), barrier or allreduce, one after the other, beside
 * foreign=K processes that compute. milliseconds=M: the ranks do that for M ms, and each value is the
 * share of a core that one of these processes had, in nanoseconds per second. */
void beside(struct task *task)
{
    int count = (int)task_number(task, "foreign", 0);
    double milliseconds = (double)task_number(task, "milliseconds", 0);
    int is_pingpong = task_is(task, "call", "pingpong");
    void (*once)(int rank) = is_pingpong ? pingpong_once
                             : task_is(task, "call", "barrier") ? barrier_once
                             : task_is(task, "call", "allreduce") ? allreduce_once
                                                                    : NULL;
    pid_t foreign[FOREIGN_MAX];

    if (!once || count < 0 || count > FOREIGN_MAX || (milliseconds > 0 && count < 1))
        fail("not a request: %s", task->request);
    for (int index = 0; task->rank == 0 && index < count; index++)
        foreign[index] = foreign_start();
    double begin = now();
    for (int sample = -1; sample < task->samples; sample++) {
        int operations = sample < 0 ? task->warmup : task->iterations;
        double start = now();
        for (int go = 1; go; operations = 100) {
            for (int index = 0; index < operations; index++)
                once(task->rank);
            go = now() - start < 1e6 * milliseconds;
            if (milliseconds > 0)
                MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
        }
        if (sample >= 0)
            task->values[sample] = (now() - start) / task->iterations / (is_pingpong ? 2 : 1);
    }
    double had = 0, all = now() - begin;
    for (int index = 0; task->rank == 0 && index < count; index++)
        had += foreign_end(foreign[index]);
    for (int sample = 0; milliseconds > 0 && sample < task->samples; sample++)
        task->values[sample] = 1e9 * had / count / all;
}

/* Whether the receive has ended, by the call of that name. */
static int asked(const char *call, MPI_Request *request, int from)
{
    int flag = 0, index;
    if (!strcmp(call, "test"))
        MPI_Test(request, &flag, MPI_STATUS_IGNORE);
    else if (!strcmp(call, "testany"))
        MPI_Testany(1, request, &index, &flag, MPI_STATUS_IGNORE);
    else if (!strcmp(call, "testsome"))
        MPI_Testsome(1, request, &flag, &index, MPI_STATUSES_IGNORE);
    else if (!strcmp(call, "status"))
        MPI_Request_get_status(*request, &flag, MPI_STATUS_IGNORE);
    else
        MPI_Iprobe(from, TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    return flag;
}

/* A message goes round all ranks; each polls for it, by call=test, testany, testsome, status or
 * iprobe, until it has arrived, and passes it on. A value is the time of one hop. */
void polling(struct task *task)
{
    static const char *const calls[] = {"test", "testany", "testsome", "status", "iprobe"};
    int next = (task->rank + 1) % task->ranks, before = (task->rank + task->ranks - 1) % task->ranks;
    const char *call = NULL;
    int message = 0;

    for (size_t index = 0; index < sizeof calls / sizeof *calls; index++)
        if (task_is(task, "call", calls[index]))
            call = calls[index];
    if (!call || task->ranks < 2)
        fail("not a request: %s", task->request);
    for (int sample = -1; sample < task->samples; sample++) {
        int rounds = sample < 0 ? task->warmup : task->iterations;
        double start = now();
        for (int round = 0; round < rounds; round++) {
            MPI_Request request = MPI_REQUEST_NULL;
            int out = round * task->ranks;
            if (task->rank == 0)
                MPI_Send(&out, 1, MPI_INT, next, TAG, MPI_COMM_WORLD);
            if (strcmp(call, "iprobe"))
                MPI_Irecv(&message, 1, MPI_INT, before, TAG, MPI_COMM_WORLD, &request);
            while (!asked(call, &request, before))
                ;
            if (!strcmp(call, "iprobe"))
                MPI_Recv(&message, 1, MPI_INT, before, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            else if (request != MPI_REQUEST_NULL)
                MPI_Wait(&request, MPI_STATUS_IGNORE);
            if (message != round * task->ranks + before)
                fail("hop %d of round %d brought %d", task->rank, round, message);
            out = message + 1;
            if (task->rank > 0)
                MPI_Send(&out, 1, MPI_INT, next, TAG, MPI_COMM_WORLD);
        }
        if (sample >= 0)
            task->values[sample] = (now() - start) / task->iterations / task->ranks;
    }
}
