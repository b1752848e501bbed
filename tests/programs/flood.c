/* Far more large messages under way than any table holds, before the first of them is received: rank 0 sends 20000 to
 * rank 1. With a third rank, one more to that one must get through meanwhile: rank 1 receives only after it has. */
#include "check.h"

enum { COUNT = 20000, SIZE = 16384, LAST = 1 << 20 };

static unsigned char bytes[SIZE + COUNT], into[LAST];

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    const int rank = check_rank, ranks = check_size;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int at = 0; at < SIZE + COUNT; at++)
        bytes[at] = (unsigned char)((unsigned)at * 2654435761u >> 24);
    for (int round = 0; round < 2; round++) {
        if (rank == 0) {
            MPI_Request *requests = malloc(COUNT * sizeof *requests);
            /* Each begins at another byte. */
            for (int i = 0; i < COUNT; i++)
                CHECK(MPI_Isend(bytes + i, SIZE, MPI_BYTE, 1, i % 7, MPI_COMM_WORLD, &requests[i]) == MPI_SUCCESS);
            if (ranks > 2)
                CHECK(MPI_Send(into, LAST, MPI_BYTE, 2, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
            else
                CHECK(MPI_Send(NULL, 0, MPI_BYTE, 1, 99, MPI_COMM_WORLD) == MPI_SUCCESS);
            CHECK(MPI_Waitall(COUNT, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
            free(requests);
        } else if (rank == 1) {
            CHECK(MPI_Recv(NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
            for (int i = 0; i < COUNT; i++) {
                MPI_Status status;
                CHECK(MPI_Recv(into, SIZE, MPI_BYTE, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status) == MPI_SUCCESS);
                CHECK(status.MPI_TAG == i % 7);
                CHECK(memcmp(into, bytes + i, SIZE) == 0);
            }
        } else if (rank == 2) {
            CHECK(MPI_Recv(into, LAST, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
            CHECK(MPI_Send(NULL, 0, MPI_BYTE, 1, 99, MPI_COMM_WORLD) == MPI_SUCCESS);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    check_done("flood");
    return 0;
}
