/* Cost of matching one message among `depth` posted receives or unexpected messages. */
#include "measure.h"

#include <stdlib.h>

#define TAG_MARK 30000
#define TAG_TOOK 30001
#define TAG_FIRST 1

/* The order in which the other side works through the tags; the same on both ranks. */
static int *order_of(const struct task *task, int depth)
{
    int *order = calloc((size_t)depth, sizeof *order);
    unsigned long long state = 88172645463325252ull;
    for (int index = 0; index < depth; index++)
        order[index] = task_is(task, "order", "reverse") ? depth - 1 - index : index;
    if (task_is(task, "order", "random"))
        for (int index = depth - 1; index > 0; index--) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            int other = (int)(state % (unsigned long long)(index + 1));
            int kept = order[index];
            order[index] = order[other];
            order[other] = kept;
        }
    return order;
}

/* Rank 1 posts receives for all tags, then rank 0 sends them in the order: time of the receiver from
 * the word "posted" to the end of its last receive. */
static double posted(const struct task *task, int depth, const int *order)
{
    char byte = 0;
    double took = 0;
    if (task->rank == 0) {
        MPI_Recv(&byte, 1, MPI_CHAR, 1, TAG_MARK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int index = 0; index < depth; index++)
            MPI_Send(&byte, 1, MPI_CHAR, 1, TAG_FIRST + order[index], MPI_COMM_WORLD);
    } else {
        MPI_Request *requests = calloc((size_t)depth, sizeof *requests);
        char *bytes = calloc((size_t)depth, 1);
        for (int index = 0; index < depth; index++)
            MPI_Irecv(&bytes[index], 1, MPI_CHAR, 0, TAG_FIRST + index, MPI_COMM_WORLD, &requests[index]);
        double start = now();
        MPI_Send(&byte, 1, MPI_CHAR, 0, TAG_MARK, MPI_COMM_WORLD);
        MPI_Waitall(depth, requests, MPI_STATUSES_IGNORE);
        took = now() - start;
        free(requests);
        free(bytes);
    }
    return took;
}

/* Rank 0 sends all tags and a mark; once the mark has arrived, so has all before it, and rank 1 receives
 * in the order: time of its receives. */
static double unexpected(const struct task *task, int depth, const int *order)
{
    char byte = 0;
    double took = 0;
    if (task->rank == 0) {
        for (int index = 0; index < depth; index++)
            MPI_Send(&byte, 1, MPI_CHAR, 1, TAG_FIRST + index, MPI_COMM_WORLD);
        MPI_Send(&byte, 1, MPI_CHAR, 1, TAG_MARK, MPI_COMM_WORLD);
    } else {
        MPI_Recv(&byte, 1, MPI_CHAR, 0, TAG_MARK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        double start = now();
        for (int index = 0; index < depth; index++)
            MPI_Recv(&byte, 1, MPI_CHAR, 0, TAG_FIRST + order[index], MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        took = now() - start;
    }
    return took;
}

/* One sample is `iterations` rounds of `depth` messages; a value is the time of one message. */
void matching(struct task *task)
{
    int depth = (int)task_number(task, "depth", 1);
    double (*round)(const struct task *, int, const int *) =
        task_is(task, "kind", "unexpected") ? unexpected : posted;
    int *order = order_of(task, depth);

    for (int sample = -1; task->rank < 2 && sample < task->samples; sample++) {
        int count = sample < 0 ? task->warmup : task->iterations;
        double took = 0;
        for (int index = 0; index < count; index++)
            took += round(task, depth, order);
        if (task->rank == 1) {
            MPI_Send(&took, 1, MPI_DOUBLE, 0, TAG_TOOK, MPI_COMM_WORLD);
        } else {
            MPI_Recv(&took, 1, MPI_DOUBLE, 1, TAG_TOOK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (sample >= 0)
                task->values[sample] = took / task->iterations / depth;
        }
    }
    free(order);
}
