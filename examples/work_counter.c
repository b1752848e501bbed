/* Work that is handed out by a counter in a window: whoever is free draws the next number. Rank 0, which has the counter, is
 * asked by nobody: on one host a draw is one atomic instruction in shared memory.
 *
 *   mpicc examples/work_counter.c -o work_counter && mpiexec -n 4 ./work_counter 1000
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    long items = argc > 1 ? atol(argv[1]) : 1000, *counter, one = 1, next, mine = 0, sum = 0, all[2];
    int rank;
    MPI_Win window;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_allocate(rank == 0 ? sizeof *counter : 0, sizeof *counter, MPI_INFO_NULL, MPI_COMM_WORLD,
                     &counter, &window);
    if (rank == 0) *counter = 0;
    MPI_Win_fence(MPI_MODE_NOSUCCEED, window);

    MPI_Win_lock_all(0, window);
    for (;;) {
        MPI_Fetch_and_op(&one, &next, MPI_LONG, 0, 0, MPI_SUM, window);
        MPI_Win_flush(0, window);
        if (next >= items) break;
        sum += next; /* The work. */
        mine++;
    }
    MPI_Win_unlock_all(window);

    long part[2] = {mine, sum};
    MPI_Reduce(part, all, 2, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    printf("rank %d did %ld of %ld\n", rank, mine, items);
    if (rank == 0)
        printf("%ld done, their sum is %ld: %s\n", all[0], all[1],
               all[0] == items && all[1] == items * (items - 1) / 2 ? "right" : "wrong");
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}
