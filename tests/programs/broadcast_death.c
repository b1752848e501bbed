/* The last of three ranks is killed in the middle of a large broadcast, a number of microseconds after rank 1 has entered
 * it. The root reuses its buffer as soon as it learns of it. Rank 1 has every byte right, or an error. */
#include <signal.h>
#include <unistd.h>

#include "check.h"

enum { SIZE = 256 << 20 };

int main(int argc, char **argv) {
    int wrong = 0;
    check_init(&argc, &argv);
    const int rank = check_rank;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    unsigned char *bytes = malloc(SIZE);
    memset(bytes, rank == 0 ? 0xA5 : 0, SIZE);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 2) {
        MPI_Recv(NULL, 0, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        usleep((unsigned)atoi(argv[1]));
        kill(getpid(), SIGKILL);
    }
    if (rank == 1)
        MPI_Send(NULL, 0, MPI_BYTE, 2, 0, MPI_COMM_WORLD);
    int code = MPI_Bcast(bytes, SIZE, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        memset(bytes, 0x5A, SIZE);
    } else if (code == MPI_SUCCESS) {
        for (size_t at = 0; at < SIZE; at++)
            wrong += bytes[at] != 0xA5;
    }
    printf("rank %d: %s, %d bytes wrong\n", rank, code == MPI_SUCCESS ? "success" : "error", wrong);
    fflush(stdout);
    /* The root stays until the other has read. MPI_Finalize would wait for the dead one. */
    if (rank == 0)
        MPI_Recv(NULL, 0, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        MPI_Ssend(NULL, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    _exit(0);
}
