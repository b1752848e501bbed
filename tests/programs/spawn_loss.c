/* One of the ranks that start processes dies meanwhile, at a given moment: MPI_Comm_spawn is an error at the others, half-started
 * processes are ended, and the ranks continue; if that is asked for, they start others. The moment 0 is before the call; if STARTED
 * names a file, processes that are started make it, and the rank dies when it is there; the first of them leave only by being ended. */
#define _GNU_SOURCE
#include "check.h"
#include <limits.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

/* "child PAUSE": initialises MPI after that many microseconds, and leaves its parents, which may have died. */
static int child(int *argc, char ***argv) {
    const char *started = getenv("STARTED");
    if (started) fclose(fopen(started, "w"));
    usleep(atoi((*argv)[2]));
    MPI_Init(argc, argv);
    MPI_Comm parent;
    MPI_Comm_get_parent(&parent);
    MPI_Comm_set_errhandler(parent, MPI_ERRORS_RETURN);
    int sum = 0, one = 1;
    if (started && strcmp((*argv)[1], "first") == 0) pause();
    if (strcmp((*argv)[1], "second") == 0) MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, parent);
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    return 0;
}

static void die_after(long microseconds) {
    const char *started = getenv("STARTED");
    while (microseconds == 0 && started && access(started, F_OK) != 0) usleep(1000);
    if (microseconds == 0) raise(SIGKILL);
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    struct itimerspec when = {.it_value = {.tv_sec = microseconds / 1000000, .tv_nsec = microseconds % 1000000 * 1000}};
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    timer_settime(timer, 0, &when, NULL);
}

/* VICTIM MOMENT PAUSE [again] */
int main(int argc, char **argv) {
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    CHECK(length > 0 && argc > 2);
    self[length] = 0;
    if (argc == 3) return child(&argc, &argv);
    check_init(&argc, &argv);
    MPI_Comm world, left, children;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    MPI_Barrier(world);
    int error, class, size, one = 1, sum = 0;
    if (check_rank == atoi(argv[1])) die_after(atol(argv[2]));
    char *first[] = {"first", argv[3], NULL}, *second[] = {"second", "0", NULL};
    do {
        error = MPI_Comm_spawn(self, first, 1, MPI_INFO_NULL, 0, world, &children, MPI_ERRCODES_IGNORE);
        if (error == MPI_SUCCESS) error = MPI_Comm_disconnect(&children);
    } while (error == MPI_SUCCESS);
    MPI_Error_class(error, &class);
    char text[MPI_MAX_ERROR_STRING];
    int letters;
    MPI_Error_string(error, text, &letters);
    if (class != MPIX_ERR_PROC_FAILED && class != MPIX_ERR_REVOKED && class != MPI_ERR_SPAWN)
        fprintf(stderr, "rank %d: another error: %s\n", check_rank, text);
    MPIX_Comm_revoke(world);
    CHECK(MPIX_Comm_shrink(world, &left) == MPI_SUCCESS);
    MPI_Comm_set_errhandler(left, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_size(left, &size);
    CHECK(size == check_size - 1);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, left);
    CHECK(sum == size);
    if (argc > 4) {
        MPI_Comm_spawn(self, second, 2, MPI_INFO_NULL, 0, left, &children, MPI_ERRCODES_IGNORE);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, children);
        CHECK(sum == 2);
        MPI_Comm_disconnect(&children);
    }
    printf("rank %d goes on\n", check_rank);
    MPI_Comm_free(&left);
    MPI_Comm_free(&world);
    MPI_Finalize();
    return 0;
}
