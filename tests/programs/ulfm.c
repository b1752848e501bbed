/* Ranks die, in rounds: at the begin, in a collective, in a receive. Those that are left revoke, agree and shrink, and go
 * on: each sum is checked. The last two are left over. Arguments: rounds in which nobody dies between two deaths; a number
 * by which is drawn who dies when and where, one or two at once. */
#include <mpi-ext.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fail(const char *what, int code) {
    int length = 0;
    char text[MPI_MAX_ERROR_STRING] = "";
    MPI_Error_string(code, text, &length);
    fprintf(stderr, "%s: %s\n", what, text);
    _exit(9);
}

/* The point of a round at which a rank dies. */
enum { NOWHERE, BEFORE, RECEIVING, BEGUN };

/* The same for all ranks. */
static unsigned long long drawn;
static int draw(int below) {
    drawn = drawn * 6364136223846793005ULL + 1442695040888963407ULL;
    return (int)((drawn >> 33) % (unsigned)below);
}

/* A round of work: the sum over all of numbers that each rank of the job has one of. */
static int work(MPI_Comm comm, int me, int round, int where) {
    static long own[20000], all[20000];
    int count = round % 3 == 0 ? 1 : round % 3 == 1 ? 300 : 20000, rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    if (where == BEFORE)
        raise(SIGKILL);
    if (round % 4 == 1) {
        /* Some wait for a message that does not come. */
        int token = round, code = MPI_SUCCESS;
        if (rank > 0)
            code = MPI_Recv(&token, 1, MPI_INT, rank - 1, 7, comm, MPI_STATUS_IGNORE);
        if (where == RECEIVING)
            raise(SIGKILL);
        if (code == MPI_SUCCESS && rank + 1 < size)
            code = MPI_Send(&token, 1, MPI_INT, rank + 1, 7, comm);
        if (code != MPI_SUCCESS)
            return code;
        if (token != round)
            fail("another token", MPI_ERR_OTHER);
    }
    for (int i = 0; i < count; i++)
        own[i] = (long)me * 1000 + i;
    MPI_Request request;
    int code;
    if (round % 2) {
        code = MPI_Iallreduce(own, all, count, MPI_LONG, MPI_SUM, comm, &request);
        if (where != NOWHERE)
            raise(SIGKILL);
        if (code == MPI_SUCCESS)
            code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        if (where != NOWHERE)
            raise(SIGKILL);
        code = MPI_Allreduce(own, all, count, MPI_LONG, MPI_SUM, comm);
    }
    if (code != MPI_SUCCESS)
        return code;
    MPI_Group group, world;
    MPI_Comm_group(comm, &group);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    long sum = 0;
    for (int i = 0; i < size; i++) {
        int there;
        MPI_Group_translate_ranks(group, 1, &i, world, &there);
        sum += (long)there * 1000;
    }
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    for (int i = 0; i < count; i++)
        if (all[i] != sum + (long)i * size)
            fail("another sum", MPI_ERR_OTHER);
    return MPI_SUCCESS;
}

int main(int argc, char **argv) {
    int quiet = argc > 1 ? atoi(argv[1]) : 2, me, size, round = 0;
    const int seed = argc > 2 ? atoi(argv[2]) : 0;
    drawn = (unsigned)seed;
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int first = size;
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    /* A rank that dies before the others have said that they handle deaths ends the whole job. */
    MPI_Barrier(comm);
    while (size > 2) {
        /* Another rank each time: the first, the last, one in the middle. */
        int rank, dies = round / quiet % 3;
        MPI_Comm_rank(comm, &rank);
        int who = dies == 0 ? 0 : dies == 1 ? size - 1 : size / 2;
        int where = round % 4 == 0 ? BEFORE : round % 4 == 1 ? RECEIVING : BEGUN, other = who;
        int is_deadly = round % quiet == quiet - 1;
        if (seed) {
            is_deadly = draw(quiet + 1) == 0;
            who = other = draw(size);
            /* Two at once, if two are left then. */
            if (draw(3) == 0 && size > 3)
                other = draw(size);
            where = BEFORE + draw(3);
        }
        int code = work(comm, me, round, is_deadly && (rank == who || rank == other) ? where : NOWHERE);
        int class = MPI_SUCCESS;
        MPI_Error_class(code, &class);
        if (class != MPI_SUCCESS && class != MPIX_ERR_PROC_FAILED && class != MPIX_ERR_REVOKED &&
            class != MPI_ERR_OTHER)
            fail("another class", code);
        if (class != MPI_SUCCESS)
            MPIX_Comm_revoke(comm);
        int well = class == MPI_SUCCESS;
        code = MPIX_Comm_agree(comm, &well);
        MPI_Error_class(code, &class);
        if (class != MPI_SUCCESS && class != MPIX_ERR_PROC_FAILED)
            fail("agree", code);
        if (!well || class != MPI_SUCCESS) {
            MPI_Comm next;
            code = MPIX_Comm_shrink(comm, &next);
            if (code != MPI_SUCCESS)
                fail("shrink", code);
            MPI_Comm_free(&comm);
            comm = next;
            MPI_Comm_size(comm, &size);
        }
        round++;
    }
    MPI_Group failed;
    int lost, acked;
    MPIX_Comm_ack_failed(MPI_COMM_WORLD, first, &acked);
    MPIX_Comm_get_failed(MPI_COMM_WORLD, &failed);
    MPI_Group_size(failed, &lost);
    MPI_Group_free(&failed);
    if (lost != acked || lost < first - 2)
        fail("another number of losses", MPI_ERR_OTHER);
    if (work(comm, me, 0, NOWHERE) != MPI_SUCCESS)
        fail("those that are left", MPI_ERR_OTHER);
    int rank;
    MPI_Comm_rank(comm, &rank);
    if (rank == 0)
        printf("%d are left of %d\n", size, first);
    MPI_Comm_free(&comm);
    return MPI_Finalize();
}
