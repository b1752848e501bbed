/* The first message of one rank to the other is received while its sender is outside of MPI, until the receiver says that it has it.
 * first_message SENDER FIFO */
#include "check.h"
#include <fcntl.h>
#include <unistd.h>

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    int sender = atoi(argv[1]), x = 7;
    if (check_rank == sender) {
        char said = 0;
        MPI_Send(&x, 1, MPI_INT, 1 - sender, 0, MPI_COMM_WORLD);
        /* Waits until the other end is opened. */
        int fifo = open(argv[2], O_RDONLY);
        CHECK(fifo >= 0 && read(fifo, &said, 1) == 1 && said == 'y');
    } else if (check_rank == 1 - sender) {
        x = 0;
        MPI_Recv(&x, 1, MPI_INT, sender, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(x == 7);
        int fifo = open(argv[2], O_WRONLY);
        CHECK(fifo >= 0 && write(fifo, "y", 1) == 1);
    }
    check_done("first_message");
    return 0;
}
