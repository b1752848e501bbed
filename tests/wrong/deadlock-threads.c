/*
 * One thread of each rank makes all calls and waits for the other rank; whatever the others do, they end no wait.
 * exit: 35
 * says: ended by a deadlock: ranks 0 and 1 wait for each other
 * says: rank 0: MPI_Recv for a message from rank 1, tag 2, MPI_COMM_WORLD, at deadlock-threads.c:
 *
 * run: 2 single sleeping
 * run: 2 funneled sleeping
 * run: 2 funneled computing
 */
#include <mpi.h>
#include <pthread.h>
#include <string.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static volatile unsigned long counted;

static void *sleeps(void *nothing) {
    pthread_mutex_lock(&mutex);
    for (;;)
        pthread_cond_wait(&never, &mutex);
    return nothing;
}

static void *computes(void *nothing) {
    for (;;)
        counted++;
    return nothing;
}

int main(int argc, char **argv) {
    int level, rank, value = 0;
    if (strcmp(argv[1], "single") == 0)
        MPI_Init(&argc, &argv);
    else
        MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    pthread_t pool[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&pool[i], NULL, strcmp(argv[2], "computing") == 0 ? computes : sleeps, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Recv(&value, 1, MPI_INT, 1 - rank, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(&value, 1, MPI_INT, 1 - rank, 2, MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
