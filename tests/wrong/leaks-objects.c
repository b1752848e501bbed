/*
 * Objects that nobody has freed when the job ends.
 *
 * run: 3 duplicate
 * says: left over by rank 0 of 3 at MPI_Finalize, and likewise by 2 other ranks
 * says: communicator  never freed: made by MPI_Comm_dup at leaks-objects.c:
 * says: (duplicate)
 *
 * run: 2 later
 * says: communicator  never freed: made by MPI_Comm_idup at leaks-objects.c:
 *
 * run: 4 split
 * says: communicators  3 never freed: 2 made by MPI_Comm_split at leaks-objects.c:
 * says: 1 made by MPI_Comm_dup at leaks-objects.c:
 *
 * run: 2 grid
 * says: communicator  never freed: made by MPI_Cart_create at leaks-objects.c:
 *
 * run: 2 group
 * says: groups  2 never freed: 1 made by MPI_
 * says: MPI_Comm_group at leaks-objects.c:
 * says: MPI_Group_incl at leaks-objects.c:
 *
 * run: 1 datatype
 * says: datatype  never freed: made by MPI_Type_contiguous at leaks-objects.c:
 *
 * run: 1 datatypes
 * says: datatypes  100 never freed: 100 made by MPI_Type_vector at leaks-objects.c:
 *
 * run: 1 operation
 * says: operation  never freed: made by MPI_Op_create at leaks-objects.c:
 *
 * run: 2 window
 * says: window  never freed: made by MPI_Win_allocate at leaks-objects.c:
 *
 * run: 2 dynamic
 * says: window  never freed: made by MPI_Win_create_dynamic at leaks-objects.c:
 *
 * run: 1 file
 * says: file  never closed: made by MPI_File_open at leaks-objects.c:
 *
 * run: 1 info
 * never: weft
 *
 * run: 1 info
 * options: --check
 * says: info object  never freed: made by MPI_Info_create at leaks-objects.c:
 *
 * run: 1 handler
 * options: --check
 * says: error handler  never freed: made by MPI_Comm_create_errhandler at leaks-objects.c:
 *
 * run: 1 key
 * options: --check
 * says: key value  never freed: made by MPI_Comm_create_keyval at leaks-objects.c:
 *
 * run: 3 first
 * says: left over by rank 0 of 3 at MPI_Finalize
 * says: and likewise by another rank
 * says: left over by rank 1 of 3 at MPI_Finalize
 *
 * run: 6 different
 * says: left over by rank 3 of 6
 * says: and more by 2 other ranks
 * never: left over by rank 4
 *
 * run: 1 beforehand
 * options: --check
 * says: info object  never freed
 *
 * run: 2 duplicate
 * options: --check=strict
 * exit: 120
 * says: communicator  never freed
 *
 * run: 2 duplicate
 * options: --check=off
 * never: weft
 *
 * run: 1 session
 * says: left over by rank 0 of 1 at MPI_Session_finalize
 * says: groups  2 never freed
 *
 * run: 1 session
 * options: --check=strict
 * exit: 120
 * says: groups  2 never freed
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

static void duplicate(void) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
}

static void later(void) {
    MPI_Comm comm;
    MPI_Request request;
    MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void split(void) {
    MPI_Comm comm;
    for (int i = 0; i < 2; i++)
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &comm);
    duplicate();
}

static void grid(void) {
    MPI_Comm comm;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, (int[]){1}, 0, &comm);
}

static void group(void) {
    MPI_Group all, one;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, (int[]){0}, &one);
}

static void datatype(void) {
    MPI_Datatype type;
    MPI_Type_contiguous(3, MPI_INT, &type);
    MPI_Type_commit(&type);
}

static void datatypes(void) {
    MPI_Datatype type;
    for (int i = 0; i < 100; i++)
        MPI_Type_vector(3, 1, 2, MPI_INT, &type);
}

static void nothing(void *in, void *inout, int *count, MPI_Datatype *type) {
    (void)in, (void)inout, (void)count, (void)type;
}

static void operation(void) {
    MPI_Op op;
    MPI_Op_create(nothing, 1, &op);
}

static void window(void) {
    MPI_Win win;
    void *memory;
    MPI_Win_allocate(64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
}

static void dynamic(void) {
    MPI_Win win;
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
}

static void file(void) {
    MPI_File file;
    char name[64];
    snprintf(name, sizeof name, "/tmp/weft-leaks-%ld", (long)getpid());
    MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    unlink(name);
}

static void info(void) {
    MPI_Info info;
    MPI_Info_create(&info);
}

static void handle(MPI_Comm *comm, int *code, ...) {
    (void)comm, (void)code;
}

static void handler(void) {
    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(handle, &handler);
}

static void key(void) {
    int key;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL);
}

/* Rank 1 has something else left over. */
static void first(void) {
    if (rank == 1)
        datatypes();
    else
        datatype();
}

static void different(void) {
    MPI_Datatype type;
    for (int i = 0; i <= rank; i++)
        MPI_Type_dup(MPI_INT, &type);
}

static void session(void) {
    MPI_Session session;
    MPI_Group group;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    for (int i = 0; i < 2; i++)
        MPI_Group_from_session_pset(session, "mpi://SELF", &group);
    MPI_Session_finalize(&session);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        {"duplicate", duplicate}, {"later", later},   {"split", split},         {"grid", grid},           {"group", group},
        {"datatype", datatype},   {"window", window}, {"datatypes", datatypes}, {"operation", operation}, {"dynamic", dynamic},
        {"file", file},           {"info", info},     {"handler", handler},     {"key", key},             {"first", first},
        {"different", different},
    };
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "session") == 0) {
        session();
        return 0;
    }
    if (strcmp(name, "beforehand") == 0)
        info();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strcmp(name, cases[i].name) == 0)
            cases[i].run();
    MPI_Finalize();
    return 0;
}
