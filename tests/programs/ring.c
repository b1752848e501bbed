/* Token ring, barrier and allreduce loops; many ranks on few cores must end promptly. */
#include "check.h"

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    int rounds = argc > 1 ? atoi(argv[1]) : 100;
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    for (int i = 0; i < rounds; i++) {
        int token = i;
        if (check_rank == 0) {
            if (check_size > 1) MPI_Send(&token, 1, MPI_INT, next, 7, MPI_COMM_WORLD);
            else break;
            MPI_Recv(&token, 1, MPI_INT, before, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK(token == i + check_size - 1);
        } else {
            MPI_Recv(&token, 1, MPI_INT, before, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            token++;
            MPI_Send(&token, 1, MPI_INT, next, 7, MPI_COMM_WORLD);
        }
    }
    for (int i = 0; i < rounds; i++) MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < rounds; i++) {
        long mine = check_rank + i, sum = 0;
        MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        CHECK(sum == (long)check_size * (check_size - 1) / 2 + (long)i * check_size);
    }
    check_done("ring");
    return 0;
}
