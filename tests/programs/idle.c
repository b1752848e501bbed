/* Rank 1 is blocked in MPI_Recv for some seconds; it prints the CPU time that it used meanwhile. */
#include "check.h"
#include <sys/resource.h>
#include <unistd.h>

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    int seconds = argc > 1 ? atoi(argv[1]) : 4, x = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0) {
        sleep(seconds);
        for (int r = 1; r < check_size; r++) MPI_Send(&x, 1, MPI_INT, r, 0, MPI_COMM_WORLD);
    } else {
        struct rusage before, after;
        getrusage(RUSAGE_SELF, &before);
        MPI_Recv(&x, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        getrusage(RUSAGE_SELF, &after);
        double used = (after.ru_utime.tv_sec - before.ru_utime.tv_sec) + (after.ru_stime.tv_sec - before.ru_stime.tv_sec)
                    + 1e-6 * ((after.ru_utime.tv_usec - before.ru_utime.tv_usec) + (after.ru_stime.tv_usec - before.ru_stime.tv_usec));
        printf("idle: rank %d used %.4f s of CPU in %d s\n", check_rank, used, seconds);
    }
    MPI_Finalize();
    return 0;
}
