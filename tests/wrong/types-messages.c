/*
 * A message whose datatype is another one than that of its receive: MPI_ERR_TYPE, with both named.
 * exit: 3
 *
 * run: 2 unexpected float int 4
 * says: was sent as MPI_FLOAT and is received as MPI_INT
 *
 * run: 2 posted float int 4
 * says: was sent as MPI_FLOAT and is received as MPI_INT
 *
 * run: 2 synchronous float int 4
 * says: was sent as MPI_FLOAT and is received as MPI_INT
 *
 * run: 2 ready float int 4
 * says: was sent as MPI_FLOAT and is received as MPI_INT
 *
 * run: 2 buffered float int 4
 * says: was sent as MPI_FLOAT and is received as MPI_INT
 *
 * run: 2 persistent float int 4
 * says: was sent as MPI_FLOAT and is received as MPI_INT
 *
 * run: 2 exchange float int 4
 * says: was sent as MPI_FLOAT and is received as MPI_INT
 *
 * run: 2 probed float int 4
 * says: was sent as MPI_FLOAT and is received as MPI_INT
 *
 * run: 2 any int float 1 1
 * says: was sent as MPI_INT and is received as MPI_FLOAT
 *
 * run: 2 any double long 3 3
 * says: was sent as MPI_DOUBLE and is received as MPI_LONG
 *
 * run: 2 any long double 3 3
 * says: was sent as MPI_LONG and is received as MPI_DOUBLE
 *
 * run: 2 any short int 4 4
 * says: was sent as MPI_SHORT and is received as MPI_INT
 *
 * run: 2 any int short 4 9
 * says: was sent as MPI_INT and is received as MPI_SHORT
 *
 * run: 2 any real integer 2 2
 * says: was sent as MPI_REAL and is received as MPI_INTEGER
 *
 * run: 2 any aint double 1 1
 * says: was sent as MPI_AINT and is received as MPI_DOUBLE
 *
 * run: 2 any ldouble double 1 4
 * says: was sent as MPI_LONG_DOUBLE and is received as MPI_DOUBLE
 *
 * run: 2 any fcomplex double 2 4
 * says: was sent as MPI_C_FLOAT_COMPLEX and is received as MPI_DOUBLE
 *
 * run: 2 any bool float 8 4
 * says: was sent as MPI_C_BOOL and is received as MPI_FLOAT
 *
 * run: 2 any logical real 2 2
 * says: was sent as MPI_LOGICAL and is received as MPI_REAL
 *
 * run: 2 any int64 double 2 2
 * says: was sent as MPI_INT64_T and is received as MPI_DOUBLE
 *
 * run: 2 any unsigned float 5 9
 * says: was sent as MPI_UNSIGNED and is received as MPI_FLOAT
 *
 * run: 2 posted float int 300000
 * says: was sent as MPI_FLOAT and is received as MPI_INT
 *
 * run: 2 any float vector-int 4 2
 * says: was sent as MPI_FLOAT and is received as MPI_INT
 *
 * run: 2 any vector-float pair-int 1
 * says: was sent as MPI_FLOAT and is received as MPI_INT
 *
 * run: 2 any vector-float vector-int 100000
 * says: was sent as MPI_FLOAT and is received as MPI_INT
 *
 * run: 2 any int-double double-int 1
 * says: was sent as elements of several datatypes and is received as elements of several datatypes
 *
 * run: 2 any int-double double-int 7
 * says: was sent as elements of several datatypes and is received as elements of several datatypes
 *
 * run: 2 any int-float float-int 3
 * says: was sent as elements of several datatypes and is received as elements of several datatypes
 *
 * run: 2 any int-float int 2 9
 * says: was sent as elements of several datatypes and is received as MPI_INT
 *
 * run: 2 any int int-double 2 9
 * says: was sent as MPI_INT and is received as elements of several datatypes
 *
 * run: 2 any float_int int-float 2
 * says: was sent as elements of several datatypes and is received as elements of several datatypes
 *
 * run: 2 any 2int float 1 2
 * says: was sent as MPI_INT and is received as MPI_FLOAT
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A datatype by its name. */
static MPI_Datatype type_of(const char *name) {
    static const struct { const char *name; MPI_Datatype type; } basics[] = {
        {"int", MPI_INT}, {"float", MPI_FLOAT}, {"double", MPI_DOUBLE}, {"long", MPI_LONG}, {"char", MPI_CHAR},
        {"short", MPI_SHORT}, {"byte", MPI_BYTE}, {"int64", MPI_INT64_T}, {"2int", MPI_2INT}, {"float_int", MPI_FLOAT_INT},
        {"unsigned", MPI_UNSIGNED}, {"ldouble", MPI_LONG_DOUBLE}, {"complex", MPI_C_DOUBLE_COMPLEX}, {"aint", MPI_AINT},
        {"logical", MPI_LOGICAL}, {"real", MPI_REAL}, {"integer", MPI_INTEGER}, {"packed", MPI_PACKED}, {"bool", MPI_C_BOOL},
        {"offset", MPI_OFFSET}, {"int32", MPI_INT32_T}, {"fcomplex", MPI_C_FLOAT_COMPLEX}, {"uchar", MPI_UNSIGNED_CHAR}};
    for (unsigned i = 0; i < sizeof basics / sizeof *basics; i++)
        if (!strcmp(name, basics[i].name)) return basics[i].type;
    MPI_Datatype made;
    int lengths[] = {1, 1};
    MPI_Aint places[] = {0, 8}, dense[] = {0, 4};
    if (!strcmp(name, "vector-int")) MPI_Type_vector(2, 1, 2, MPI_INT, &made);
    else if (!strcmp(name, "pair-int")) MPI_Type_contiguous(2, MPI_INT, &made);
    else if (!strcmp(name, "vector-float")) MPI_Type_vector(2, 1, 2, MPI_FLOAT, &made);
    else if (!strcmp(name, "int-double"))
        MPI_Type_create_struct(2, lengths, places, (MPI_Datatype[]){MPI_INT, MPI_DOUBLE}, &made);
    else if (!strcmp(name, "double-int"))
        MPI_Type_create_struct(2, lengths, places, (MPI_Datatype[]){MPI_DOUBLE, MPI_INT}, &made);
    else if (!strcmp(name, "int-float"))
        MPI_Type_create_struct(2, lengths, dense, (MPI_Datatype[]){MPI_INT, MPI_FLOAT}, &made);
    else if (!strcmp(name, "float-int"))
        MPI_Type_create_struct(2, lengths, dense, (MPI_Datatype[]){MPI_FLOAT, MPI_INT}, &made);
    else exit(3);
    MPI_Type_commit(&made);
    return made;
}

/* Frees it, if it was made. */
static void free_type(MPI_Datatype type) {
    int integers, addresses, types, combiner;
    MPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
    if (combiner != MPI_COMBINER_NAMED) MPI_Type_free(&type);
}

/* how, what rank 1 sends, what rank 0 receives, and how many of them. */
int main(int argc, char **argv) {
    static char buffer[4 << 20], other[4 << 20];
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Datatype sent = type_of(argv[2]), received = type_of(argv[3]);
    int n = atoi(argv[4]), m = argc > 5 ? atoi(argv[5]) : n;
    const char *how = argv[1];
    MPI_Request request;
    MPI_Message message;
#define HOW(what) !strcmp(how, what)
    if (rank == 1) {
        MPI_Datatype type = sent;
        if (HOW("unexpected")) { MPI_Send(buffer, n, type, 0, 5, MPI_COMM_WORLD); MPI_Barrier(MPI_COMM_WORLD); }
        else if (HOW("posted")) { MPI_Barrier(MPI_COMM_WORLD); MPI_Send(buffer, n, type, 0, 5, MPI_COMM_WORLD); }
        else if (HOW("synchronous")) MPI_Ssend(buffer, n, type, 0, 5, MPI_COMM_WORLD);
        else if (HOW("ready")) { MPI_Barrier(MPI_COMM_WORLD); MPI_Rsend(buffer, n, type, 0, 5, MPI_COMM_WORLD); }
        else if (HOW("buffered")) {
            MPI_Buffer_attach(other, sizeof other);
            MPI_Bsend(buffer, n, type, 0, 5, MPI_COMM_WORLD);
            void *gone;
            int size;
            MPI_Buffer_detach(&gone, &size);
        } else if (HOW("persistent")) {
            MPI_Send_init(buffer, n, type, 0, 5, MPI_COMM_WORLD, &request);
            MPI_Start(&request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            MPI_Request_free(&request);
        } else if (HOW("exchange")) MPI_Sendrecv(buffer, n, type, 0, 5, other, 0, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else MPI_Send(buffer, n, type, 0, 5, MPI_COMM_WORLD);
    } else if (rank == 0) {
        MPI_Datatype type = received;
        if (HOW("unexpected")) { MPI_Barrier(MPI_COMM_WORLD); MPI_Recv(buffer, m, type, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE); }
        else if (HOW("posted") || HOW("ready")) {
            MPI_Irecv(buffer, m, type, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
            MPI_Barrier(MPI_COMM_WORLD);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else if (HOW("probed")) {
            MPI_Mprobe(1, 5, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
            MPI_Mrecv(buffer, m, type, &message, MPI_STATUS_IGNORE);
        } else if (HOW("persistent")) {
            MPI_Recv_init(buffer, m, type, 1, 5, MPI_COMM_WORLD, &request);
            MPI_Start(&request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            MPI_Request_free(&request);
        } else if (HOW("exchange")) MPI_Sendrecv(other, 0, MPI_INT, 1, 5, buffer, m, type, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else MPI_Recv(buffer, m, type, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    free_type(sent), free_type(received);
    MPI_Finalize();
    return 0;
}
