/* The last of three ranks dies with the lock of rank 0's memory: a rank that waits for the lock, or uses its memory, gets an error, in windows
 * that Weft has allocated and in those of the program's own memory. With 2, which are allocated as well, it dies sharing the locks. */
#include <signal.h>
#include <unistd.h>

#include "check.h"

static long memory[4];

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    const int allocated = atoi(argv[1]), rank = check_rank;
    long value = 7, *base;
    MPI_Win win;
    if (allocated)
        MPI_Win_allocate(sizeof memory, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    else
        MPI_Win_create(memory, sizeof memory, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (rank == 2) {
        const int kind = allocated == 2 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE;
        MPI_Win_lock(kind, 0, 0, win);
        MPI_Win_lock(kind, 2, 0, win);
        MPI_Barrier(MPI_COMM_WORLD);
        usleep(20000);
        kill(getpid(), SIGKILL);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    /* In the end the queue of rank 0 grants it, or it is an error: it must not wait for ever. */
    int code = MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    if (code == MPI_SUCCESS) code = MPI_Win_unlock(0, win);
    CHECK(code == MPI_SUCCESS || code == MPI_ERR_PROC_ABORTED);
    /* The lock of its memory is not granted any more. */
    code = MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 2, 0, win);
    CHECK(code == MPI_ERR_PROC_ABORTED);
    MPI_Group world, dead;
    int two = 2;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &two, &dead);
    CHECK(MPI_Win_post(dead, MPI_MODE_NOCHECK, win) == MPI_SUCCESS);
    CHECK(MPI_Win_wait(win) == MPI_ERR_PROC_ABORTED);
    if (!allocated) {
        MPI_Win_lock(MPI_LOCK_SHARED, 2, MPI_MODE_NOCHECK, win);
        code = MPI_Put(&value, 1, MPI_LONG, 2, 0, 1, MPI_LONG, win);
        if (code == MPI_SUCCESS) code = MPI_Win_flush(2, win);
        CHECK(code == MPI_ERR_PROC_ABORTED);
        MPI_Win_unlock(2, win);
    }
    CHECK(MPI_Win_fence(0, win) == MPI_ERR_PROC_ABORTED);
    printf("rank %d: told\n", rank);
    fflush(stdout);
    /* MPI_Finalize would wait for the dead one. */
    if (rank == 0)
        MPI_Recv(NULL, 0, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        MPI_Ssend(NULL, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    _exit(0);
}
