/* Every blocking collective against its expected result, over sizes and roots. */
#include "check.h"

static const int counts[] = {0, 1, 3, 30, 1000, 20000};
#define COUNTS ((int)(sizeof counts / sizeof *counts))
#define MOST 20000

static int *a, *b;
#define VALUE(rank, place) ((rank) * 1000003 + (place) * 17)

static void subtract_pairs(void *in, void *inout, int *count, MPI_Datatype *type) {
    (void)type; /* (a, b) after (c, d) = (a * c, a * d + b): composition of lines, does not commute */
    unsigned *first = in, *second = inout;
    for (int i = 0; i < *count; i++) {
        unsigned x = first[2 * i] * second[2 * i], y = first[2 * i + 1] * second[2 * i] + second[2 * i + 1];
        second[2 * i] = x;
        second[2 * i + 1] = y;
    }
}

/* The type of the reduction under way as it was before it was freed, and how often the function was called. */
static MPI_Datatype freed;
static int called;

static void add_pairs(void *in, void *inout, int *count, MPI_Datatype *type) {
    int size, integers, addresses, types, combiner;
    CHECK(*type == freed);
    CHECK(MPI_Type_size(*type, &size) == MPI_SUCCESS && size == 2 * (int)sizeof(int));
    MPI_Type_get_envelope(*type, &integers, &addresses, &types, &combiner);
    CHECK(combiner == MPI_COMBINER_CONTIGUOUS);
    for (int i = 0; i < 2 * *count; i++) ((int *)inout)[i] += ((int *)in)[i];
    called++;
}

/* An object that is freed while an operation uses it lives until the operation has ended. */
static void freed_under_way(int count) {
    MPI_Datatype pair;
    MPI_Op add;
    MPI_Request request;
    int n = check_size, me = check_rank;
    for (int persistent = 0; persistent < 2; persistent++) {
        called = 0;
        MPI_Type_contiguous(2, MPI_INT, &pair);
        MPI_Type_commit(&pair);
        MPI_Op_create(add_pairs, 1, &add);
        freed = pair;
        for (int i = 0; i < 2 * count; i++) a[i] = me + i;
        memset(b, 0, sizeof(int) * 2 * count);
        if (persistent) MPI_Allreduce_init(a, b, count, pair, add, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        else MPI_Iallreduce(a, b, count, pair, add, MPI_COMM_WORLD, &request);
        MPI_Type_free(&pair);
        MPI_Op_free(&add);
        CHECK(pair == MPI_DATATYPE_NULL);
        for (int round = 0; round <= persistent; round++) {
            if (persistent) {
                memset(b, 0, sizeof(int) * 2 * count);
                MPI_Start(&request);
            }
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            for (int i = 0; i < 2 * count; i++) CHECK(b[i] == n * (n - 1) / 2 + n * i);
        }
        if (persistent) MPI_Request_free(&request);
        int calls;
        MPI_Allreduce(&called, &calls, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        CHECK(calls > 0 || n == 1);
        /* Now it has ended. */
        int size;
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
        CHECK(MPI_Type_size(freed, &size) == MPI_ERR_TYPE);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    }
}

/* Ends a call that has begun, or that was none. */
static void over(int code, MPI_Request *request) {
    CHECK(code == MPI_SUCCESS);
    if (*request != MPI_REQUEST_NULL) MPI_Wait(request, MPI_STATUS_IGNORE);
    CHECK(*request == MPI_REQUEST_NULL);
}

/* A rank alone gets what it gives, whether the call ends it or begins it, and is told what is wrong. */
static void alone(MPI_Comm comm) {
    MPI_Request q = MPI_REQUEST_NULL;
    int x[2] = {5, 7}, y[2];
#define GETS(call)                                \
    do {                                          \
        y[0] = y[1] = 0;                          \
        over(call, &q);                           \
        CHECK(y[0] == 5 && y[1] == 7 && x[0] == 5); \
    } while (0)
    GETS(MPI_Gather(x, 2, MPI_INT, y, 2, MPI_INT, 0, comm));
    GETS(MPI_Igather(x, 2, MPI_INT, y, 2, MPI_INT, 0, comm, &q));
    GETS(MPI_Scatter(x, 2, MPI_INT, y, 2, MPI_INT, 0, comm));
    GETS(MPI_Iscatter(x, 2, MPI_INT, y, 2, MPI_INT, 0, comm, &q));
    GETS(MPI_Allgather(x, 2, MPI_INT, y, 2, MPI_INT, comm));
    GETS(MPI_Iallgather(x, 2, MPI_INT, y, 2, MPI_INT, comm, &q));
    GETS(MPI_Alltoall(x, 2, MPI_INT, y, 2, MPI_INT, comm));
    GETS(MPI_Ialltoall(x, 2, MPI_INT, y, 2, MPI_INT, comm, &q));
    GETS(MPI_Reduce(x, y, 2, MPI_INT, MPI_PROD, 0, comm));
    GETS(MPI_Ireduce(x, y, 2, MPI_INT, MPI_PROD, 0, comm, &q));
    GETS(MPI_Allreduce(x, y, 2, MPI_INT, MPI_SUM, comm));
    GETS(MPI_Iallreduce(x, y, 2, MPI_INT, MPI_SUM, comm, &q));
    over(MPI_Allreduce(MPI_IN_PLACE, x, 2, MPI_INT, MPI_MAX, comm), &q);
    over(MPI_Iallreduce(MPI_IN_PLACE, x, 2, MPI_INT, MPI_MAX, comm, &q), &q);
    over(MPI_Bcast(x, 2, MPI_INT, 0, comm), &q);
    over(MPI_Ibcast(x, 2, MPI_INT, 0, comm, &q), &q);
    over(MPI_Barrier(comm), &q);
    over(MPI_Ibarrier(comm, &q), &q);
    CHECK(x[0] == 5 && x[1] == 7);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    double z[2];
    int class;
#define FAILS(call, expected)                                            \
    do {                                                                 \
        CHECK(MPI_Error_class(call, &class) == MPI_SUCCESS && class == (expected)); \
    } while (0)
    FAILS(MPI_Bcast(x, 2, MPI_INT, 1, comm), MPI_ERR_ROOT);
    FAILS(MPI_Ibcast(x, 2, MPI_INT, 1, comm, &q), MPI_ERR_ROOT);
    FAILS(MPI_Reduce(x, y, 2, MPI_INT, MPI_SUM, -2, comm), MPI_ERR_ROOT);
    FAILS(MPI_Gather(x, 2, MPI_INT, y, 1, MPI_INT, 0, comm), MPI_ERR_TRUNCATE);
    FAILS(MPI_Allreduce(x, y, -1, MPI_INT, MPI_SUM, comm), MPI_ERR_COUNT);
    FAILS(MPI_Allreduce(z, y, 2, MPI_DOUBLE, MPI_BAND, comm), MPI_ERR_OP);
    FAILS(MPI_Iallreduce(z, y, 2, MPI_DOUBLE, MPI_BAND, comm, &q), MPI_ERR_OP);
    FAILS(MPI_Iallreduce(x, y, 2, MPI_INT, MPI_SUM, comm, NULL), MPI_ERR_ARG);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
}

/* Each root in turn gets ahead of the others, from which it receives nothing, by ever more data. */
static void roots_ahead(void) {
    enum { LONGEST = 10, ROUNDS = 3000 };
    double *all = calloc((size_t)check_size * LONGEST, sizeof *all);
    for (int round = 0; round < ROUNDS; round++)
        for (int root = 0; root < check_size; root++)
            for (int count = 1; count < LONGEST; count++) {
                for (int i = 0; i < check_size * count; i++) all[i] = check_rank == root ? root + count : -1;
                if (check_rank == root)
                    MPI_Scatter(all, count, MPI_DOUBLE, MPI_IN_PLACE, count, MPI_DOUBLE, root, MPI_COMM_WORLD);
                else
                    MPI_Scatter(NULL, count, MPI_DOUBLE, all, count, MPI_DOUBLE, root, MPI_COMM_WORLD);
                for (int i = 0; i < count; i++) CHECK(all[i] == root + count);
            }
    free(all);
}

/* Lists of blocks, scans and parts of reductions where ranks come in different ways: with the datatype of MPI, with one of their own that has the
 * same elements, or in place; blocks of no element, and of as many as lie beside a stamp on a board or do not. */
static void ways_mixed(void) {
    static const int sizes[] = {0, 1, 57, 58, 59, 600, 9000};
    enum { ROUNDS = 4 * (int)(sizeof sizes / sizeof *sizes) };
    int n = check_size, me = check_rank;
    int *lengths = malloc(sizeof(int) * n), *places = malloc(sizeof(int) * n), *sent = malloc(sizeof(int) * n);
    MPI_Datatype one;
    MPI_Type_contiguous(1, MPI_INT, &one);
    MPI_Type_commit(&one);
    for (int round = 0; round < ROUNDS; round++) {
        int count = sizes[round / 4], root = round % n, way = (round + me) % 3, total = 0;
        MPI_Datatype type = way == 1 ? one : MPI_INT;
        for (int r = 0; r < n; r++) {
            lengths[r] = (r + round) % 3 ? count : count / 2 - count / 4 * 2;
            places[r] = total;
            total += lengths[r] + 1;
        }
        int own = lengths[me], in_place = way == 2;
        for (int i = 0; i < own; i++) a[i] = VALUE(me, i);
        memset(b, 0xff, sizeof(int) * total);
        if (in_place) memcpy(b + places[me], a, sizeof(int) * own);
        if (me == root)
            MPI_Gatherv(in_place ? MPI_IN_PLACE : a, own, type, b, lengths, places, type, root, MPI_COMM_WORLD);
        else MPI_Gatherv(a, own, type, NULL, NULL, NULL, MPI_DATATYPE_NULL, root, MPI_COMM_WORLD);
        for (int r = 0; r < n && me == root; r++) {
            for (int i = 0; i < lengths[r]; i++) CHECK(b[places[r] + i] == VALUE(r, i));
            CHECK(b[places[r] + lengths[r]] == -1);
        }
        memset(a, 0xff, sizeof(int) * (own + 1));
        if (me == root)
            MPI_Scatterv(b, lengths, places, type, in_place ? MPI_IN_PLACE : a, own, type, root, MPI_COMM_WORLD);
        else MPI_Scatterv(NULL, NULL, NULL, MPI_DATATYPE_NULL, a, own, type, root, MPI_COMM_WORLD);
        for (int i = 0; i < own && !(me == root && in_place); i++) CHECK(a[i] == VALUE(me, i));
        CHECK(a[own] == -1);

        for (int i = 0; i < own; i++) a[i] = VALUE(me, i);
        memset(b, 0xff, sizeof(int) * total);
        if (in_place) memcpy(b + places[me], a, sizeof(int) * own);
        MPI_Allgatherv(in_place ? MPI_IN_PLACE : a, own, type, b, lengths, places, type, MPI_COMM_WORLD);
        for (int r = 0; r < n; r++) {
            for (int i = 0; i < lengths[r]; i++) CHECK(b[places[r] + i] == VALUE(r, i));
            CHECK(b[places[r] + lengths[r]] == -1);
        }

        /* What two ranks give each other is of one length, so that each may be in place. */
        total = 0;
        for (int r = 0; r < n; r++) {
            sent[r] = (me + r + round) % 3 ? count : 0;
            places[r] = total;
            total += sent[r] + 1;
        }
        for (int r = 0; r < n; r++)
            for (int i = 0; i < sent[r]; i++) a[places[r] + i] = VALUE(me * 64 + r, i);
        memset(b, 0xff, sizeof(int) * total);
        if (in_place) {
            for (int r = 0; r < n; r++) memcpy(b + places[r], a + places[r], sizeof(int) * sent[r]);
            MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, b, sent, places, type, MPI_COMM_WORLD);
        } else MPI_Alltoallv(a, sent, places, type, b, sent, places, MPI_INT, MPI_COMM_WORLD);
        for (int r = 0; r < n; r++) {
            for (int i = 0; i < sent[r]; i++) CHECK(b[places[r] + i] == VALUE(r * 64 + me, i));
            CHECK(b[places[r] + sent[r]] == -1);
        }

        int *result = in_place ? a : b;
        const void *operand = in_place ? MPI_IN_PLACE : a;
        for (int i = 0; i < count; i++) a[i] = me + i;
        MPI_Scan(operand, result, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < count; i++) CHECK(result[i] == me * (me + 1) / 2 + (me + 1) * i);
        for (int i = 0; i < count; i++) a[i] = me + i;
        MPI_Exscan(operand, result, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < count && me > 0; i++) CHECK(result[i] == (me - 1) * me / 2 + me * i);
        for (int i = 0; i < count * n; i++) a[i] = me + i;
        MPI_Reduce_scatter_block(operand, result, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < count; i++) CHECK(result[i] == n * (n - 1) / 2 + n * (me * count + i));
        total = 0;
        for (int r = 0; r < n; r++) {
            places[r] = total;
            total += lengths[r];
        }
        for (int i = 0; i < total; i++) a[i] = me + i;
        MPI_Reduce_scatter(operand, result, lengths, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < own; i++) CHECK(result[i] == n * (n - 1) / 2 + n * (places[me] + i));

        /* Pairs with a gap behind each, between value and index, and without. */
        struct { double value; int rank; } mine[2] = {{(me * 5 + round) % n, me}, {-me, me}}, least[2], first;
        struct { short value; int rank; } small = {(short)me, me}, largest;
        int both[4] = {me, me, -me, me}, most[4];
        memcpy(&first, mine, sizeof first);
        MPI_Allreduce(in_place ? MPI_IN_PLACE : &mine[0], &first, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
        MPI_Allreduce(mine, least, 2, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD);
        MPI_Allreduce(&small, &largest, 1, MPI_SHORT_INT, MPI_MAXLOC, MPI_COMM_WORLD);
        MPI_Allreduce(both, most, 2, MPI_2INT, MPI_MAXLOC, MPI_COMM_WORLD);
        int at = n;
        for (int r = n - 1; r >= 0; r--)
            if ((r * 5 + round) % n == (int)first.value) at = r;
        for (int r = 0; r < n; r++) CHECK((r * 5 + round) % n <= first.value);
        CHECK(first.rank == at && least[1].value == 1 - n && least[1].rank == n - 1);
        CHECK(largest.value == n - 1 && largest.rank == n - 1);
        CHECK(most[0] == n - 1 && most[1] == n - 1 && most[2] == 0 && most[3] == 0);
    }
    MPI_Type_free(&one);
    free(lengths);
    free(places);
    free(sent);
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    int n = check_size, me = check_rank;
    if (n <= 4) roots_ahead();
    MPI_Comm one;
    MPI_Comm_split(MPI_COMM_WORLD, me, 0, &one);
    alone(one);
    MPI_Comm_free(&one);
    alone(MPI_COMM_SELF);
    a = malloc(sizeof(int) * MOST * (n + 1));
    b = malloc(sizeof(int) * MOST * (n + 1));
    int *lengths = malloc(sizeof(int) * n), *places = malloc(sizeof(int) * n);
    for (int c = 0; c < COUNTS; c++) {
        int count = counts[c];
        for (int root = 0; root < n; root += n > 4 ? 3 : 1) {
            for (int i = 0; i < count; i++) a[i] = me == root ? VALUE(root, i) : -1;
            MPI_Bcast(a, count, MPI_INT, root, MPI_COMM_WORLD);
            for (int i = 0; i < count; i++) CHECK(a[i] == VALUE(root, i));

            for (int i = 0; i < count; i++) a[i] = VALUE(me, i);
            memset(b, 0, sizeof(int) * MOST * n);
            MPI_Gather(a, count, MPI_INT, b, count, MPI_INT, root, MPI_COMM_WORLD);
            if (me == root)
                for (int r = 0; r < n; r++)
                    for (int i = 0; i < count; i++) CHECK(b[r * count + i] == VALUE(r, i));

            if (me == root)
                for (int r = 0; r < n; r++)
                    for (int i = 0; i < count; i++) b[r * count + i] = VALUE(r, i + root);
            MPI_Scatter(b, count, MPI_INT, a, count, MPI_INT, root, MPI_COMM_WORLD);
            for (int i = 0; i < count; i++) CHECK(a[i] == VALUE(me, i + root));

            for (int i = 0; i < count; i++) a[i] = i % 100 + me;
            MPI_Reduce(a, b, count, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD);
            if (me == root)
                for (int i = 0; i < count; i++) CHECK(b[i] == n * (i % 100) + n * (n - 1) / 2);

            /* Rank r gives count / (r + 1) elements, with a gap of two. */
            int total = 0;
            for (int r = 0; r < n; r++) {
                lengths[r] = count / (r + 1);
                places[r] = total;
                total += lengths[r] + 2;
            }
            for (int i = 0; i < lengths[me]; i++) a[i] = VALUE(me, i);
            memset(b, 0xff, sizeof(int) * MOST * (n + 1));
            MPI_Gatherv(a, lengths[me], MPI_INT, b, lengths, places, MPI_INT, root, MPI_COMM_WORLD);
            if (me == root)
                for (int r = 0; r < n; r++) {
                    for (int i = 0; i < lengths[r]; i++) CHECK(b[places[r] + i] == VALUE(r, i));
                    CHECK(b[places[r] + lengths[r]] == -1);
                }
            memset(a, 0, sizeof(int) * MOST);
            MPI_Scatterv(b, lengths, places, MPI_INT, a, lengths[me], MPI_INT, root, MPI_COMM_WORLD);
            for (int i = 0; i < lengths[me]; i++) CHECK(a[i] == VALUE(me, i));
        }
        for (int i = 0; i < count; i++) a[i] = VALUE(me, i);
        MPI_Allgather(a, count, MPI_INT, b, count, MPI_INT, MPI_COMM_WORLD);
        for (int r = 0; r < n; r++)
            for (int i = 0; i < count; i++) CHECK(b[r * count + i] == VALUE(r, i));
        memset(b, 0, sizeof(int) * MOST * n);
        for (int i = 0; i < count; i++) b[me * count + i] = VALUE(me, i);
        MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, count, MPI_INT, MPI_COMM_WORLD);
        for (int r = 0; r < n; r++)
            for (int i = 0; i < count; i++) CHECK(b[r * count + i] == VALUE(r, i));
        int total = 0;
        for (int r = 0; r < n; r++) {
            lengths[r] = count / (r + 1);
            places[r] = total;
            total += lengths[r];
        }
        MPI_Allgatherv(a, lengths[me], MPI_INT, b, lengths, places, MPI_INT, MPI_COMM_WORLD);
        for (int r = 0; r < n; r++)
            for (int i = 0; i < lengths[r]; i++) CHECK(b[places[r] + i] == VALUE(r, i));

        for (int r = 0; r < n; r++)
            for (int i = 0; i < count; i++) a[r * count + i] = VALUE(me * 64 + r, i);
        MPI_Alltoall(a, count, MPI_INT, b, count, MPI_INT, MPI_COMM_WORLD);
        for (int r = 0; r < n; r++)
            for (int i = 0; i < count; i++) CHECK(b[r * count + i] == VALUE(r * 64 + me, i));
        MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, a, count, MPI_INT, MPI_COMM_WORLD);
        for (int r = 0; r < n; r++)
            for (int i = 0; i < count; i++) CHECK(a[r * count + i] == VALUE(r * 64 + me, i));
        /* Sends r + 1 parts of count / n to rank r. */
        int share = count / (n + 1);
        int *out_lengths = malloc(sizeof(int) * n), *out_places = malloc(sizeof(int) * n);
        for (int r = 0; r < n; r++) {
            out_lengths[r] = r % 2 ? share : share / 2;
            out_places[r] = r * share;
            lengths[r] = me % 2 ? share : share / 2;
            places[r] = r * share;
            for (int i = 0; i < out_lengths[r]; i++) a[out_places[r] + i] = VALUE(me * 64 + r, i);
        }
        MPI_Alltoallv(a, out_lengths, out_places, MPI_INT, b, lengths, places, MPI_INT, MPI_COMM_WORLD);
        for (int r = 0; r < n; r++)
            for (int i = 0; i < lengths[r]; i++) CHECK(b[places[r] + i] == VALUE(r * 64 + me, i));
        free(out_lengths);
        free(out_places);

        for (int i = 0; i < count; i++) a[i] = (me * 7919 + i) % 1013;
        MPI_Allreduce(a, b, count, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        for (int i = 0; i < count; i++) {
            int most = 0;
            for (int r = 0; r < n; r++) {
                int v = (r * 7919 + i) % 1013;
                if (v > most) most = v;
            }
            CHECK(b[i] == most);
        }
        memcpy(b, a, sizeof(int) * count);
        MPI_Allreduce(MPI_IN_PLACE, b, count, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
        for (int i = 0; i < count; i++) CHECK(b[i] <= a[i]);

        for (int i = 0; i < count; i++) a[i] = me + i;
        MPI_Scan(a, b, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < count; i++) CHECK(b[i] == me * (me + 1) / 2 + (me + 1) * i);
        MPI_Exscan(a, b, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        if (me > 0)
            for (int i = 0; i < count; i++) CHECK(b[i] == (me - 1) * me / 2 + me * i);

        for (int i = 0; i < count * n; i++) a[i] = me + i;
        MPI_Reduce_scatter_block(a, b, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < count; i++) CHECK(b[i] == n * (n - 1) / 2 + n * (me * count + i));
        total = 0;
        for (int r = 0; r < n; r++) {
            lengths[r] = count / (r + 1);
            places[r] = total;
            total += lengths[r];
        }
        MPI_Reduce_scatter(a, b, lengths, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < lengths[me]; i++) CHECK(b[i] == n * (n - 1) / 2 + n * (places[me] + i));
        MPI_Barrier(MPI_COMM_WORLD);
    }

    /* An operation that does not commute keeps the order of ranks. */
    MPI_Op compose;
    MPI_Datatype line;
    MPI_Type_contiguous(2, MPI_UNSIGNED, &line);
    MPI_Type_commit(&line);
    MPI_Op_create(subtract_pairs, 0, &compose);
    for (int count = 1; count <= 2000; count *= 10) {
        unsigned *mine = (unsigned *)a, *result = (unsigned *)b, x = 1, y = 0;
        for (int i = 0; i < 2 * count; i++) mine[i] = me * 2 + 3 + i % 2;
        for (int r = 0; r < n; r++) {
            unsigned p = r * 2 + 3, q = r * 2 + 4;
            if (r == 0) { x = p; y = q; } else { unsigned ny = y * p + q; x = x * p; y = ny; }
        }
        MPI_Allreduce(mine, result, count, line, compose, MPI_COMM_WORLD);
        for (int i = 0; i < count; i++) CHECK(result[2 * i] == x && result[2 * i + 1] == y);
        MPI_Reduce(mine, result, count, line, compose, n - 1, MPI_COMM_WORLD);
        if (me == n - 1)
            for (int i = 0; i < count; i++) CHECK(result[2 * i] == x && result[2 * i + 1] == y);
        MPI_Scan(mine, result, count, line, compose, MPI_COMM_WORLD);
        if (me == n - 1)
            for (int i = 0; i < count; i++) CHECK(result[2 * i] == x && result[2 * i + 1] == y);
    }
    MPI_Op_free(&compose);
    MPI_Type_free(&line);

    ways_mixed();
    freed_under_way(1);
    freed_under_way(5000);

    struct { double value; int rank; } mine = {(me * 5) % 7, me}, least;
    MPI_Allreduce(&mine, &least, 1, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD);
    CHECK(least.value == 0 && least.rank == 0);
    free(lengths);
    free(places);
    check_done("collectives");
    return 0;
}
