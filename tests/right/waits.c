/*
 * Ranks that wait for long, for something that comes; there is no report.
 * run: 2 slow
 * run: 5 slow
 * run: 2 computes
 * run: 2 thread
 * run: 2 sleeping-thread
 * run: 2 stopped
 * run: 2 asks
 * run: 2 pipe
 * run: 3 chain
 * run: 17 chain
 * run: 2 bounces
 * run: 2 grequest
 * run: 2 file
 * run: 2 late-init
 * run: 2 after-finalize
 */
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TAG = 1 };
static int rank, size, value;
static MPI_Comm world;
/* Long enough for a watch that looks some times a second. */
static const double LONG = 1.2;

static void pause_for(double seconds) {
    struct timespec left = {(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)};
    nanosleep(&left, NULL);
}

static void to_all(void) {
    for (int i = 1; i < size; i++)
        MPI_Send(&value, 1, MPI_INT, i, TAG, world);
}

static void from_first(void) {
    MPI_Recv(&value, 1, MPI_INT, 0, TAG, world, MPI_STATUS_IGNORE);
}

static void slow(void) {
    if (rank == 0) {
        pause_for(LONG);
        to_all();
    } else {
        from_first();
    }
}

static void computes(void) {
    if (rank == 0) {
        volatile double sum = 0;
        for (double end = MPI_Wtime() + LONG; MPI_Wtime() < end;)
            sum += 1;
        to_all();
    } else {
        from_first();
    }
}

static void *send_later(void *nothing) {
    pause_for(LONG);
    to_all();
    return nothing;
}

static void *compute_and_send(void *nothing) {
    computes();
    return nothing;
}

static void with(void *(*thread_of_first)(void *)) {
    pthread_t thread;
    int mine;
    if (rank == 0) {
        pthread_create(&thread, NULL, thread_of_first, NULL);
        MPI_Recv(&mine, 1, MPI_INT, 1, TAG + 1, world, MPI_STATUS_IGNORE);
        pthread_join(thread, NULL);
    } else {
        from_first();
        MPI_Send(&value, 1, MPI_INT, 0, TAG + 1, world);
    }
}

static void stopped(void) {
    if (rank == 0) {
        pid_t me = getpid(), child = fork();
        if (child == 0) {
            pause_for(LONG);
            kill(me, SIGCONT);
            _exit(0);
        }
        raise(SIGSTOP);
        waitpid(child, NULL, 0);
        to_all();
    } else {
        from_first();
    }
}

static void asks(void) {
    if (rank == 0) {
        MPI_Request request;
        int done = 0;
        MPI_Irecv(&value, 1, MPI_INT, 1, TAG + 1, world, &request);
        for (double end = MPI_Wtime() + LONG; MPI_Wtime() < end;) {
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
            pause_for(0.01);
        }
        to_all();
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        from_first();
        MPI_Send(&value, 1, MPI_INT, 0, TAG + 1, world);
    }
}

static void reads_pipe(void) {
    if (rank == 0) {
        int ends[2];
        char byte;
        if (pipe(ends) != 0)
            MPI_Abort(world, 1);
        pid_t child = fork();
        if (child == 0) {
            pause_for(LONG);
            _exit(write(ends[1], "x", 1) != 1);
        }
        if (read(ends[0], &byte, 1) != 1)
            MPI_Abort(world, 1);
        waitpid(child, NULL, 0);
        to_all();
    } else {
        from_first();
    }
}

static void chain(void) {
    if (rank == 0)
        pause_for(LONG);
    else
        MPI_Recv(&value, 1, MPI_INT, rank - 1, TAG, world, MPI_STATUS_IGNORE);
    if (rank + 1 < size)
        MPI_Send(&value, 1, MPI_INT, rank + 1, TAG, world);
    MPI_Barrier(world);
}

/* Both sleep for most of the time, and continue now and then. */
static void bounces(void) {
    for (int i = 0; i < 12; i++) {
        if (rank == i % 2) {
            pause_for(LONG / 10);
            MPI_Send(&value, 1, MPI_INT, 1 - rank, TAG, world);
        } else {
            MPI_Recv(&value, 1, MPI_INT, 1 - rank, TAG, world, MPI_STATUS_IGNORE);
        }
    }
}

static int nothing_query(void *extra, MPI_Status *status) {
    (void)extra;
    MPI_Status_set_elements(status, MPI_INT, 0);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = MPI_UNDEFINED;
    status->MPI_TAG = MPI_UNDEFINED;
    return MPI_SUCCESS;
}
static int nothing_free(void *extra) {
    (void)extra;
    return MPI_SUCCESS;
}
static int nothing_cancel(void *extra, int complete) {
    (void)extra;
    (void)complete;
    return MPI_SUCCESS;
}
static MPI_Request general;

static void *complete_later(void *nothing) {
    pause_for(LONG);
    MPI_Grequest_complete(general);
    return nothing;
}

static void grequest(void) {
    pthread_t thread;
    MPI_Grequest_start(nothing_query, nothing_free, nothing_cancel, NULL, &general);
    pthread_create(&thread, NULL, complete_later, NULL);
    MPI_Wait(&general, MPI_STATUS_IGNORE);
    pthread_join(thread, NULL);
}

static void file(void) {
    char name[] = "/tmp/weft-right-XXXXXX";
    MPI_File handle;
    MPI_Request request;
    if (rank == 0) {
        int made = mkstemp(name);
        close(made);
    }
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, world);
    MPI_File_open(world, name, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &handle);
    MPI_File_iwrite_at(handle, 4 * rank, &value, 1, MPI_INT, &request);
    if (rank == 0)
        pause_for(LONG);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_File_close(&handle);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "slow";
    int level;
    if (strcmp(what, "late-init") == 0 && getpid() % 2 == 0)
        pause_for(LONG);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    world = MPI_COMM_WORLD;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    if (strcmp(what, "slow") == 0)
        slow();
    else if (strcmp(what, "computes") == 0)
        computes();
    else if (strcmp(what, "thread") == 0)
        with(compute_and_send);
    else if (strcmp(what, "sleeping-thread") == 0)
        with(send_later);
    else if (strcmp(what, "stopped") == 0)
        stopped();
    else if (strcmp(what, "asks") == 0)
        asks();
    else if (strcmp(what, "pipe") == 0)
        reads_pipe();
    else if (strcmp(what, "chain") == 0)
        chain();
    else if (strcmp(what, "bounces") == 0)
        bounces();
    else if (strcmp(what, "grequest") == 0)
        grequest();
    else if (strcmp(what, "file") == 0)
        file();
    MPI_Finalize();
    if (strcmp(what, "after-finalize") == 0 && rank == 0)
        pause_for(LONG);
    return 0;
}
