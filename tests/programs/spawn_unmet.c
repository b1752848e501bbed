/* Processes that are started from within a program and end before they have met their parents: MPI_Comm_spawn is an
 * error to these, which says who it was, nothing is left of the others that were started, and others can be started.
 * HOW RANK SIZE: of SIZE processes that one ends: "killed", "exits" with code 3, or "leaves" with code 0. */
#include "check.h"
#include <limits.h>
#include <signal.h>
#include <unistd.h>

static int child(int *argc, char ***argv) {
    const char *how = (*argv)[1], *rank = getenv("PMI_RANK");
    if (rank != NULL && strcmp(rank, (*argv)[2]) == 0) {
        if (strcmp(how, "killed") == 0) raise(SIGKILL);
        if (strcmp(how, "exits") == 0) _exit(3);
        if (strcmp(how, "leaves") == 0) _exit(0);
    }
    MPI_Init(argc, argv);
    MPI_Comm parent;
    MPI_Comm_get_parent(&parent);
    MPI_Barrier(parent);
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    return 0;
}

int main(int argc, char **argv) {
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    CHECK(length > 0 && argc > 3);
    self[length] = 0;
    if (argc > 4) return child(&argc, &argv);
    check_init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
#ifdef HANDLES
    MPI_Comm shrunk;
    MPIX_Comm_shrink(MPI_COMM_WORLD, &shrunk);
    MPI_Comm_free(&shrunk);
#endif
    int size = atoi(argv[3]), class, codes[16];
    char *words[] = {argv[1], argv[2], argv[3], "child", NULL};
    for (int round = 0; round < 3; round++) {
        MPI_Comm children = MPI_COMM_NULL;
        for (int i = 0; i < size; i++) codes[i] = -1;
        int error = MPI_Comm_spawn(self, words, size, MPI_INFO_NULL, round % check_size, MPI_COMM_WORLD, &children, codes);
        if (error == MPI_SUCCESS) {
            /* The process that connects for all of them may have met us before. */
            CHECK(atoi(argv[2]) > 0);
            MPI_Comm_set_errhandler(children, MPI_ERRORS_RETURN);
            error = MPI_Barrier(children);
            MPI_Error_class(error, &class);
            CHECK(class == MPIX_ERR_PROC_FAILED);
            MPI_Comm_free(&children);
        } else {
            char text[MPI_MAX_ERROR_STRING];
            int letters;
            MPI_Error_string(error, text, &letters);
            MPI_Error_class(error, &class);
            if (class != MPI_ERR_SPAWN) fprintf(stderr, "rank %d: another error: %s\n", check_rank, text);
            CHECK(class == MPI_ERR_SPAWN && children == MPI_COMM_NULL);
            for (int i = 0; i < size; i++) CHECK(codes[i] == MPI_ERR_SPAWN);
            if (check_rank == round % check_size) puts(text);
        }
    }
    char *good[] = {"good", "0", "2", "child", NULL};
    MPI_Comm children;
    CHECK(MPI_Comm_spawn(self, good, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, codes) == MPI_SUCCESS);
    CHECK(codes[0] == MPI_SUCCESS && codes[1] == MPI_SUCCESS);
    CHECK(MPI_Barrier(children) == MPI_SUCCESS);
    MPI_Comm_disconnect(&children);
    printf("rank %d goes on\n", check_rank);
    MPI_Finalize();
    return 0;
}
