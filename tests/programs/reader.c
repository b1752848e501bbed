/* A thread reads standard input, which stays open and gives nothing, and holds the lock of that stream in
 * the C library meanwhile. Another one ends the job: by MPI_Abort or by a fatal error. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *by_character(void *argument) {
    (void)argument;
    getchar();
    return NULL;
}

static void *by_line(void *argument) {
    char line[100];
    (void)argument;
    fgets(line, sizeof line, stdin);
    return NULL;
}

/* It reads once no other thread gets the lock. */
static void until_it_reads(void) {
    while (ftrylockfile(stdin) == 0) {
        funlockfile(stdin);
        usleep(1000);
    }
}

int main(int argc, char **argv) {
    pthread_t thread;
    int provided, rank, value = 0;
    if (argc < 3) return 2;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) { /* standard input is that of rank 0 */
        pthread_create(&thread, NULL, strcmp(argv[1], "getchar") ? by_line : by_character, NULL);
        until_it_reads();
        printf("said before");
        if (!strcmp(argv[2], "abort")) MPI_Abort(MPI_COMM_WORLD, 42);
        MPI_Send(&value, -1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return 0;
}
