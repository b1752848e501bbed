/* Groups and communicators: dup, split, create, compare, attributes, names, isolation of contexts. */
#include "check.h"

static int copied, deleted;
static int copy_attribute(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag) {
    (void)comm; (void)key;
    CHECK(extra == (void *)&copied);
    copied++;
    *(void **)out = (char *)in + 1;
    *flag = 1;
    return MPI_SUCCESS;
}
static int delete_attribute(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm; (void)key; (void)value; (void)extra;
    deleted++;
    return MPI_SUCCESS;
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    MPI_Comm twin, part, some;
    int result, rank, size, length, flag;
    char name[MPI_MAX_OBJECT_NAME];
    void *value;

    MPI_Comm_get_name(MPI_COMM_WORLD, name, &length);
    CHECK(!strcmp(name, "MPI_COMM_WORLD"));
    MPI_Comm_compare(MPI_COMM_WORLD, MPI_COMM_WORLD, &result);
    CHECK(result == MPI_IDENT);

    int key;
    MPI_Comm_create_keyval(copy_attribute, delete_attribute, &key, &copied);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, (void *)100);
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    CHECK(copied == 1);
    MPI_Comm_get_attr(twin, key, &value, &flag);
    CHECK(flag && value == (void *)101);
    MPI_Comm_compare(MPI_COMM_WORLD, twin, &result);
    CHECK(result == MPI_CONGRUENT);
    MPI_Comm_set_name(twin, "twin");
    MPI_Comm_get_name(twin, name, &length);
    CHECK(!strcmp(name, "twin") && length == 4);

    /* Messages of one communicator are not seen in the other. */
    int peer = check_rank ^ 1;
    if (peer < check_size) {
        int one = 1, two = 2, got;
        MPI_Request requests[2];
        MPI_Isend(&one, 1, MPI_INT, peer, 0, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(&two, 1, MPI_INT, peer, 0, twin, &requests[1]);
        MPI_Recv(&got, 1, MPI_INT, peer, MPI_ANY_TAG, twin, MPI_STATUS_IGNORE);
        CHECK(got == 2);
        MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(got == 1);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Comm_free(&twin);
    CHECK(twin == MPI_COMM_NULL && deleted == 1);
    MPI_Comm_delete_attr(MPI_COMM_WORLD, key);
    CHECK(deleted == 2);
    MPI_Comm_free_keyval(&key);
    CHECK(key == MPI_KEYVAL_INVALID);

    /* Split by parity, in reverse order; odd ones of more than five stay out. */
    int color = check_rank > 5 && check_rank % 2 ? MPI_UNDEFINED : check_rank % 2;
    MPI_Comm_split(MPI_COMM_WORLD, color, -check_rank, &part);
    if (color == MPI_UNDEFINED) {
        CHECK(part == MPI_COMM_NULL);
    } else {
        MPI_Comm_rank(part, &rank);
        MPI_Comm_size(part, &size);
        int sum = 0, one = 1, highest = -1;
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, part);
        CHECK(sum == size);
        highest = check_rank;
        MPI_Bcast(&highest, 1, MPI_INT, 0, part);
        CHECK(highest >= check_rank && highest % 2 == check_rank % 2);
        CHECK(rank == (highest - check_rank) / 2);
        /* Status has ranks of the communicator. */
        if (size > 1) {
            int to = (rank + 1) % size, from = (rank + size - 1) % size, got;
            MPI_Status status;
            MPI_Sendrecv(&rank, 1, MPI_INT, to, 0, &got, 1, MPI_INT, MPI_ANY_SOURCE, 0, part, &status);
            CHECK(got == from && status.MPI_SOURCE == from);
        }
        MPI_Comm_free(&part);
    }

    /* Groups. */
    MPI_Group world, even, odd, both;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    int range[1][3] = {{0, check_size - 1, 2}};
    MPI_Group_range_incl(world, 1, range, &even);
    MPI_Group_difference(world, even, &odd);
    MPI_Group_union(odd, even, &both);
    MPI_Group_compare(world, both, &result);
    CHECK(result == (check_size > 1 ? MPI_SIMILAR : MPI_IDENT));
    MPI_Comm_create(MPI_COMM_WORLD, even, &some);
    CHECK((some != MPI_COMM_NULL) == (check_rank % 2 == 0));
    if (some != MPI_COMM_NULL) {
        MPI_Barrier(some);
        MPI_Comm_free(&some);
        MPI_Comm_create_group(MPI_COMM_WORLD, even, 3, &some);
        int all[64] = {0}, mine = check_rank;
        MPI_Comm_size(some, &size);
        if (size <= 64) {
            MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, some);
            for (int i = 0; i < size; i++) CHECK(all[i] == 2 * i);
        }
        MPI_Comm_free(&some);
    }
    MPI_Group_free(&world); MPI_Group_free(&even); MPI_Group_free(&odd); MPI_Group_free(&both);

    /* Many, made and freed. */
    for (int i = 0; i < 200; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &twin);
        MPI_Comm_free(&twin);
    }
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag);
    CHECK(flag && *(int *)value >= 32767);

    /* The clock is that of the host. */
#ifndef OPEN_MPI /* Its mpi.h does not have this one. */
    /* By the name of a process set, in upper or lower case; a name that does not exist is no set. */
    const char *sets[] = {"mpi://WORLD", "MPI://self", "app://none"};
    for (int set = 0; set < 3; set++) {
        MPI_Info wish;
        MPI_Info_create(&wish);
        MPI_Info_set(wish, "mpi_pset_name", sets[set]);
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_RESOURCE_GUIDED, -check_rank, wish, &part);
        MPI_Info_free(&wish);
        CHECK((part == MPI_COMM_NULL) == (set == 2));
        if (set == 2)
            continue;
        MPI_Comm_size(part, &size);
        MPI_Comm_rank(part, &rank);
        CHECK(size == (set == 0 ? check_size : 1));
        CHECK(rank == (set == 0 ? check_size - 1 - check_rank : 0));
        MPI_Comm_free(&part);
    }
#endif

    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, check_rank, MPI_INFO_NULL, &part);
    MPI_Comm_size(part, &size);
    MPI_Comm_free(&part);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &value, &flag);
    /* Ranks that share memory have one clock; others may have one as well. */
    CHECK(flag && (*(int *)value || size < check_size));
    check_done("communicators");
    return 0;
}
