/*
 * Ranks with threads that never call, of which one waits for long for something that comes; there is no report.
 * run: 2 slow
 * run: 2 result
 * run: 3 relay
 */
#include <mpi.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int result, rank, size;

static void pause_for(long milliseconds) {
    struct timespec left = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&left, NULL);
}

/* Has the thread that calls go on after a while. */
static void *works(void *nothing) {
    pause_for(1200);
    pthread_mutex_lock(&mutex);
    result = 7;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    return nothing;
}

static void await_result(void) {
    pthread_mutex_lock(&mutex);
    while (!result)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
}

int main(int argc, char **argv) {
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    pthread_t worker;
    pthread_create(&worker, NULL, works, NULL);
    if (rank == 0) {
        if (strcmp(argv[1], "slow") == 0)
            pause_for(1200);
        else
            await_result();
    } else {
        MPI_Recv(&result, 1, MPI_INT, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    result = 7;
    if (rank + 1 < size)
        MPI_Send(&result, 1, MPI_INT, rank + 1, 0, MPI_COMM_WORLD);
    pthread_join(worker, NULL);
    MPI_Finalize();
    return 0;
}
