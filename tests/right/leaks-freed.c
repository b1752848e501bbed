/*
 * What looks as if it were left over, and is not. It is freed by an attribute of MPI_COMM_SELF, under way when it was freed, or
 * predefined.
 *
 * run: 1
 * run: 4
 * run: 3
 * options: --check=strict
 * run: 3
 * options: --check=full,strict
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

/* As libraries keep their communicator until the process finalises. */
static MPI_Comm cached;
static MPI_Info kept;
static int key;

static int forget(MPI_Comm comm, int keyval, void *value, void *state) {
    (void)comm, (void)keyval, (void)state;
    MPI_Comm_free((MPI_Comm *)value);
    MPI_Info_free(&kept);
    MPI_Comm_free_keyval(&key);
    return MPI_SUCCESS;
}

static void attribute(void) {
    MPI_Comm_dup(MPI_COMM_WORLD, &cached);
    MPI_Info_create(&kept);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, &cached);
}

/* Requests that are freed before they have ended. */
static void requests(void) {
    static int out, in;
    MPI_Request request;
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    MPI_Isend(&out, 1, MPI_INT, next, 1, MPI_COMM_WORLD, &request);
    MPI_Request_free(&request);
    MPI_Recv(&in, 1, MPI_INT, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send_init(&out, 1, MPI_INT, next, 2, MPI_COMM_WORLD, &request);
    MPI_Start(&request);
    MPI_Recv(&in, 1, MPI_INT, before, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);
    MPI_Irecv(&in, 1, MPI_INT, before, 3, MPI_COMM_WORLD, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void matched(void) {
    int out = rank, in;
    MPI_Message message;
    MPI_Request request;
    MPI_Isend(&out, 1, MPI_INT, rank, 4, MPI_COMM_WORLD, &request);
    MPI_Mprobe(rank, 4, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
    MPI_Mrecv(&in, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void handle(MPI_Comm *comm, int *code, ...) {
    (void)comm, (void)code;
}

static void objects(void) {
    MPI_Comm comm, later;
    MPI_Group group;
    MPI_Datatype type, real;
    MPI_Errhandler handler;
    MPI_Request request;
    MPI_Win win;
    MPI_File file;
    void *memory;
    int in = 0;
    char name[64];
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_idup(comm, &later, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_create_errhandler(handle, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    MPI_Errhandler_free(&handler);
    MPI_Comm_get_errhandler(comm, &handler);
    MPI_Errhandler_free(&handler);
    MPI_Comm_group(comm, &group);
    MPI_Group_free(&group);
    MPI_Comm_free(&later);
    MPI_Comm_disconnect(&comm);
    MPI_Type_contiguous(1, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Irecv(&in, 1, type, rank, 6, MPI_COMM_WORLD, &request);
    MPI_Type_free(&type);
    MPI_Send(&rank, 1, MPI_INT, rank, 6, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Type_create_f90_real(6, MPI_UNDEFINED, &real);
    MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, &real);
    MPI_Win_allocate(8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    MPI_Win_get_group(win, &group);
    MPI_Group_free(&group);
    MPI_Win_free(&win);
    snprintf(name, sizeof name, "/tmp/weft-freed-%ld", (long)getpid());
    MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
    MPI_File_close(&file);
    MPI_Comm_get_parent(&comm);
}

int main(int argc, char **argv) {
    MPI_Session session;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    attribute();
    requests();
    matched();
    objects();
    MPI_Session_finalize(&session);
    MPI_Finalize();
    return 0;
}
