/* Intercommunicators: creation, messages, collectives, merging, splitting, errors. */
#include "check.h"

static int local_rank, local_size, remote_size;

/* An intercommunicator of the even and the odd ranks, the last of each leading. */
static MPI_Comm two_sides(void) {
    MPI_Comm half, inter;
    int odd = check_rank % 2, half_size;
    MPI_Comm_split(MPI_COMM_WORLD, odd, 0, &half);
    MPI_Comm_size(half, &half_size);
    int last_even = (check_size - 1) / 2 * 2, last_odd = (check_size - 2) / 2 * 2 + 1;
    MPI_Intercomm_create(half, half_size - 1, MPI_COMM_WORLD, odd ? last_even : last_odd, 17, &inter);
    MPI_Comm_free(&half);
    return inter;
}

/* The rank in the world of a rank of the remote group. */
static int world_of(int remote) { return 2 * remote + (check_rank % 2 ? 0 : 1); }

static void collectives(MPI_Comm inter) {
    /* The first odd rank is the root: it communicates with the even ranks. */
    int asked = check_rank % 2 == 0, here = check_rank == 1;
    int root = asked ? 0 : here ? MPI_ROOT : MPI_PROC_NULL;
    int *many = malloc(sizeof(int) * (size_t)(check_size + 1) * 2), *more = malloc(sizeof(int) * (size_t)(check_size + 1) * 2);

    MPI_Barrier(inter);
    int value = here ? 4711 : -1;
    MPI_Bcast(&value, 1, MPI_INT, root, inter);
    CHECK(value == (asked || here ? 4711 : -1));

    MPI_Gather(&check_rank, 1, MPI_INT, many, 1, MPI_INT, root, inter);
    if (here)
        for (int i = 0; i < remote_size; i++) CHECK(many[i] == world_of(i));
    for (int i = 0; i < remote_size; i++) more[i] = 100 + world_of(i);
    value = -1;
    MPI_Scatter(more, 1, MPI_INT, &value, 1, MPI_INT, root, inter);
    CHECK(value == (asked ? 100 + check_rank : -1));

    MPI_Allgather(&check_rank, 1, MPI_INT, many, 1, MPI_INT, inter);
    for (int i = 0; i < remote_size; i++) CHECK(many[i] == world_of(i));
    for (int i = 0; i < remote_size; i++) more[i] = 1000 * check_rank + world_of(i);
    MPI_Alltoall(more, 1, MPI_INT, many, 1, MPI_INT, inter);
    for (int i = 0; i < remote_size; i++) CHECK(many[i] == 1000 * world_of(i) + check_rank);

    int sum = 0, expected = 0, own = 0;
    for (int i = 0; i < remote_size; i++) expected += world_of(i);
    for (int i = check_rank % 2; i < check_size; i += 2) own += i;
    MPI_Allreduce(&check_rank, &sum, 1, MPI_INT, MPI_SUM, inter);
    CHECK(sum == expected);
    sum = -1;
    MPI_Reduce(&check_rank, &sum, 1, MPI_INT, MPI_SUM, root, inter);
    CHECK(sum == (here ? expected : -1));

    /* Both sides give a block for each rank of both. */
    int total = local_size * remote_size;
    int *out = malloc(sizeof(int) * (size_t)total);
    for (int i = 0; i < total; i++) out[i] = check_rank + i;
    int block = remote_size;
    MPI_Reduce_scatter_block(out, many, block, MPI_INT, MPI_SUM, inter);
    for (int i = 0; i < block; i++)
        CHECK(many[i] == expected + remote_size * (local_rank * block + i));
    free(out);

    /* Non-blocking and persistent: the same schedules. */
    MPI_Request request;
    sum = -1;
    MPI_Iallreduce(&check_rank, &sum, 1, MPI_INT, MPI_SUM, inter, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(sum == expected);
    value = 0;
    MPI_Bcast_init(&value, 1, MPI_INT, root, inter, MPI_INFO_NULL, &request);
    for (int round = 1; round < 4; round++) {
        if (here) value = round;
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(value == (asked || here ? round : 0));
    }
    MPI_Request_free(&request);
    (void)own;
    free(many);
    free(more);
}

static void wrong(MPI_Comm inter) {
    int value = 0, class;
    MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    MPI_Error_class(MPI_Bcast(&value, 1, MPI_INT, remote_size, inter), &class);
    CHECK(class == MPI_ERR_ROOT);
    MPI_Error_class(MPI_Scan(&value, &value, 1, MPI_INT, MPI_SUM, inter), &class);
    CHECK(class == MPI_ERR_COMM);
    MPI_Error_class(MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, inter), &class);
    CHECK(class == MPI_ERR_BUFFER);
    MPI_Error_class(MPI_Send(&value, 1, MPI_INT, remote_size, 0, inter), &class);
    CHECK(class == MPI_ERR_RANK);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm merged;
    MPI_Error_class(MPI_Intercomm_merge(MPI_COMM_WORLD, 0, &merged), &class);
    CHECK(class == MPI_ERR_COMM);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    if (check_size == 1) {
        check_done("intercommunicators");
        return 0;
    }
    MPI_Comm inter = two_sides(), twin, merged, part;
    int flag, result, rank, size;
    MPI_Comm_test_inter(inter, &flag);
    CHECK(flag);
    MPI_Comm_rank(inter, &local_rank);
    MPI_Comm_size(inter, &local_size);
    MPI_Comm_remote_size(inter, &remote_size);
    CHECK(local_size + remote_size == check_size && local_rank == check_rank / 2);
    MPI_Group group;
    MPI_Comm_remote_group(inter, &group);
    MPI_Group_rank(group, &rank);
    CHECK(rank == MPI_UNDEFINED);
    MPI_Group_free(&group);

    /* Ranks of messages are those of the other side. */
    for (int to = 0; to < remote_size; to++) MPI_Send(&check_rank, 1, MPI_INT, to, 3, inter);
    for (int i = 0; i < remote_size; i++) {
        MPI_Status status;
        int got;
        MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 3, inter, &status);
        CHECK(got == world_of(status.MPI_SOURCE));
    }
    collectives(inter);
    wrong(inter);

    MPI_Comm_dup(inter, &twin);
    MPI_Comm_compare(inter, twin, &result);
    CHECK(result == MPI_CONGRUENT);
    MPI_Comm_set_name(twin, "two sides");
    collectives(twin);
    MPI_Comm_free(&twin);

    MPI_Intercomm_merge(inter, check_rank % 2 == 0, &merged);
    MPI_Comm_test_inter(merged, &flag);
    MPI_Comm_rank(merged, &rank);
    MPI_Comm_size(merged, &size);
    CHECK(!flag && size == check_size);
    CHECK(rank == (check_rank % 2 ? check_rank / 2 : remote_size + check_rank / 2));
    MPI_Comm_free(&merged);

    /* The first rank of each side only. */
    MPI_Comm_split(inter, local_rank == 0 ? 0 : MPI_UNDEFINED, 0, &part);
    CHECK((part == MPI_COMM_NULL) == (local_rank != 0));
    if (part != MPI_COMM_NULL) {
        MPI_Comm_remote_size(part, &size);
        CHECK(size == 1);
        MPI_Comm_free(&part);
    }
    MPI_Comm_free(&inter);
    CHECK(inter == MPI_COMM_NULL);
    check_done("intercommunicators");
    return 0;
}
