/* A rank dies, and the others go on without it. One of them finishes, and its process ends; another one has just sent it a message, by a
 * synchronous send or a long one, which it never receives: that is an error, whenever the message came.
 *   ranks: 0 sends, 1 finishes, 2 dies
 * Arguments: how many bytes, and how many microseconds pass before they are sent. */
#include "check.h"
#include <signal.h>
#include <unistd.h>

int main(int argc, char **argv) {
    MPI_Comm left;
    MPI_Request request;
    int value = 0, code, class = 0;
    MPI_Init(&argc, &argv);
    CHECK(argc == 3);
    int bytes = atoi(argv[1]);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 2) raise(SIGKILL);
    MPI_Recv(&value, 1, MPI_INT, 2, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(MPIX_Comm_shrink(MPI_COMM_WORLD, &left) == MPI_SUCCESS);
    if (check_rank == 1) {
        /* The last that the other one hears of it. */
        CHECK(MPI_Send(&value, 1, MPI_INT, 0, 0, left) == MPI_SUCCESS);
        MPI_Finalize();
        return 0;
    }
    char *data = calloc(1, bytes);
    CHECK(MPI_Recv(&value, 1, MPI_INT, 1, 0, left, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    usleep(atoi(argv[2]));
    code = MPI_Issend(data, bytes, MPI_BYTE, 1, 0, left, &request);
    if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Error_class(code, &class);
    CHECK(class == MPIX_ERR_PROC_FAILED);
    char text[MPI_MAX_ERROR_STRING];
    MPI_Error_string(code, text, &value);
    printf("rank 0 got: %s\n", text);
    free(data);
    MPI_Finalize();
    return 0;
}
