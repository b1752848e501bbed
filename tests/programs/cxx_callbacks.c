/* What the libraries for C++ of MPICH and Open MPI do for functions in C++, as they do it: they make an object by a function of MPI and then tell the
 * library which function of theirs calls that of the program. Built with either mpi.h, and with -rdynamic, since Open MPI's function is known by its name. */

#include "check.h"

typedef void Function(void);
/* What a function of the program in C++ is, for these libraries: something that only they call. */
typedef void Reduces(const int *operand, int *into, int count, MPI_Datatype datatype);

static void add_thrice(const int *operand, int *into, int count, MPI_Datatype datatype) {
    CHECK(datatype == MPI_INT);
    for (int i = 0; i < count; i++)
        into[i] += 3 * operand[i];
}

static void multiply(const int *operand, int *into, int count, MPI_Datatype datatype) {
    CHECK(datatype == MPI_INT);
    for (int i = 0; i < count; i++)
        into[i] *= operand[i];
}

static int errors;
static void note_error(int class) { errors = class; }

static int copies, deletes;

#ifdef OPEN_MPI

__attribute__((weak)) void ompi_op_set_cxx_callback(MPI_Op op, Function *function);
__attribute__((weak)) void *ompi_errhandler_create(int kind, Function *function, int language);
__attribute__((weak)) int ompi_attr_create_keyval(int kind, Function *copy, Function *delete_, int *keyval, void *extra, int flags, void *more);

void ompi_mpi_cxx_op_intercept(void *operand, void *into, int *count, MPI_Datatype *datatype, Function *function);
void ompi_mpi_cxx_op_intercept(void *operand, void *into, int *count, MPI_Datatype *datatype, Function *function) {
    ((Reduces *)function)(operand, into, *count, *datatype);
}

static MPI_Op operation(Reduces *function) {
    MPI_Op op;
    MPI_Op_create((MPI_User_function *)(Function *)ompi_mpi_cxx_op_intercept, 1, &op);
    ompi_op_set_cxx_callback(op, (Function *)function);
    return op;
}

static void call_handler(void **object, int *code, const char *message, Function *function) {
    int class;
    CHECK(message != NULL && *object != NULL);
    MPI_Error_class(*code, &class);
    ((void (*)(int))function)(class);
}

static MPI_Errhandler handler(int of_window) {
    void *made = ompi_errhandler_create(of_window ? 2 : 1, (Function *)note_error, 1);
    void (*call)(void **, int *, const char *, Function *) = call_handler;
    CHECK(made != NULL);
    memcpy((char *)made + 0x78, &call, sizeof call);
    return made;
}

static int copy_attribute(MPI_Datatype type, int keyval, void *extra, void *value, void *copy, int *flag) {
    CHECK(type != MPI_DATATYPE_NULL && keyval != MPI_KEYVAL_INVALID && extra == &copies);
    *(void **)copy = (char *)value + 1;
    *flag = 1;
    copies++;
    return MPI_SUCCESS;
}

static int delete_attribute(MPI_Datatype type, int keyval, void *value, void *extra) {
    CHECK(type != MPI_DATATYPE_NULL && keyval != MPI_KEYVAL_INVALID && extra == &copies && value != NULL);
    deletes++;
    return MPI_SUCCESS;
}

static int key(void) {
    int keyval;
    CHECK(ompi_attr_create_keyval(2, (Function *)copy_attribute, (Function *)delete_attribute, &keyval, &copies, 0, NULL) == MPI_SUCCESS);
    return keyval;
}

/* Refused with a sentence: see the documentation. */
static void key_of_communicators(void) {
    int keyval;
    CHECK(ompi_attr_create_keyval(1, (Function *)copy_attribute, (Function *)delete_attribute, &keyval, NULL, 0, NULL) != MPI_SUCCESS);
}

#else

__attribute__((weak)) void MPII_Op_set_cxx(MPI_Op op, Function *call);
__attribute__((weak)) void MPII_Errhandler_set_cxx(MPI_Errhandler errhandler, Function *call);
__attribute__((weak)) void MPII_Keyval_set_proxy(int keyval, Function *copy, Function *delete_);

static void call_operation(const void *operand, void *into, int count, MPI_Datatype datatype, Function *function) {
    ((Reduces *)function)(operand, into, count, datatype);
}

static MPI_Op operation(Reduces *function) {
    MPI_Op op;
    MPI_Op_create((MPI_User_function *)(Function *)function, 1, &op);
    MPII_Op_set_cxx(op, (Function *)call_operation);
    return op;
}

static void call_handler(int kind, int *object, int *code, Function *function) {
    int class;
    CHECK(kind == 2 ? *object != MPI_WIN_NULL : kind == 0 && *object != MPI_COMM_NULL);
    MPI_Error_class(*code, &class);
    ((void (*)(int))function)(class);
}

static MPI_Errhandler handler(int of_window) {
    MPI_Errhandler made;
    if (of_window)
        MPI_Win_create_errhandler((MPI_Win_errhandler_function *)(Function *)note_error, &made);
    else
        MPI_Comm_create_errhandler((MPI_Comm_errhandler_function *)(Function *)note_error, &made);
    MPII_Errhandler_set_cxx(made, (Function *)call_handler);
    return made;
}

/* What stands for the functions of the program: they are only passed on. */
static void copies_in_cxx(void) {}
static void deletes_in_cxx(void) {}

static int copy_attribute(Function *function, int object, int keyval, void *extra, int kind, void *value, void **copy, int *flag) {
    CHECK(function == copies_in_cxx && object != 0 && keyval != MPI_KEYVAL_INVALID && extra == &copies && kind == 0);
    *copy = (char *)value + 1;
    *flag = 1;
    copies++;
    return MPI_SUCCESS;
}

static int delete_attribute(Function *function, int object, int keyval, int kind, void *value, void *extra) {
    CHECK(function == deletes_in_cxx && object != 0 && keyval != MPI_KEYVAL_INVALID && extra == &copies && kind == 0 && value != NULL);
    deletes++;
    return MPI_SUCCESS;
}

static int key(void) {
    int keyval;
    MPI_Type_create_keyval((MPI_Type_copy_attr_function *)copies_in_cxx, (MPI_Type_delete_attr_function *)deletes_in_cxx, &keyval, &copies);
    MPII_Keyval_set_proxy(keyval, (Function *)copy_attribute, (Function *)delete_attribute);
    return keyval;
}

static void key_of_communicators(void) {
    int keyval;
    MPI_Comm twin, third;
    MPI_Comm_create_keyval((MPI_Comm_copy_attr_function *)copies_in_cxx, (MPI_Comm_delete_attr_function *)deletes_in_cxx, &keyval, &copies);
    MPII_Keyval_set_proxy(keyval, (Function *)copy_attribute, (Function *)delete_attribute);
    MPI_Comm_dup(MPI_COMM_SELF, &twin);
    copies = deletes = 0;
    MPI_Comm_set_attr(twin, keyval, &errors);
    MPI_Comm_dup(twin, &third);
    MPI_Comm_free(&third);
    MPI_Comm_free(&twin);
    CHECK(copies == 1 && deletes == 2);
    MPI_Comm_free_keyval(&keyval);
}

#endif

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    int rank = check_rank, ranks = check_size, found;

    /* Two operations at once, each with its own function, and one of C beside them. */
    MPI_Op thrice = operation(add_thrice), product = operation(multiply), again = operation(add_thrice);
    int one = 1, sum = 0, all = 0, two = 2;
    MPI_Allreduce(&two, &all, 1, MPI_INT, product, MPI_COMM_WORLD);
    MPI_Reduce(&one, &sum, 1, MPI_INT, thrice, 0, MPI_COMM_WORLD);
    CHECK(all == 1 << ranks);
    CHECK(rank != 0 || sum >= ranks);
    MPI_Op_free(&thrice);
    int into = 10;
    MPI_Reduce_local(&two, &into, 1, MPI_INT, again);
    CHECK(into == 16);
    MPI_Op_free(&product);
    MPI_Op_free(&again);

    MPI_Comm twin;
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    MPI_Errhandler of_comm = handler(0), of_window = handler(1);
    MPI_Comm_set_errhandler(twin, of_comm);
    MPI_Send(&one, 1, MPI_INT, ranks, 0, twin);
    CHECK(errors == MPI_ERR_RANK);
    MPI_Win win;
    MPI_Win_create(&sum, sizeof sum, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, of_window);
    errors = 0;
    MPI_Put(&one, -1, MPI_INT, 0, 0, 1, MPI_INT, win);
    CHECK(errors == MPI_ERR_COUNT);
    MPI_Errhandler_free(&of_comm);
    MPI_Errhandler_free(&of_window);
    errors = 0;
    MPI_Send(&one, -1, MPI_INT, 0, 0, twin);
    CHECK(errors == MPI_ERR_COUNT);
    MPI_Win_free(&win);
    MPI_Comm_free(&twin);

    int keyval = key();
    MPI_Datatype type, copy;
    void *value = NULL;
    MPI_Type_contiguous(2, MPI_INT, &type);
    MPI_Type_set_attr(type, keyval, &one);
    MPI_Type_dup(type, &copy);
    MPI_Type_get_attr(copy, keyval, &value, &found);
    CHECK(found && value == (char *)&one + 1);
    MPI_Type_free(&type);
    MPI_Type_free(&copy);
    MPI_Type_free_keyval(&keyval);
    CHECK(copies == 1 && deletes == 2);
    key_of_communicators();

    check_done("cxx_callbacks");
    return 0;
}
