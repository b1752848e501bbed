/*
 * Accesses to windows that conflict, and buffers of accesses that are used meanwhile. Some cases are right.
 * options: --check=full
 *
 * run: 3 puts
 * says: MPI_Put at check-windows.c:
 * says: MPI_Put at check-windows.c:
 * says: access bytes 12 to 15
 *
 * run: 3 put-get
 * says: MPI_Put at check-windows.c:
 * says: MPI_Get at check-windows.c:
 * says: access bytes 12 to 15
 *
 * run: 3 put-add
 * says: MPI_Put at check-windows.c:
 * says: MPI_Accumulate at check-windows.c:
 * says: access bytes 12 to 15
 *
 * run: 3 get-add
 * says: MPI_Get at check-windows.c:
 * says: MPI_Accumulate at check-windows.c:
 * says: access bytes 12 to 15
 *
 * run: 3 operations
 * says: MPI_Accumulate at check-windows.c:
 * says: MPI_Accumulate at check-windows.c:
 * says: access bytes 12 to 15
 *
 * run: 3 ranges
 * says: MPI_Put at check-windows.c:
 * says: MPI_Put at check-windows.c:
 * says: access bytes 16 to 19
 *
 * run: 3 columns
 * says: MPI_Put at check-windows.c:
 * says: MPI_Put at check-windows.c:
 * says: access bytes 36 to 39
 *
 * run: 3 fetch
 * says: MPI_Fetch_and_op at check-windows.c:
 * says: MPI_Put at check-windows.c:
 * says: access bytes 12 to 15
 *
 * run: 3 swap
 * says: MPI_Compare_and_swap at check-windows.c:
 * says: MPI_Put at check-windows.c:
 * says: access bytes 12 to 15
 *
 * run: 3 own
 * says: MPI_Put at check-windows.c:
 * says: MPI_Put at check-windows.c:
 * says: access bytes 12 to 15
 *
 * run: 3 store
 * says: MPI_Win_fence at check-windows.c:
 * says: MPI_Get at check-windows.c:
 * says: has stored to bytes 12 to 15
 *
 * run: 3 fenced
 * never: weft
 *
 * run: 3 second
 * says: MPI_Put at check-windows.c:
 * says: MPI_Put at check-windows.c:
 * says: access bytes 12 to 15
 *
 * run: 3 sums
 * never: weft
 *
 * run: 3 gets
 * never: weft
 *
 * run: 3 apart
 * never: weft
 *
 * run: 3 between
 * never: weft
 *
 * run: 3 put-put
 * says: MPI_Put at check-windows.c:
 * says: MPI_Put at check-windows.c:
 * says: accesses bytes 12 to 15
 *
 * run: 3 put-then-get
 * says: MPI_Get at check-windows.c:
 * says: MPI_Put at check-windows.c:
 * says: accesses bytes 12 to 15
 *
 * run: 3 get-then-put
 * says: MPI_Put at check-windows.c:
 * says: MPI_Get at check-windows.c:
 * says: accesses bytes 12 to 15
 *
 * run: 3 put-then-add
 * says: MPI_Accumulate at check-windows.c:
 * says: MPI_Put at check-windows.c:
 * says: accesses bytes 12 to 15
 *
 * run: 3 local-flush
 * says: MPI_Get at check-windows.c:
 * says: MPI_Put at check-windows.c:
 * says: accesses bytes 12 to 15
 *
 * run: 3 get-request
 * says: MPI_Rget at check-windows.c:
 * says: MPI_Put at check-windows.c:
 * says: accesses bytes 12 to 15
 *
 * run: 3 put-request
 * says: MPI_Put at check-windows.c:
 * says: MPI_Rput at check-windows.c:
 * says: accesses bytes 12 to 15
 *
 * run: 3 add-request
 * says: MPI_Get at check-windows.c:
 * says: MPI_Raccumulate at check-windows.c:
 * says: accesses bytes 12 to 15
 *
 * run: 3 get-add-request
 * says: MPI_Put at check-windows.c:
 * says: MPI_Rget_accumulate at check-windows.c:
 * says: accesses bytes 12 to 15
 *
 * run: 3 get-under-way
 * says: MPI_Put at check-windows.c:
 * says: MPI_Rget at check-windows.c:
 * says: accesses bytes 12 to 15
 *
 * run: 3 requests-into-one
 * says: MPI_Rget at check-windows.c:
 * says: receives into 4 bytes
 *
 * run: 3 changed-request
 * says: MPI_Rput at check-windows.c:
 * says: MPI_Wait at check-windows.c:
 * says: was changed before MPI_Wait
 *
 * run: 3 changed-all
 * says: MPI_Raccumulate at check-windows.c:
 * says: MPI_Waitall at check-windows.c:
 * says: was changed before MPI_Waitall
 *
 * run: 3 changed-freed
 * says: MPI_Rput at check-windows.c:
 * says: was changed before MPI_Win_unlock
 *
 * run: 3 never-waited
 * options: --check=full
 * says: MPI_Rput at check-windows.c:
 * says: never waited for or tested
 *
 * run: 3 get-waited
 * never: weft
 *
 * run: 3 put-waited
 * never: weft
 *
 * run: 3 put-flushed
 * never: weft
 *
 * run: 3 put-freed
 * never: weft
 *
 * run: 3 many-requests
 * never: weft
 *
 * run: 3 overlapping
 * says: MPI_Put at check-windows.c:
 * says: MPI_Put at check-windows.c:
 * says: accesses bytes 20 to 23
 *
 * run: 3 into-one
 * says: MPI_Get at check-windows.c:
 * says: MPI_Get at check-windows.c:
 * says: receives into 4 bytes
 *
 * run: 3 from-into
 * says: MPI_Get at check-windows.c:
 * says: MPI_Put at check-windows.c:
 * says: receives into 4 bytes
 *
 * run: 3 into-from
 * says: MPI_Put at check-windows.c:
 * says: MPI_Get at check-windows.c:
 * says: sends from 4 bytes
 *
 * run: 3 result
 * says: MPI_Fetch_and_op at check-windows.c:
 * says: MPI_Fetch_and_op at check-windows.c:
 * says: receives into 4 bytes
 *
 * run: 3 changed
 * says: MPI_Put at check-windows.c:
 * says: MPI_Win_unlock at check-windows.c:
 * says: was changed before MPI_Win_unlock
 *
 * run: 3 changed-add
 * says: MPI_Accumulate at check-windows.c:
 * says: MPI_Win_unlock at check-windows.c:
 * says: was changed before MPI_Win_unlock
 *
 * run: 3 changed-flush
 * says: MPI_Put at check-windows.c:
 * says: MPI_Win_flush at check-windows.c:
 * says: was changed before MPI_Win_flush
 *
 * run: 3 types
 * says: MPI_Put at check-windows.c:
 * says: at this rank and MPI_FLOAT at rank 0
 *
 * run: 3 types-add
 * exit: 3
 * says: class     MPI_ERR_TYPE
 * says: MPI_INT at the origin but MPI_FLOAT at the target
 *
 * run: 3 flushed
 * never: weft
 *
 * run: 3 reused
 * never: weft
 *
 * run: 3 adds
 * never: weft
 *
 * run: 3 unlocked
 * never: weft
 *
 * run: 3 all
 * says: MPI_Put at check-windows.c:
 * says: MPI_Put at check-windows.c:
 * says: accesses bytes 12 to 15
 *
 * run: 3 all-changed
 * says: MPI_Put at check-windows.c:
 * says: MPI_Win_unlock_all at check-windows.c:
 * says: was changed before MPI_Win_unlock_all
 *
 * run: 3 targets
 * never: weft
 *
 * run: 3 post-puts
 * says: MPI_Put at check-windows.c:
 * says: MPI_Put at check-windows.c:
 * says: accesses bytes 12 to 15
 *
 * run: 3 post-changed
 * says: MPI_Put at check-windows.c:
 * says: MPI_Win_complete at check-windows.c:
 * says: was changed before MPI_Win_complete
 *
 * run: 3 puts
 * options: --check=usual
 * never: weft
 *
 * run: 3 store
 * options: --check=usual
 * never: weft
 *
 * run: 3 put-put
 * options: --check=usual
 * never: weft
 */
#include <mpi.h>
#include <string.h>

static int rank, size, values[64], more[64];
static int *memory;
static const char *wanted;
static MPI_Win win;

static int is(const char *name) { return strcmp(wanted, name) == 0; }

static void put(int *from, int to, int place) { MPI_Put(from, 1, MPI_INT, to, place, 1, MPI_INT, win); }
static void get(int *into, int from, int place) { MPI_Get(into, 1, MPI_INT, from, place, 1, MPI_INT, win); }
static void add(int *from, int to, int place, MPI_Op op) { MPI_Accumulate(from, 1, MPI_INT, to, place, 1, MPI_INT, op, win); }

static void rput(MPI_Request *request, int place) { MPI_Rput(values, 1, MPI_INT, 0, place, 1, MPI_INT, win, request); }
static void rget(MPI_Request *request, int *into, int place) { MPI_Rget(into, 1, MPI_INT, 0, place, 1, MPI_INT, win, request); }

/* Accesses of several ranks, and stores of the program, between two fences. */
static void fences(void) {
    MPI_Datatype column;
    MPI_Type_vector(4, 1, 4, MPI_INT, &column);
    MPI_Type_commit(&column);
    values[0] = 7 + rank;
    MPI_Win_fence(0, win);
    if (is("puts") && rank > 0) put(values, 0, 3);
    if (is("put-get") && rank == 1) put(values, 0, 3);
    if (is("put-get") && rank == 2) get(more, 0, 3);
    if (is("put-add") && rank == 1) put(values, 0, 3);
    if (is("put-add") && rank == 2) add(values, 0, 3, MPI_SUM);
    if (is("get-add") && rank == 1) get(more, 0, 3);
    if (is("get-add") && rank == 2) add(values, 0, 3, MPI_SUM);
    if (is("operations") && rank == 1) add(values, 0, 3, MPI_SUM);
    if (is("operations") && rank == 2) add(values, 0, 3, MPI_PROD);
    if (is("ranges") && rank > 0) MPI_Put(values, 4, MPI_INT, 0, rank * 2, 4, MPI_INT, win);
    if (is("columns") && rank == 1) MPI_Put(values, 4, MPI_INT, 0, 1, 1, column, win);
    if (is("columns") && rank == 2) put(values, 0, 9);
    if (is("fetch") && rank == 1) MPI_Fetch_and_op(values, more, MPI_INT, 0, 3, MPI_SUM, win);
    if (is("fetch") && rank == 2) put(values, 0, 3);
    if (is("swap") && rank == 1) MPI_Compare_and_swap(values, more, more + 1, MPI_INT, 0, 3, win);
    if (is("swap") && rank == 2) put(values, 0, 3);
    if (is("own") && rank == 0) put(values, 0, 3);
    if (is("own") && rank == 2) put(values, 0, 3);
    if (is("store") && rank == 1) get(more, 0, 3);
    if (is("store") && rank == 0) memory[3] = 99;
    if (is("fenced") && rank == 1) put(values, 0, 3);
    MPI_Win_fence(0, win);
    if (is("fenced") && rank == 2) put(values, 0, 3);
    if (is("second") && rank > 0) put(values, 0, 3);
    if (is("sums") && rank > 0) add(values, 0, 3, MPI_SUM);
    if (is("gets") && rank > 0) get(more, 0, 3);
    if (is("apart") && rank > 0) put(values, 0, 3 + rank);
    if (is("between") && rank == 1) MPI_Put(values, 4, MPI_INT, 0, 1, 1, column, win);
    if (is("between") && rank == 2) MPI_Put(values, 4, MPI_INT, 0, 2, 1, column, win);
    MPI_Win_fence(0, win);
    MPI_Type_free(&column);
}

/* Accesses of rank 1 in an epoch of its own. */
static void epochs(void) {
    MPI_Request request, both[2];
    int pair[2] = {1, 2};
    if (rank != 1) return;
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    if (is("put-put")) put(values, 0, 3), put(more, 0, 3);
    if (is("put-then-get")) put(values, 0, 3), get(more, 0, 3);
    if (is("get-then-put")) get(more, 0, 3), put(values, 0, 3);
    if (is("put-then-add")) put(values, 0, 3), add(more, 0, 3, MPI_SUM);
    if (is("local-flush")) { put(values, 0, 3); MPI_Win_flush_local(0, win); get(more, 0, 3); }
    if (is("get-request")) { put(values, 0, 3); MPI_Rget(more, 1, MPI_INT, 0, 3, 1, MPI_INT, win, &request); MPI_Wait(&request, MPI_STATUS_IGNORE); }
    if (is("put-request")) { rput(&request, 3); MPI_Wait(&request, MPI_STATUS_IGNORE); put(more, 0, 3); }
    if (is("add-request")) { MPI_Raccumulate(values, 1, MPI_INT, 0, 3, 1, MPI_INT, MPI_SUM, win, &request); MPI_Wait(&request, MPI_STATUS_IGNORE); get(more, 0, 3); }
    if (is("get-add-request")) { MPI_Rget_accumulate(values, 1, MPI_INT, more, 1, MPI_INT, 0, 3, 1, MPI_INT, MPI_SUM, win, &request); MPI_Wait(&request, MPI_STATUS_IGNORE); put(pair, 0, 3); }
    if (is("get-under-way")) { rget(&request, more, 3); put(values, 0, 3); MPI_Wait(&request, MPI_STATUS_IGNORE); }
    if (is("requests-into-one")) { rget(&both[0], more, 3); rget(&both[1], more, 4); MPI_Waitall(2, both, MPI_STATUSES_IGNORE); }
    if (is("changed-request")) { rput(&request, 3); values[0] = 95; MPI_Wait(&request, MPI_STATUS_IGNORE); }
    if (is("changed-all")) { rget(&both[0], more, 3); MPI_Raccumulate(values, 1, MPI_INT, 0, 4, 1, MPI_INT, MPI_SUM, win, &both[1]); values[0] = 94; MPI_Waitall(2, both, MPI_STATUSES_IGNORE); }
    if (is("changed-freed")) { rput(&request, 3); MPI_Request_free(&request); values[0] = 93; }
    if (is("never-waited")) rput(&request, 3);
    if (is("get-waited")) { rget(&request, more, 3); MPI_Wait(&request, MPI_STATUS_IGNORE); more[0]++; put(more, 0, 3); }
    if (is("put-waited")) { rput(&request, 3); MPI_Wait(&request, MPI_STATUS_IGNORE); values[0] = 92; rput(&request, 4); MPI_Wait(&request, MPI_STATUS_IGNORE); }
    if (is("put-flushed")) { rput(&request, 3); MPI_Win_flush(0, win); put(more, 0, 3); MPI_Wait(&request, MPI_STATUS_IGNORE); }
    if (is("put-freed")) { rput(&request, 3); MPI_Request_free(&request); MPI_Win_flush(0, win); values[0] = 91; put(more, 0, 3); }
    if (is("many-requests")) for (int i = 0; i < 300; i++) { rget(&both[0], more, i % 8); MPI_Rput(pair, 1, MPI_INT, 0, 8 + i % 8, 1, MPI_INT, win, &both[1]); MPI_Waitall(2, both, MPI_STATUSES_IGNORE); pair[0] = i; if (i % 8 == 7) MPI_Win_flush(0, win); }
    if (is("overlapping")) { MPI_Put(values, 4, MPI_INT, 0, 2, 4, MPI_INT, win); MPI_Put(more, 4, MPI_INT, 0, 5, 4, MPI_INT, win); }
    if (is("into-one")) get(more, 0, 3), get(more, 0, 4);
    if (is("from-into")) put(values, 0, 3), get(values, 0, 4);
    if (is("into-from")) get(values, 0, 4), put(values, 0, 3);
    if (is("result")) { MPI_Fetch_and_op(pair, more, MPI_INT, 0, 3, MPI_SUM, win); MPI_Fetch_and_op(pair, more, MPI_INT, 0, 4, MPI_SUM, win); }
    if (is("changed")) { put(values, 0, 3); values[0] = 99; }
    if (is("changed-add")) { add(values, 0, 3, MPI_SUM); values[0] = 98; }
    if (is("changed-flush")) { put(values, 0, 3); values[0] = 97; MPI_Win_flush(0, win); }
    if (is("types")) MPI_Put(values, 2, MPI_INT, 0, 3, 2, MPI_FLOAT, win);
    if (is("types-add")) MPI_Accumulate(values, 1, MPI_INT, 0, 3, 1, MPI_FLOAT, MPI_SUM, win);
    if (is("flushed")) { put(values, 0, 3); MPI_Win_flush(0, win); put(more, 0, 3); }
    if (is("reused")) { put(values, 0, 3); MPI_Win_flush_local(0, win); values[0] = 99; put(values, 0, 4); }
    if (is("adds")) add(values, 0, 3, MPI_SUM), add(values, 0, 3, MPI_SUM);
    MPI_Win_unlock(0, win);
    if (is("unlocked")) { MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win); put(values, 0, 3); MPI_Win_unlock(0, win); MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win); put(more, 0, 3); MPI_Win_unlock(0, win); }
    if (is("all")) { MPI_Win_lock_all(0, win); put(values, 0, 3); put(more, 0, 3); MPI_Win_unlock_all(win); }
    if (is("all-changed")) { MPI_Win_lock_all(0, win); put(values, 0, 3); values[0] = 5; MPI_Win_unlock_all(win); }
    if (is("targets")) { MPI_Win_lock_all(0, win); put(values, 0, 3); put(values, 2, 3); MPI_Win_unlock_all(win); }
}

/* Rank 1 starts what rank 0 has posted. */
static void posted(void) {
    MPI_Group all, one;
    int zero = 0, first = 1;
    if (strncmp(wanted, "post", 4)) return;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, rank == 0 ? &first : &zero, &one);
    if (rank == 0) { MPI_Win_post(one, 0, win); MPI_Win_wait(win); }
    if (rank == 1) {
        MPI_Win_start(one, 0, win);
        if (is("post-puts")) put(values, 0, 3), put(more, 0, 3);
        if (is("post-changed")) { put(values, 0, 3); values[0] = 96; }
        MPI_Win_complete(win);
    }
    MPI_Group_free(&one);
    MPI_Group_free(&all);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    wanted = argv[1];
    if (argc > 2) MPI_Win_create(memory = more + 32, 128, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    else MPI_Win_allocate(128, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    fences();
    epochs();
    posted();
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
