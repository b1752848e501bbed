/* A rank begins to receive a long message and computes for as long as the argument says, in seconds, while the sender waits: it has
 * no contact with MPI meanwhile, and is alive. */
#include "check.h"
#include <unistd.h>

int main(int argc, char **argv) {
    const size_t length = (size_t)64 << 20;
    unsigned char *bytes = malloc(length);
    MPI_Request request;
    int done = 0;
    check_init(&argc, &argv);
    if (check_rank == 0) fill(bytes, length, 3);
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0) {
        MPI_Send(bytes, (int)length, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    } else if (check_rank == 1) {
        /* The message is there, so its receive has begun when this returns, but may not have ended. */
        MPI_Probe(0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Irecv(bytes, (int)length, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &request);
        for (int look = 0; look < 2; look++) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        CHECK(!done);
        sleep((unsigned)atoi(argv[1]));
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(intact(bytes, length, 3));
    }
    check_done("computes_long");
    free(bytes);
    return 0;
}
