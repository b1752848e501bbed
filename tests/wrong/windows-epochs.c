/*
 * Calls on windows that the epoch does not allow, or with wrong arguments.
 * says: place     windows-epochs.c:
 *
 * run: 2 dynamic-put
 * exit: 48
 * says: call      MPI_Win_fence
 * says: class     MPI_ERR_RMA_RANGE
 * says: of the window has no memory at displacement
 *
 * run: 2 dynamic-query
 * exit: 57
 * says: call      MPI_Win_shared_query
 * says: class     MPI_ERR_RMA_FLAVOR
 * says: a dynamic window has no shared memory; query one that
 *
 * run: 2 dynamic-twice
 * exit: 46
 * says: call      MPI_Win_attach
 * says: class     MPI_ERR_RMA_ATTACH
 * says: which is attached to the window; detach that before
 *
 * run: 2 dynamic-detach
 * exit: 46
 * says: call      MPI_Win_detach
 * says: class     MPI_ERR_RMA_ATTACH
 * says: no memory that begins at
 *
 * run: 2 put-without
 * exit: 50
 * says: call      MPI_Put
 * says: class     MPI_ERR_RMA_SYNC
 * says: an operation to rank
 *
 * run: 2 get-without
 * exit: 50
 * says: call      MPI_Get
 * says: class     MPI_ERR_RMA_SYNC
 * says: an operation to rank
 *
 * run: 2 accumulate-without
 * exit: 50
 * says: call      MPI_Accumulate
 * says: class     MPI_ERR_RMA_SYNC
 * says: an operation to rank
 *
 * run: 2 swap-without
 * exit: 50
 * says: call      MPI_Compare_and_swap
 * says: class     MPI_ERR_RMA_SYNC
 * says: an operation to rank
 *
 * run: 2 fetch-without
 * exit: 50
 * says: call      MPI_Fetch_and_op
 * says: class     MPI_ERR_RMA_SYNC
 * says: an operation to rank
 *
 * run: 2 unlock-without
 * exit: 50
 * says: call      MPI_Win_unlock
 * says: class     MPI_ERR_RMA_SYNC
 * says: MPI_Win_unlock for rank
 *
 * run: 2 unlock-all-without
 * exit: 50
 * says: call      MPI_Win_unlock_all
 * says: class     MPI_ERR_RMA_SYNC
 * says: MPI_Win_unlock_all within no epoch; it ends what
 *
 * run: 2 flush-without
 * exit: 50
 * says: call      MPI_Win_flush
 * says: class     MPI_ERR_RMA_SYNC
 * says: a flush for rank
 *
 * run: 2 flush-all-without
 * exit: 50
 * says: call      MPI_Win_flush_all
 * says: class     MPI_ERR_RMA_SYNC
 * says: a flush within no epoch; operations are flushed while
 *
 * run: 2 complete-without
 * exit: 50
 * says: call      MPI_Win_complete
 * says: class     MPI_ERR_RMA_SYNC
 * says: MPI_Win_complete within no epoch; it ends what
 *
 * run: 2 wait-without
 * exit: 50
 * says: call      MPI_Win_wait
 * says: class     MPI_ERR_RMA_SYNC
 * says: MPI_Win_wait outside of an exposure epoch; it ends what
 *
 * run: 2 test-without
 * exit: 50
 * says: call      MPI_Win_test
 * says: class     MPI_ERR_RMA_SYNC
 * says: MPI_Win_test outside of an exposure epoch; it ends what
 *
 * run: 2 lock-twice
 * exit: 50
 * says: call      MPI_Win_lock
 * says: class     MPI_ERR_RMA_SYNC
 * says: MPI_Win_lock for rank
 *
 * run: 2 lock-all-twice
 * exit: 50
 * says: call      MPI_Win_lock_all
 * says: class     MPI_ERR_RMA_SYNC
 * says: MPI_Win_lock_all within an epoch of MPI_Win_lock_all, which
 *
 * run: 2 lock-and-all
 * exit: 50
 * says: call      MPI_Win_lock_all
 * says: class     MPI_ERR_RMA_SYNC
 * says: MPI_Win_lock_all within an epoch of MPI_Win_lock, which is
 *
 * run: 2 other-target
 * exit: 50
 * says: call      MPI_Put
 * says: class     MPI_ERR_RMA_SYNC
 * says: an operation to rank
 *
 * run: 2 unlock-other
 * exit: 50
 * says: call      MPI_Win_unlock
 * says: class     MPI_ERR_RMA_SYNC
 * says: MPI_Win_unlock for rank
 *
 * run: 2 fence-in-lock
 * exit: 50
 * says: call      MPI_Win_fence
 * says: class     MPI_ERR_RMA_SYNC
 * says: MPI_Win_fence within an epoch of MPI_Win_lock, which is
 *
 * run: 2 start-twice
 * exit: 50
 * says: call      MPI_Win_start
 * says: class     MPI_ERR_RMA_SYNC
 * says: MPI_Win_start within an epoch of MPI_Win_start, which is
 *
 * run: 2 post-twice
 * exit: 50
 * says: call      MPI_Win_post
 * says: class     MPI_ERR_RMA_SYNC
 * says: MPI_Win_post within an exposure epoch; call MPI_Win_wait
 *
 * run: 2 outside-start
 * exit: 50
 * says: call      MPI_Put
 * says: class     MPI_ERR_RMA_SYNC
 * says: an operation to rank
 *
 * run: 2 lock-in-start
 * exit: 50
 * says: call      MPI_Win_lock
 * says: class     MPI_ERR_RMA_SYNC
 * says: MPI_Win_lock within an epoch of MPI_Win_start, which is
 *
 * run: 2 free-in-lock
 * exit: 50
 * says: call      MPI_Win_free
 * says: class     MPI_ERR_RMA_SYNC
 * says: MPI_Win_free within an epoch of MPI_Win_lock, which is
 *
 * run: 2 free-in-start
 * exit: 50
 * says: call      MPI_Win_free
 * says: class     MPI_ERR_RMA_SYNC
 * says: MPI_Win_free within an epoch of MPI_Win_start, which is
 *
 * run: 2 rput-in-fence
 * exit: 50
 * says: call      MPI_Rput
 * says: class     MPI_ERR_RMA_SYNC
 * says: an operation with a request in an epoch of MPI_Win_fence;
 *
 * run: 2 beyond
 * exit: 48
 * says: call      MPI_Put
 * says: class     MPI_ERR_RMA_RANGE
 * says: 4 elements of 4 bytes (extent 4) at displacement 1
 *
 * run: 2 before-base
 * exit: 26
 * says: call      MPI_Get
 * says: class     MPI_ERR_DISP
 * says: a displacement of -
 *
 * run: 2 far
 * exit: 48
 * says: call      MPI_Accumulate
 * says: class     MPI_ERR_RMA_RANGE
 * says: 1 elements of 4 bytes (extent 4) at displacement 1
 *
 * run: 2 lengths
 * exit: 2
 * says: call      MPI_Put
 * says: class     MPI_ERR_COUNT
 * says: 16 bytes at the origin but 8 bytes at the target;
 *
 * run: 2 lengths-get
 * exit: 2
 * says: call      MPI_Get
 * says: class     MPI_ERR_COUNT
 * says: 4 bytes at the origin but 8 bytes at the target; c
 *
 * run: 2 target-rank
 * exit: 6
 * says: call      MPI_Put
 * says: class     MPI_ERR_RANK
 * says: argument  target_rank
 *
 * run: 2 users-op
 * exit: 10
 * says: call      MPI_Accumulate
 * says: class     MPI_ERR_OP
 * says: a user's operation; only predefined operations acc
 *
 * run: 2 swap-type
 * exit: 3
 * says: call      MPI_Compare_and_swap
 * says: class     MPI_ERR_TYPE
 * says: MPI_Compare_and_swap of Datatype(MPI_FLOAT); it is defined
 *
 * run: 2 swap-pair
 * exit: 3
 * says: call      MPI_Compare_and_swap
 * says: class     MPI_ERR_TYPE
 * says: argument  datatype
 *
 * run: 2 lock-kind
 * exit: 37
 * says: call      MPI_Win_lock
 * says: class     MPI_ERR_LOCKTYPE
 * says: argument  lock_type
 *
 * run: 2 assertion
 * exit: 22
 * says: call      MPI_Win_fence
 * says: class     MPI_ERR_ASSERT
 * says: argument  assert
 *
 * run: 2 freed
 * exit: 56
 * says: call      MPI_Win_fence
 * says: class     MPI_ERR_WIN
 * says: argument  win
 *
 * run: 2 null
 * exit: 56
 * says: call      MPI_Win_fence
 * says: class     MPI_ERR_WIN
 * says: argument  win
 */
#include <mpi.h>
#include <string.h>

static int rank, size, values[64], more[64];
static const char *wanted;

static int is(const char *name) { return strcmp(wanted, name) == 0; }

static void keep(void *in, void *inout, int *length, MPI_Datatype *type) { (void)in, (void)inout, (void)length, (void)type; }

/* One call that the epoch does not allow, or with a wrong argument. */
int main(int argc, char **argv) {
    MPI_Win win;
    MPI_Group all, other;
    MPI_Request request;
    int *memory, unit, flag, whom;
    MPI_Aint bytes;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    wanted = argv[1];
    whom = (rank + 1) % size;
    MPI_Group_incl(all, 1, &whom, &other);
    if (strncmp(wanted, "dynamic", 7) == 0) {
        MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        if (is("dynamic-put")) { MPI_Win_fence(0, win); MPI_Put(values, 1, MPI_INT, whom, 4096, 1, MPI_INT, win); MPI_Win_fence(0, win); }
        if (is("dynamic-query")) MPI_Win_shared_query(win, 0, &bytes, &unit, &memory);
        if (is("dynamic-twice")) { MPI_Win_attach(win, values, 64); MPI_Win_attach(win, values + 4, 64); }
        if (is("dynamic-detach")) MPI_Win_detach(win, more);
        return 1;
    }
    MPI_Win_allocate(64, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    if (is("put-without")) MPI_Put(values, 1, MPI_INT, whom, 0, 1, MPI_INT, win);
    if (is("get-without")) MPI_Get(values, 1, MPI_INT, whom, 0, 1, MPI_INT, win);
    if (is("accumulate-without")) MPI_Accumulate(values, 1, MPI_INT, whom, 0, 1, MPI_INT, MPI_SUM, win);
    if (is("swap-without")) MPI_Compare_and_swap(values, values, more, MPI_INT, whom, 0, win);
    if (is("fetch-without")) MPI_Fetch_and_op(values, more, MPI_INT, whom, 0, MPI_SUM, win);
    if (is("unlock-without")) MPI_Win_unlock(whom, win);
    if (is("unlock-all-without")) MPI_Win_unlock_all(win);
    if (is("flush-without")) MPI_Win_flush(whom, win);
    if (is("flush-all-without")) MPI_Win_flush_all(win);
    if (is("complete-without")) MPI_Win_complete(win);
    if (is("wait-without")) MPI_Win_wait(win);
    if (is("test-without")) MPI_Win_test(win, &flag);
    if (is("lock-twice")) { MPI_Win_lock(MPI_LOCK_SHARED, whom, 0, win); MPI_Win_lock(MPI_LOCK_SHARED, whom, 0, win); }
    if (is("lock-all-twice")) { MPI_Win_lock_all(0, win); MPI_Win_lock_all(0, win); }
    if (is("lock-and-all")) { MPI_Win_lock(MPI_LOCK_SHARED, whom, 0, win); MPI_Win_lock_all(0, win); }
    if (is("other-target")) { MPI_Win_lock(MPI_LOCK_SHARED, whom, 0, win); MPI_Put(values, 1, MPI_INT, rank, 0, 1, MPI_INT, win); }
    if (is("unlock-other")) { MPI_Win_lock(MPI_LOCK_SHARED, whom, 0, win); MPI_Win_unlock(rank, win); }
    if (is("fence-in-lock")) { MPI_Win_lock(MPI_LOCK_SHARED, whom, 0, win); MPI_Win_fence(0, win); }
    if (is("start-twice")) { MPI_Win_post(other, 0, win); MPI_Win_start(other, 0, win); MPI_Win_start(other, 0, win); }
    if (is("post-twice")) { MPI_Win_post(other, 0, win); MPI_Win_post(other, 0, win); }
    if (is("outside-start")) { MPI_Win_post(other, 0, win); MPI_Win_start(other, 0, win); MPI_Put(values, 1, MPI_INT, rank, 0, 1, MPI_INT, win); }
    if (is("lock-in-start")) { MPI_Win_post(other, 0, win); MPI_Win_start(other, 0, win); MPI_Win_lock(MPI_LOCK_SHARED, whom, 0, win); }
    if (is("free-in-lock")) { MPI_Win_lock(MPI_LOCK_SHARED, whom, 0, win); MPI_Win_free(&win); }
    if (is("free-in-start")) { MPI_Win_post(other, 0, win); MPI_Win_start(other, 0, win); MPI_Win_free(&win); }
    if (is("rput-in-fence")) { MPI_Win_fence(0, win); MPI_Rput(values, 1, MPI_INT, whom, 0, 1, MPI_INT, win, &request); }
    MPI_Win_lock_all(0, win);
    if (is("beyond")) MPI_Put(values, 4, MPI_INT, whom, 14, 4, MPI_INT, win);
    if (is("before-base")) MPI_Get(values, 1, MPI_INT, whom, -1, 1, MPI_INT, win);
    if (is("far")) MPI_Accumulate(values, 1, MPI_INT, whom, 1 << 20, 1, MPI_INT, MPI_SUM, win);
    if (is("lengths")) MPI_Put(values, 4, MPI_INT, whom, 0, 2, MPI_INT, win);
    if (is("lengths-get")) MPI_Get(values, 1, MPI_INT, whom, 0, 1, MPI_DOUBLE, win);
    if (is("target-rank")) MPI_Put(values, 1, MPI_INT, size, 0, 1, MPI_INT, win);
    if (is("users-op")) { MPI_Op op; MPI_Op_create(keep, 1, &op); MPI_Accumulate(values, 1, MPI_INT, whom, 0, 1, MPI_INT, op, win); }
    if (is("swap-type")) MPI_Compare_and_swap(values, values, more, MPI_FLOAT, whom, 0, win);
    if (is("swap-pair")) { MPI_Datatype pair; MPI_Type_contiguous(2, MPI_INT, &pair); MPI_Type_commit(&pair); MPI_Compare_and_swap(values, values, more, pair, whom, 0, win); }
    if (is("lock-kind")) { MPI_Win_unlock_all(win); MPI_Win_lock(7, whom, 0, win); }
    if (is("assertion")) { MPI_Win_unlock_all(win); MPI_Win_fence(1 << 20, win); }
    if (is("freed")) { MPI_Win kept = win; MPI_Win_unlock_all(win); MPI_Win_free(&win); MPI_Win_fence(0, kept); }
    if (is("null")) MPI_Win_fence(0, MPI_WIN_NULL);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    return 1;
}
