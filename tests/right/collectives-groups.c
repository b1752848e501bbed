/*
 * Collectives between two groups whose ranks give each other different data: other datatypes and lengths each way, roots of either group,
 * integers by two names.
 *
 * run: 2
 * run: 3
 * run: 5
 */
#include <mpi.h>
#include <stdio.h>

#define CHECK(condition) \
    if (!(condition)) fprintf(stderr, "line %d: %s\n", __LINE__, #condition)

int main(int argc, char **argv) {
    int rank, size, first, mine, theirs;
    MPI_Comm half, both;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    first = rank < size / 2;
    MPI_Comm_split(MPI_COMM_WORLD, first, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, first ? size / 2 : 0, 5, &both);
    MPI_Comm_rank(both, &mine);
    MPI_Comm_remote_size(both, &theirs);
    for (int round = 0; round < 20; round++) {
        int ints[16] = {0}, sum = 0, one = 1;
        double doubles[16] = {0}, real = 7;
        /* The first group gives integers and gets floating-point numbers. */
        if (first)
            MPI_Allgather(&one, 1, MPI_INT, doubles, 1, MPI_DOUBLE, both);
        else
            MPI_Allgather(&real, 1, MPI_DOUBLE, ints, 1, MPI_INT, both);
        for (int i = 0; i < theirs; i++)
            CHECK(first ? doubles[i] == 7 : ints[i] == 1);
        /* Roots of either group, in turn. */
        for (int side = 0; side < 2; side++) {
            int root = side != first ? 0 : mine == 0 ? MPI_ROOT : MPI_PROC_NULL;
            int value = side == first && mine == 0 ? 40 + round : 0;
            MPI_Bcast(&value, 1, side == first ? MPI_INT : MPI_INT32_T, root, both);
            CHECK(side == first || value == 40 + round);
            MPI_Gather(&one, 1, MPI_INT, ints, 1, MPI_INT, root, both);
            MPI_Reduce(&one, &sum, 1, MPI_INT, round % 2 ? MPI_SUM : MPI_MAX, root, both);
            CHECK(root != MPI_ROOT || sum == (round % 2 ? theirs : 1));
            MPI_Scatter(ints, 1, MPI_INT, &value, 1, MPI_INT, root, both);
        }
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, both);
        CHECK(sum == theirs);
        MPI_Barrier(both);
    }
    MPI_Comm_free(&both);
    MPI_Comm_free(&half);
    MPI_Finalize();
    return 0;
}
