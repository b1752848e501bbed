/* The program's actions on signals stay unchanged, whatever MPI_Init has loaded; the last rank is then ended by one. */
#include "check.h"
#include <signal.h>

static void handler(int signal) { (void)signal; }

int main(int argc, char **argv) {
    int signals[] = {SIGINT, SIGILL, SIGABRT, SIGBUS, SIGSEGV, SIGTERM, SIGUSR1};
    struct sigaction before[7], after;
    signal(SIGUSR1, handler);
    for (int i = 0; i < 7; i++) sigaction(signals[i], NULL, &before[i]);
    check_init(&argc, &argv);
    for (int i = 0; i < 7; i++) {
        sigaction(signals[i], NULL, &after);
        CHECK(after.sa_handler == before[i].sa_handler);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == check_size - 1) {
        raise(SIGTERM);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    check_done("own_signals");
    return 0;
}
