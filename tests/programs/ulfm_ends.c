/* Rank 1 is killed; what becomes of the job depends on what the others are prepared for, which the argument says. */
#ifdef WITHOUT
#include <mpi.h>
#else
#include <mpi-ext.h>
#endif
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    int me, size, code;
    MPI_Comm parent;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        MPI_Comm both;
        int rank, value, sum;
        MPI_Intercomm_merge(parent, 1, &both);
        MPI_Comm_rank(both, &rank);
        value = rank + 1;
        MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, both);
        MPI_Comm_disconnect(&parent);
        MPI_Comm_disconnect(&both);
        return MPI_Finalize();
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (strcmp(what, "fatal"))
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Barrier(MPI_COMM_WORLD);
    if (me == 1)
        raise(SIGKILL);
    if (!strcmp(what, "fatal") || !strcmp(what, "without"))
        for (;;)
            sleep(1); /* Only the launcher can end the job: no rank calls MPI. */
    code = MPI_Barrier(MPI_COMM_WORLD);
    if (code == MPI_SUCCESS)
        return 9;
    if (!strcmp(what, "gives up"))
        _exit(3);
#ifndef WITHOUT
    if (!strcmp(what, "ack"))
        MPIX_Comm_failure_ack(MPI_COMM_WORLD);
    if (!strcmp(what, "replaces")) {
        /* The survivors start another process, and work with it. */
        MPI_Comm left, parents, both;
        int rank, value, sum = 0, failed = MPIX_Comm_shrink(MPI_COMM_WORLD, &left);
        if (failed)
            return 8;
        failed = MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, left, &parents, MPI_ERRCODES_IGNORE);
        if (failed || MPI_Intercomm_merge(parents, 0, &both))
            return 7;
        MPI_Comm_rank(both, &rank);
        value = rank + 1;
        if (MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, both) || sum != size * (size + 1) / 2)
            return 6;
        MPI_Comm_disconnect(&parents);
        MPI_Comm_disconnect(&both);
    }
#endif
    printf("rank %d goes on\n", me);
    return MPI_Finalize();
}
