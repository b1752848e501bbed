/*
 * All threads that call wait, and what ends that comes from outside of MPI, later; there is no report.
 * run: 2 time
 * run: 2 timed
 * run: 2 read
 * run: 2 process
 * run: 2 sigwait
 * run: 2 handler
 * run: 2 chain
 * run: 2 computing
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LATE = 1500 };

static const char *what;
static sem_t own, *of_both;
static volatile unsigned long counted;

static int is(const char *name) { return strcmp(what, name) == 0; }

static void pause_for(long milliseconds) {
    struct timespec left = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&left, NULL);
}

static void post(int number) {
    (void)number;
    sem_post(&own);
}

static void *posts_later(void *nothing) {
    pause_for(LATE);
    sem_post(&own);
    return nothing;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

/* Waits for something that comes, and sends what the other thread of each rank waits for. */
static void *works(void *nothing) {
    struct itimerval later = {{0, 0}, {LATE / 1000, LATE % 1000 * 1000}};
    int rank, value = 7;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (is("time")) {
        pause_for(LATE);
    } else if (is("timed")) {
        pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
        pthread_cond_t never = PTHREAD_COND_INITIALIZER;
        struct timespec end;
        clock_gettime(CLOCK_REALTIME, &end);
        end.tv_sec += 2;
        pthread_mutex_lock(&mutex);
        while (pthread_cond_timedwait(&never, &mutex, &end) == 0)
            ;
        pthread_mutex_unlock(&mutex);
    } else if (is("read")) {
        struct itimerspec once = {{0, 0}, {LATE / 1000, LATE % 1000 * 1000000}};
        unsigned long ticks;
        int timer = timerfd_create(CLOCK_MONOTONIC, 0);
        timerfd_settime(timer, 0, &once, NULL);
        if (read(timer, &ticks, sizeof ticks) < 0)
            MPI_Abort(MPI_COMM_WORLD, 3);
        close(timer);
    } else if (is("process")) {
        while (sem_wait(of_both) != 0)
            ;
    } else if (is("sigwait")) {
        sigset_t alarm;
        int number;
        sigemptyset(&alarm);
        sigaddset(&alarm, SIGALRM);
        setitimer(ITIMER_REAL, &later, NULL);
        sigwait(&alarm, &number);
    } else if (is("handler")) {
        setitimer(ITIMER_REAL, &later, NULL);
        while (sem_wait(&own) != 0)
            ;
    } else if (is("chain")) {
        pthread_t other;
        pthread_create(&other, NULL, posts_later, NULL);
        while (sem_wait(&own) != 0)
            ;
        pthread_join(other, NULL);
    } else {
        for (double end = now() + LATE / 1e3; now() < end;)
            counted++;
    }
    MPI_Send(&value, 1, MPI_INT, 1 - rank, 5, MPI_COMM_WORLD);
    return nothing;
}

int main(int argc, char **argv) {
    int level, rank, value = 0;
    pthread_t worker;
    pid_t child = -1;
    what = argv[1];
    sem_init(&own, 0, 0);
    if (is("process")) {
        of_both = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        sem_init(of_both, 1, 0);
        child = fork();
        if (child == 0) {
            pause_for(LATE + 500);
            sem_post(of_both);
            _exit(0);
        }
    } else if (is("sigwait")) {
        sigset_t alarm;
        sigemptyset(&alarm);
        sigaddset(&alarm, SIGALRM);
        pthread_sigmask(SIG_BLOCK, &alarm, NULL);
    } else if (is("handler")) {
        struct sigaction action = {.sa_handler = post, .sa_flags = SA_RESTART};
        sigaction(SIGALRM, &action, NULL);
    }
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    pthread_create(&worker, NULL, works, NULL);
    MPI_Recv(&value, 1, MPI_INT, 1 - rank, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    pthread_join(worker, NULL);
    MPI_Finalize();
    if (child > 0)
        waitpid(child, NULL, 0);
    return value != 7;
}
