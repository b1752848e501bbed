/* A rank ends the agent of its host, and so the host is lost with its ranks, which are the second half. Each of the others learns of the
 * loss of each of them, also of those that it has never communicated with; they go on without them, and can start processes, one for each
 * of them, on the host that is left. */
#include "check.h"
#include <signal.h>
#include <unistd.h>

int main(int argc, char **argv) {
    MPI_Comm left, children, parent;
    int value = 1, sum = 0, code, class, length;
    char text[MPI_MAX_ERROR_STRING];
    check_init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        MPI_Comm_disconnect(&parent);
        MPI_Finalize();
        return 0;
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank >= check_size / 2) {
        if (check_rank == check_size / 2) kill(getppid(), SIGKILL);
        for (;;) pause();
    }
    for (int rank = check_size - 1; rank >= check_size / 2; rank--) {
        code = MPI_Recv(&value, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Error_class(code, &class);
        CHECK(class == MPIX_ERR_PROC_FAILED);
        MPI_Error_string(code, text, &length);
        printf("rank %d has heard of %d: %s\n", check_rank, rank, text);
    }
    CHECK(MPIX_Comm_shrink(MPI_COMM_WORLD, &left) == MPI_SUCCESS);
    CHECK(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, left) == MPI_SUCCESS);
    CHECK(sum == check_size / 2);
    code = MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, check_size / 2, MPI_INFO_NULL, 0, left, &children, MPI_ERRCODES_IGNORE);
    CHECK(code == MPI_SUCCESS);
    MPI_Comm_disconnect(&children);
    printf("rank %d goes on\n", check_rank);
    MPI_Finalize();
    return 0;
}
