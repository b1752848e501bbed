/*
 * Accesses of several ranks to the same bytes, one after the other, within locks and exposures.
 * options: --check=full
 *
 * run: 3 exclusive
 * run: 3 turns
 * run: 3 flushes
 * run: 3 sums
 * run: 3 gets
 * run: 3 apart
 * run: 3 mixed
 * run: 3 requests
 * run: 3 exposures
 * run: 3 exposed-apart
 * run: 3 ring
 * run: 17 exclusive
 * run: 17 flushes
 */
#include <mpi.h>
#include <string.h>

static int rank, size, value = 1, got;
static const char *wanted;
static MPI_Win win;

static int is(const char *name) { return strcmp(wanted, name) == 0; }

static void put(int place) { MPI_Put(&value, 1, MPI_INT, 0, place, 1, MPI_INT, win); }
static void get(int place) { MPI_Get(&got, 1, MPI_INT, 0, place, 1, MPI_INT, win); }

/* One after the other, by a token. */
static void wait_for_turn(int round) {
    if (rank || round) MPI_Recv(&got, 1, MPI_INT, (rank + size - 1) % size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
static void end_turn(int round) {
    if (rank < size - 1 || round < 2) MPI_Send(&value, 1, MPI_INT, (rank + 1) % size, 1, MPI_COMM_WORLD);
}

static void locks(void) {
    int one = 1, old;
    if (is("flushes") || is("mixed")) MPI_Win_lock_all(0, win);
    for (int i = 0; i < 3; i++) {
        if (is("exclusive")) { MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win); put(3); MPI_Win_unlock(0, win); }
        if (is("turns")) { wait_for_turn(i); MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win); put(3); MPI_Win_unlock(0, win); end_turn(i); }
        if (is("flushes")) { wait_for_turn(i); put(3); MPI_Win_flush(0, win); end_turn(i); }
        if (is("sums")) { MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win); MPI_Accumulate(&one, 1, MPI_INT, 0, 3, 1, MPI_INT, MPI_SUM, win); MPI_Fetch_and_op(&one, &old, MPI_INT, 0, 3, MPI_NO_OP, win); MPI_Win_unlock(0, win); }
        if (is("gets")) { MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win); get(3); MPI_Win_unlock(0, win); }
        if (is("apart")) { MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win); put(rank); MPI_Win_unlock(0, win); }
        /* All read what one has written before. */
        if (is("mixed")) {
            if (rank == i % size) { put(3); MPI_Win_flush_all(win); }
            MPI_Barrier(MPI_COMM_WORLD);
            get(3);
            MPI_Win_flush(0, win);
            MPI_Barrier(MPI_COMM_WORLD);
        }
    }
    /* A get is over when its request has ended; a put, when it is flushed. */
    if (is("requests"))
        for (int i = 0; i < 6; i++) {
            MPI_Request request;
            MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
            if (rank != i % size) { MPI_Rget(&got, 1, MPI_INT, 0, 3, 1, MPI_INT, win, &request); MPI_Wait(&request, MPI_STATUS_IGNORE); }
            MPI_Barrier(MPI_COMM_WORLD);
            if (rank == i % size) { MPI_Rput(&value, 1, MPI_INT, 0, 3, 1, MPI_INT, win, &request); MPI_Wait(&request, MPI_STATUS_IGNORE); value++; MPI_Win_flush(0, win); }
            MPI_Barrier(MPI_COMM_WORLD);
            MPI_Win_unlock(0, win);
        }
    if (is("flushes") || is("mixed")) MPI_Win_unlock_all(win);
}

static void exposures(void) {
    MPI_Group all, one;
    int zero = 0, others[] = {1, 2}, next = (rank + 1) % size, before = (rank + size - 1) % size;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    for (int i = 0; i < 6; i++) {
        /* For one after the other, more often for one of them. */
        int origin = i % 3 ? 1 : 2;
        if (is("exposures") && rank == 0) { MPI_Group_incl(all, 1, &origin, &one); MPI_Win_post(one, 0, win); MPI_Win_wait(win); MPI_Group_free(&one); }
        if (is("exposures") && rank == origin) { MPI_Group_incl(all, 1, &zero, &one); MPI_Win_start(one, 0, win); put(3); MPI_Win_complete(win); MPI_Group_free(&one); }
        if (is("exposed-apart")) {
            MPI_Group_incl(all, rank ? 1 : 2, rank ? &zero : others, &one);
            if (rank == 0) { MPI_Win_post(one, 0, win); MPI_Win_wait(win); }
            /* In turns to the same bytes, each in an epoch of its own. */
            else { MPI_Win_start(one, 0, win); put(3 + (rank + i) % 2); MPI_Win_complete(win); }
            MPI_Group_free(&one);
        }
        if (is("ring")) {
            MPI_Group_incl(all, 1, &before, &one);
            MPI_Win_post(one, 0, win);
            MPI_Group_free(&one);
            MPI_Group_incl(all, 1, &next, &one);
            MPI_Win_start(one, 0, win);
            MPI_Put(&value, 1, MPI_INT, next, 3, 1, MPI_INT, win);
            MPI_Win_complete(win);
            MPI_Win_wait(win);
            MPI_Group_free(&one);
        }
    }
    MPI_Group_free(&all);
}

int main(int argc, char **argv) {
    int *memory;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    wanted = argv[1];
    MPI_Win_allocate(128, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    locks();
    exposures();
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
