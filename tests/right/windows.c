/*
 * Accesses to windows that nothing is wrong with, by all checks.
 * options: --check=full
 *
 * run: 3 apart
 * run: 3 columns
 * run: 3 sums
 * run: 3 reads
 * run: 3 turns
 * run: 3 flushed
 * run: 3 stores
 * run: 3 counter
 * run: 3 exclusive
 * run: 3 posted
 * run: 3 requests
 * run: 3 dynamic
 * run: 3 shared
 * run: 3 created
 * run: 3 refused
 * run: 17 apart
 */
#include <mpi.h>
#include <string.h>

static int rank, size, values[64], more[64], local[64];
static const char *wanted;

static int is(const char *name) { return strcmp(wanted, name) == 0; }

int main(int argc, char **argv) {
    MPI_Win win;
    MPI_Datatype column;
    MPI_Request request;
    int *memory, next, old = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    wanted = argv[1];
    next = (rank + 1) % size;
    MPI_Type_vector(4, 1, 4, MPI_INT, &column);
    MPI_Type_commit(&column);
    if (is("dynamic")) {
        MPI_Aint address, all[32];
        MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        MPI_Win_attach(win, local, sizeof local);
        MPI_Get_address(local, &address);
        MPI_Allgather(&address, 1, MPI_AINT, all, 1, MPI_AINT, MPI_COMM_WORLD);
        for (int i = 0; i < 3; i++) { MPI_Win_fence(0, win); MPI_Put(values, 4, MPI_INT, next, all[next], 4, MPI_INT, win); }
        MPI_Win_fence(0, win);
        MPI_Win_detach(win, local);
        MPI_Win_free(&win);
    }
    if (is("created")) MPI_Win_create(memory = local, sizeof local, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    else if (is("shared")) MPI_Win_allocate_shared(256, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    else MPI_Win_allocate(256, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    for (int i = 0; i < 64; i++) memory[i] = rank;
    MPI_Win_fence(0, win);
    for (int i = 0; i < 3; i++) {
        if (is("apart") || is("shared") || is("created")) { values[0] = i; MPI_Put(values, 1, MPI_INT, 0, rank, 1, MPI_INT, win); }
        if (is("refused")) {
            /* It would end outside of the memory, and touches nothing. */
            MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
            if (MPI_Put(values, 4, MPI_INT, next, 61, 4, MPI_INT, win) == MPI_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 1);
            MPI_Put(values, 1, MPI_INT, next, 62, 1, MPI_INT, win);
        }
        if (is("columns")) MPI_Put(values, 4, MPI_INT, 0, rank, 1, column, win);
        if (is("sums")) { MPI_Accumulate(&rank, 1, MPI_INT, 0, 3, 1, MPI_INT, MPI_SUM, win); MPI_Get_accumulate(NULL, 0, MPI_INT, more, 1, MPI_INT, 0, 3, 1, MPI_INT, MPI_NO_OP, win); }
        if (is("reads")) { MPI_Get(more, 4, MPI_INT, 0, 0, 4, MPI_INT, win); MPI_Get(more + 4, 4, MPI_INT, next, 2, 4, MPI_INT, win); }
        if (is("turns") && i % size == rank) MPI_Put(values, 4, MPI_INT, next, 0, 4, MPI_INT, win);
        if (is("stores")) { memory[8 + i] = i; MPI_Put(values, 1, MPI_INT, next, 0, 1, MPI_INT, win); }
        MPI_Win_fence(0, win);
        values[0]++;
        memory[32 + i] = i;
    }
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    if (is("flushed")) {
        MPI_Win_lock_all(0, win);
        for (int i = 0; i < 3; i++) { MPI_Put(values, 1, MPI_INT, next, 3, 1, MPI_INT, win); MPI_Win_flush(next, win); values[0]++; MPI_Get(more, 1, MPI_INT, next, 3, 1, MPI_INT, win); MPI_Win_flush_all(win); }
        MPI_Win_unlock_all(win);
    }
    if (is("counter")) {
        int one = 1, mine[8];
        MPI_Win_lock_all(0, win);
        for (int i = 0; i < 8; i++) MPI_Fetch_and_op(&one, &mine[i], MPI_INT, 0, 40, MPI_SUM, win);
        MPI_Compare_and_swap(&one, &old, more, MPI_INT, 0, 41, win);
        MPI_Win_unlock_all(win);
    }
    if (is("exclusive"))
        for (int i = 0; i < 3; i++) {
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
            MPI_Get(more, 1, MPI_INT, 0, 5, 1, MPI_INT, win);
            MPI_Win_flush(0, win);
            more[0]++;
            MPI_Put(more, 1, MPI_INT, 0, 5, 1, MPI_INT, win);
            MPI_Win_unlock(0, win);
        }
    if (is("posted")) {
        MPI_Group all, to, from;
        int before = (rank + size - 1) % size;
        MPI_Comm_group(MPI_COMM_WORLD, &all);
        MPI_Group_incl(all, 1, &next, &to);
        MPI_Group_incl(all, 1, &before, &from);
        for (int i = 0; i < 3; i++) { MPI_Win_post(from, 0, win); MPI_Win_start(to, 0, win); MPI_Put(values, 2, MPI_INT, next, 4, 2, MPI_INT, win); MPI_Win_complete(win); MPI_Win_wait(win); values[0] = i; }
        MPI_Group_free(&all), MPI_Group_free(&to), MPI_Group_free(&from);
    }
    if (is("requests")) {
        MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win);
        MPI_Rget(more, 2, MPI_INT, next, 4, 2, MPI_INT, win, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Rput(more, 2, MPI_INT, next, 10 + 2 * rank, 2, MPI_INT, win, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        more[0] = 4;
        MPI_Win_unlock(next, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Type_free(&column);
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
