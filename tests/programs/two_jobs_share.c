/* Two jobs that are connected and use windows, files and threads on a communicator of all processes of both.
   accept FILE WHAT | connect FILE WHAT, where WHAT is windows, files or threads. */
#define _GNU_SOURCE
#include "two_jobs.h"
#include <pthread.h>

static int rank, size, other_side;

/* Each puts into, reads from and adds to the memory of each. */
static void exchange(MPI_Win win, long *memory, MPI_Comm all) {
    long *seen = calloc((size_t)size, sizeof *seen), mine[3];
    for (int i = 0; i < 2 * size + 1; i++) memory[i] = 0;
    MPI_Barrier(all);
    MPI_Win_fence(0, win);
    for (int to = 0; to < size; to++) {
        mine[0] = 1000 * rank + to;
        MPI_Put(mine, 1, MPI_LONG, to, rank, 1, MPI_LONG, win);
        mine[1] = rank + 1;
        MPI_Accumulate(&mine[1], 1, MPI_LONG, to, 2 * size, 1, MPI_LONG, MPI_SUM, win);
        MPI_Win_fence(0, win);
    }
    for (int from = 0; from < size; from++) CHECK(memory[from] == 1000 * from + rank);
    CHECK(memory[2 * size] == (long)size * (size + 1) / 2);
    MPI_Win_fence(0, win);
    for (int from = 0; from < size; from++) MPI_Get(&seen[from], 1, MPI_LONG, from, rank, 1, MPI_LONG, win);
    MPI_Win_fence(0, win);
    for (int from = 0; from < size; from++) CHECK(seen[from] == 1000 * rank + from);
    /* A counter at each, by locks and without its help. */
    MPI_Win_lock_all(0, win);
    long one = 1, before, compare = -1;
    for (int to = 0; to < size; to++) {
        MPI_Fetch_and_op(&one, &before, MPI_LONG, to, size, MPI_SUM, win);
        MPI_Win_flush(to, win);
        CHECK(before >= 0 && before < size);
        MPI_Compare_and_swap(&one, &compare, &before, MPI_LONG, to, size, win);
        MPI_Win_flush(to, win);
        CHECK(before >= 1 && before <= size);
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(all);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, (rank + 1) % size, 0, win);
    MPI_Get(&before, 1, MPI_LONG, (rank + 1) % size, size, 1, MPI_LONG, win);
    MPI_Win_unlock((rank + 1) % size, win);
    CHECK(before == size);
    /* Epochs of two groups: each rank exposes memory to its left, and accesses that on its right. */
    MPI_Group group, left, right;
    MPI_Comm_group(all, &group);
    MPI_Group_incl(group, 1, (int[]){(rank + size - 1) % size}, &left);
    MPI_Group_incl(group, 1, (int[]){(rank + 1) % size}, &right);
    MPI_Win_post(left, 0, win);
    MPI_Win_start(right, 0, win);
    mine[2] = rank;
    MPI_Put(&mine[2], 1, MPI_LONG, (rank + 1) % size, size + 1, 1, MPI_LONG, win);
    MPI_Win_complete(win);
    MPI_Win_wait(win);
    CHECK(size < 2 || memory[size + 1] == (rank + size - 1) % size);
    MPI_Group_free(&group), MPI_Group_free(&left), MPI_Group_free(&right);
    free(seen);
}

static void windows(MPI_Comm all) {
    MPI_Aint bytes = (MPI_Aint)(sizeof(long) * (size_t)(2 * size + 1));
    MPI_Win win;
    long *own = calloc(1, (size_t)bytes), *memory;
    MPI_Win_create(own, bytes, sizeof(long), MPI_INFO_NULL, all, &win);
    exchange(win, own, all);
    MPI_Win_free(&win);
    MPI_Win_allocate(bytes, sizeof(long), MPI_INFO_NULL, all, &memory, &win);
    exchange(win, memory, all);
    MPI_Win_free(&win);
    /* Addresses that are told. */
    MPI_Aint *addresses = calloc((size_t)size, sizeof *addresses), mine;
    MPI_Win_create_dynamic(MPI_INFO_NULL, all, &win);
    MPI_Win_attach(win, own, bytes);
    MPI_Get_address(own, &mine);
    MPI_Allgather(&mine, 1, MPI_AINT, addresses, 1, MPI_AINT, all);
    long value = rank;
    own[0] = -1;
    MPI_Win_fence(0, win);
    MPI_Put(&value, 1, MPI_LONG, (rank + 1) % size, addresses[(rank + 1) % size], 1, MPI_LONG, win);
    MPI_Win_fence(0, win);
    CHECK(own[0] == (rank + size - 1) % size);
    MPI_Win_detach(win, own);
    MPI_Win_free(&win);
    /* Large, with gaps. */
    size_t many = 1 << 20;
    unsigned char *bulk, *out = malloc(many);
    MPI_Win_allocate((MPI_Aint)(2 * many), 1, MPI_INFO_NULL, all, &bulk, &win);
    MPI_Datatype gaps;
    MPI_Type_vector((int)many / 64, 64, 128, MPI_BYTE, &gaps);
    MPI_Type_commit(&gaps);
    fill(out, many, rank);
    MPI_Win_fence(0, win);
    MPI_Put(out, (int)many, MPI_BYTE, (rank + 1) % size, 0, 1, gaps, win);
    MPI_Win_fence(0, win);
    for (size_t i = 0; i < many; i++)
        CHECK(bulk[i / 64 * 128 + i % 64] == pattern((rank + size - 1) % size, i));
    MPI_Type_free(&gaps);
    MPI_Win_free(&win);
    free(out), free(own), free(addresses);
    /* Memory that all ranks load and store belongs to one job. */
    MPI_Comm near;
    int in_near;
    MPI_Comm_split_type(all, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &near);
    MPI_Comm_size(near, &in_near);
    CHECK(in_near <= check_size);
    MPI_Win_allocate_shared(sizeof(long), sizeof(long), MPI_INFO_NULL, near, &memory, &win);
    *memory = rank;
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
    MPI_Comm_free(&near);
    MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN);
    int code = MPI_Win_allocate_shared(sizeof(long), sizeof(long), MPI_INFO_NULL, all, &memory, &win);
    CHECK(class_of(code) == MPI_ERR_RMA_SHARED);
    MPI_Comm_set_errhandler(all, MPI_ERRORS_ARE_FATAL);
}

static void files(MPI_Comm all, const char *name) {
    enum { BLOCK = 5000, ROUNDS = 4 };
    MPI_File file;
    MPI_Status status;
    int count;
    MPI_File_open(all, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
    /* Interleaved, by all together. */
    MPI_Datatype part;
    MPI_Type_create_resized(MPI_INT, 0, (MPI_Aint)sizeof(int) * size, &part);
    MPI_Type_commit(&part);
    MPI_File_set_view(file, (MPI_Offset)sizeof(int) * rank, MPI_INT, part, "native", MPI_INFO_NULL);
    int *out = malloc(sizeof(int) * BLOCK), *into = malloc(sizeof(int) * BLOCK);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < BLOCK; i++) out[i] = round * 1000000 + i * size + rank;
        MPI_File_write_all(file, out, BLOCK, MPI_INT, &status);
        MPI_Get_count(&status, MPI_INT, &count);
        CHECK(count == BLOCK);
    }
    MPI_File_sync(file);
    MPI_Barrier(all);
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Offset at = (MPI_Offset)round * BLOCK * size + (MPI_Offset)((rank + 1) % size) * BLOCK;
        MPI_File_read_at_all(file, at, into, BLOCK, MPI_INT, &status);
        for (int i = 0; i < BLOCK; i++) CHECK(into[i] == round * 1000000 + (rank + 1) % size * BLOCK + i);
    }
    MPI_Offset bytes;
    MPI_File_get_size(file, &bytes);
    CHECK(bytes == (MPI_Offset)sizeof(int) * ROUNDS * BLOCK * size);
    MPI_Barrier(all);
    /* In order, and by the common pointer: each number once. */
    MPI_File_set_size(file, 0);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    out[0] = rank;
    MPI_File_write_ordered(file, out, 1, MPI_INT, &status);
    for (int i = 0; i < 10; i++) {
        out[0] = size + rank * 10 + i;
        MPI_File_write_shared(file, out, 1, MPI_INT, &status);
    }
    MPI_File_sync(file);
    MPI_Barrier(all);
    int total = 11 * size;
    int *whole = malloc(sizeof(int) * (size_t)total), *times = calloc((size_t)total, sizeof *times);
    MPI_File_read_at(file, 0, whole, total, MPI_INT, &status);
    for (int i = 0; i < total; i++) {
        CHECK(whole[i] >= 0 && whole[i] < total && (i >= size || whole[i] == i));
        times[whole[i]]++;
    }
    for (int i = 0; i < total; i++) CHECK(times[i] == 1);
    /* Atomic, non-blocking, and split collective. */
    MPI_File_set_atomicity(file, 1);
    MPI_Request request;
    MPI_File_iwrite_at_all(file, rank, &total, 1, MPI_INT, &request);
    MPI_Wait(&request, &status);
    MPI_Barrier(all);
    MPI_File_read_at_all_begin(file, 0, into, size, MPI_INT);
    MPI_File_read_at_all_end(file, into, &status);
    for (int i = 0; i < size; i++) CHECK(into[i] == total);
    MPI_Type_free(&part);
    MPI_File_close(&file);
    CHECK(access(name, F_OK) != 0);
    free(out), free(into), free(whole), free(times);
}

enum { THREADS = 4 };
static MPI_Comm of_thread[THREADS], between_of_thread[THREADS];

/* Each thread has communicators of its own, and all share one window and one communicator. */
static MPI_Comm everybodys;

static void *work(void *which) {
    int me = (int)(size_t)which, remote;
    MPI_Comm all = of_thread[me], between = between_of_thread[me];
    MPI_Comm_remote_size(between, &remote);
    size_t many = 200000;
    unsigned char *out = malloc(many), *into = malloc(many);
    for (int round = 0; round < 20; round++) {
        int sum = 0, value = rank + round + me, right = (rank + 1) % size, left = (rank + size - 1) % size;
        MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, all);
        CHECK(sum == size * (size - 1) / 2 + size * (round + me));
        fill(out, many, rank + round + me);
        MPI_Request both[2];
        MPI_Irecv(into, (int)many, MPI_BYTE, left, me, everybodys, &both[0]);
        MPI_Isend(out, (int)many, MPI_BYTE, right, me, everybodys, &both[1]);
        MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
        CHECK(intact(into, many, left + round + me));
        for (int to = 0; to < remote; to++) {
            int theirs = -1;
            MPI_Sendrecv(&value, 1, MPI_INT, to, 1, &theirs, 1, MPI_INT, MPI_ANY_SOURCE, 1, between, MPI_STATUS_IGNORE);
            CHECK(theirs >= round + me);
        }
        MPI_Barrier(between);
        MPI_Comm copy;
        MPI_Comm_dup(all, &copy);
        MPI_Barrier(copy);
        MPI_Comm_free(&copy);
    }
    free(out), free(into);
    return NULL;
}

static void threads(MPI_Comm between, MPI_Comm all) {
    MPI_Comm_dup(all, &everybodys);
    for (int i = 0; i < THREADS; i++) {
        MPI_Comm_dup(all, &of_thread[i]);
        MPI_Comm_dup(between, &between_of_thread[i]);
    }
    pthread_t started[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&started[i], NULL, work, (void *)(size_t)i);
    for (int i = 0; i < THREADS; i++) pthread_join(started[i], NULL);
    for (int i = 0; i < THREADS; i++) MPI_Comm_free(&of_thread[i]), MPI_Comm_free(&between_of_thread[i]);
    MPI_Comm_free(&everybodys);
}

int main(int argc, char **argv) {
    int given;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &given);
    CHECK(given == MPI_THREAD_MULTIPLE && argc > 3);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    const char *name = argv[2], *what = argv[3];
    other_side = !strcmp(argv[1], "connect");
    MPI_Comm between, all;
    if (other_side) {
        if (check_rank == 0) learn(name);
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &between);
    } else {
        if (check_rank == 0) {
            MPI_Open_port(MPI_INFO_NULL, port);
            tell(name);
        }
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &between);
    }
    MPI_Intercomm_merge(between, other_side, &all);
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &size);
    if (!strcmp(what, "windows")) {
        windows(all);
    } else if (!strcmp(what, "files")) {
        char data[4096];
        snprintf(data, sizeof data, "%s.data", name);
        files(all, data);
    } else {
        threads(between, all);
    }
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&between);
    if (!other_side && check_rank == 0) MPI_Close_port(port);
    check_done(what);
    return 0;
}
