/*
 * One thread of each rank waits for the other rank. If it makes all calls, whatever the others do ends no wait; if any may, those that
 * wait for each other do not.
 * exit: 35
 * says: ended by a deadlock: ranks 0 and 1 wait for each other
 * says: rank 0: MPI_Recv for a message from rank 1, tag 2, MPI_COMM_WORLD, at deadlock-threads.c:
 *
 * run: 2 single sleeping
 * run: 2 funneled sleeping
 * run: 2 funneled computing
 * run: 2 funneled away
 * run: 2 multiple sleeping
 * run: 2 multiple semaphore
 * run: 2 multiple joining
 */
#include <mpi.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static volatile unsigned long counted;
static sem_t semaphore;

static void *sleeps(void *nothing) {
    pthread_mutex_lock(&mutex);
    for (;;)
        pthread_cond_wait(&never, &mutex);
    return nothing;
}

static void *awaits_semaphore(void *nothing) {
    for (;;)
        sem_wait(&semaphore);
    return nothing;
}

/* Waits for the end of one that sleeps. */
static void *joins(void *nothing) {
    pthread_t other;
    pthread_create(&other, NULL, sleeps, NULL);
    pthread_join(other, NULL);
    return nothing;
}

/* Over a network a thread of the library takes the first message to its receiver meanwhile. */
static void is_away(int other) {
    int value = 1;
    MPI_Send(&value, 1, MPI_INT, other, 1, MPI_COMM_WORLD);
    usleep(200000);
    MPI_Recv(&value, 1, MPI_INT, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
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
        MPI_Init_thread(&argc, &argv, strcmp(argv[1], "multiple") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED, &level);
    sem_init(&semaphore, 0, 0);
    pthread_t pool[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&pool[i], NULL,
                       strcmp(argv[2], "computing") == 0   ? computes
                       : strcmp(argv[2], "away") == 0      ? computes
                       : strcmp(argv[2], "semaphore") == 0 ? awaits_semaphore
                       : strcmp(argv[2], "joining") == 0   ? joins
                                                           : sleeps,
                       NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (strcmp(argv[2], "away") == 0)
        is_away(1 - rank);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Recv(&value, 1, MPI_INT, 1 - rank, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(&value, 1, MPI_INT, 1 - rank, 2, MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
