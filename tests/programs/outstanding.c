/* Many small non-blocking collectives of a communicator at a time, ended in any order by any call, on communicators that are freed while
   some are under way. */
#include <unistd.h>

#include "check.h"

#define MANY 70

#define KINDS 14
#define MOST 64

static int give[MANY][MOST], get[MANY][MOST];
/* Blocks of different lengths, three elements apart: of each rank, and between this one and each. */
static int of_rank[MOST], between[MOST], starts[MOST];
static MPI_Request requests[MANY];

static int value(int round, int i, int rank) { return round * 10007 + i * 131 + rank; }

/* One of each kind after the other; `give` and `get` of the same place are its own. */
static void begin(MPI_Comm comm, int round, int i) {
    int n = check_size, me = check_rank, root = (round + i) % n;
    memset(get[i], 0, sizeof get[i]);
    for (int k = 0; k < MOST; k++) give[i][k] = value(round, i, me) + 1000 * k;
    switch (i % KINDS) {
    case 0: MPI_Ibarrier(comm, &requests[i]); break;
    case 1:
        get[i][0] = me == root ? value(round, i, root) : 0;
        MPI_Ibcast(get[i], 1, MPI_INT, root, comm, &requests[i]);
        break;
    case 2: MPI_Igather(give[i], 1, MPI_INT, get[i], 1, MPI_INT, root, comm, &requests[i]); break;
    case 3: {
        /* Elements with gaps at the ranks of even number: the same bytes. */
        MPI_Datatype apart;
        MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &apart);
        MPI_Type_commit(&apart);
        if (me % 2) MPI_Iallgather(give[i], 1, MPI_INT, get[i], 1, MPI_INT, comm, &requests[i]);
        else MPI_Iallgather(give[i], 1, apart, get[i], 1, apart, comm, &requests[i]);
        MPI_Type_free(&apart);
        break;
    }
    case 4: MPI_Iscatter(give[i], 1, MPI_INT, get[i], 1, MPI_INT, root, comm, &requests[i]); break;
    case 5: MPI_Iallgather(give[i], 1, MPI_INT, get[i], 1, MPI_INT, comm, &requests[i]); break;
    case 6: MPI_Ialltoall(give[i], 1, MPI_INT, get[i], 1, MPI_INT, comm, &requests[i]); break;
    case 7: MPI_Ireduce(give[i], get[i], 1, MPI_INT, MPI_SUM, root, comm, &requests[i]); break;
    case 8: MPI_Iallreduce(give[i], get[i], 1, MPI_INT, MPI_SUM, comm, &requests[i]); break;
    case 9: MPI_Igatherv(give[i], of_rank[me], MPI_INT, get[i], of_rank, starts, MPI_INT, root, comm, &requests[i]); break;
    case 10: MPI_Iscatterv(give[i], of_rank, starts, MPI_INT, get[i], of_rank[me], MPI_INT, root, comm, &requests[i]); break;
    case 11: MPI_Iallgatherv(give[i], of_rank[me], MPI_INT, get[i], of_rank, starts, MPI_INT, comm, &requests[i]); break;
    case 12: MPI_Ialltoallv(give[i], between, starts, MPI_INT, get[i], between, starts, MPI_INT, comm, &requests[i]); break;
    case 13: MPI_Ireduce_scatter(give[i], get[i], of_rank, MPI_INT, MPI_SUM, comm, &requests[i]); break;
    }
}

static void check(int round, int i) {
    int n = check_size, me = check_rank, root = (round + i) % n, sum = 0;
    for (int rank = 0; rank < n; rank++) sum += value(round, i, rank);
    switch (i % KINDS) {
    case 1: CHECK(get[i][0] == value(round, i, root)); break;
    case 2:
        for (int rank = 0; rank < n && me == root; rank++) CHECK(get[i][rank] == value(round, i, rank));
        break;
    case 3:
        for (int rank = 0; rank < n; rank++) CHECK(get[i][(2 - me % 2) * rank] == value(round, i, rank));
        break;
    case 4: CHECK(get[i][0] == value(round, i, root) + 1000 * me); break;
    case 5:
        for (int rank = 0; rank < n; rank++) CHECK(get[i][rank] == value(round, i, rank));
        break;
    case 6:
        for (int rank = 0; rank < n; rank++) CHECK(get[i][rank] == value(round, i, rank) + 1000 * me);
        break;
    case 7: CHECK(me != root || get[i][0] == sum); break;
    case 8: CHECK(get[i][0] == sum); break;
    case 9:
    case 11:
        for (int rank = 0; rank < n && (i % KINDS == 11 || me == root); rank++)
            for (int k = 0; k < of_rank[rank]; k++) CHECK(get[i][starts[rank] + k] == value(round, i, rank) + 1000 * k);
        break;
    case 10:
        for (int k = 0; k < of_rank[me]; k++) CHECK(get[i][k] == value(round, i, root) + 1000 * (starts[me] + k));
        break;
    case 12:
        for (int rank = 0; rank < n; rank++)
            for (int k = 0; k < between[rank]; k++)
                CHECK(get[i][starts[rank] + k] == value(round, i, rank) + 1000 * (starts[me] + k));
        break;
    case 13: {
        int before = 0;
        for (int rank = 0; rank < me; rank++) before += of_rank[rank];
        for (int k = 0; k < of_rank[me]; k++) CHECK(get[i][k] == sum + n * 1000 * (before + k));
        break;
    }
    }
}

static void end(int round, int way) {
    int done[MANY] = {0}, left = MANY;
    if (way == 0) MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE), left = 0;
    while (left) {
        int places[MANY], count = 0, flag = 0;
        if (way == 1) {
            count = 1;
            MPI_Waitany(MANY, requests, places, MPI_STATUS_IGNORE);
        } else if (way == 2) {
            MPI_Testsome(MANY, requests, &count, places, MPI_STATUSES_IGNORE);
        } else {
            int i = (left * 7 + check_rank) % MANY;
            while (done[i]) i = (i + 1) % MANY;
            if (way == 3) MPI_Wait(&requests[i], MPI_STATUS_IGNORE), flag = 1;
            else MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE);
            places[0] = i, count = flag;
        }
        for (int k = 0; k < count; k++, left--) {
            CHECK(!done[places[k]]);
            done[places[k]] = 1;
            check(round, places[k]);
        }
    }
    for (int i = 0; i < MANY; i++) check(round, i);
}

/* Persistent ones, which each rank starts in an order of its own, and one rank late. */
static void again(MPI_Comm comm) {
    enum { KEPT = 6 };
    int n = check_size, me = check_rank, in[KEPT][MOST], out[KEPT][MOST];
    MPI_Request kept[KEPT], own[KEPT];
    MPI_Barrier_init(comm, MPI_INFO_NULL, &kept[0]);
    MPI_Bcast_init(out[1], 1, MPI_INT, n - 1, comm, MPI_INFO_NULL, &kept[1]);
    MPI_Allreduce_init(in[2], out[2], 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &kept[2]);
    MPI_Alltoallv_init(in[3], between, starts, MPI_INT, out[3], between, starts, MPI_INT, comm, MPI_INFO_NULL, &kept[3]);
    MPI_Allreduce_init(MPI_IN_PLACE, out[4], 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &kept[4]);
    MPI_Gatherv_init(in[5], of_rank[me], MPI_INT, out[5], of_rank, starts, MPI_INT, 0, comm, MPI_INFO_NULL, &kept[5]);
    for (int round = 0; round < 100; round++) {
        int sum = 0;
        for (int rank = 0; rank < n; rank++) sum += value(round, 0, rank);
        for (int i = 0; i < KEPT; i++) {
            for (int k = 0; k < MOST; k++) in[i][k] = value(round, 0, me) + 1000 * k;
            out[i][0] = i == 4 || me == n - 1 ? in[i][0] : -1;
            own[i] = kept[(i + me + round) % KEPT];
        }
        if (round % 50 == 7 && me == n / 2) usleep(20000);
        if (round % 2) MPI_Startall(KEPT, own);
        for (int i = 0; i < KEPT && round % 2 == 0; i++) MPI_Start(&own[i]);
        if (round % 3) MPI_Waitall(KEPT, own, MPI_STATUSES_IGNORE);
        for (int i = KEPT - 1; i >= 0 && round % 3 == 0; i--) MPI_Wait(&kept[i], MPI_STATUS_IGNORE);
        CHECK(out[1][0] == value(round, 0, n - 1) && out[2][0] == sum && out[4][0] == sum);
        for (int rank = 0; rank < n; rank++) {
            for (int k = 0; k < between[rank]; k++)
                CHECK(out[3][starts[rank] + k] == value(round, 0, rank) + 1000 * (starts[me] + k));
            for (int k = 0; k < of_rank[rank] && me == 0; k++)
                CHECK(out[5][starts[rank] + k] == value(round, 0, rank) + 1000 * k);
        }
    }
    for (int i = 0; i < KEPT; i++) MPI_Request_free(&kept[i]);
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    for (int rank = 0; rank < check_size; rank++) {
        of_rank[rank] = 1 + rank % 2;
        between[rank] = (check_rank + rank) % 3;
        starts[rank] = 3 * rank;
    }
    MPI_Comm comm = MPI_COMM_NULL;
    for (int round = 0; round < 60; round++) {
        if (round % 7 == 0) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        if (round % 20 == 0) again(comm);
        for (int i = 0; i < MANY; i++) {
            begin(comm, round, i);
            if (i == round) MPI_Barrier(comm);
        }
        if (round % 7 == 6) MPI_Comm_free(&comm);
        end(round, round % 5);
    }
    if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
    check_done("outstanding");
    return 0;
}
