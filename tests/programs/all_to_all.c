/* Each rank sends to each at the same time. */
#include "check.h"

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    int *in = calloc(check_size, sizeof *in), *out = calloc(check_size, sizeof *out);
    for (int rank = 0; rank < check_size; rank++) out[rank] = check_rank;
    MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, MPI_COMM_WORLD);
    for (int rank = 0; rank < check_size; rank++) CHECK(in[rank] == rank);
    free(in);
    free(out);
    check_done("all_to_all");
    return 0;
}
