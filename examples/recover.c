/* Ranks are lost, and the others go on: each step adds up what all that are left contribute.
 *
 *     mpicc examples/recover.c -o recover && mpiexec -n 6 ./recover
 *
 * In every tenth step the last rank kills itself, until two are left. */
#include <mpi-ext.h>
#include <signal.h>
#include <stdio.h>

int main(int argc, char **argv) {
    MPI_Comm ranks;
    int rank, size, again = 0;
    MPI_Init(&argc, &argv);
    /* With a handler that is not fatal, and calls that make something of a loss, the job outlives its ranks. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_dup(MPI_COMM_WORLD, &ranks);
    for (int step = 1; step <= 50; step++) {
        MPI_Comm_rank(ranks, &rank);
        MPI_Comm_size(ranks, &size);
        if (step % 10 == 0 && !again && size > 2 && rank == size - 1)
            raise(SIGKILL);
        int one = 1, sum = 0;
        again = 0;
        int well = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, ranks) == MPI_SUCCESS;
        if (!well)
            MPIX_Comm_revoke(ranks); /* Others may wait for this rank in the middle of the sum. */
        /* Some have the sum and some an error: do all have it? */
        if (MPIX_Comm_agree(ranks, &well) != MPI_SUCCESS || !well) {
            MPI_Comm left;
            MPIX_Comm_shrink(ranks, &left);
            MPI_Comm_free(&ranks);
            ranks = left;
            MPI_Comm_rank(ranks, &rank);
            MPI_Comm_size(ranks, &size);
            if (rank == 0)
                printf("step %d: %d ranks are left, and do it again\n", step, size);
            step--;
            again = 1;
        } else if (sum != size) {
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    if (rank == 0)
        printf("50 steps done, by %d ranks in the end\n", size);
    MPI_Comm_free(&ranks);
    return MPI_Finalize();
}
