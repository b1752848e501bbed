/* Threads compute the parts of one message; each part is on its way as soon as it is ready. The receiver uses the parts in
 * the order in which they come, in twice as many of its own.
 *
 *   mpicc -pthread examples/partitioned.c -o partitioned && mpiexec -n 2 ./partitioned */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>

enum { THREADS = 4, COUNT = 100000 };
static double data[THREADS * COUNT];
static MPI_Request request;

static void *compute(void *argument) {
    long part = (long)argument;
    for (int i = 0; i < COUNT; i++) data[part * COUNT + i] = part;
    MPI_Pready((int)part, request);
    return NULL;
}

int main(int argc, char **argv) {
    int provided, rank, size;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size < 2) {
        fprintf(stderr, "start with two ranks: mpiexec -n 2 %s\n", argv[0]);
        MPI_Finalize();
        return 2;
    }
    if (rank == 0) {
        MPI_Psend_init(data, THREADS, COUNT, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        MPI_Start(&request);
        pthread_t threads[THREADS];
        for (long part = 0; part < THREADS; part++) pthread_create(&threads[part], NULL, compute, (void *)part);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int part = 0; part < THREADS; part++) pthread_join(threads[part], NULL);
        MPI_Request_free(&request);
    } else if (rank == 1) {
        enum { PARTS = 2 * THREADS };
        int used[PARTS] = {0}, left = PARTS;
        double sum = 0;
        MPI_Precv_init(data, PARTS, COUNT / 2, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        MPI_Start(&request);
        while (left > 0)
            for (int part = 0; part < PARTS; part++) {
                int there = 0;
                if (!used[part]) MPI_Parrived(request, part, &there);
                if (!there) continue;
                for (int i = 0; i < COUNT / 2; i++) sum += data[part * COUNT / 2 + i];
                used[part] = 1;
                left--;
            }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Request_free(&request);
        printf("the sum is %.0f\n", sum);
    }
    MPI_Finalize();
    return 0;
}
