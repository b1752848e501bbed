/* Order of stores and loads of two ranks that each put and flush, and then look for what the other has put: a flushed put is there, so
 * at least one of them finds the other's. Round by round, for everything that stores and everything that loads. Rounds are kept together
 * by plain loads and stores, which drain no processor. */
#include "check.h"
#include <sched.h>
#include <time.h>

#define MOST 20000

static MPI_Win here, there; /* the words of rank 0 and of rank 1 are in different windows */
static long *mine;                 /* own word */
static long *turns;                /* [0], [64]: how far each is; [128]: how far they go */

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static MPI_Win window_of(int rank) {
    return rank == 0 ? here : there;
}

static void put(long value) {
    MPI_Put(&value, 1, MPI_LONG, !check_rank, 0, 1, MPI_LONG, window_of(!check_rank));
    MPI_Win_flush(!check_rank, window_of(!check_rank));
}

static void put_and_flush_all(long value) {
    MPI_Put(&value, 1, MPI_LONG, !check_rank, 0, 1, MPI_LONG, window_of(!check_rank));
    MPI_Win_flush_all(window_of(!check_rank));
}

static void put_with_request(long value) {
    MPI_Request request;
    MPI_Rput(&value, 1, MPI_LONG, !check_rank, 0, 1, MPI_LONG, window_of(!check_rank), &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Win_flush(!check_rank, window_of(!check_rank));
}

static void replace(long value) {
    MPI_Accumulate(&value, 1, MPI_LONG, !check_rank, 0, 1, MPI_LONG, MPI_REPLACE, window_of(!check_rank));
    MPI_Win_flush(!check_rank, window_of(!check_rank));
}

static long get(void) {
    long value = -1;
    MPI_Get(&value, 1, MPI_LONG, check_rank, 0, 1, MPI_LONG, window_of(check_rank));
    MPI_Win_flush(check_rank, window_of(check_rank));
    return value;
}

static long get_with_request(void) {
    long value = -1;
    MPI_Request request;
    MPI_Rget(&value, 1, MPI_LONG, check_rank, 0, 1, MPI_LONG, window_of(check_rank), &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return value;
}

static long fetch(void) {
    long value = -1;
    MPI_Fetch_and_op(NULL, &value, MPI_LONG, check_rank, 0, MPI_NO_OP, window_of(check_rank));
    MPI_Win_flush(check_rank, window_of(check_rank));
    return value;
}

static long get_accumulate(void) {
    long value = -1;
    MPI_Get_accumulate(NULL, 0, MPI_LONG, &value, 1, MPI_LONG, check_rank, 0, 1, MPI_LONG, MPI_NO_OP, window_of(check_rank));
    MPI_Win_flush(check_rank, window_of(check_rank));
    return value;
}

static long load_after_sync(void) {
    MPI_Win_sync(window_of(check_rank));
    return *(volatile long *)mine;
}

static void (*const stores[])(long) = {put, put_and_flush_all, put_with_request, replace};
static long (*const loads[])(void) = {get, get_with_request, fetch, get_accumulate, load_after_sync};

/* Both begin a round. False: it was the last one. */
static int begin(long round, double until) {
    if (check_rank == 0 && (round > MOST || seconds() > until)) turns[128] = round;
    __atomic_store_n(&turns[64 * check_rank], round, __ATOMIC_RELEASE);
    for (long looks = 1; __atomic_load_n(&turns[64 * !check_rank], __ATOMIC_ACQUIRE) < round; looks++)
        if (looks % 2000 == 0) sched_yield();
    return turns[128] != round;
}

static void meet(void (*store)(long), long (*load)(void)) {
    static char found[MOST + 1], theirs[MOST + 1];
    long round = 1;
    double until = seconds() + 0.05;
    turns[64 * check_rank] = turns[128] = 0;
    *mine = 0;
    MPI_Win_sync(here);
    MPI_Barrier(MPI_COMM_WORLD);
    for (; begin(round, until); round++) {
        store(round);
        found[round] = load() >= round;
    }
    MPI_Sendrecv(found, MOST + 1, MPI_CHAR, !check_rank, 0, theirs, MOST + 1, MPI_CHAR, !check_rank, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    int missed = 0;
    for (long i = 1; i < round; i++) missed += !found[i] && !theirs[i];
    if (missed) printf("%d of %ld rounds: neither has found what the other had put and flushed\n", missed, round - 1);
    CHECK(missed == 0);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    CHECK(check_size == 2);
    /* Words are combined under a lock in large windows, by atomic instructions in small ones. */
    for (int bytes = 64; bytes <= 1 << 16; bytes <<= 10) {
        long *memory[2];
        MPI_Win rounds;
        void *shared;
        MPI_Aint size;
        int unit;
        MPI_Win_allocate(bytes, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory[0], &here);
        MPI_Win_allocate(bytes, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory[1], &there);
        MPI_Win_allocate_shared(check_rank ? 0 : 2048, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &shared, &rounds);
        MPI_Win_shared_query(rounds, 0, &size, &unit, &shared);
        mine = memory[check_rank];
        turns = shared;
        MPI_Win_lock_all(0, here);
        MPI_Win_lock_all(0, there);
        MPI_Win_lock_all(0, rounds);
        for (size_t store = 0; store < sizeof stores / sizeof *stores; store++)
            for (size_t load = 0; load < sizeof loads / sizeof *loads; load++) meet(stores[store], loads[load]);
        MPI_Win_unlock_all(here);
        MPI_Win_unlock_all(there);
        MPI_Win_unlock_all(rounds);
        MPI_Win_free(&here);
        MPI_Win_free(&there);
        MPI_Win_free(&rounds);
    }
    check_done("store_order");
    return 0;
}
