/* Ranks call MPI_Barrier until they are ended; rank 0 prints when it has begun. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (!rank) {
        puts("ready");
        fflush(stdout);
    }
    for (;;)
        MPI_Barrier(MPI_COMM_WORLD);
}
