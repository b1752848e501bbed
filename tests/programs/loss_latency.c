/* How long it takes until all ranks of a host know of a loss: half of them wait for a message of the one that dies, the others ask
 * for who has failed. One line for each death: its number, and the longest time in milliseconds. Two ranks are left over. */
#include <mpi-ext.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

int main(int argc, char **argv) {
    MPI_Comm comm, next;
    MPI_Win win;
    MPI_Group failed;
    double *died, longest, took;
    int me, rank, size, value, number = 0, lost = 0, known, unit;
    MPI_Aint bytes;
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    /* The dying rank writes the time of its death here. */
    MPI_Win_allocate_shared(me == 0 ? sizeof *died : 0, sizeof *died, MPI_INFO_NULL, comm, &died, &win);
    MPI_Win_shared_query(win, 0, &bytes, &unit, &died);
    MPI_Barrier(comm);
    for (MPI_Comm_size(comm, &size); size > 2; number++) {
        MPI_Comm_rank(comm, &rank);
        MPI_Barrier(comm);
        if (rank == size - 1) {
            struct timespec pause = {0, 20000000};
            /* The others wait by then. */
            nanosleep(&pause, NULL);
            *(volatile double *)died = now();
            raise(SIGKILL);
        }
        if (rank % 2 == 0) {
            if (MPI_Recv(&value, 1, MPI_INT, size - 1, 1, comm, MPI_STATUS_IGNORE) == MPI_SUCCESS) return 1;
        } else {
            do {
                MPIX_Comm_get_failed(MPI_COMM_WORLD, &failed);
                MPI_Group_size(failed, &known);
                if (known > 0) MPI_Group_free(&failed);
            } while (known == lost);
        }
        took = now() - *(volatile double *)died;
        lost++;
        MPIX_Comm_shrink(comm, &next);
        MPI_Comm_free(&comm);
        comm = next;
        MPI_Comm_size(comm, &size);
        MPI_Reduce(&took, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, comm);
        MPI_Comm_rank(comm, &rank);
        if (rank == 0) printf("%d %.3f\n", number, longest), fflush(stdout);
    }
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return 0;
}
