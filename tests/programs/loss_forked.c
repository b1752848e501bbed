/* Rank 1 dies, and a process that it has forked continues, with all descriptors open: its connections do not end. The others learn of the
 * death nevertheless, after the messages that it had sent. */
#include "check.h"
#include <signal.h>
#include <unistd.h>

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int word = 7, class;
    for (int other = 0; other < check_size; other++)
        CHECK(MPI_Sendrecv_replace(&word, 1, MPI_INT, other, 0, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 1) {
        word = 42;
        for (int other = 0; other < check_size; other++)
            if (other != 1) MPI_Send(&word, 1, MPI_INT, other, 1, MPI_COMM_WORLD);
        if (fork() == 0) {
            /* For longer than the job may take. */
            sleep(100);
            _exit(0);
        }
        raise(SIGKILL);
    }
    /* Some ranks come later than others. */
    usleep(check_rank * 300000);
    CHECK(MPI_Recv(&word, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS && word == 42);
    int error = MPI_Recv(&word, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Error_class(error, &class);
    CHECK(class == MPIX_ERR_PROC_FAILED);
    printf("rank %d has heard of it\n", check_rank);
    MPI_Finalize();
    return 0;
}
