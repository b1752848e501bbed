/* One-sided communication: a target that computes, counters of all ranks and threads, dynamic and shared windows, datatypes with
 * gaps on both sides, and wrong synchronisation, which is named. */
#include "check.h"
#include <pthread.h>
#include <time.h>

#define THREADS 3
#define ROUNDS 200

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int class_of(int code) {
    int class;
    MPI_Error_class(code, &class);
    return class;
}

/* A window over `count` longs of each rank: allocated, or of the program's own memory. */
static MPI_Win window(int allocated, int count, long **memory) {
    MPI_Win win;
    MPI_Aint size = (MPI_Aint)count * (MPI_Aint)sizeof(long);
    if (allocated) {
        MPI_Win_allocate(size, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, memory, &win);
    } else {
        *memory = calloc((size_t)count, sizeof(long));
        MPI_Win_create(*memory, size, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    }
    memset(*memory, 0, (size_t)size);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    return win;
}

static void end(MPI_Win *win, int allocated, long *memory) {
    MPI_Win_free(win);
    CHECK(*win == MPI_WIN_NULL);
    if (!allocated) free(memory);
}

/* Rank 0 computes and makes no call, until all others have counted in its memory. The unified memory model of MPI lets it look
 * there meanwhile; C calls that a race. */
__attribute__((noinline, no_sanitize("thread"))) static void target_that_computes(int allocated) {
    long *memory;
    MPI_Win win = window(allocated, 4, &memory);
    if (check_rank == 0) {
        double until = seconds() + 20;
        volatile long *counter = memory;
        while (*counter < 10L * (check_size - 1)) CHECK(seconds() < until);
    } else {
        for (int i = 0; i < 10; i++) {
            long one = 1, old;
            MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
            MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, 0, MPI_SUM, win);
            MPI_Win_unlock(0, win);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    end(&win, allocated, memory);
}

struct counting {
    MPI_Win win;
    long seen;
};

static void *count(void *argument) {
    struct counting *counting = argument;
    for (int i = 0; i < ROUNDS; i++) {
        int target = i % check_size;
        long one = 1, old = 0, compare, found;
        MPI_Fetch_and_op(&one, &old, MPI_LONG, target, 0, MPI_SUM, counting->win);
        MPI_Win_flush(target, counting->win);
        CHECK(old >= 0 && old < (long)check_size * THREADS * ROUNDS);
        MPI_Accumulate(&one, 1, MPI_LONG, target, 1, 1, MPI_LONG, MPI_SUM, counting->win);
        MPI_Win_flush(target, counting->win);
        for (compare = old;; compare = found) {
            long next = compare + 1;
            MPI_Compare_and_swap(&next, &compare, &found, MPI_LONG, target, 2, counting->win);
            MPI_Win_flush(target, counting->win);
            if (found == compare) break;
        }
        counting->seen++;
    }
    return NULL;
}

static void counters(int allocated) {
    long *memory;
    MPI_Win win = window(allocated, 3, &memory);
    pthread_t threads[THREADS];
    struct counting counting[THREADS];
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < THREADS; i++) {
        counting[i] = (struct counting){win, 0};
        pthread_create(&threads[i], NULL, count, &counting[i]);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    long expected = 0;
    for (int i = 0; i < ROUNDS; i++) expected += i % check_size == check_rank;
    expected *= (long)check_size * THREADS;
    MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, win);
    for (int i = 0; i < 3; i++) CHECK(memory[i] == expected);
    MPI_Win_unlock(check_rank, win);
    end(&win, allocated, memory);
}

static void dynamic_windows(void) {
    MPI_Win win;
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    long mine[16] = {0};
    MPI_Win_attach(win, mine, sizeof mine);
    MPI_Aint own, *all = malloc((size_t)check_size * sizeof own);
    MPI_Get_address(mine, &own);
    MPI_Allgather(&own, 1, MPI_AINT, all, 1, MPI_AINT, MPI_COMM_WORLD);
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    long sent[4] = {check_rank, 1, 2, 3};
    MPI_Win_fence(0, win);
    MPI_Put(sent, 4, MPI_LONG, next, MPI_Aint_add(all[next], 4 * sizeof(long)), 4, MPI_LONG, win);
    MPI_Win_fence(0, win);
    CHECK(mine[3] == 0 && mine[4] == before && mine[7] == 3 && mine[8] == 0);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    MPI_Win_detach(win, mine);
    MPI_Win_free(&win);
    free(all);
}

/* Several regions are attached: one access crosses from a region to the next, another has elements in regions far from each other. */
static void several_regions(void) {
    enum { PART = 400, APART = 600, FIRST = 5, MANY = 350 };
    MPI_Win win;
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    long *near = calloc(2 * PART, sizeof *near), *far = calloc(APART, sizeof *far), sent[2 * PART], got[2 * PART], old[2 * PART];
    MPI_Win_attach(win, near, PART * sizeof *near);
    MPI_Win_attach(win, near + PART, PART * sizeof *near);
    MPI_Win_attach(win, far, APART * sizeof *far);
    MPI_Aint own[2], *all = malloc((size_t)check_size * sizeof own);
    MPI_Get_address(near, &own[0]);
    MPI_Get_address(far, &own[1]);
    MPI_Allgather(own, 2, MPI_AINT, all, 2, MPI_AINT, MPI_COMM_WORLD);
    for (int i = 0; i < 2 * PART; i++) sent[i] = 1000 * check_rank + i;
    for (int distance = 0; distance < 2; distance++) {
        int target = (check_rank + distance) % check_size, origin = (check_rank + check_size - distance) % check_size;
        MPI_Aint places[2] = {MPI_Aint_add(all[2 * target], FIRST * sizeof(long)), MPI_Aint_add(all[2 * target + 1], FIRST * sizeof(long))};
        int lengths[2] = {MANY, MANY};
        MPI_Datatype both;
        MPI_Type_create_hindexed(2, lengths, places, MPI_LONG, &both);
        MPI_Type_commit(&both);
        MPI_Win_fence(0, win);
        MPI_Put(sent, 2 * PART, MPI_LONG, target, all[2 * target], 2 * PART, MPI_LONG, win);
        MPI_Win_fence(0, win);
        for (int i = 0; i < 2 * PART; i++) CHECK(near[i] == 1000 * origin + i);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Put(sent, 2 * MANY, MPI_LONG, target, 0, 1, both, win);
        MPI_Win_fence(0, win);
        for (int i = 0; i < MANY; i++) CHECK(near[FIRST + i] == 1000 * origin + i && far[FIRST + i] == 1000 * origin + MANY + i);
        CHECK(near[FIRST + MANY] == 1000 * origin + FIRST + MANY && far[FIRST - 1] == 0 && far[FIRST + MANY] == 0);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Accumulate(sent, 2 * MANY, MPI_LONG, target, 0, 1, both, MPI_SUM, win);
        MPI_Win_fence(0, win);
        MPI_Get_accumulate(sent, 2 * MANY, MPI_LONG, old, 2 * MANY, MPI_LONG, target, 0, 1, both, MPI_SUM, win);
        MPI_Win_fence(0, win);
        MPI_Get(got, 2 * MANY, MPI_LONG, target, 0, 1, both, win);
        MPI_Win_fence(0, win);
        for (int i = 0; i < 2 * MANY; i++) CHECK(old[i] == 2 * sent[i] && got[i] == 3 * sent[i]);
        MPI_Type_free(&both);
    }
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    MPI_Win_detach(win, near + PART);
    MPI_Win_detach(win, near);
    MPI_Win_detach(win, far);
    MPI_Win_free(&win);
    free(all);
    free(near);
    free(far);
}

/* More than one message holds, by messages: on several hosts also where a message of the target holds less than one of the origin. */
static void large_dynamic_windows(void) {
    enum { BYTES = 300000 };
    MPI_Win win;
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    char *mine = malloc(BYTES), *got = malloc(BYTES);
    memset(mine, 1 + check_rank, BYTES);
    MPI_Win_attach(win, mine, BYTES);
    MPI_Aint own, *all = malloc((size_t)check_size * sizeof own);
    MPI_Get_address(mine, &own);
    MPI_Allgather(&own, 1, MPI_AINT, all, 1, MPI_AINT, MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    for (int rank = 0; rank < check_size; rank++)
        for (int fetches = 0; fetches < 2; fetches++) {
            memset(got, 0, BYTES);
            if (fetches)
                MPI_Get_accumulate(NULL, 0, MPI_BYTE, got, BYTES, MPI_BYTE, rank, all[rank], BYTES, MPI_BYTE, MPI_NO_OP, win);
            else
                MPI_Get(got, BYTES, MPI_BYTE, rank, all[rank], BYTES, MPI_BYTE, win);
            MPI_Win_flush(rank, win);
            for (int i = 0; i < BYTES; i++) CHECK(got[i] == 1 + rank);
        }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_detach(win, mine);
    MPI_Win_free(&win);
    free(all);
    free(mine);
    free(got);
}

static void shared_windows(void) {
    MPI_Comm host;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    int rank, size, unit;
    MPI_Comm_rank(host, &rank);
    MPI_Comm_size(host, &size);
    for (int apart = 0; apart < 2; apart++) {
        MPI_Info info;
        MPI_Info_create(&info);
        MPI_Info_set(info, "alloc_shared_noncontig", apart ? "true" : "false");
        long *own, *other, *end = NULL;
        MPI_Win win;
        MPI_Aint bytes;
        MPI_Win_allocate_shared(8 * (rank + 1), 8, info, host, &own, &win);
        MPI_Info_free(&info);
        MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
        for (int i = 0; i <= rank; i++) own[i] = 1000 * rank + i;
        MPI_Win_sync(win);
        MPI_Barrier(host);
        MPI_Win_sync(win);
        for (int i = 0; i < size; i++) {
            MPI_Win_shared_query(win, i, &bytes, &unit, &other);
            CHECK(bytes == 8 * (i + 1) && unit == 8 && other[i] == 1000 * i + i);
            CHECK(apart || end == NULL || end == other);
            end = other + i + 1;
        }
        MPI_Barrier(host);
        MPI_Win_unlock_all(win);
        MPI_Win_free(&win);
    }
    MPI_Comm_free(&host);
}

/* A column of a matrix at the origin becomes a row of pairs at the target, and comes back. */
static void datatypes(int allocated) {
    enum { ROWS = 5000 };
    long *memory, *matrix = malloc(3 * ROWS * sizeof *matrix), *back = calloc(3 * ROWS, sizeof *back);
    MPI_Win win = window(allocated, 3 * ROWS, &memory);
    MPI_Datatype column, pairs;
    MPI_Type_vector(ROWS, 1, 3, MPI_LONG, &column);
    MPI_Type_vector(ROWS / 2, 2, 5, MPI_LONG, &pairs);
    MPI_Type_commit(&column);
    MPI_Type_commit(&pairs);
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    for (int i = 0; i < 3 * ROWS; i++) matrix[i] = i + check_rank;
    MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
    MPI_Put(matrix, 1, column, next, 0, 1, pairs, win);
    MPI_Win_fence(0, win);
    MPI_Accumulate(matrix, 1, column, next, 0, 1, pairs, MPI_SUM, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < ROWS; i++) {
        CHECK(memory[i / 2 * 5 + i % 2] == 2 * (3 * i + before));
        CHECK(memory[i / 2 * 5 + 2] == 0);
    }
    MPI_Get(back, 1, column, next, 0, 1, pairs, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    for (int i = 0; i < ROWS; i++) CHECK(back[3 * i] == 2 * (3 * i + check_rank) && back[3 * i + 1] == 0);
    MPI_Type_free(&column);
    MPI_Type_free(&pairs);
    end(&win, allocated, memory);
    free(matrix);
    free(back);
}

static void groups(int allocated) {
    long *memory;
    MPI_Win win = window(allocated, 4, &memory);
    MPI_Group all, to, from;
    MPI_Win_get_group(win, &all);
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    MPI_Group_incl(all, 1, &next, &to);
    MPI_Group_incl(all, 1, &before, &from);
    for (long round = 1; round < 50; round++) {
        long value = round * 1000 + check_rank;
        int flag = 0;
        MPI_Win_post(from, 0, win);
        MPI_Win_start(to, 0, win);
        MPI_Put(&value, 1, MPI_LONG, next, 1, 1, MPI_LONG, win);
        MPI_Win_complete(win);
        if (round % 2) MPI_Win_wait(win);
        while (!flag && round % 2 == 0) MPI_Win_test(win, &flag);
        CHECK(memory[1] == round * 1000 + before);
    }
    MPI_Group_free(&all);
    MPI_Group_free(&to);
    MPI_Group_free(&from);
    end(&win, allocated, memory);
}

static void attributes(void) {
    long *memory, *base;
    MPI_Win win = window(1, 5, &memory);
    int flag, *unit, *flavor, *model;
    MPI_Aint *size;
    MPI_Win_get_attr(win, MPI_WIN_BASE, &base, &flag);
    CHECK(flag && base == memory);
    MPI_Win_get_attr(win, MPI_WIN_SIZE, &size, &flag);
    CHECK(flag && *size == 5 * sizeof(long));
    MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &unit, &flag);
    CHECK(flag && *unit == sizeof(long));
    MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &flavor, &flag);
    CHECK(flag && *flavor == MPI_WIN_FLAVOR_ALLOCATE);
    MPI_Win_get_attr(win, MPI_WIN_MODEL, &model, &flag);
    CHECK(flag && *model == MPI_WIN_UNIFIED);
    end(&win, 1, memory);
}

/* Rank 0 looks again and again for what rank 1 stores once its message has been taken: by calls that need nobody. */
static void spinning(void) {
    if (check_size < 2) return;
    enum { BYTES = 4 << 20 };
    long *memory, seen = 0, one = 1;
    unsigned char *bytes = malloc(BYTES);
    MPI_Win win = window(1, 1, &memory);
    MPI_Win_lock_all(0, win);
    if (check_rank == 0) {
        MPI_Request request;
        MPI_Irecv(bytes, BYTES, MPI_BYTE, 1, 3, MPI_COMM_WORLD, &request);
        while (!seen) {
            MPI_Fetch_and_op(NULL, &seen, MPI_LONG, 0, 0, MPI_NO_OP, win);
            MPI_Win_flush(0, win);
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(intact(bytes, BYTES, 5));
    } else if (check_rank == 1) {
        fill(bytes, BYTES, 5);
        MPI_Ssend(bytes, BYTES, MPI_BYTE, 0, 3, MPI_COMM_WORLD);
        MPI_Accumulate(&one, 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_REPLACE, win);
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    end(&win, 1, memory);
    free(bytes);
}

#define IS(call, class) CHECK(class_of(call) == (class))

static void mistakes(int allocated) {
    long *memory, value = 0;
    MPI_Win win = window(allocated, 4, &memory);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    IS(MPI_Put(&value, 1, MPI_LONG, 0, 0, 1, MPI_LONG, win), MPI_ERR_RMA_SYNC);
    IS(MPI_Win_unlock(0, win), MPI_ERR_RMA_SYNC);
    IS(MPI_Win_flush(0, win), MPI_ERR_RMA_SYNC);
    IS(MPI_Win_wait(win), MPI_ERR_RMA_SYNC);
    IS(MPI_Win_complete(win), MPI_ERR_RMA_SYNC);
    IS(MPI_Win_lock(7, 0, 0, win), MPI_ERR_LOCKTYPE);
    IS(MPI_Win_lock(MPI_LOCK_SHARED, check_size, 0, win), MPI_ERR_RANK);
    IS(MPI_Win_fence(1 << 20, win), MPI_ERR_ASSERT);
    IS(MPI_Win_attach(win, memory, 8), MPI_ERR_RMA_FLAVOR);
    IS(MPI_Win_fence(0, MPI_WIN_NULL), MPI_ERR_WIN);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    IS(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win), MPI_ERR_RMA_SYNC);
    IS(MPI_Win_fence(0, win), MPI_ERR_RMA_SYNC);
    IS(MPI_Put(&value, 1, MPI_LONG, 0, 4, 1, MPI_LONG, win), MPI_ERR_RMA_RANGE);
    IS(MPI_Put(&value, 1, MPI_LONG, 0, -1, 1, MPI_LONG, win), MPI_ERR_DISP);
    IS(MPI_Put(&value, 1, MPI_LONG, check_size, 0, 1, MPI_LONG, win), MPI_ERR_RANK);
    IS(MPI_Put(&value, 1, MPI_LONG, MPI_PROC_NULL, 0, 1, MPI_LONG, win), MPI_SUCCESS);
    float single = 0;
    IS(MPI_Accumulate(&value, 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_NO_OP, win), MPI_ERR_OP);
    IS(MPI_Accumulate(&single, 1, MPI_FLOAT, 0, 0, 1, MPI_INT, MPI_SUM, win), MPI_ERR_TYPE);
    IS(MPI_Accumulate(&value, 2, MPI_INT, 0, 0, 1, MPI_LONG, MPI_REPLACE, win), MPI_ERR_TYPE);
    IS(MPI_Get_accumulate(&single, 1, MPI_INT, &single, 1, MPI_FLOAT, 0, 0, 1, MPI_INT, MPI_SUM, win), MPI_ERR_TYPE);
    IS(MPI_Get_accumulate(NULL, 0, MPI_INT, &value, 1, MPI_LONG, 0, 0, 1, MPI_INT64_T, MPI_NO_OP, win), MPI_SUCCESS);
    MPI_Win_flush(0, win);
    MPI_Win free_me = win;
    IS(MPI_Win_free(&free_me), MPI_ERR_RMA_SYNC);
    MPI_Win_unlock(0, win);
    MPI_Barrier(MPI_COMM_WORLD);
    end(&win, allocated, memory);
}

int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    for (int allocated = 0; allocated < 2; allocated++) {
        target_that_computes(allocated);
        counters(allocated);
        datatypes(allocated);
        groups(allocated);
        mistakes(allocated);
    }
    spinning();
    dynamic_windows();
    several_regions();
    large_dynamic_windows();
    shared_windows();
    attributes();
    check_done("one_sided");
    return 0;
}
