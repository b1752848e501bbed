/* Processes that are started while other ranks are outside of MPI: rank 0 starts some on the hosts of all while the others compute,
 * or sleep, until a file says that it was done (the first argument); then all ranks start some, each alone, at the same moment. */
#define _GNU_SOURCE
#include "check.h"
#include <limits.h>
#include <time.h>
#include <unistd.h>

static char self[PATH_MAX];

/* Every rank sends its number to every other one. */
static void talk(MPI_Comm others) {
    int rank, remote, sum = 0;
    MPI_Comm_rank(others, &rank);
    MPI_Comm_remote_size(others, &remote);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, others);
    CHECK(sum == remote * (remote - 1) / 2);
}

/* As many as there are ranks: on several hosts, some on each. */
static void start(void) {
    char *words[] = {"-", "child", NULL};
    MPI_Comm children;
    MPI_Comm_spawn(self, words, check_size, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children, MPI_ERRCODES_IGNORE);
    talk(children);
    MPI_Comm_disconnect(&children);
}

/* Outside of MPI until the file is there, for a minute at most: odd ranks sleep, even ones compute. */
static void stay_away(const char *file) {
    time_t end = time(NULL) + 60;
    volatile double work = 1;
    while (access(file, F_OK) != 0) {
        CHECK(time(NULL) < end);
        if (check_rank % 2) usleep(10000);
        else for (int i = 0; i < 1000000; i++) work = work * 1.0000001;
    }
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    CHECK(length > 0 && argc > 1);
    self[length] = 0;
    if (argc > 2) {
        MPI_Comm parent;
        MPI_Comm_get_parent(&parent);
        talk(parent);
        MPI_Comm_disconnect(&parent);
        MPI_Finalize();
        return 0;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0) {
        start();
        FILE *done = fopen(argv[1], "w");
        CHECK(done != NULL);
        fclose(done);
    } else {
        stay_away(argv[1]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    start();
    check_done("spawn_away");
    return 0;
}
