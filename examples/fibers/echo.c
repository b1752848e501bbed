/* An echo server with a fiber for each client: rank 0 serves, every other rank has so many clients, each a
 * fiber too. Every one of them is blocked in MPI_Recv most of the time.
 *
 *     mpicc echo.c -o echo && mpiexec -n 2 ./echo 100000 3      (clients in all, messages of each) */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <weft.h>

static int rank, size, clients, rounds;

static void *serve(void *argument) {
    int client = (int)(long)argument, from = 1 + client % (size - 1);
    for (int round = 0; round < rounds; round++) {
        long message[4];
        MPI_Recv(message, 4, MPI_LONG, from, client, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(message, 4, MPI_LONG, from, client, MPI_COMM_WORLD);
    }
    return NULL;
}

static void *ask(void *argument) {
    int client = (int)(long)argument;
    for (int round = 0; round < rounds; round++) {
        long sent[4] = {client, round, client ^ round, client + round}, came[4];
        MPI_Send(sent, 4, MPI_LONG, 0, client, MPI_COMM_WORLD);
        MPI_Recv(came, 4, MPI_LONG, 0, client, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < 4; i++) {
            if (came[i] != sent[i]) {
                fprintf(stderr, "client %d: another's answer\n", client);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    clients = argc > 1 ? atoi(argv[1]) : 1000;
    rounds = argc > 2 ? atoi(argv[2]) : 3;
    if (size < 2) {
        fprintf(stderr, "start with at least two ranks: mpiexec -n 2 %s\n", argv[0]);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }

    weft_fiber *fibers = malloc(clients * sizeof *fibers);
    int started = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    for (long client = 0; client < clients; client++) {
        if (rank != 0 && rank != 1 + client % (size - 1)) continue;
        if (weft_fiber_spawn(&fibers[started], NULL, rank == 0 ? serve : ask, (void *)client) != 0) {
            fprintf(stderr, "%s\n", weft_error());
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        started++;
    }
    for (int i = 0; i < started; i++) weft_fiber_join(fibers[i], NULL);
    double seconds = MPI_Wtime() - begin;
    if (rank == 0) {
        printf("%d clients, %ld echoes, %.0f ns each\n", clients, (long)clients * rounds,
               seconds * 1e9 / clients / rounds);
    }
    free(fibers);
    MPI_Finalize();
    return 0;
}
