/* The last rank dies before any rank has sent it anything, and all others wait for a message from it: each learns of the loss. Before
 * that there is a barrier, in which some ranks have communicated with it and some have not. An argument says when it dies, in milliseconds;
 * another one that it exits with that code. */
#include "check.h"
#include <signal.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int value, code, class = MPI_SUCCESS;
    check_init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == check_size - 1) {
        struct timespec pause = {0, atol(argv[1]) * 1000000};
        nanosleep(&pause, NULL);
        if (argc > 2) _exit(atoi(argv[2]));
        raise(SIGKILL);
    }
    code = MPI_Recv(&value, 1, MPI_INT, check_size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(code != MPI_SUCCESS);
    MPI_Error_class(code, &class);
    /* MPIX_ERR_PROC_FAILED is another name for it. */
    CHECK(class == MPI_ERR_PROC_ABORTED);
    char text[MPI_MAX_ERROR_STRING];
    MPI_Error_string(code, text, &value);
    printf("rank %d has heard of it: %s\n", check_rank, text);
    MPI_Finalize();
    return 0;
}
