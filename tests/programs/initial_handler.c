/* initial_handler returns|fatal: the error handler with which this process begins. */
#include "check.h"

int main(int argc, char **argv) {
    CHECK(argc > 1);
    int returns = strcmp(argv[1], "returns") == 0, set;
    /* Before MPI is initialised an error goes to it, too. */
    if (returns) CHECK(MPI_Comm_size(MPI_COMM_NULL, &set) != MPI_SUCCESS);
    check_init(&argc, &argv);
    MPI_Comm copy, comms[] = {MPI_COMM_WORLD, MPI_COMM_SELF, MPI_COMM_NULL};
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    comms[2] = copy;
    for (int i = 0; i < 3; i++) {
        MPI_Errhandler handler;
        MPI_Comm_get_errhandler(comms[i], &handler);
        CHECK(handler == (returns ? MPI_ERRORS_RETURN : MPI_ERRORS_ARE_FATAL));
    }
    if (returns) CHECK(MPI_Send(NULL, -1, MPI_INT, 0, 0, copy) != MPI_SUCCESS);
    MPI_Comm_free(&copy);
    check_done("initial_handler");
    return 0;
}
