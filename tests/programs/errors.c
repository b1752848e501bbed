/* Wrong arguments give the right class, and communication goes on after them. */
#include "check.h"

static int class_of(int code) {
    int class = -1;
    if (code == MPI_SUCCESS) return MPI_SUCCESS;
    MPI_Error_class(code, &class);
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    MPI_Error_string(code, text, &length);
    CHECK(length > 0);
    return class;
}
#define GIVES(class, call) CHECK(class_of(call) == (class))

static int called, told;
static void handler(MPI_Comm *comm, int *code, ...) {
    CHECK(*comm == MPI_COMM_WORLD);
    called++;
    told = class_of(*code);
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    int x = 1, y[4], flag;
    MPI_Status status;
    MPI_Request request, none = MPI_REQUEST_NULL;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    GIVES(MPI_ERR_BUFFER, MPI_Send(NULL, 1, MPI_INT, 0, 0, MPI_COMM_WORLD));
    GIVES(MPI_ERR_COUNT, MPI_Send(&x, -1, MPI_INT, 0, 0, MPI_COMM_WORLD));
    GIVES(MPI_ERR_TYPE, MPI_Send(&x, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD));
    GIVES(MPI_ERR_RANK, MPI_Send(&x, 1, MPI_INT, check_size, 0, MPI_COMM_WORLD));
    GIVES(MPI_ERR_RANK, MPI_Send(&x, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD));
    GIVES(MPI_ERR_TAG, MPI_Send(&x, 1, MPI_INT, 0, -5, MPI_COMM_WORLD));
    GIVES(MPI_ERR_TAG, MPI_Send(&x, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD));
    GIVES(MPI_ERR_COMM, MPI_Send(&x, 1, MPI_INT, 0, 0, MPI_COMM_NULL));
    GIVES(MPI_ERR_RANK, MPI_Recv(&x, 1, MPI_INT, -7, 0, MPI_COMM_WORLD, &status));
    GIVES(MPI_ERR_ROOT, MPI_Bcast(&x, 1, MPI_INT, check_size, MPI_COMM_WORLD));
    GIVES(MPI_ERR_OP, MPI_Allreduce(&x, y, 1, MPI_INT, MPI_OP_NULL, MPI_COMM_WORLD));
    GIVES(MPI_ERR_REQUEST, MPI_Start(&none));
    GIVES(MPI_ERR_GROUP, MPI_Group_size(MPI_GROUP_NULL, &x));
    GIVES(MPI_ERR_COMM, MPI_Comm_size(MPI_COMM_NULL, &x));
    MPI_Datatype type;
    MPI_Type_contiguous(2, MPI_INT, &type);
    GIVES(MPI_ERR_TYPE, MPI_Send(y, 1, type, 0, 0, MPI_COMM_SELF)); /* not committed */
    MPI_Type_free(&type);
    GIVES(MPI_SUCCESS, MPI_Send(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD));

    /* Truncation: the data that fit arrive, the class is right, and the next message is complete. */
    int four[4] = {1, 2, 3, 4};
    for (int big = 0; big < 2; big++) {
        size_t length = big ? 400000 : sizeof four;
        char *data = calloc(1, length), *room = calloc(1, length);
        data[0] = 42;
        MPI_Isend(data, (int)length, MPI_BYTE, 0, 1, MPI_COMM_SELF, &request);
        GIVES(MPI_ERR_TRUNCATE, MPI_Recv(room, 8, MPI_BYTE, 0, 1, MPI_COMM_SELF, &status));
        CHECK(room[0] == 42);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Isend(four, 4, MPI_INT, 0, 2, MPI_COMM_SELF, &request);
        GIVES(MPI_SUCCESS, MPI_Recv(y, 4, MPI_INT, 0, 2, MPI_COMM_SELF, &status));
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(y[3] == 4);
        free(data);
        free(room);
    }

    /* A handler of the program is called with the communicator and the code. */
    MPI_Errhandler mine;
    MPI_Comm_create_errhandler(handler, &mine);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, mine);
    MPI_Errhandler_free(&mine);
    GIVES(MPI_ERR_COUNT, MPI_Send(&x, -3, MPI_INT, 0, 0, MPI_COMM_WORLD));
    CHECK(called == 1 && told == MPI_ERR_COUNT);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);

    int class, code;
    MPI_Add_error_class(&class);
    MPI_Add_error_code(class, &code);
    MPI_Add_error_string(code, "a sentence of the user's");
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(code, text, &length);
    CHECK(!strcmp(text, "a sentence of the user's"));
    MPI_Initialized(&flag);
    CHECK(flag);
    check_done("errors");
    return 0;
}
