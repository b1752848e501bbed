/*
 * Accesses of two ranks to the same bytes of a third one, within shared locks or one exposure. Some cases are right.
 * options: --check=full
 *
 * run: 3 puts
 * says: MPI_Put at check-epochs.c:
 * says: by rank 2
 * says: bytes 12 to 15 of this rank's memory at the same time under shared locks
 *
 * run: 3 put-get
 * says: MPI_Put at check-epochs.c:
 * says: MPI_Get at check-epochs.c:
 * says: bytes 12 to 15 of this rank's memory at the same time under shared locks
 *
 * run: 3 put-add
 * says: MPI_Put at check-epochs.c:
 * says: MPI_Accumulate at check-epochs.c:
 * says: bytes 12 to 15 of this rank's memory at the same time under shared locks
 *
 * run: 3 get-add
 * says: MPI_Get at check-epochs.c:
 * says: MPI_Accumulate at check-epochs.c:
 * says: bytes 12 to 15 of this rank's memory at the same time under shared locks
 *
 * run: 3 operations
 * says: MPI_Accumulate at check-epochs.c:
 * says: bytes 12 to 15 of this rank's memory at the same time under shared locks
 *
 * run: 3 fetch
 * says: MPI_Fetch_and_op at check-epochs.c:
 * says: MPI_Put at check-epochs.c:
 * says: bytes 12 to 15 of this rank's memory at the same time under shared locks
 *
 * run: 3 ranges
 * says: MPI_Put at check-epochs.c:
 * says: bytes 16 to 19 of this rank's memory at the same time under shared locks
 *
 * run: 3 requests
 * says: MPI_Rput at check-epochs.c:
 * says: by rank 2
 * says: bytes 12 to 15 of this rank's memory at the same time under shared locks
 *
 * run: 3 request-get
 * says: MPI_Raccumulate at check-epochs.c:
 * says: MPI_Get at check-epochs.c:
 * says: bytes 12 to 15 of this rank's memory at the same time under shared locks
 *
 * run: 3 all-puts
 * says: MPI_Put at check-epochs.c:
 * says: bytes 12 to 15 of this rank's memory at the same time under shared locks
 *
 * run: 3 all-put-get
 * says: MPI_Put at check-epochs.c:
 * says: MPI_Get at check-epochs.c:
 * says: bytes 12 to 15 of this rank's memory at the same time under shared locks
 *
 * run: 3 all-local
 * says: MPI_Put at check-epochs.c:
 * says: bytes 12 to 15 of this rank's memory at the same time under shared locks
 *
 * run: 3 post-puts
 * says: MPI_Put at check-epochs.c:
 * says: by rank 2
 * says: bytes 12 to 15 of this rank's memory between one MPI_Win_post and its MPI_Win_wait
 *
 * run: 3 post-put-get
 * says: MPI_Put at check-epochs.c:
 * says: MPI_Get at check-epochs.c:
 * says: bytes 12 to 15 of this rank's memory between one MPI_Win_post and its MPI_Win_wait
 *
 * run: 3 post-put-add
 * says: MPI_Accumulate at check-epochs.c:
 * says: bytes 12 to 15 of this rank's memory between one MPI_Win_post and its MPI_Win_wait
 *
 * run: 3 post-second
 * says: MPI_Put at check-epochs.c:
 * says: bytes 12 to 15 of this rank's memory between one MPI_Win_post and its MPI_Win_wait
 *
 * run: 3 post-order
 * says: MPI_Put at check-epochs.c:
 * says: bytes 12 to 15 of this rank's memory between one MPI_Win_post and its MPI_Win_wait
 *
 * run: 3 puts
 * options: --check=full --fabric=tcp
 * says: bytes 12 to 15 of this rank's memory at the same time under shared locks
 *
 * run: 3 post-puts
 * options: --check=full --fabric=tcp
 * says: bytes 12 to 15 of this rank's memory between one MPI_Win_post and its MPI_Win_wait
 *
 * run: 3 puts
 * options: --check=usual
 * never: weft
 *
 * run: 3 post-puts
 * options: --check=usual
 * never: weft
 */
#include <mpi.h>
#include <string.h>

static int rank, values[64], more[64];
static const char *wanted;
static MPI_Win win;

static int is(const char *name) { return strcmp(wanted, name) == 0; }

static void put(int place, int count) { MPI_Put(values, count, MPI_INT, 0, place, count, MPI_INT, win); }
static void get(int place) { MPI_Get(more, 1, MPI_INT, 0, place, 1, MPI_INT, win); }
static void add(MPI_Op op) { MPI_Accumulate(values, 1, MPI_INT, 0, 3, 1, MPI_INT, op, win); }

static void access_it(const char *what) {
    MPI_Request request;
    if (!strcmp(what, "puts")) put(3, 1);
    if (!strcmp(what, "put-get")) { if (rank == 1) put(3, 1); else get(3); }
    if (!strcmp(what, "put-add")) { if (rank == 1) put(3, 1); else add(MPI_SUM); }
    if (!strcmp(what, "get-add")) { if (rank == 1) get(3); else add(MPI_SUM); }
    if (!strcmp(what, "operations")) add(rank == 1 ? MPI_SUM : MPI_PROD);
    if (!strcmp(what, "requests")) { MPI_Rput(values, 1, MPI_INT, 0, 3, 1, MPI_INT, win, &request); MPI_Wait(&request, MPI_STATUS_IGNORE); }
    if (!strcmp(what, "request-get")) { if (rank == 1) { MPI_Raccumulate(values, 1, MPI_INT, 0, 3, 1, MPI_INT, MPI_SUM, win, &request); MPI_Wait(&request, MPI_STATUS_IGNORE); } else get(3); }
    if (!strcmp(what, "ranges")) put(rank * 2, 4 - rank);
    if (!strcmp(what, "fetch")) { if (rank == 1) put(3, 1); else MPI_Fetch_and_op(values, more, MPI_INT, 0, 3, MPI_SUM, win); }
}

/* Both hold the lock until both have made their access. */
static void locks(void) {
    if (rank > 0) MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    if (rank > 0) access_it(wanted);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank > 0) MPI_Win_unlock(0, win);
}

static void lock_all(void) {
    MPI_Win_lock_all(0, win);
    if (rank > 0) {
        access_it(is("all-put-get") ? "put-get" : "puts");
        /* Its own buffer is free then; the target's memory is not. */
        if (is("all-local")) MPI_Win_flush_local(0, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_unlock_all(win);
}

static void posted(void) {
    static const int others[] = {1, 2}, zero = 0;
    MPI_Group all, some;
    int rounds = is("post-second") ? 2 : 1, token = 0;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, rank ? 1 : 2, rank ? &zero : others, &some);
    for (int i = 0; i < rounds; i++) {
        if (rank == 0) { MPI_Win_post(some, 0, win); MPI_Win_wait(win); continue; }
        MPI_Win_start(some, 0, win);
        /* That rank 1 has completed says nothing of the target. */
        if (is("post-order") && rank == 2) MPI_Recv(&token, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (is("post-second") && i == 0) put(3 + rank, 1);
        else access_it(is("post-put-get") || is("post-put-add") ? wanted + 5 : "puts");
        MPI_Win_complete(win);
        if (is("post-order") && rank == 1) MPI_Send(&token, 1, MPI_INT, 2, 0, MPI_COMM_WORLD);
    }
    MPI_Group_free(&some);
    MPI_Group_free(&all);
}

int main(int argc, char **argv) {
    int *memory;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    wanted = argv[1];
    MPI_Win_allocate(128, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    if (!strncmp(wanted, "post", 4)) posted();
    else if (!strncmp(wanted, "all", 3)) lock_all();
    else locks();
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
