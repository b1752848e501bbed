/* Collectives with blocks of their own lengths, scans, scattered reductions, those among neighbours, and
 * non-blocking ones, begun and waited for; timed as in collective.c. Elements are doubles. */
#include "collective.h"

#include <stdlib.h>

struct form {
    int rank;
    int ranks;
    int count; /* elements of a block */
    double *out;
    double *in;
    int *counts;
    int *places;
    MPI_Comm ring; /* neighbours to the left and to the right */
};

/* What a rank shows at a place. */
static double shown(int rank, long place)
{
    return rank * 1e6 + (double)place;
}

#define SENT form->out, form->count, MPI_DOUBLE
#define TAKEN form->in, form->count, MPI_DOUBLE
#define SENT_EACH form->out, form->counts, form->places, MPI_DOUBLE
#define TAKEN_EACH form->in, form->counts, form->places, MPI_DOUBLE
#define FORM(name, call)                                                                                               \
    static void name(const void *argument)                                                                             \
    {                                                                                                                  \
        const struct form *form = argument;                                                                            \
        call;                                                                                                          \
    }
#define BEGUN(name, call)                                                                                              \
    static void name(const void *argument)                                                                             \
    {                                                                                                                  \
        const struct form *form = argument;                                                                            \
        MPI_Request request;                                                                                           \
        (void)form;                                                                                                    \
        call;                                                                                                          \
        MPI_Wait(&request, MPI_STATUS_IGNORE);                                                                         \
    }

FORM(scatter, MPI_Scatter(SENT, TAKEN, 0, MPI_COMM_WORLD))
FORM(gatherv, MPI_Gatherv(SENT, TAKEN_EACH, 0, MPI_COMM_WORLD))
FORM(scatterv, MPI_Scatterv(SENT_EACH, TAKEN, 0, MPI_COMM_WORLD))
FORM(allgatherv, MPI_Allgatherv(SENT, TAKEN_EACH, MPI_COMM_WORLD))
FORM(alltoallv, MPI_Alltoallv(SENT_EACH, TAKEN_EACH, MPI_COMM_WORLD))
FORM(scan, MPI_Scan(form->out, TAKEN, MPI_SUM, MPI_COMM_WORLD))
FORM(exscan, MPI_Exscan(form->out, TAKEN, MPI_SUM, MPI_COMM_WORLD))
FORM(reduce_scatter, MPI_Reduce_scatter(form->out, form->in, form->counts, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD))
FORM(reduce_scatter_block, MPI_Reduce_scatter_block(form->out, TAKEN, MPI_SUM, MPI_COMM_WORLD))
FORM(neighbor_allgather, MPI_Neighbor_allgather(SENT, TAKEN, form->ring))
FORM(neighbor_alltoall, MPI_Neighbor_alltoall(SENT, TAKEN, form->ring))
BEGUN(ibarrier, MPI_Ibarrier(MPI_COMM_WORLD, &request))
BEGUN(ibcast, MPI_Ibcast(TAKEN, 0, MPI_COMM_WORLD, &request))
BEGUN(igather, MPI_Igather(SENT, TAKEN, 0, MPI_COMM_WORLD, &request))
BEGUN(iallgather, MPI_Iallgather(SENT, TAKEN, MPI_COMM_WORLD, &request))
BEGUN(ialltoall, MPI_Ialltoall(SENT, TAKEN, MPI_COMM_WORLD, &request))
BEGUN(ireduce, MPI_Ireduce(form->out, TAKEN, MPI_SUM, 0, MPI_COMM_WORLD, &request))
BEGUN(iallreduce, MPI_Iallreduce(form->out, TAKEN, MPI_SUM, MPI_COMM_WORLD, &request))

/* Where the elements of a result come from. */
enum source { NOWHERE, ROOT, ALL, EACH, BEFORE, SUM, SUM_OF_PARTS, NEIGHBOURS };

static const struct {
    const char *name;
    operation *once;
    enum source source;
    int rooted;
} forms[] = {
    {"scatter", scatter, ROOT, 0},
    {"gatherv", gatherv, ALL, 1},
    {"scatterv", scatterv, ROOT, 0},
    {"allgatherv", allgatherv, ALL, 0},
    {"alltoallv", alltoallv, EACH, 0},
    {"scan", scan, BEFORE, 0},
    {"exscan", exscan, BEFORE, 0},
    {"reduce_scatter", reduce_scatter, SUM_OF_PARTS, 0},
    {"reduce_scatter_block", reduce_scatter_block, SUM_OF_PARTS, 0},
    {"neighbor_allgather", neighbor_allgather, NEIGHBOURS, 0},
    {"neighbor_alltoall", neighbor_alltoall, NEIGHBOURS, 0},
    {"ibarrier", ibarrier, NOWHERE, 0},
    {"ibcast", ibcast, NOWHERE, 0},
    {"igather", igather, ALL, 1},
    {"iallgather", iallgather, ALL, 0},
    {"ialltoall", ialltoall, EACH, 0},
    {"ireduce", ireduce, SUM, 1},
    {"iallreduce", iallreduce, SUM, 0},
};

/* Element place of the result of a form; -1 if the standard leaves it open. */
static double expected(const struct form *form, size_t which, long place)
{
    long block = place / form->count, within = place % form->count;
    int left = (form->rank + form->ranks - 1) % form->ranks, right = (form->rank + 1) % form->ranks;
    int members = form->ranks, first = form->rank;
    double sum = 0;

    switch (forms[which].source) {
    case ROOT:
        return shown(0, form->rank * (long)form->count + within);
    case ALL:
        return shown((int)block, within);
    case EACH:
        return shown((int)block, form->rank * (long)form->count + within);
    case BEFORE:
        members = form->rank + (forms[which].once == scan);
        if (members == 0)
            return -1;
        first = 0;
        break;
    case SUM:
        first = 0;
        break;
    case SUM_OF_PARTS:
        break;
    case NEIGHBOURS:
        if (forms[which].once == neighbor_allgather)
            return shown(block == 0 ? left : right, within);
        /* Of two ranks both neighbours are one, and implementations differ in which block is whose. */
        return left == right ? -1 : shown(block == 0 ? left : right, (block == 0) * (long)form->count + within);
    case NOWHERE:
        return -1;
    }
    for (int rank = 0; rank < members; rank++)
        sum += shown(rank, first * (long)form->count + within);
    return sum;
}

/* Elements of the result of a form at this rank. */
static long elements(const struct form *form, size_t which)
{
    switch (forms[which].source) {
    case NOWHERE:
        return 0;
    case ALL:
    case EACH:
        return (long)form->count * form->ranks;
    case NEIGHBOURS:
        return 2L * form->count;
    default:
        return form->count;
    }
}

/* One call with known data, checked on every rank. */
static void prove_form(const struct form *form, size_t which)
{
    long blocks = form->ranks > 2 ? form->ranks : 2;

    for (long place = 0; place < blocks * form->count; place++)
        form->out[place] = shown(form->rank, place);
    forms[which].once(form);
    for (long place = 0; place < elements(form, which); place++) {
        double wanted = expected(form, which, place);
        if ((!forms[which].rooted || form->rank == 0) && wanted >= 0 && form->in[place] != wanted)
            fail("%s of blocks of %d doubles on %d ranks: rank %d has %g at %ld, expected %g", forms[which].name,
                 form->count, form->ranks, form->rank, form->in[place], place, wanted);
    }
}

void collective_form(struct task *task)
{
    struct form form = {.rank = task->rank, .ranks = task->ranks, .count = (int)task_number(task, "size", 8) / 8};
    size_t which = sizeof forms / sizeof *forms;
    size_t blocks = task->ranks > 2 ? (size_t)task->ranks : 2;
    int periodic = 1;

    for (size_t index = 0; index < sizeof forms / sizeof *forms; index++)
        if (task_is(task, "call", forms[index].name))
            which = index;
    if (which == sizeof forms / sizeof *forms)
        fail("no collective of that name: %s", task->request);
    if (form.count < 1)
        form.count = 1;
    form.out = (double *)buffer(blocks * (size_t)form.count * sizeof *form.out);
    form.in = (double *)buffer(blocks * (size_t)form.count * sizeof *form.in);
    form.counts = malloc((size_t)task->ranks * sizeof *form.counts);
    form.places = malloc((size_t)task->ranks * sizeof *form.places);
    for (int rank = 0; rank < task->ranks; rank++) {
        form.counts[rank] = form.count;
        form.places[rank] = rank * form.count;
    }
    MPI_Cart_create(MPI_COMM_WORLD, 1, &task->ranks, &periodic, 0, &form.ring);
    prove_form(&form, which);
    sample_collective(task, forms[which].once, &form);
    MPI_Comm_free(&form.ring);
    free(form.counts);
    free(form.places);
    free(form.out);
    free(form.in);
}
