/* Rank 1 dies before it has called MPI_Init: the others begin without it, and learn of its loss. */
#include "check.h"
#include <signal.h>

int main(int argc, char **argv) {
    int value, code, class;
    if (atoi(getenv("PMI_RANK")) == 1) raise(SIGKILL);
    check_init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    code = MPI_Recv(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Error_class(code, &class);
    CHECK(class == MPIX_ERR_PROC_FAILED);
    printf("rank %d has heard of it\n", check_rank);
    MPI_Finalize();
    return 0;
}
