/*
 * Datatypes that may be received as others: nothing is said.
 * run: 2 unexpected int int 4 9
 * run: 2 posted int int 4 9
 * run: 2 probed int int 4 9
 * run: 2 persistent int int 4 9
 * run: 2 synchronous int int 4 9
 * run: 2 any int int32 4
 * run: 2 any int unsigned 4
 * run: 2 any char uchar 4
 * run: 2 any byte double 16 2
 * run: 2 any double byte 2 16
 * run: 2 any packed int 8 2
 * run: 2 any int packed 2 8
 * run: 2 any complex double 2 4
 * run: 2 any aint offset 2
 * run: 2 any aint long 2
 * run: 2 any integer int 3
 * run: 2 any pair-int int 3 6
 * run: 2 any int pair-int 4 9
 * run: 2 any vector-int int 2 4
 * run: 2 any int vector-int 3 9
 * run: 2 any int-double int-double 2 5
 * run: 2 any int int-double 1 9
 * run: 2 any float_int float-int 3
 * run: 2 any 2int pair-int 2
 * run: 2 any int float 0
 * run: 2 any int-float byte 2 16
 * run: 2 posted float float 300000
 * run: 2 posted vector-int int 100000 200000
 * run: 2 any int-double int-double 100000
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
    MPI_Finalize();
    return 0;
}
