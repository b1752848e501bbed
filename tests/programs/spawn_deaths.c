/* Which processes die together: a process that a program has started ends badly, while it is connected to those that
 * started it, or after it has disconnected. */
#define _GNU_SOURCE
#include "check.h"
#include <limits.h>
#include <signal.h>
#include <unistd.h>

/* Until the launcher ends it; within MPI, so that messages under way make progress. */
static void wait_for_the_end(void) {
    MPI_Recv(NULL, 0, MPI_BYTE, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
}

static int child(const char *what) {
    MPI_Comm parent;
    MPI_Comm_get_parent(&parent);
    if (strcmp(what, "connected") == 0) {
        MPI_Barrier(parent);
        if (check_rank == 1) raise(SIGKILL);
        wait_for_the_end();
    }
    MPI_Comm_disconnect(&parent);
    if (strcmp(what, "killed") == 0 || strcmp(what, "waiting") == 0) wait_for_the_end();
    if (strcmp(what, "independent") == 0) {
        if (check_rank == 1) raise(SIGKILL);
        wait_for_the_end();
    }
    if (strcmp(what, "aborting") == 0) {
        if (check_rank == 1) MPI_Abort(MPI_COMM_WORLD, 7);
        wait_for_the_end();
    }
    MPI_Finalize();
    return 0;
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    CHECK(length > 0 && argc > 1);
    self[length] = 0;
    if (argc > 2) return child(argv[1]);
    MPI_Comm children;
    if (strcmp(argv[1], "without") == 0) {
        MPI_Comm_spawn("true", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
        CHECK(!"started a program that does not call MPI_Init");
    }
    if (strcmp(argv[1], "idle") == 0) {
        char *seconds[] = {"-c", "exec sleep 1000", NULL};
        MPI_Comm_spawn("sh", seconds, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
        CHECK(!"a program that does not call MPI_Init is waited for");
    }
    char *words[] = {argv[1], "x", NULL};
    MPI_Comm_spawn(self, words, 3, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
    if (strcmp(argv[1], "connected") == 0) {
        MPI_Barrier(children);
        wait_for_the_end();
    }
    /* The test kills somebody. */
    if (strcmp(argv[1], "waiting") == 0) {
        puts("waiting");
        fflush(stdout);
        wait_for_the_end();
    }
    /* The process that has started others is killed, and they are no longer connected to it. */
    if (strcmp(argv[1], "killed") == 0) {
        MPI_Comm_disconnect(&children);
        raise(SIGKILL);
    }
    MPI_Comm_disconnect(&children);
    /* Others are started while the world before is ended. */
    for (int round = 0; round < 3; round++) {
        char *good[] = {"good", "x", NULL};
        MPI_Comm_spawn(self, good, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
        MPI_Comm_disconnect(&children);
    }
    check_done("spawn_deaths");
    return 0;
}
