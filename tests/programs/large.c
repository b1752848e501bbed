/* Messages and collectives of very many elements: large CASE BYTES [gaps]. BYTES elements of one byte each for each
 * rank, one after the other or, with `gaps`, every other byte of memory. Only bytes at some places are set, and looked
 * at; the others are pages that nobody has touched, so that memory suffices. */
#define _GNU_SOURCE
#include "check.h"

#include <stdint.h>
#include <sys/mman.h>

static MPI_Count n;     /* elements of a block */
static int gaps;        /* every other byte */
static MPI_Datatype type; /* of a whole block if there are gaps, else of an element */
static MPI_Count count; /* of these in a block */
static size_t span;     /* memory from a block to the next */

static unsigned char *memory(size_t blocks)
{
    size_t length = blocks * span + 4096;
    unsigned char *start = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(start != MAP_FAILED);
    madvise(start, length, MADV_HUGEPAGE);
    return start;
}

static void release(unsigned char *start, size_t blocks)
{
    munmap(start, blocks * span + 4096);
}

/* The places that are set: beginning, end, where 32 bits end, and some between. */
static MPI_Count place(int number)
{
    const MPI_Count sharp[] = {0, 1, 7, n / 3, n / 2, n - 9, n - 2, n - 1, INT32_MAX - 1LL, INT32_MAX, INT32_MAX + 1LL,
                               UINT32_MAX - 1LL, UINT32_MAX, UINT32_MAX + 1LL};
    int sharps = sizeof sharp / sizeof *sharp;
    if (number < sharps)
        return sharp[number];
    return (MPI_Count)((unsigned __int128)n * (unsigned)(number - sharps) / 64);
}
#define PLACES (14 + 64)

static unsigned char value(int seed, MPI_Count at)
{
    return (unsigned char)(seed * 37 + at * 11 + (at >> 16) * 5 + 1) | 1;
}

static unsigned char *byte(unsigned char *start, size_t block, MPI_Count at)
{
    return start + block * span + (size_t)at * (gaps ? 2 : 1);
}

static void set(unsigned char *start, size_t block, int seed)
{
    for (int number = 0; number < PLACES; number++)
        if (place(number) < n)
            *byte(start, block, place(number)) = value(seed, place(number));
}

static int is_set(MPI_Count at)
{
    for (int number = 0; number < PLACES; number++)
        if (place(number) == at)
            return 1;
    return 0;
}

/* Whether a block is that of a seed, and its gaps and what is not set are 0. `lo`, `hi`: the elements of it. */
static void check(unsigned char *start, size_t block, int seed)
{
    for (int number = 0; number < PLACES; number++) {
        MPI_Count at = place(number);
        if (at >= n)
            continue;
        CHECK(*byte(start, block, at) == value(seed, at));
        if (at + 1 < n && !is_set(at + 1))
            CHECK(*byte(start, block, at + 1) == 0);
        if (gaps)
            CHECK(byte(start, block, at)[1] == 0);
    }
}

static int me, ranks;

static void point_to_point(void)
{
    unsigned char *out = memory(1), *in = memory(1);
    int to = (me + 1) % ranks, from = (me + ranks - 1) % ranks;
    MPI_Status status;
    MPI_Count got;

    set(out, 0, me);
    MPI_Sendrecv_c(out, count, type, to, 1, in, count, type, from, 1, MPI_COMM_WORLD, &status);
    MPI_Get_count_c(&status, type, &got);
    CHECK(got == count);
    MPI_Get_elements_c(&status, type, &got);
    CHECK(got == n);
    check(in, 0, from);
    release(in, 1);
    /* To memory without gaps, a few bytes more than come; found by a probe. */
    if (me == 0)
        MPI_Send_c(out, count, type, 1, 2, MPI_COMM_WORLD);
    if (me == 1) {
        unsigned char *flat = memory(1);
        int had = gaps;
        MPI_Probe(0, 2, MPI_COMM_WORLD, &status);
        MPI_Get_elements_c(&status, MPI_BYTE, &got);
        CHECK(got == n);
        MPI_Recv_c(flat, n + 9, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &status);
        MPI_Get_count_c(&status, MPI_BYTE, &got);
        CHECK(got == n);
        gaps = 0;
        check(flat, 0, 0);
        gaps = had;
        release(flat, 1);
    }
    /* Too many for the receiver, which reports an error. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (me == 0)
        MPI_Ssend_c(out, count, type, 1, 3, MPI_COMM_WORLD);
    if (me == 1) {
        unsigned char little[5000];
        int class;
        MPI_Error_class(MPI_Recv_c(little, sizeof little, MPI_BYTE, 0, 3, MPI_COMM_WORLD, &status), &class);
        CHECK(class == MPI_ERR_TRUNCATE);
        CHECK(little[0] == value(0, 0) && little[7] == value(0, 7));
    }
    /* Packed, in two parts, and the other way round. */
    if (me == 0) {
        unsigned char *packed = memory(1), *again = memory(1);
        MPI_Count position = 0, size;
        MPI_Pack_size_c(count, type, MPI_COMM_SELF, &size);
        CHECK(size >= n);
        MPI_Pack_c(out, count, type, packed, n, &position, MPI_COMM_SELF);
        CHECK(position == n);
        int had = gaps;
        gaps = 0;
        check(packed, 0, me);
        gaps = had;
        position = 0;
        MPI_Unpack_c(packed, n, &position, again, count, type, MPI_COMM_SELF);
        CHECK(position == n);
        check(again, 0, me);
        release(packed, 1);
        release(again, 1);
    }
    release(out, 1);
}

static void broadcast(void)
{
    unsigned char *all = memory(1);
    if (me == ranks - 1)
        set(all, 0, 5);
    MPI_Bcast_c(all, count, type, ranks - 1, MPI_COMM_WORLD);
    check(all, 0, 5);
    release(all, 1);
}

/* Counts and displacements of the forms with lists: one block each, in the order of the ranks. */
static void lists(MPI_Count *counts, MPI_Aint *places, MPI_Aint unit)
{
    for (int rank = 0; rank < ranks; rank++) {
        counts[rank] = count;
        places[rank] = (MPI_Aint)rank * unit;
    }
}

static void gather(int all, int listed)
{
    unsigned char *own = memory(1), *together = memory((size_t)ranks);
    MPI_Count counts[ranks];
    MPI_Aint places[ranks];

    lists(counts, places, gaps ? 1 : (MPI_Aint)n);
    set(own, 0, me);
    if (all && listed)
        MPI_Allgatherv_c(own, count, type, together, counts, places, type, MPI_COMM_WORLD);
    else if (all)
        MPI_Allgather_c(own, count, type, together, count, type, MPI_COMM_WORLD);
    else if (listed)
        MPI_Gatherv_c(own, count, type, together, counts, places, type, 0, MPI_COMM_WORLD);
    else
        MPI_Gather_c(own, count, type, together, count, type, 0, MPI_COMM_WORLD);
    for (int rank = 0; rank < ranks && (all || me == 0); rank++)
        check(together, (size_t)rank, rank);
    release(own, 1);
    release(together, (size_t)ranks);
}

static void scatter(int listed)
{
    unsigned char *own = memory(1), *together = memory((size_t)ranks);
    MPI_Count counts[ranks];
    MPI_Aint places[ranks];

    lists(counts, places, gaps ? 1 : (MPI_Aint)n);
    for (int rank = 0; rank < ranks && me == 0; rank++)
        set(together, (size_t)rank, rank + 3);
    if (listed)
        MPI_Scatterv_c(together, counts, places, type, own, count, type, 0, MPI_COMM_WORLD);
    else
        MPI_Scatter_c(together, count, type, own, count, type, 0, MPI_COMM_WORLD);
    check(own, 0, me + 3);
    release(own, 1);
    release(together, (size_t)ranks);
}

static void alltoall(int form)
{
    unsigned char *out = memory((size_t)ranks), *in = memory((size_t)ranks);
    MPI_Count counts[ranks];
    MPI_Aint places[ranks];
    MPI_Datatype types[ranks];

    for (int rank = 0; rank < ranks; rank++) {
        set(out, (size_t)rank, me * ranks + rank);
        types[rank] = type;
    }
    lists(counts, places, form == 2 ? (MPI_Aint)span : gaps ? 1 : (MPI_Aint)n);
    if (form == 0)
        MPI_Alltoall_c(out, count, type, in, count, type, MPI_COMM_WORLD);
    else if (form == 1)
        MPI_Alltoallv_c(out, counts, places, type, in, counts, places, type, MPI_COMM_WORLD);
    else
        MPI_Alltoallw_c(out, counts, places, types, in, counts, places, types, MPI_COMM_WORLD);
    for (int rank = 0; rank < ranks; rank++)
        check(in, (size_t)rank, rank * ranks + me);
    release(out, (size_t)ranks);
    release(in, (size_t)ranks);
}

/* Which ranks' blocks are in a result, combined by exclusive or. */
static void check_combined(unsigned char *start, size_t block, int first, int last)
{
    for (int number = 0; number < PLACES; number++) {
        MPI_Count at = place(number);
        unsigned char expected = 0;
        for (int rank = first; rank < last; rank++)
            expected ^= value(rank, at);
        if (at < n)
            CHECK(*byte(start, block, at) == expected);
    }
}

static void reduce(const char *what)
{
    int scattered = !strncmp(what, "reduce_scatter", 14);
    size_t blocks = scattered ? (size_t)ranks : 1;
    unsigned char *own = memory(blocks), *result = memory(1);
    MPI_Count counts[ranks];
    MPI_Aint places[ranks];

    CHECK(!gaps);
    lists(counts, places, 0);
    for (size_t block = 0; block < blocks; block++)
        set(own, block, me);
    if (!strcmp(what, "reduce"))
        MPI_Reduce_c(own, result, n, MPI_BYTE, MPI_BXOR, 0, MPI_COMM_WORLD);
    else if (!strcmp(what, "allreduce"))
        MPI_Allreduce_c(own, result, n, MPI_BYTE, MPI_BXOR, MPI_COMM_WORLD);
    else if (!strcmp(what, "scan"))
        MPI_Scan_c(own, result, n, MPI_BYTE, MPI_BXOR, MPI_COMM_WORLD);
    else if (!strcmp(what, "exscan"))
        MPI_Exscan_c(own, result, n, MPI_BYTE, MPI_BXOR, MPI_COMM_WORLD);
    else if (!strcmp(what, "reduce_scatter"))
        MPI_Reduce_scatter_c(own, result, counts, MPI_BYTE, MPI_BXOR, MPI_COMM_WORLD);
    else
        MPI_Reduce_scatter_block_c(own, result, n, MPI_BYTE, MPI_BXOR, MPI_COMM_WORLD);
    if (!strcmp(what, "scan"))
        check_combined(result, 0, 0, me + 1);
    else if (!strcmp(what, "exscan") && me > 0)
        check_combined(result, 0, 0, me);
    else if (strcmp(what, "exscan") && (strcmp(what, "reduce") || me == 0))
        check_combined(result, 0, 0, ranks);
    release(own, blocks);
    release(result, 1);
}

static int run(const char *name)
{
    if (!strcmp(name, "point_to_point"))
        return point_to_point(), 1;
    if (!strcmp(name, "bcast"))
        return broadcast(), 1;
    if (!strcmp(name, "gather") || !strcmp(name, "gatherv"))
        return gather(0, name[6] == 'v'), 1;
    if (!strcmp(name, "allgather") || !strcmp(name, "allgatherv"))
        return gather(1, name[9] == 'v'), 1;
    if (!strcmp(name, "scatter") || !strcmp(name, "scatterv"))
        return scatter(name[7] == 'v'), 1;
    if (!strncmp(name, "alltoall", 8))
        return alltoall(name[8] == 'v' ? 1 : name[8] == 'w' ? 2 : 0), 1;
    if (!gaps)
        reduce(name);
    return !gaps;
}

int main(int argc, char **argv)
{
    static const char *const all[] = {"point_to_point", "bcast",     "gather",  "gatherv",   "scatter",
                                      "scatterv",       "allgather", "allgatherv", "alltoall", "alltoallv",
                                      "alltoallw",      "reduce",    "allreduce",  "scan",     "exscan",
                                      "reduce_scatter", "reduce_scatter_block"};
    check_init(&argc, &argv);
    me = check_rank, ranks = check_size;
    CHECK(argc >= 3 && ranks >= 2);
    n = strtoll(argv[2], NULL, 10);
    gaps = argc > 3 && !strcmp(argv[3], "gaps");
    span = (size_t)n * (gaps ? 2 : 1);
    count = gaps ? 1 : n;
    type = MPI_BYTE;
    if (gaps) {
        MPI_Datatype vector;
        MPI_Type_vector_c(n, 1, 2, MPI_BYTE, &vector);
        MPI_Type_create_resized_c(vector, 0, (MPI_Count)span, &type);
        MPI_Type_commit(&type);
        MPI_Type_free(&vector);
    }
    for (size_t index = 0; index < sizeof all / sizeof *all; index++)
        if (!strcmp(argv[1], all[index]) || !strcmp(argv[1], "all")) {
            double begun = MPI_Wtime();
            if (run(all[index]) && me == 0)
                fprintf(stderr, "%s of %lld%s: %.2f s\n", all[index], (long long)n, gaps ? " with gaps" : "", MPI_Wtime() - begun);
        }
    if (gaps)
        MPI_Type_free(&type);
    check_done("large");
    return 0;
}
