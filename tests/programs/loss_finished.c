/* A rank dies, and the others go on without it. One of them finishes while the root still waits for a slow one in a collective: a rank
 * that has finished is no loss, however its process ends after MPI_Finalize, and the collective comes to its end.
 *   ranks: 0 the root, 1 finishes first, the last but one is slow, the last dies
 * An argument says how the process of rank 1 ends: "well", "with code", "killed". With "spawned" all of them are started from within a
 * program, and end well; with "session" they use one. */
#include "check.h"
#include <errno.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

static void pause_for(long milliseconds) {
    struct timespec pause = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

/* Until the launcher has fetched this process, and has had time to say so. */
static void wait_for_end_of(int process) {
    while (kill(process, 0) == 0) pause_for(1);
    CHECK(errno == ESRCH);
    pause_for(200);
}

int main(int argc, char **argv) {
    MPI_Comm all, left, parent;
    MPI_Session session = MPI_SESSION_NULL;
    int value = 0, code, class;
    const char *how = argc > 1 ? argv[1] : "well";
    if (strcmp(how, "session") == 0) {
        MPI_Group group;
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
        MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
        MPI_Comm_create_from_group(group, "all", MPI_INFO_NULL, MPI_ERRORS_RETURN, &all);
        MPI_Group_free(&group);
    } else {
        MPI_Init(&argc, &argv);
        MPI_Comm_get_parent(&parent);
        if (strcmp(how, "spawned") == 0 && parent == MPI_COMM_NULL) {
            char *arguments[] = {"spawned", NULL};
            MPI_Comm children;
            MPI_Comm_spawn(argv[0], arguments, 4, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children, MPI_ERRCODES_IGNORE);
            MPI_Comm_disconnect(&children);
            MPI_Finalize();
            return 0;
        }
        if (parent != MPI_COMM_NULL) MPI_Comm_disconnect(&parent);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        MPI_Comm_dup(MPI_COMM_WORLD, &all);
    }
    MPI_Comm_rank(all, &check_rank);
    MPI_Comm_size(all, &check_size);
    MPI_Barrier(all);
    if (check_rank == check_size - 1) raise(SIGKILL);
    MPI_Recv(&value, 1, MPI_INT, check_size - 1, 0, all, MPI_STATUS_IGNORE);
    CHECK(MPIX_Comm_shrink(all, &left) == MPI_SUCCESS);
    int *processes = malloc(sizeof(int) * check_size), process = getpid();
    CHECK(MPI_Allgather(&process, 1, MPI_INT, processes, 1, MPI_INT, left) == MPI_SUCCESS);
    if (check_rank == check_size - 2) wait_for_end_of(processes[1]);
    code = MPI_Gather(&process, 1, MPI_INT, processes, 1, MPI_INT, 0, left);
    if (code != MPI_SUCCESS) {
        char text[MPI_MAX_ERROR_STRING];
        MPI_Error_class(code, &class);
        MPI_Error_string(code, text, &value);
        fprintf(stderr, "rank %d: error of class %d: %s\n", check_rank, class, text);
    }
    if (check_rank != 1 && code == MPI_SUCCESS) printf("rank %d goes on\n", check_rank);
    free(processes);
    MPI_Comm_free(&left);
    MPI_Comm_free(&all);
    if (session != MPI_SESSION_NULL)
        MPI_Session_finalize(&session);
    else
        MPI_Finalize();
    if (check_rank == 1 && strcmp(how, "with code") == 0) exit(3);
    if (check_rank == 1 && strcmp(how, "killed") == 0) raise(SIGKILL);
    return 0;
}
