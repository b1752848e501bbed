/* Differences between the own ABI of MPICH or Open MPI and the standard one, call by call. Built with the mpicc of either, run on Weft. */
#include "check.h"
#ifdef OPEN_MPI
#include <mpi-ext.h>
#define CONSTANTS "openmpi_constants.h"
#else
#define CONSTANTS "mpich_constants.h"
#endif

/* The constants of the tables are those of this header; predefined handles are the objects that the tables name, and the numbers of Fortran. */
static void constants(void) {
#define CONSTANT(name, value) CHECK((int)(long)(name) == (int)(value));
#define INTEGER(handle)                                                                                                    \
    _Generic((handle), MPI_Comm: MPI_Comm_c2f, MPI_Datatype: MPI_Type_c2f, MPI_Errhandler: MPI_Errhandler_c2f,             \
             MPI_File: MPI_File_c2f, MPI_Group: MPI_Group_c2f, MPI_Info: MPI_Info_c2f, MPI_Message: MPI_Message_c2f,       \
             MPI_Op: MPI_Op_c2f, MPI_Request: MPI_Request_c2f, MPI_Session: MPI_Session_c2f, MPI_Win: MPI_Win_c2f)(handle)
#define HANDLE(handle)                                                                                                     \
    _Generic((handle), MPI_Comm: MPI_Comm_f2c, MPI_Datatype: MPI_Type_f2c, MPI_Errhandler: MPI_Errhandler_f2c,             \
             MPI_File: MPI_File_f2c, MPI_Group: MPI_Group_f2c, MPI_Info: MPI_Info_f2c, MPI_Message: MPI_Message_f2c,       \
             MPI_Op: MPI_Op_f2c, MPI_Request: MPI_Request_f2c, MPI_Session: MPI_Session_f2c, MPI_Win: MPI_Win_f2c)
#define OBJECT(name, symbol, fortran)                                                                                      \
    CHECK((void *)(name) == (void *)&symbol && INTEGER(name) == (fortran) && HANDLE(name)(fortran) == (name));
#include CONSTANTS
}

static MPI_Datatype seen_datatype;
static void largest(void *in, void *inout, int *length, MPI_Datatype *datatype) {
    seen_datatype = *datatype;
    for (int i = 0; i < *length; i++)
        if (((int *)in)[i] > ((int *)inout)[i]) ((int *)inout)[i] = ((int *)in)[i];
}

static MPI_Comm seen_comm;
static int seen_code, seen_times;
static void on_error(MPI_Comm *comm, int *code, ...) {
    seen_comm = *comm;
    seen_code = *code;
    seen_times++;
}

static int copied, deleted;
static int copy(MPI_Comm comm, int keyval, void *state, void *in, void *out, int *flag) {
    CHECK(comm == MPI_COMM_WORLD && state == &copied && keyval != MPI_KEYVAL_INVALID);
    *(void **)out = (char *)in + 1;
    *flag = 1;
    copied++;
    return MPI_SUCCESS;
}
static int delete(MPI_Comm comm, int keyval, void *value, void *state) {
    CHECK(state == &copied && value != NULL && comm != MPI_COMM_NULL);
    deleted++;
    return MPI_SUCCESS;
}

static int freed;
static int query(void *state, MPI_Status *status) {
    CHECK(state == &freed);
    MPI_Status_set_elements(status, MPI_INT, 3);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = MPI_PROC_NULL;
    status->MPI_TAG = 5;
    return MPI_SUCCESS;
}
static int release(void *state) {
    CHECK(state == &freed);
    freed++;
    return MPI_SUCCESS;
}
static int cancel(void *state, int complete) {
    (void)state, (void)complete;
    return MPI_SUCCESS;
}

static void statuses(void) {
    int value = check_rank, there = -1;
    MPI_Status status, both[2];
    MPI_Request requests[2];
    int next = (check_rank + 1) % check_size;
    MPI_Isend(&value, 1, MPI_INT, next, 7, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(&there, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[1]);
    both[1].MPI_ERROR = 77;
    MPI_Waitall(2, requests, both);
    CHECK(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL);
    CHECK(both[1].MPI_SOURCE == there && both[1].MPI_TAG == 7);
    int count, cancelled;
    MPI_Get_count(&both[1], MPI_INT, &count);
    MPI_Test_cancelled(&both[1], &cancelled);
    CHECK(count == 1 && !cancelled);
    MPI_Recv(&there, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &status);
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == 0);
    MPI_Status_set_elements(&status, MPI_BYTE, 7);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == MPI_UNDEFINED);
    MPI_Irecv(&there, 1, MPI_INT, 0, 99, MPI_COMM_SELF, &requests[0]);
    MPI_Cancel(&requests[0]);
    MPI_Wait(&requests[0], &status);
    MPI_Test_cancelled(&status, &cancelled);
    CHECK(cancelled && requests[0] == MPI_REQUEST_NULL);
    /* Neither a message nor a status is an answer that leaves everything as it was. */
    int flag = 1;
    status.MPI_SOURCE = 4711;
    MPI_Iprobe(0, 98, MPI_COMM_SELF, &flag, &status);
    CHECK(!flag && status.MPI_SOURCE == 4711);
    MPI_Sendrecv(&value, 1, MPI_INT, MPI_PROC_NULL, 0, &there, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE);
}

static void handles(void) {
    MPI_Datatype made[3], types[3], named[64];
    /* What an array contains before a call fills it is no handle. */
    memset(named, 2, sizeof named);
    MPI_Comm twin;
    int result, length, inter;
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    MPI_Comm_compare(MPI_COMM_WORLD, twin, &result);
    CHECK(result == MPI_CONGRUENT);
    MPI_Comm_compare(twin, twin, &result);
    CHECK(result == MPI_IDENT);
    CHECK(MPI_Comm_f2c(MPI_Comm_c2f(twin)) == twin && MPI_Comm_c2f(twin) != MPI_Comm_c2f(MPI_COMM_WORLD));
    MPI_Comm_test_inter(twin, &inter);
    CHECK(!inter);
    MPI_Comm_free(&twin);
    CHECK(twin == MPI_COMM_NULL);
    MPI_Comm_split(MPI_COMM_WORLD, MPI_UNDEFINED, 0, &twin);
    CHECK(twin == MPI_COMM_NULL);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &twin);
    MPI_Comm_size(twin, &length);
    CHECK(length == check_size);
    MPI_Comm_free(&twin);

    /* A datatype of others: predefined, a pair, one that the program has made. */
    int lengths[3] = {1, 2, 1};
    MPI_Aint places[3] = {0, 8, 64};
    MPI_Type_contiguous(3, MPI_DOUBLE_INT, &made[0]);
    types[0] = MPI_CHAR, types[1] = MPI_FLOAT_INT, types[2] = made[0];
    MPI_Type_create_struct(3, lengths, places, types, &made[1]);
    MPI_Type_commit(&made[1]);
    int integers[8], addresses, datatypes, combiner, count;
    MPI_Aint displacements[3];
    MPI_Type_get_envelope(made[1], &count, &addresses, &datatypes, &combiner);
    CHECK(combiner == MPI_COMBINER_STRUCT && count == 4 && addresses == 3 && datatypes == 3);
    MPI_Type_get_contents(made[1], count, addresses, datatypes, integers, displacements, named);
    CHECK(named[0] == MPI_CHAR && named[1] == MPI_FLOAT_INT && integers[2] == 2 && displacements[2] == 64);
    MPI_Type_get_envelope(named[2], &count, &addresses, &datatypes, &combiner);
    CHECK(combiner == MPI_COMBINER_CONTIGUOUS);
    MPI_Type_free(&named[2]);
    MPI_Type_free(&made[1]);
    MPI_Type_free(&made[0]);
    CHECK(made[0] == MPI_DATATYPE_NULL);
    MPI_Type_get_envelope(MPI_LONG_DOUBLE_INT, &count, &addresses, &datatypes, &combiner);
    CHECK(combiner == MPI_COMBINER_NAMED);

    int sizes[2] = {8, 9}, distributions[2] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_NONE}, numbers[16];
    int arguments[2] = {MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG}, grid[2] = {2, 1};
    MPI_Type_create_darray(2, 0, 2, sizes, distributions, arguments, grid, MPI_ORDER_FORTRAN, MPI_INT, &made[2]);
    MPI_Type_get_envelope(made[2], &count, &addresses, &datatypes, &combiner);
    CHECK(combiner == MPI_COMBINER_DARRAY && count == 12);
    MPI_Type_get_contents(made[2], count, addresses, datatypes, numbers, displacements, named);
    CHECK(numbers[5] == MPI_DISTRIBUTE_CYCLIC && numbers[6] == MPI_DISTRIBUTE_NONE && named[0] == MPI_INT);
    CHECK(numbers[7] == MPI_DISTRIBUTE_DFLT_DARG && numbers[11] == MPI_ORDER_FORTRAN && numbers[9] == 2);
    MPI_Type_free(&made[2]);
    MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, &made[0]);
    MPI_Type_size(made[0], &length);
    CHECK(length == 8 && (made[0] == MPI_DOUBLE || made[0] == MPI_REAL8 || made[0] == MPI_DOUBLE_PRECISION));
}

static void callbacks(void) {
    MPI_Op op;
    int value = check_rank, best = -1;
    MPI_Op_create(largest, 1, &op);
    MPI_Allreduce(&value, &best, 1, MPI_INT, op, MPI_COMM_WORLD);
    CHECK(best == check_size - 1);
    MPI_Reduce_local(&value, &best, 1, MPI_INT, op);
    CHECK(seen_datatype == MPI_INT);
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, op, MPI_COMM_WORLD);
    CHECK(value == check_size - 1);
    MPI_Op_free(&op);
    CHECK(op == MPI_OP_NULL);
    struct { double value; int place; } here = {1.0 * check_rank, check_rank}, found;
    MPI_Allreduce(&here, &found, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
    CHECK(found.place == check_size - 1);

    MPI_Errhandler handler, back;
    MPI_Comm twin;
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    MPI_Comm_create_errhandler(on_error, &handler);
    MPI_Comm_set_errhandler(twin, handler);
    int code = MPI_Send(&value, 1, MPI_INT, check_size + 5, 0, twin), class;
    MPI_Error_class(code, &class);
    CHECK(class == MPI_ERR_RANK && seen_times == 1 && seen_comm == twin);
    MPI_Error_class(seen_code, &class);
    CHECK(class == MPI_ERR_RANK);
    MPI_Comm_get_errhandler(twin, &back);
    CHECK(back == handler);
    MPI_Errhandler_free(&back);
    MPI_Errhandler_free(&handler);
    MPI_Comm_set_errhandler(twin, MPI_ERRORS_RETURN);
    /* A class that has another number in the standard ABI, where that of MPICH means something else. */
    code = MPI_Sendrecv(&here, 1, MPI_DOUBLE_INT, check_rank, 0, &found, 1, MPI_BYTE, check_rank, 0, twin,
                        MPI_STATUS_IGNORE);
    MPI_Error_class(code, &class);
    CHECK(class == MPI_ERR_TRUNCATE);
    for (int known = MPI_SUCCESS; known <= MPI_ERR_WIN; known++) {
        if (MPI_Error_class(known, &class) == MPI_SUCCESS) CHECK(class == known);
    }
    int own, length, *last, flag;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Add_error_class(&own);
    MPI_Add_error_string(own, "of our own");
    MPI_Error_string(own, text, &length);
    CHECK(own > MPI_ERR_LASTCODE && !strcmp(text, "of our own"));
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag);
    CHECK(flag && *last >= own);

    int key;
    void *attribute = &key;
    MPI_Comm_create_keyval(copy, delete, &key, &copied);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, attribute);
    MPI_Comm other;
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    MPI_Comm_get_attr(other, key, &attribute, &flag);
    CHECK(flag && copied == 1 && attribute == (char *)&key + 1);
    MPI_Comm_free(&other);
    MPI_Comm_delete_attr(MPI_COMM_WORLD, key);
    CHECK(deleted == 2);
    MPI_Comm_free_keyval(&key);
    CHECK(key == MPI_KEYVAL_INVALID);
    MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    MPI_Comm_set_attr(twin, key, &own);
    MPI_Comm_dup(twin, &other);
    MPI_Comm_get_attr(other, key, &attribute, &flag);
    CHECK(flag && attribute == &own);
    MPI_Comm_free(&other);
    MPI_Comm_free(&twin);
    MPI_Comm_free_keyval(&key);

    MPI_Request request;
    MPI_Status status;
    MPI_Grequest_start(query, release, cancel, &freed, &request);
    MPI_Grequest_complete(request);
    MPI_Wait(&request, &status);
    MPI_Get_count(&status, MPI_INT, &length);
    CHECK(freed == 1 && length == 3 && status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == 5);
}

static void numbers(void) {
    int level, flag, *value;
    MPI_Query_thread(&level);
    CHECK(level >= MPI_THREAD_SINGLE && level <= MPI_THREAD_MULTIPLE);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag);
    CHECK(flag && *value >= 32767);

    MPI_Win window;
    int *memory, *flavor, *model, *unit;
    MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    MPI_Win_get_attr(window, MPI_WIN_CREATE_FLAVOR, &flavor, &flag);
    MPI_Win_get_attr(window, MPI_WIN_MODEL, &model, &flag);
    MPI_Win_get_attr(window, MPI_WIN_DISP_UNIT, &unit, &flag);
    CHECK(*flavor == MPI_WIN_FLAVOR_ALLOCATE && (*model == MPI_WIN_UNIFIED || *model == MPI_WIN_SEPARATE));
    CHECK(*unit == sizeof(int));
    *memory = 0;
    MPI_Win_fence(MPI_MODE_NOPRECEDE, window);
    int one = 1;
    MPI_Accumulate(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, window);
    MPI_Win_fence(MPI_MODE_NOSUCCEED | MPI_MODE_NOSTORE, window);
    CHECK(check_rank != 0 || *memory == check_size);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    MPI_Win_unlock(0, window);
    MPI_Win_free(&window);
    CHECK(window == MPI_WIN_NULL);

    /* Edges without weights, and none at all. */
    MPI_Comm graph, cart;
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &before, MPI_UNWEIGHTED, 1, &next, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                   &graph);
    int in, out, weighted, status, got = -1;
    MPI_Dist_graph_neighbors_count(graph, &in, &out, &weighted);
    MPI_Topo_test(graph, &status);
    CHECK(in == 1 && out == 1 && !weighted && status == MPI_DIST_GRAPH);
    MPI_Datatype type = MPI_INT;
    MPI_Aint start = 0;
    int count = 1;
    MPI_Neighbor_alltoallw(&check_rank, &count, &start, &type, &got, &count, &start, &type, graph);
    CHECK(got == before);
    MPI_Comm_free(&graph);
    MPI_Topo_test(MPI_COMM_WORLD, &status);
    CHECK(status == MPI_UNDEFINED);
    int periods = 0, source, destination;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &check_size, &periods, 0, &cart);
    MPI_Cart_shift(cart, 0, 1, &source, &destination);
    CHECK(check_rank != 0 || source == MPI_PROC_NULL);
    CHECK(check_rank != check_size - 1 || destination == MPI_PROC_NULL);
    MPI_Comm_free(&cart);
    MPI_Group world, self;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Comm_group(MPI_COMM_SELF, &self);
    int all[2] = {check_rank, MPI_PROC_NULL}, translated[2];
    MPI_Group_translate_ranks(world, 2, all, self, translated);
    CHECK(translated[0] == 0 && translated[1] == MPI_PROC_NULL);
    MPI_Group_free(&world);
    MPI_Group_free(&self);

    int counts[8], starts[8], numbers[8], results[8];
    MPI_Datatype types[8];
    for (int i = 0; i < check_size && i < 8; i++)
        counts[i] = 1, starts[i] = i * (int)sizeof(int), types[i] = MPI_INT, numbers[i] = check_rank * 100 + i;
    MPI_Alltoallw(numbers, counts, starts, types, results, counts, starts, types, MPI_COMM_WORLD);
    for (int i = 0; i < check_size && i < 8; i++) CHECK(results[i] == i * 100 + check_rank);

    /* As large as the constant of this header says. */
    char room[sizeof(int) + MPI_BSEND_OVERHEAD], *attached;
    int sent = 5, size;
    MPI_Buffer_attach(room, sizeof room);
    MPI_Bsend(&sent, 1, MPI_INT, check_rank, 1, MPI_COMM_WORLD);
    MPI_Recv(&got, 1, MPI_INT, check_rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Buffer_detach(&attached, &size);
    CHECK(got == 5 && attached == room && size == sizeof room);

    MPI_File file;
    MPI_Offset position;
    int mode;
    char name[64];
    snprintf(name, sizeof name, "/tmp/weft-foreign-abi-%d", (int)(check_rank + 1000 * (long)MPI_Wtime() % 1000000));
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
    MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
    CHECK(file != MPI_FILE_NULL);
    MPI_File_get_amode(file, &mode);
    CHECK(mode == (MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE));
    MPI_File_write_at(file, check_rank * (int)sizeof(int), &sent, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_seek(file, 0, MPI_SEEK_END);
    MPI_File_get_position(file, &position);
    CHECK(position == check_size * (int)sizeof(int));
    MPI_File_close(&file);
    CHECK(file == MPI_FILE_NULL);
    CHECK(MPI_File_open(MPI_COMM_SELF, "/nowhere/to/be/found", MPI_MODE_RDONLY, MPI_INFO_NULL, &file) != MPI_SUCCESS);

    char processor[MPI_MAX_PROCESSOR_NAME + 1];
    memset(processor, 'x', sizeof processor);
    int length;
    MPI_Get_processor_name(processor, &length);
    CHECK(length == (int)strlen(processor) && processor[MPI_MAX_PROCESSOR_NAME] == 'x');
#ifdef OPEN_MPI
    CHECK(!MPIX_Query_cuda_support());
#else
    int major = 7, minor = 7;
    MPI_Abi_get_version(&major, &minor);
    CHECK(major == -1 && minor == -1);
#endif
}

int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    CHECK(provided >= MPI_THREAD_SERIALIZED && provided <= MPI_THREAD_MULTIPLE);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    /* With an argument: a mistake, whose place in this file is reported. */
    if (argc > 1) MPI_Send(&provided, 1, MPI_INT, 4711, 0, MPI_COMM_WORLD);
    constants();
    statuses();
    handles();
    callbacks();
    numbers();
    check_done("foreign_abi");
    return 0;
}
