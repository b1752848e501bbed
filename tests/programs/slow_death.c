/* A rank whose death takes long: its connections are gone, and its parent has not heard of its end. The others see the
 * loss and end themselves, which follows from it. */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 1) {
        struct timespec dying = {0, 200 * 1000 * 1000};
        close_range(3, ~0U, 0);
        nanosleep(&dying, NULL);
        raise(SIGKILL);
    }
    MPI_Recv(NULL, 0, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check_done("slow_death");
    return 0;
}
