/* Ranks share several locks of a window at a time, in different orders, while others wait for one of them exclusively: no rank may wait for
 * ever. A program in which each rank has at most one exclusive lock, and asks for no other meanwhile, has no circle of its own. */
#include <unistd.h>

#include "window_pair.h"

/* In the memory of each rank: two words that are equal for the holder of its lock, and a word for each rank. */
enum { PAIR = 2 };

static MPI_Win win;
static long *memory, written;
static unsigned long seed = 88172645463325252u;

static int below(int bound) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return (int)(seed % (unsigned long)bound);
}

static void await(int milliseconds) {
    if (milliseconds > 0) usleep((useconds_t)milliseconds * 1000);
}

/* Under a shared lock of the target: its pair, and a word of this rank's own there. */
static long use(int target) {
    static long value;
    long pair[2] = {-1, -2}, found = -1;
    value++;
    MPI_Put(&value, 1, MPI_LONG, target, PAIR + check_rank, 1, MPI_LONG, win);
    MPI_Get(pair, 1, MPI_LONG, target, 0, 1, MPI_LONG, win);
    MPI_Get(pair + 1, 1, MPI_LONG, target, 1, 1, MPI_LONG, win);
    MPI_Win_flush(target, win);
    MPI_Get(&found, 1, MPI_LONG, target, PAIR + check_rank, 1, MPI_LONG, win);
    MPI_Win_flush(target, win);
    CHECK(pair[0] == pair[1] && found == value);
    return pair[0];
}

/* Increments both words under an exclusive lock. */
static void change(int target) {
    change_pair(target, win);
    written++;
}

/* The first half of the ranks have a lock each, for which the others wait to be alone; then each of them uses that of the next one, too. Within an
 * epoch of all, or by locks one by one. */
static void ring(int readers, int round, int one_by_one) {
    int next = (check_rank + 1) % readers, after = (check_rank + 2) % readers;
    /* No rank waits for a lock of the part before. */
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank >= readers) {
        MPI_Barrier(MPI_COMM_WORLD);
        change(check_rank % readers);
        return;
    }
    if (one_by_one) {
        MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, win);
        use(check_rank);
    } else
        MPI_Win_lock_all(0, win);
    MPI_Barrier(MPI_COMM_WORLD);
    /* Most of the time they wait in line meanwhile. */
    await(round % 4);
    if (one_by_one) MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win);
    use(next);
    if (one_by_one)
        MPI_Win_unlock(next, win);
    else if (after != next && round % 2)
        use(after);
    if (one_by_one)
        MPI_Win_unlock(check_rank, win);
    else
        MPI_Win_unlock_all(win);
}

/* Everybody does anything. */
static void mixed(void) {
    int target = below(check_size), count = 1 + below(3);
    switch (below(4)) {
    case 0: change(target); break;
    case 1:
        /* Several locks, in any order. */
        for (int i = 0; i < count && i < check_size; i++) {
            MPI_Win_lock(MPI_LOCK_SHARED, (target + i) % check_size, 0, win);
            use((target + i) % check_size);
        }
        for (int i = 0; i < count && i < check_size; i++) MPI_Win_unlock((target + i) % check_size, win);
        break;
    default:
        MPI_Win_lock_all(0, win);
        for (int i = 0; i < count; i++) use(below(check_size));
        MPI_Win_unlock_all(win);
    }
}

/* The last rank changes a value that all others read, until they have seen it: they must let it in. */
static void polled(int target) {
    long before, now;
    MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
    before = use(target);
    MPI_Win_unlock(target, win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == check_size - 1) {
        await(2);
        change(target);
    } else {
        do {
            MPI_Win_lock_all(0, win);
            use(below(check_size));
            now = use(target);
            MPI_Win_unlock_all(win);
        } while (now == before);
        CHECK(now == before + 1);
    }
    /* It is not changed again before all have seen that. */
    MPI_Barrier(MPI_COMM_WORLD);
}

static void all_of_it(int rounds) {
    int readers = check_size / 2;
    memset(memory, 0, sizeof(long) * (size_t)(PAIR + check_size));
    written = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = 0; round < rounds; round++) {
        if (readers > 1) {
            ring(readers, round, 0);
            ring(readers, round, 1);
        }
        for (int i = 0; i < 20; i++) mixed();
        if (check_size > 1 && round % 4 == 0) {
            /* What was before is done. */
            MPI_Barrier(MPI_COMM_WORLD);
            polled(round / 4 % check_size);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, win);
    long pairs[2] = {memory[0], written}, all[2];
    CHECK(memory[0] == memory[1]);
    MPI_Win_unlock(check_rank, win);
    MPI_Allreduce(pairs, all, 2, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    CHECK(all[0] == all[1]);
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    int rounds = argc > 1 ? atoi(argv[1]) : 40;
    MPI_Aint bytes = (MPI_Aint)sizeof(long) * (PAIR + check_size);
    for (int i = 0; i <= check_rank; i++) below(2);
    seed += (unsigned long)check_rank << 32;
    MPI_Win_allocate(bytes, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    all_of_it(rounds);
    MPI_Win_free(&win);
    memory = malloc((size_t)bytes);
    MPI_Win_create(memory, bytes, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    all_of_it(rounds);
    MPI_Win_free(&win);
    free(memory);
    check_done("window_circles");
    return 0;
}
