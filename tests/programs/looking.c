/* Each rank does something else, for observers of the running job: rank 0 computes, rank 1 waits for a message of
   rank 0, rank 2 sleeps outside of MPI, all others wait in a barrier. Nobody ends before the job is ended. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

enum { MESSAGES = 10, TAG = 7, LATE = 42 };

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    char bytes[100] = {0};
    if (rank == 0 && size > 1)
        for (int i = 0; i < MESSAGES; i++)
            MPI_Send(bytes, sizeof bytes, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
    if (rank == 1)
        for (int i = 0; i < MESSAGES; i++)
            MPI_Recv(bytes, sizeof bytes, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        printf("ready\n");
        fflush(stdout);
        for (volatile unsigned long i = 0;; i++) { }
    }
    if (rank == 1)
        MPI_Recv(bytes, sizeof bytes, MPI_BYTE, 0, LATE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 2)
        for (;;)
            pause();
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
