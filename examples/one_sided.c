/* Ranks take tasks from a counter that one of them has, and count what they find in a table that all of them share.
 *
 *     mpicc examples/one_sided.c -o one_sided && mpiexec -n 4 ./one_sided
 */
#include <mpi.h>
#include <stdio.h>

/* How many steps a number takes to come to 1 (Collatz), in classes of 25. */
enum { TASKS = 1000, CLASSES = 8 };

static int steps(long number) {
    int steps = 0;
    for (; number > 1; steps++) number = number % 2 == 0 ? number / 2 : 3 * number + 1;
    return steps;
}

int main(int argc, char **argv) {
    int rank, size;
    long *memory, found[CLASSES] = {0}, sums[CLASSES], ticket;
    const long one = 1;
    MPI_Win counter, table;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    /* Its owner is not asked by those who share its host. */
    MPI_Win_allocate(rank == 0 ? sizeof(long) : 0, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &counter);
    if (rank == 0) *memory = 0;
    MPI_Barrier(MPI_COMM_WORLD);

    /* Whoever is free takes the next number. */
    MPI_Win_lock_all(0, counter);
    for (;;) {
        MPI_Fetch_and_op(&one, &ticket, MPI_LONG, 0, 0, MPI_SUM, counter);
        MPI_Win_flush(0, counter);
        if (ticket >= TASKS) break;
        int class = steps(ticket + 1) / 25;
        found[class < CLASSES ? class : CLASSES - 1]++;
    }
    MPI_Win_unlock_all(counter);

    /* The table lies at all ranks in turn. Between two fences all may add to it. */
    MPI_Win_allocate(CLASSES * (MPI_Aint)sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &table);
    for (int i = 0; i < CLASSES; i++) memory[i] = 0;
    MPI_Win_fence(0, table);
    for (int i = 0; i < CLASSES; i++)
        MPI_Accumulate(&found[i], 1, MPI_LONG, i % size, i / size, 1, MPI_LONG, MPI_SUM, table);
    MPI_Win_fence(0, table);
    for (int i = 0; i < CLASSES; i++) MPI_Get(&sums[i], 1, MPI_LONG, i % size, i / size, 1, MPI_LONG, table);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, table);
    if (rank == 0)
        for (int i = 0; i < CLASSES; i++) printf("from %3d steps: %ld\n", 25 * i, sums[i]);
    MPI_Win_free(&table);
    MPI_Win_free(&counter);
    MPI_Finalize();
    return 0;
}
