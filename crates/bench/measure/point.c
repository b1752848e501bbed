/* Two ranks: latency back and forth, bandwidth and message rate with a window, one bare copy. */
#define _GNU_SOURCE
#include "measure.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define TAG 1
#define TAG_RELEASE 2
#define TAG_NEVER 1000

/* One message there and one back, `count` times. */
static void blocking(char *out, char *in, int size, int peer, int first, int count, MPI_Comm comm)
{
    for (int index = 0; index < count; index++) {
        if (first) {
            MPI_Send(out, size, MPI_CHAR, peer, TAG, comm);
            MPI_Recv(in, size, MPI_CHAR, peer, TAG, comm, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(in, size, MPI_CHAR, peer, TAG, comm, MPI_STATUS_IGNORE);
            MPI_Send(out, size, MPI_CHAR, peer, TAG, comm);
        }
    }
}

/* The same with non-blocking calls: a rank sends and receives at once, then waits for both. */
static void nonblocking(char *out, char *in, int size, int peer, int first, int count, MPI_Comm comm)
{
    MPI_Request requests[2];
    for (int index = 0; index < count; index++) {
        if (first) {
            MPI_Isend(out, size, MPI_CHAR, peer, TAG, comm, &requests[0]);
            MPI_Irecv(in, size, MPI_CHAR, peer, TAG, comm, &requests[1]);
        } else {
            MPI_Irecv(in, size, MPI_CHAR, peer, TAG, comm, &requests[0]);
            MPI_Isend(out, size, MPI_CHAR, peer, TAG, comm, &requests[1]);
        }
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
}

/* As `blocking`, each message with its own data, which the receiver checks. */
static void checked(char *out, char *in, int size, int peer, int first, int count, MPI_Comm comm)
{
    for (int index = 0; index < count; index++) {
        pattern_fill(out, (size_t)size, (unsigned)index);
        if (first)
            MPI_Send(out, size, MPI_CHAR, peer, TAG, comm);
        MPI_Recv(in, size, MPI_CHAR, peer, TAG, comm, MPI_STATUS_IGNORE);
        pattern_check(in, (size_t)size, (unsigned)index, "ping-pong");
        if (!first)
            MPI_Send(out, size, MPI_CHAR, peer, TAG, comm);
    }
}

/* Time of one message, one way: half of a round trip.
 * communicators=K: on the last of K duplicates; posted=K: beside K receives that nothing matches;
 * idle=1: while every other rank is blocked in MPI_Recv; check=1: each message differs and is checked. */
void pingpong(struct task *task)
{
    int size = (int)task_number(task, "size", 8);
    int communicators = (int)task_number(task, "communicators", 0);
    int posted = (int)task_number(task, "posted", 0);
    int idle_peers = task_is(task, "idle", "1");
    int check = task_is(task, "check", "1");
    void (*turn)(char *, char *, int, int, int, int, MPI_Comm) =
        check ? checked : task_is(task, "mode", "nonblocking") ? nonblocking : blocking;
    MPI_Comm comm = MPI_COMM_WORLD;
    MPI_Comm *duplicates = NULL;
    MPI_Request *never = NULL;
    char unused = 0, *unused_each = NULL;

    if (communicators > 0) {
        duplicates = calloc((size_t)communicators, sizeof *duplicates);
        for (int index = 0; index < communicators; index++)
            MPI_Comm_dup(MPI_COMM_WORLD, &duplicates[index]);
        comm = duplicates[communicators - 1];
    }
    if (task->rank < 2) {
        int peer = 1 - task->rank, first = task->rank == 0;
        char *out = buffer((size_t)size), *in = buffer((size_t)size);
        pattern_fill(out, (size_t)size, (unsigned)task->rank);
        if (posted > 0) {
            never = calloc((size_t)posted, sizeof *never);
            unused_each = calloc((size_t)posted, 1);
            for (int index = 0; index < posted; index++)
                MPI_Irecv(&unused_each[index], 1, MPI_CHAR, peer, TAG_NEVER + index, comm, &never[index]);
        }
        blocking(out, in, size, peer, first, 1, comm);
        pattern_check(in, (size_t)size, (unsigned)peer, "ping-pong");
        turn(out, in, size, peer, first, task->warmup, comm);
        for (int sample = 0; sample < task->samples; sample++) {
            double start = now();
            turn(out, in, size, peer, first, task->iterations, comm);
            task->values[sample] = (now() - start) / (2.0 * task->iterations);
        }
        for (int index = 0; index < posted; index++) {
            MPI_Cancel(&never[index]);
            MPI_Wait(&never[index], MPI_STATUS_IGNORE);
        }
        free(never);
        free(unused_each);
        free(out);
        free(in);
        for (int other = 2; task->rank == 0 && idle_peers && other < task->ranks; other++)
            MPI_Send(&unused, 0, MPI_CHAR, other, TAG_RELEASE, MPI_COMM_WORLD);
    } else if (idle_peers) {
        MPI_Recv(&unused, 0, MPI_CHAR, 0, TAG_RELEASE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    for (int index = 0; index < communicators; index++)
        MPI_Comm_free(&duplicates[index]);
    free(duplicates);
}

/* Rank 0 sends `window` messages and waits for a short answer; a value is the time of one window.
 * check=1: data are checked after each sample, not only at the end. */
void bandwidth(struct task *task)
{
    int size = (int)task_number(task, "size", 8);
    int window = (int)task_number(task, "window", 64);
    int check = task_is(task, "check", "1");
    MPI_Request *requests = calloc((size_t)window, sizeof *requests);
    char *bytes = buffer((size_t)size);
    char answer[4] = {0};

    if (task->rank == 0)
        pattern_fill(bytes, (size_t)size, 5);
    for (int sample = -1; task->rank < 2 && sample < task->samples; sample++) {
        int count = sample < 0 ? task->warmup + 1 : task->iterations;
        double start = now();
        for (int index = 0; index < count; index++) {
            for (int slot = 0; slot < window; slot++) {
                if (task->rank == 0)
                    MPI_Isend(bytes, size, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, &requests[slot]);
                else
                    MPI_Irecv(bytes, size, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, &requests[slot]);
            }
            MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
            if (task->rank == 0)
                MPI_Recv(answer, 4, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            else
                MPI_Send(answer, 4, MPI_CHAR, 0, TAG, MPI_COMM_WORLD);
        }
        if (sample >= 0)
            task->values[sample] = (now() - start) / task->iterations;
        if (task->rank == 1 && check) { /* and not what was left there */
            pattern_check(bytes, (size_t)size, 5, "bandwidth");
            memset(bytes, 0, (size_t)size);
        }
    }
    if (task->rank == 1 && !check)
        pattern_check(bytes, (size_t)size, 5, "bandwidth");
    free(requests);
    free(bytes);
}

/* The bare copy between two processes, without a message: rank 0 reads a buffer of rank 1 with one
 * system call per copy. No message-passing library between processes can beat it by much. */
void copy(struct task *task)
{
    size_t size = (size_t)task_number(task, "size", 8);
    char *bytes = buffer(size);
    unsigned long long where[2] = {(unsigned long long)getpid(), (unsigned long long)(size_t)bytes};

    if (task->rank == 1) {
        pattern_fill(bytes, size, 9);
        MPI_Send(where, sizeof where, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
        MPI_Recv(where, 1, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (task->rank == 0) {
        MPI_Recv(where, sizeof where, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        struct iovec here = {bytes, size}, there = {(void *)(size_t)where[1], size};
        for (int sample = -1; sample < task->samples; sample++) {
            int count = sample < 0 ? task->warmup + 1 : task->iterations;
            double start = now();
            for (int index = 0; index < count; index++)
                if (process_vm_readv((pid_t)where[0], &here, 1, &there, 1, 0) != (ssize_t)size)
                    fail("process_vm_readv of %zu bytes: %s", size, strerror(errno));
            if (sample >= 0)
                task->values[sample] = (now() - start) / task->iterations;
        }
        pattern_check(bytes, size, 9, "copy between processes");
        MPI_Send(where, 1, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
    }
    free(bytes);
}
