/* Datatypes made of datatypes, a million deep: duplicates keep no chain, and the end of a chain takes no
 * stack, also on that of a fiber. */
#include "check.h"
#include <sys/resource.h>
#include <weft.h>

/* A duplicate of a duplicate of …, where each original is freed; the memory of the process is limited. */
static void duplicates(void) {
    struct rlimit before, little;
    MPI_Datatype type, copy;
    getrlimit(RLIMIT_DATA, &before);
    little = before;
    little.rlim_cur = (rlim_t)256 << 20;
    setrlimit(RLIMIT_DATA, &little);
    MPI_Type_vector(2, 1, 3, MPI_INT, &type);
    MPI_Type_commit(&type);
    for (int i = 0; i < 1000000; i++) {
        MPI_Type_dup(type, &copy);
        MPI_Type_free(&type);
        type = copy;
    }
    setrlimit(RLIMIT_DATA, &before);
    int integers, addresses, types, combiner, values[6] = {1, 0, 0, 2}, packed[2], position = 0;
    MPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
    CHECK(combiner == MPI_COMBINER_DUP && types == 1);
    MPI_Type_get_contents(type, 0, 0, 1, NULL, NULL, &copy);
    MPI_Type_get_envelope(copy, &integers, &addresses, &types, &combiner);
    CHECK(combiner == MPI_COMBINER_DUP && types == 1);
    MPI_Pack(values, 1, type, packed, sizeof packed, &position, MPI_COMM_SELF);
    CHECK(position == 8 && packed[0] == 1 && packed[1] == 2);
    MPI_Type_free(&copy);
    MPI_Type_free(&type);
}

/* A chain that is kept, because MPI_Type_get_contents can return each of its datatypes. */
static void *chain(void *argument) {
    MPI_Datatype type = MPI_INT, next;
    for (int i = 0; i < 200000; i++) {
        MPI_Type_create_resized(type, 0, 4 + i % 7 * 4, &next);
        if (type != MPI_INT) MPI_Type_free(&type);
        type = next;
    }
    MPI_Type_free(&type);
    return argument;
}

/* Vectors of vectors whose parts do not merge. */
static void *nest(void *argument) {
    MPI_Datatype type = MPI_BYTE, next;
    MPI_Aint lower, extent;
    for (int level = 0; level < 18; level++) {
        MPI_Type_get_extent(type, &lower, &extent);
        MPI_Type_create_hvector(2, 1, 2 * extent + level % 2, type, &next);
        if (type != MPI_BYTE) MPI_Type_free(&type);
        type = next;
    }
    MPI_Type_commit(&type);
    int size, position = 0;
    MPI_Type_size(type, &size);
    MPI_Type_get_extent(type, &lower, &extent);
    char *from = calloc(1, (size_t)extent), *into = malloc((size_t)size);
    from[extent - 1] = 7;
    MPI_Pack(from, 1, type, into, size, &position, MPI_COMM_SELF);
    CHECK(position == size && into[0] == 0 && into[size - 1] == 7);
    free(from);
    free(into);
    MPI_Type_free(&type);
    return argument;
}

static int deleted;
static int count_deleted(MPI_Datatype type, int key, void *value, void *extra) {
    (void)type, (void)key, (void)value, (void)extra;
    deleted++;
    return MPI_SUCCESS;
}

/* MPI_Type_get_contents returns objects of their own: freeing one does not free the original. */
static void contents(void) {
    MPI_Datatype inner, outer, got;
    int key, value = 5, *found, flag, number;
    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, count_deleted, &key, NULL);
    MPI_Type_contiguous(3, MPI_INT, &inner);
    MPI_Type_set_attr(inner, key, &value);
    MPI_Type_contiguous(2, inner, &outer);
    MPI_Type_get_contents(outer, 1, 0, 1, &number, NULL, &got);
    MPI_Type_get_attr(got, key, &found, &flag);
    CHECK(!flag && number == 2);
    MPI_Type_free(&got);
    CHECK(deleted == 0);
    MPI_Type_get_attr(inner, key, &found, &flag);
    CHECK(flag && found == &value);
    MPI_Type_free(&inner);
    CHECK(deleted == 1);
    MPI_Type_free(&outer);
    MPI_Type_free_keyval(&key);
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    duplicates();
    contents();
    chain(NULL);
    nest(NULL);
    weft_fiber fiber;
    CHECK(weft_fiber_spawn(&fiber, NULL, chain, NULL) == 0);
    CHECK(weft_fiber_join(fiber, NULL) == 0);
    CHECK(weft_fiber_spawn(&fiber, NULL, nest, NULL) == 0);
    CHECK(weft_fiber_join(fiber, NULL) == 0);
    /* The handles that the quarantine of freed handles keeps. */
    for (int i = 0; i < 100; i++) {
        MPI_Datatype type;
        MPI_Type_contiguous(2, MPI_INT, &type);
        MPI_Type_free(&type);
    }
    check_done("chains");
    return 0;
}
