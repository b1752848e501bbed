/*
 * Right programs where it is hard: beside processes that compute, stopped and continued, with slow ranks.
 *
 * run: 2 late
 * run: 4 late
 * run: 2 computes
 * run: 3 stopped
 * run: 3 stopped-all
 * run: 4 loaded
 * run: 9 loaded
 * run: 4 sleeping
 * run: 2 polling
 * run: 3 probing
 * run: 2 thread
 * run: 4 ring
 * run: 3 collectives
 * run: 4 any
 */
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int rank, size, value, sum;
static const char *wanted;

static int is(const char *name) { return strcmp(wanted, name) == 0; }

static void pause_for(int milliseconds) { usleep(milliseconds * 1000); }

/* Stops the caller for so long, from outside. */
static pid_t stop_me(int milliseconds) {
    pid_t me = getpid(), child = fork();
    if (child == 0) {
        pause_for(100);
        kill(me, SIGSTOP);
        pause_for(milliseconds);
        kill(me, SIGCONT);
        _exit(0);
    }
    return child;
}

/* A process that computes for a while. */
static pid_t burn(int milliseconds) {
    pid_t child = fork();
    if (child == 0) {
        alarm(milliseconds / 1000 + 1);
        for (volatile long i = 0;; i++) {}
    }
    return child;
}

static void ring(int rounds) {
    for (int i = 0; i < rounds; i++) {
        MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 1, &value, 1, MPI_INT, (rank + size - 1) % size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
}

static void *send_later(void *none) {
    pause_for(1500);
    MPI_Send(&rank, 1, MPI_INT, 1 - rank, 5, MPI_COMM_WORLD);
    return none;
}

int main(int argc, char **argv) {
    int level, flag = 0;
    pid_t child = 0;
    MPI_Request request;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    wanted = argv[1];
    if (is("late")) { if (rank == 0) pause_for(2500); ring(3); }
    if (is("sleeping")) { pause_for(400 * rank); ring(3); pause_for(400 * (size - rank)); ring(3); }
    if (is("computes")) {
        double until = MPI_Wtime() + 2.5;
        if (rank == 0) while (MPI_Wtime() < until) {}
        ring(3);
    }
    if (is("stopped") || is("stopped-all")) {
        if (rank == 1 || is("stopped-all")) child = stop_me(1500);
        for (int i = 0; i < 8; i++) { ring(50); pause_for(40); }
    }
    if (is("loaded")) { child = burn(1500); ring(200); pause_for(300 * (rank % 2)); ring(50); }
    if (is("polling")) {
        MPI_Irecv(&value, 1, MPI_INT, 1 - rank, 2, MPI_COMM_WORLD, &request);
        if (rank == 0) pause_for(2000);
        MPI_Send(&rank, 1, MPI_INT, 1 - rank, 2, MPI_COMM_WORLD);
        while (!flag) MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    }
    if (is("probing") && rank > 0) { pause_for(700 * rank); MPI_Send(&rank, 1, MPI_INT, 0, rank, MPI_COMM_WORLD); }
    if (is("probing") && rank == 0)
        for (int i = 1; i < size; i++) {
            MPI_Status status;
            MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
            MPI_Recv(&value, 1, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, &status);
        }
    if (is("thread")) {
        pthread_t thread;
        pthread_create(&thread, NULL, send_later, NULL);
        MPI_Recv(&value, 1, MPI_INT, 1 - rank, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        pthread_join(thread, NULL);
    }
    if (is("ring")) for (int i = 0; i < 4; i++) { if (rank == i) pause_for(600); ring(1); }
    if (is("collectives"))
        for (int i = 0; i < 6; i++) {
            if (rank == i % size) pause_for(300);
            MPI_Bcast(&value, 1, MPI_INT, i % size, MPI_COMM_WORLD);
            MPI_Reduce(&rank, &sum, 1, MPI_INT, MPI_SUM, (i + 1) % size, MPI_COMM_WORLD);
            MPI_Ibarrier(MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
    if (is("any")) {
        if (rank == 0) for (int i = 1; i < size; i++) MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else { pause_for(500 * rank); MPI_Send(&rank, 1, MPI_INT, 0, 3, MPI_COMM_WORLD); }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (child > 0) { if (is("loaded")) kill(child, SIGKILL); waitpid(child, NULL, 0); }
    MPI_Finalize();
    return 0;
}
