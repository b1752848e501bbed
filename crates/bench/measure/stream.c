/* The workloads of two of the source documents, as they describe them. */
#include "measure.h"

#include <stdlib.h>
#include <string.h>

#define TAG 44
#define TAG_DONE 45

/* One way only: the master sends `iterations` messages, the slave only receives. The time is the
 * master's own, from before the first send to after the last one: standard sends may still be under
 * way then. A value is the time of one send. The answer after each sample is not timed. */
void stream(struct task *task)
{
    int size = (int)task_number(task, "size", 0);
    int synchronous = task_is(task, "mode", "synchronous");
    char *bytes = buffer((size_t)size);

    for (int sample = -1; task->rank < 2 && sample < task->samples; sample++) {
        int count = sample < 0 ? task->warmup : task->iterations;
        double start = now();
        for (int index = 0; index < count; index++) {
            if (task->rank == 1)
                MPI_Recv(bytes, size, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            else if (synchronous)
                MPI_Ssend(bytes, size, MPI_CHAR, 1, TAG, MPI_COMM_WORLD);
            else
                MPI_Send(bytes, size, MPI_CHAR, 1, TAG, MPI_COMM_WORLD);
        }
        double end = now();
        if (task->rank == 0)
            MPI_Recv(bytes, 0, MPI_CHAR, 1, TAG_DONE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Send(bytes, 0, MPI_CHAR, 0, TAG_DONE, MPI_COMM_WORLD);
        if (sample >= 0)
            task->values[sample] = (end - start) / task->iterations;
    }
    free(bytes);
}

/* Back and forth until each side has sent iterations * size bytes. The first rank puts its time into
 * every message, the second one takes the time after the last; barrier before each sample. Sending
 * and receiving use buffers of their own: the source's program overlapped them in one buffer, which
 * MPI forbids. A value is the time of one exchange (a message each way). */
void exchange(struct task *task)
{
    int size = (int)task_number(task, "size", 8);
    int nonblocking = task_is(task, "mode", "nonblocking");
    int peer = 1 - task->rank;
    size_t room = (size_t)size < sizeof(double) ? sizeof(double) : (size_t)size;
    char *out = buffer(room), *in = buffer(room);
    MPI_Request requests[2];

    for (int sample = -1; sample < task->samples; sample++) {
        int count = sample < 0 ? task->warmup : task->iterations;
        MPI_Barrier(MPI_COMM_WORLD);
        if (task->rank > 1)
            continue;
        double start = now(), took;
        memcpy(out, &start, sizeof start);
        for (int index = 0; index < count; index++) {
            if (nonblocking && task->rank == 0) {
                MPI_Isend(out, size, MPI_CHAR, peer, TAG, MPI_COMM_WORLD, &requests[0]);
                MPI_Irecv(in, size, MPI_CHAR, peer, TAG, MPI_COMM_WORLD, &requests[1]);
                MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
            } else if (nonblocking) {
                MPI_Irecv(in, size, MPI_CHAR, peer, TAG, MPI_COMM_WORLD, &requests[0]);
                MPI_Isend(out, size, MPI_CHAR, peer, TAG, MPI_COMM_WORLD, &requests[1]);
                MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
            } else if (task->rank == 0) {
                MPI_Send(out, size, MPI_CHAR, peer, TAG, MPI_COMM_WORLD);
                MPI_Recv(in, size, MPI_CHAR, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            } else {
                MPI_Recv(in, size, MPI_CHAR, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                MPI_Send(out, size, MPI_CHAR, peer, TAG, MPI_COMM_WORLD);
            }
        }
        took = now();
        if (task->rank == 1) {
            /* Messages shorter than a time stamp cannot carry one: then the start is this rank's. */
            if (size >= (int)sizeof start && count > 0)
                memcpy(&start, in, sizeof start);
            took -= start;
            MPI_Send(&took, 1, MPI_DOUBLE, 0, TAG_DONE, MPI_COMM_WORLD);
        } else {
            MPI_Recv(&took, 1, MPI_DOUBLE, 1, TAG_DONE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (sample >= 0)
                task->values[sample] = took / task->iterations;
        }
    }
    free(out);
    free(in);
}
