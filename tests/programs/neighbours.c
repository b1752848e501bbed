/* Collectives among neighbours of all sizes, whichever rank comes first: what ends at once, what goes on behind that, and
   what is left to other receives. */
#include "check.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 40000, ROUNDS = 60 };

static const int counts[] = {0, 1, 2, 8, 9, 100, 1000, 3000, MOST};

static int value(int rank, int direction, int round, int at) {
    return rank * 1000003 + direction * 7919 + round * 104729 + at;
}

/* A rank that comes late, another one in each round. */
static void come_late(int round) {
    if (round % 7 == 3 && check_rank == round % check_size) usleep(2000);
}

static void rounds(MPI_Comm ring, int left, int right) {
    int *out = malloc(2 * MOST * sizeof(int)), *in = malloc(2 * MOST * sizeof(int));
    for (int round = 0; round < ROUNDS; round++) {
        int n = counts[round % (int)(sizeof counts / sizeof *counts)];
        for (int at = 0; at < n; at++) {
            out[at] = value(check_rank, 0, round, at);
            out[n + at] = value(check_rank, 1, round, at);
        }
        memset(in, 0xff, 2 * MOST * sizeof(int));
        /* A message of the program that any receive would take, under way all the while. */
        int token = round, got = -1;
        MPI_Request requests[2];
        MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, ring, &requests[0]);
        come_late(round);
        MPI_Neighbor_alltoall(out, n, MPI_INT, in, n, MPI_INT, ring);
        /* What goes to the right comes in from the left. */
        for (int at = 0; at < n; at++) {
            CHECK(in[at] == value(left, 1, round, at));
            CHECK(in[n + at] == value(right, 0, round, at));
        }
        MPI_Isend(&token, 1, MPI_INT, right, 5, ring, &requests[1]);
        memset(in, 0xff, 2 * MOST * sizeof(int));
        MPI_Neighbor_allgather(out, n, MPI_INT, in, n, MPI_INT, ring);
        for (int at = 0; at < n; at++) {
            CHECK(in[at] == value(left, 0, round, at));
            CHECK(in[n + at] == value(right, 0, round, at));
        }
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        CHECK(got == round);
    }
    free(out);
    free(in);
}

/* One neighbour gets a short block, the other one a long one, or one with gaps; some rank runs ahead. */
static void uneven(MPI_Comm ring, int left, int right) {
    MPI_Datatype gaps;
    MPI_Type_vector(3, 1, 2, MPI_INT, &gaps);
    MPI_Type_commit(&gaps);
    int *out = malloc(2 * MOST * sizeof(int)), *in = malloc(2 * MOST * sizeof(int));
    for (int round = 0; round < ROUNDS; round++) {
        int long_one = round % 2 ? MOST : 20;
        /* To the left, to the right; from the left, from the right. */
        int to[2] = {3, long_one}, from[2] = {long_one, 3}, places[2] = {0, 8};
        for (int at = 0; at < 8 + long_one; at++) out[at] = value(check_rank, 2, round, at);
        memset(in, 0xff, 2 * MOST * sizeof(int));
        int into[2] = {0, long_one};
        come_late(round);
        MPI_Neighbor_alltoallv(out, to, places, MPI_INT, in, from, into, MPI_INT, ring);
        for (int at = 0; at < long_one; at++) CHECK(in[at] == value(left, 2, round, 8 + at));
        for (int at = 0; at < 3; at++) CHECK(in[long_one + at] == value(right, 2, round, at));

        int ones[2] = {1, long_one}, back[2] = {long_one, 1};
        MPI_Aint out_bytes[2] = {0, 8 * sizeof(int)}, in_bytes[2] = {0, long_one * sizeof(int)};
        MPI_Datatype out_types[2] = {gaps, MPI_INT}, in_types[2] = {MPI_INT, gaps};
        memset(in, 0xff, 2 * MOST * sizeof(int));
        MPI_Neighbor_alltoallw(out, ones, out_bytes, out_types, in, back, in_bytes, in_types, ring);
        for (int at = 0; at < long_one; at++) CHECK(in[at] == value(left, 2, round, 8 + at));
        for (int at = 0; at < 3; at++) {
            CHECK(in[long_one + 2 * at] == value(right, 2, round, 2 * at));
            CHECK(at == 2 || in[long_one + 2 * at + 1] == -1);
        }
    }
    MPI_Type_free(&gaps);
    free(out);
    free(in);
}

/* Only the first rank sends, and is far ahead of the second one. */
static void ahead(void) {
    int one = 1, zero = 0, has = check_rank == 0 && check_size > 1, gets = check_rank == 1;
    MPI_Comm pair;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, gets, &zero, MPI_UNWEIGHTED, has, &one,
                                   MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &pair);
    if (gets) usleep(20000);
    for (int round = 0; round < 3000; round++) {
        int out[4] = {round, round + 1, round + 2, round + 3}, in[4] = {-1, -1, -1, -1};
        MPI_Neighbor_alltoall(out, 4, MPI_INT, in, 4, MPI_INT, pair);
        for (int at = 0; at < 4; at++) CHECK(in[at] == (gets ? round + at : -1));
    }
    MPI_Comm_free(&pair);
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    int dims[1] = {check_size}, closed[1] = {1}, left, right;
    MPI_Comm ring;
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, closed, 0, &ring);
    MPI_Cart_shift(ring, 0, 1, &left, &right);
    rounds(ring, left, right);
    uneven(ring, left, right);
    MPI_Comm_free(&ring);
    ahead();
    check_done("neighbours");
    return 0;
}
