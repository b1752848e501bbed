/* Locks of windows in shared memory, shared and exclusive by turns: readers within MPI_Win_lock_all and MPI_Win_lock find two words alike, which
 * writers change one after the other under an exclusive lock. With an argument several threads of each rank put and get at once, each of them the
 * first in its epoch to do so. */
#include <pthread.h>

#include "window_pair.h"

#define THREADS 3
#define WORDS 64

static MPI_Win win;
static long *memory;
static int rounds, threads;
static unsigned long seed;
static pthread_barrier_t ready;

static unsigned long random_number(void) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed;
}

/* Both words of a rank, which are equal for the holder of the lock. */
static void look(int target) {
    long pair[2] = {-1, -2};
    MPI_Get(&pair[0], 1, MPI_LONG, target, 0, 1, MPI_LONG, win);
    MPI_Get(&pair[1], 1, MPI_LONG, target, 1, 1, MPI_LONG, win);
    MPI_Win_flush(target, win);
    CHECK(pair[0] == pair[1]);
}

/* Within an epoch of all: every thread is the first one at some target. */
static void *first(void *argument) {
    int me = (int)(long)argument;
    for (int round = 0; round < rounds; round++) {
        if (me == 0) MPI_Win_lock_all(0, win);
        pthread_barrier_wait(&ready);
        for (int rank = 0; rank < check_size; rank++) {
            long value = round, found = -1;
            int target = (rank + round) % check_size, word = 2 + check_rank * THREADS + me;
            MPI_Put(&value, 1, MPI_LONG, target, word, 1, MPI_LONG, win);
            look(target);
            MPI_Get(&found, 1, MPI_LONG, target, word, 1, MPI_LONG, win);
            MPI_Win_flush(target, win);
            CHECK(found == value);
        }
        pthread_barrier_wait(&ready);
        if (me == 0) {
            MPI_Win_unlock_all(win);
            if (round % 8 == check_rank) change_pair(round % check_size, win);
        }
    }
    return NULL;
}

static void by_turns(void) {
    for (int round = 0; round < rounds; round++) {
        int target = (int)(random_number() % (unsigned long)check_size);
        switch (random_number() % 16) {
        case 0: change_pair(target, win); break;
        case 1:
            MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
            look(target);
            MPI_Win_unlock(target, win);
            break;
        default:
            MPI_Win_lock_all(0, win);
            look(target);
            if (round % 3 == 0) look((target + 1) % check_size);
            MPI_Win_unlock_all(win);
        }
    }
}

int main(int argc, char **argv) {
    int level;
    threads = argc > 1;
    rounds = threads ? 400 : 4000;
    MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    seed = 88172645463325252u + (unsigned long)check_rank;
    MPI_Win_allocate(WORDS * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    CHECK(2 + check_size * THREADS < WORDS);
    memset(memory, 0, WORDS * sizeof(long));
    MPI_Barrier(MPI_COMM_WORLD);
    if (threads) {
        pthread_t others[THREADS];
        CHECK(level == MPI_THREAD_MULTIPLE);
        pthread_barrier_init(&ready, NULL, THREADS);
        for (long i = 1; i < THREADS; i++) pthread_create(&others[i], NULL, first, (void *)i);
        first(NULL);
        for (int i = 1; i < THREADS; i++) pthread_join(others[i], NULL);
    } else
        by_turns();
    /* Only readers, so often that they use the lock without its word again; even then a writer waits for them. */
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = 0; round < 3000; round++) {
        MPI_Win_lock_all(0, win);
        look((check_rank + 1) % check_size);
        MPI_Win_unlock_all(win);
    }
    for (int round = 0; round < 50; round++) {
        change_pair((check_rank + round) % check_size, win);
        MPI_Win_lock_all(0, win);
        look(round % check_size);
        MPI_Win_unlock_all(win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, win);
    long sum = memory[0], all, none;
    CHECK(memory[0] == memory[1]);
    MPI_Win_unlock(check_rank, win);
    MPI_Allreduce(&sum, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    CHECK(all >= 50 * check_size);
    /* An epoch without lock requests is as before. */
    none = 3;
    MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
    MPI_Put(&none, 1, MPI_LONG, check_rank, WORDS - 1, 1, MPI_LONG, win);
    MPI_Win_unlock_all(win);
    CHECK(memory[WORDS - 1] == 3);
    MPI_Win_free(&win);
    check_done("window_locks");
    return 0;
}
