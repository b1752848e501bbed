/* Many small non-blocking collectives of a communicator at a time, ended in any order by any call, on communicators that are freed while
   some are under way. */
#include "check.h"

#define MANY 70

static int give[MANY][64], get[MANY][64];
static MPI_Request requests[MANY];

static int value(int round, int i, int rank) { return round * 10007 + i * 131 + rank; }

/* One of each kind after the other; `give` and `get` of the same place are its own. */
static void begin(MPI_Comm comm, int round, int i) {
    int n = check_size, me = check_rank, root = (round + i) % n;
    memset(get[i], 0, sizeof get[i]);
    for (int k = 0; k < n; k++) give[i][k] = value(round, i, me) + 1000 * k;
    switch (i % 9) {
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
    }
}

static void check(int round, int i) {
    int n = check_size, me = check_rank, root = (round + i) % n, sum = 0;
    for (int rank = 0; rank < n; rank++) sum += value(round, i, rank);
    switch (i % 9) {
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

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    MPI_Comm comm = MPI_COMM_NULL;
    for (int round = 0; round < 60; round++) {
        if (round % 7 == 0) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
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
