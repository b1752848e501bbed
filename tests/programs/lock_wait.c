/* Rank 0 has the lock of rank 2 and waits for a message that never comes; rank 1 waits for that lock; rank 3 waits for an access epoch of
 * rank 0 to end, which has not begun. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    MPI_Win locked, exposed;
    MPI_Group all, first;
    int rank, zero = 0, *memory, *other;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_allocate(sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &locked);
    MPI_Win_allocate(sizeof *other, sizeof *other, MPI_INFO_NULL, MPI_COMM_WORLD, &other, &exposed);
    if (rank == 0)
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 2, 0, locked);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("ready\n"), fflush(stdout);
    if (rank == 0 || rank == 2)
        MPI_Recv(memory, 1, MPI_INT, 3, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1)
        MPI_Win_lock(MPI_LOCK_SHARED, 2, 0, locked);
    if (rank == 3) {
        MPI_Comm_group(MPI_COMM_WORLD, &all);
        MPI_Group_incl(all, 1, &zero, &first);
        MPI_Win_post(first, 0, exposed);
        MPI_Win_wait(exposed);
    }
    return 1;
}
