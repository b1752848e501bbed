/* The routines of the first source, among a master (rank 0) and its slaves 1 to nodes: over MPI, and
 * where there is weft.h over Weft's own mailboxes and portals.
 *
 * As there: a barrier, then the exchange, and the time is the longest of those that count: the slaves
 * of a broadcast, the master of a gather, all nodes otherwise. It is the wall clock from the
 * barrier to the end of the exchange, or, of the services, what the input's own counter adds up.
 * The first iterations of each sample (10 as there, unless the request says otherwise) do not count. Data are proven once, untimed. */
#include "measure.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum call { BROADCAST, GATHER, ALLGATHER, BRUCK, PINGPONG };

struct routine {
    int me;
    int nodes; /* slaves */
    int size;
    int bulk; /* portals, not mailboxes */
    enum call call;
    char *out; /* one block */
    char *in;  /* one block of each, own one included */
    MPI_Comm comm;
    /* Of the services. */
    int input;
    int *outputs;
};

static char *block(const struct routine *routine, int node)
{
    return routine->in + (size_t)node * (size_t)routine->size;
}

/* The source and the destination in a step of the exchange. */
static int before(const struct routine *routine, int step)
{
    int all = routine->nodes + 1;
    return (routine->me - step % all + all) % all;
}

static int after(const struct routine *routine, int step)
{
    return (routine->me + step) % (routine->nodes + 1);
}

/* In Bruck's algorithm block k of `in` is that of node me + k until the end. */
static void rotate(const struct routine *routine)
{
    int all = routine->nodes + 1;
    size_t size = (size_t)routine->size, first = (size_t)(all - routine->me) % (size_t)all * size;
    char *whole = routine->in, *copy = malloc(size * (size_t)all);
    if (!copy)
        fail("no memory to rotate %d blocks", all);
    memcpy(copy, whole + first, size * (size_t)all - first);
    memcpy(copy + size * (size_t)all - first, whole, first);
    memcpy(whole, copy, size * (size_t)all);
    free(copy);
}

static void by_mpi(const struct routine *routine)
{
    int size = routine->size, all = routine->nodes + 1, me = routine->me;
    MPI_Comm comm = routine->comm;
    MPI_Status status;

    switch (routine->call) {
    case BROADCAST:
        for (int node = 1; me == 0 && node < all; node++)
            MPI_Send(routine->out, size, MPI_CHAR, node, 1, comm);
        if (me > 0)
            MPI_Recv(block(routine, 0), size, MPI_CHAR, 0, 1, comm, MPI_STATUS_IGNORE);
        break;
    case GATHER:
        for (int node = 1; me == 0 && node < all; node++)
            MPI_Recv(block(routine, node), size, MPI_CHAR, node, 1, comm, MPI_STATUS_IGNORE);
        if (me > 0)
            MPI_Send(routine->out, size, MPI_CHAR, 0, 1, comm);
        break;
    case ALLGATHER:
        for (int step = 1; step < all; step++)
            MPI_Sendrecv(routine->out, size, MPI_CHAR, after(routine, step), 1,
                         block(routine, before(routine, step)), size, MPI_CHAR, before(routine, step), 1,
                         comm, MPI_STATUS_IGNORE);
        break;
    case BRUCK:
        memcpy(routine->in, routine->out, (size_t)size);
        for (int have = 1; have < all; have *= 2) {
            int count = have < all - have ? have : all - have;
            MPI_Sendrecv(routine->in, size * count, MPI_CHAR, before(routine, have), 1,
                         block(routine, have), size * count, MPI_CHAR, after(routine, have), 1, comm,
                         MPI_STATUS_IGNORE);
        }
        rotate(routine);
        break;
    case PINGPONG:
        for (int node = 1; me == 0 && node < all; node++) {
            int from = routine->bulk ? node : MPI_ANY_SOURCE;
            MPI_Recv(block(routine, node), size, MPI_CHAR, from, 1, comm, &status);
            MPI_Send(routine->out, size, MPI_CHAR, status.MPI_SOURCE, 1, comm);
        }
        if (me > 0) {
            MPI_Send(routine->out, size, MPI_CHAR, 0, 1, comm);
            MPI_Recv(block(routine, 0), size, MPI_CHAR, 0, 1, comm, MPI_STATUS_IGNORE);
        }
        break;
    }
}

#if defined(__has_include)
#if __has_include(<weft.h>)
#include <weft.h>
#define SERVICES
#endif
#endif

#ifdef SERVICES
static void must(long answer)
{
    if (answer < 0)
        fail("a service answered %ld: %s", answer, weft_error());
}

static void open_ends(struct routine *routine)
{
    static int begun;
    if (!begun++)
        must(weft_init());
    routine->outputs = calloc((size_t)routine->nodes + 1, sizeof *routine->outputs);
    must(routine->input = routine->bulk ? weft_portal_create(routine->me, 0) : weft_mailbox_create(routine->me, 0));
    for (int node = 0; node <= routine->nodes; node++)
        must(routine->outputs[node] = routine->bulk ? weft_portal_open(routine->me, node, 0)
                                                    : weft_mailbox_open(node, 0));
}

static void close_ends(struct routine *routine)
{
    must(routine->bulk ? weft_portal_unlink(routine->input) : weft_mailbox_unlink(routine->input));
    for (int node = 0; node <= routine->nodes; node++)
        must(routine->bulk ? weft_portal_close(routine->outputs[node]) : weft_mailbox_close(routine->outputs[node]));
    free(routine->outputs);
}

/* The counter of the input, in nanoseconds. */
static double counter(const struct routine *routine)
{
    uint64_t latency;
    must(routine->bulk ? weft_portal_ioctl(routine->input, WEFT_IOCTL_LATENCY, &latency)
                       : weft_mailbox_ioctl(routine->input, WEFT_IOCTL_LATENCY, &latency));
    return (double)latency;
}

static void put(const struct routine *routine, int node, const char *from, int blocks)
{
    must(weft_portal_write(routine->outputs[node], from, (size_t)routine->size * (size_t)blocks));
}

static void take(const struct routine *routine, int node, char *into)
{
    must(weft_portal_allow(routine->input, node, 0));
    must(weft_portal_read(routine->input, into, (size_t)routine->size));
}

/* A step of an exchange: permits, writes, waits. */
static void swap(const struct routine *routine, int to, const char *from_here, int from, char *into, int blocks)
{
    must(weft_portal_allow(routine->input, from, 0));
    must(weft_portal_aread(routine->input, into, (size_t)routine->size * (size_t)blocks));
    put(routine, to, from_here, blocks);
    must(weft_portal_wait(routine->input));
}

static void by_portal(const struct routine *routine)
{
    int all = routine->nodes + 1, me = routine->me;

    switch (routine->call) {
    case BROADCAST:
        for (int node = 1; me == 0 && node < all; node++)
            put(routine, node, routine->out, 1);
        if (me > 0)
            take(routine, 0, block(routine, 0));
        break;
    case GATHER:
        for (int node = 1; me == 0 && node < all; node++)
            take(routine, node, block(routine, node));
        if (me > 0)
            put(routine, 0, routine->out, 1);
        break;
    case ALLGATHER:
        for (int step = 1; step < all; step++)
            swap(routine, after(routine, step), routine->out, before(routine, step),
                 block(routine, before(routine, step)), 1);
        break;
    case BRUCK:
        memcpy(routine->in, routine->out, (size_t)routine->size);
        for (int have = 1; have < all; have *= 2) {
            int count = have < all - have ? have : all - have;
            swap(routine, before(routine, have), routine->in, after(routine, have), block(routine, have), count);
        }
        rotate(routine);
        break;
    case PINGPONG:
        for (int node = 1; me == 0 && node < all; node++) {
            take(routine, node, block(routine, node));
            put(routine, node, routine->out, 1);
        }
        if (me > 0) {
            put(routine, 0, routine->out, 1);
            take(routine, 0, block(routine, 0));
        }
        break;
    }
}

static void post(const struct routine *routine, int node)
{
    must(weft_mailbox_write(routine->outputs[node], routine->out, (size_t)routine->size));
}

/* Reads a message from any node into the place of its writer, which it returns. */
static int fetch(const struct routine *routine)
{
    char body[WEFT_MAILBOX_MAX];
    int node;
    must(weft_mailbox_read(routine->input, body, sizeof body));
    must(weft_mailbox_source(routine->input, &node, NULL));
    memcpy(block(routine, node), body, (size_t)routine->size);
    return node;
}

static void by_mailbox(const struct routine *routine)
{
    int all = routine->nodes + 1, me = routine->me;

    switch (routine->call) {
    case BROADCAST:
        for (int node = 1; me == 0 && node < all; node++)
            post(routine, node);
        if (me > 0)
            fetch(routine);
        break;
    case GATHER:
        for (int node = 1; me == 0 && node < all; node++)
            fetch(routine);
        if (me > 0)
            post(routine, 0);
        break;
    case ALLGATHER:
        for (int step = 1; step < all; step++)
            post(routine, after(routine, step));
        for (int step = 1; step < all; step++)
            fetch(routine);
        break;
    case PINGPONG:
        for (int node = 1; me == 0 && node < all; node++)
            post(routine, fetch(routine));
        if (me > 0) {
            post(routine, 0);
            fetch(routine);
        }
        break;
    case BRUCK:
        fail("blocks of Bruck's algorithm do not fit mailboxes");
    }
}

/* The barrier of the services: two syncs. */
static void service_barrier(const struct routine *routine)
{
    static int count, up, down;
    int all = routine->nodes + 1, list[all];

    if (count != all) {
        for (int node = 0; node < all; node++)
            list[node] = node;
        if (routine->me == 0) {
            must(up = weft_sync_create(list, all, WEFT_SYNC_ALL_TO_ONE));
            must(down = weft_sync_open(list, all, WEFT_SYNC_ONE_TO_ALL));
        } else {
            must(up = weft_sync_open(list, all, WEFT_SYNC_ALL_TO_ONE));
            must(down = weft_sync_create(list, all, WEFT_SYNC_ONE_TO_ALL));
        }
        count = all;
    }
    if (routine->me == 0) {
        must(weft_sync_wait(up));
        must(weft_sync_signal(down));
    } else {
        must(weft_sync_signal(up));
        must(weft_sync_wait(down));
    }
}
#else
static void open_ends(struct routine *routine) { (void)routine, fail("this implementation has no services"); }
static void close_ends(struct routine *routine) { (void)routine; }
static double counter(const struct routine *routine) { return (void)routine, 0; }
static void by_portal(const struct routine *routine) { (void)routine; }
static void by_mailbox(const struct routine *routine) { (void)routine; }
static void service_barrier(const struct routine *routine) { (void)routine; }
#endif

/* Whether this node's time counts. */
static int counts(const struct routine *routine)
{
    if (routine->call == BROADCAST)
        return routine->me > 0;
    return routine->call != GATHER || routine->me == 0;
}

/* One exchange; returns its time. */
static double once(const struct routine *routine, int services, int counted)
{
    double start;

    if (services)
        service_barrier(routine);
    else
        MPI_Barrier(routine->comm);
    start = counted ? counter(routine) : now();
    if (!services)
        by_mpi(routine);
    else if (routine->bulk)
        by_portal(routine);
    else
        by_mailbox(routine);
    return (counted ? counter(routine) : now()) - start;
}

static void prove(const struct routine *routine, int services)
{
    int all = routine->nodes + 1, me = routine->me;
    size_t size = (size_t)routine->size;

    pattern_fill(routine->out, size, (unsigned)me);
    memset(routine->in, 0xee, size * (size_t)all);
    once(routine, services, 0);
    for (int node = 0; node < all; node++) {
        int comes = routine->call == ALLGATHER ? node != me : routine->call == BRUCK;
        if (routine->call == BROADCAST || routine->call == PINGPONG)
            comes = me > 0 && node == 0;
        if (me == 0 && node > 0 && (routine->call == GATHER || (routine->call == PINGPONG && routine->bulk)))
            comes = 1;
        /* MPI's mailbox gather takes them in the order of ranks, so the place is the rank. */
        if (comes)
            pattern_check(block(routine, node), size, (unsigned)node, "a routine");
    }
}

void routine(struct task *task)
{
    static const char *const calls[] = {"broadcast", "gather", "allgather", "bruck", "pingpong"};
    int services = task_is(task, "via", "services"), counted = task_is(task, "metric", "counter");
    struct routine routine = {
        .me = task->rank,
        .nodes = (int)task_number(task, "nodes", task->ranks - 1),
        .size = (int)task_number(task, "size", 120),
        .bulk = task_is(task, "service", "portal"),
    };
    int found = 0, discarded = (int)task_number(task, "discard", 10);
    double *times, *longest;

    for (int index = 0; index < 5; index++)
        if (task_is(task, "call", calls[index]))
            routine.call = (enum call)index, found = 1;
    if (!found || routine.nodes < 1 || routine.nodes >= task->ranks)
        fail("no routine of that kind, or too few ranks: %s", task->request);
    MPI_Comm_split(MPI_COMM_WORLD, task->rank <= routine.nodes, task->rank, &routine.comm);
    if (task->rank <= routine.nodes) {
        routine.out = buffer((size_t)routine.size);
        routine.in = buffer((size_t)routine.size * (size_t)(routine.nodes + 1));
        times = calloc((size_t)task->iterations * 2, sizeof *times);
        longest = times + task->iterations;
        if (!times)
            fail("no memory for %d times", task->iterations);
        if (services)
            open_ends(&routine);
        prove(&routine, services);
        for (int sample = 0; sample < task->samples; sample++) {
            double sum = 0;
            for (int index = -discarded; index < task->iterations; index++) {
                double time = once(&routine, services, counted);
                if (index >= 0)
                    times[index] = counts(&routine) ? time : 0;
            }
            MPI_Reduce(times, longest, task->iterations, MPI_DOUBLE, MPI_MAX, 0, routine.comm);
            for (int index = 0; index < task->iterations; index++)
                sum += longest[index];
            if (task->rank == 0)
                task->values[sample] = sum / task->iterations;
        }
        if (services)
            close_ends(&routine);
        free(times);
        free(routine.in);
        free(routine.out);
    }
    MPI_Comm_free(&routine.comm);
}

/* Two ranks in turn; a value is half of the time there and back. Bulk data are written again each time, as
 * by the memcpy with which they are compared. With ports=N there are
 * N further inputs, and ranks beyond two do nothing: neither should show. */
void oneway(struct task *task)
{
    struct routine routine = {
        .me = task->rank,
        .nodes = 1,
        .size = (int)task_number(task, "size", 120),
        .bulk = task_is(task, "service", "portal"),
    };
    int ports = (int)task_number(task, "ports", 0);
    int *more = calloc((size_t)ports + 1, sizeof *more);

    if (!more || task->ranks < 2)
        fail("two ranks are needed: %s", task->request);
    if (task->rank < 2) {
        routine.out = buffer((size_t)routine.size);
        routine.in = buffer((size_t)routine.size * 2);
        open_ends(&routine);
#ifdef SERVICES
        for (int port = 0; port < ports; port++)
            must(more[port] = routine.bulk ? weft_portal_create(routine.me, port + 1)
                                           : weft_mailbox_create(routine.me, port + 1));
        int other = 1 - routine.me;
        for (int sample = -1; sample < task->samples; sample++) {
            int count = sample < 0 ? task->warmup : task->iterations;
            double start = now();
            for (int index = 0; index < count; index++)
                for (int turn = 0; turn < 2; turn++)
                    if (turn == routine.me && routine.bulk) {
                        memset(routine.out, index, (size_t)routine.size);
                        put(&routine, other, routine.out, 1);
                    } else if (turn == routine.me) {
                        post(&routine, other);
                    } else if (routine.bulk) {
                        take(&routine, other, block(&routine, other));
                    } else {
                        must(weft_mailbox_read(routine.input, block(&routine, other), (size_t)routine.size));
                    }
            if (sample >= 0 && task->rank == 0)
                task->values[sample] = (now() - start) / task->iterations / 2;
        }
        for (int port = 0; port < ports; port++)
            must(routine.bulk ? weft_portal_unlink(more[port]) : weft_mailbox_unlink(more[port]));
#endif
        close_ends(&routine);
        free(routine.in);
        free(routine.out);
    }
    free(more);
}
