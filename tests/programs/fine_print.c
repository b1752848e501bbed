/* Details of the standard, each in a function of its own:
 *
 *     fine_print           all points
 *     fine_print NAME…     these */
#include "check.h"

#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

static int class_of(int code) {
    int class = -1;
    if (code == MPI_SUCCESS) return MPI_SUCCESS;
    MPI_Error_class(code, &class);
    return class;
}
#define GIVES(class, call) CHECK(class_of(call) == (class))

/* A non-blocking flush: a receiver that begins after it gets the buffered messages. */
static void flushes(void) {
    enum { LARGE = 1 << 20 };
    int peer = (check_rank ^ 1) < check_size ? check_rank ^ 1 : check_rank;
    char *room = malloc(3 * (LARGE + MPI_BSEND_OVERHEAD)), *data = calloc(1, LARGE), *into = calloc(1, LARGE);
    void *back;
    int size, flag = 1;
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int owner = 0; owner < 3; owner++) {
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Session session = MPI_SESSION_NULL;
        MPI_Comm used = comm, own = MPI_COMM_NULL;
        fill((unsigned char *)data, LARGE, check_rank + owner);
        if (owner == 0) MPI_Buffer_attach(room, 3 * (LARGE + MPI_BSEND_OVERHEAD));
        if (owner == 1) MPI_Comm_attach_buffer(comm, room, 3 * (LARGE + MPI_BSEND_OVERHEAD));
        if (owner == 2) {
            MPI_Group group;
            MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
            MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
            MPI_Comm_create_from_group(group, "flush", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &own);
            MPI_Group_free(&group);
            MPI_Session_attach_buffer(session, room, 3 * (LARGE + MPI_BSEND_OVERHEAD));
            used = own;
        }
        MPI_Bsend(data, LARGE, MPI_CHAR, peer, 3, used);
        MPI_Bsend(data, LARGE, MPI_CHAR, peer, 4, used);
        if (owner == 0) MPI_Buffer_iflush(&request);
        if (owner == 1) MPI_Comm_iflush_buffer(comm, &request);
        if (owner == 2) MPI_Session_iflush_buffer(session, &request);
        CHECK(request != MPI_REQUEST_NULL);
        /* No message was received: it cannot be over. */
        MPI_Barrier(comm);
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        CHECK(!flag);
        MPI_Barrier(comm);
        for (int tag = 3; tag < 5; tag++) {
            MPI_Recv(into, LARGE, MPI_CHAR, peer, tag, used, MPI_STATUS_IGNORE);
            CHECK(intact((unsigned char *)into, LARGE, peer + owner));
        }
        /* The call does not wait for messages buffered after it began. */
        MPI_Bsend(data, LARGE, MPI_CHAR, peer, 5, used);
        MPI_Status status;
        MPI_Wait(&request, &status);
        CHECK(request == MPI_REQUEST_NULL);
        MPI_Recv(into, LARGE, MPI_CHAR, peer, 5, used, MPI_STATUS_IGNORE);
        if (owner == 0) MPI_Buffer_iflush(&request);
        if (owner == 1) MPI_Comm_iflush_buffer(comm, &request);
        if (owner == 2) MPI_Session_iflush_buffer(session, &request);
        MPI_Waitall(1, &request, MPI_STATUSES_IGNORE);
        /* Nothing is buffered: over at once. */
        if (owner == 0) MPI_Buffer_iflush(&request);
        if (owner == 1) MPI_Comm_iflush_buffer(comm, &request);
        if (owner == 2) MPI_Session_iflush_buffer(session, &request);
        MPI_Test(&request, &flag, &status);
        CHECK(flag && request == MPI_REQUEST_NULL);
        int count;
        MPI_Get_count(&status, MPI_CHAR, &count);
        CHECK(count == 0);
        if (owner == 0) MPI_Buffer_detach(&back, &size);
        if (owner == 1) MPI_Comm_detach_buffer(comm, &back, &size);
        if (owner == 2) {
            MPI_Session_detach_buffer(session, &back, &size);
            MPI_Comm_free(&own);
            MPI_Session_finalize(&session);
        }
        CHECK(back == room);
    }
    MPI_Comm_free(&comm);
    free(room);
    free(data);
    free(into);
}

static int copies, deletions;
static int copy_one(MPI_Comm comm, int key, void *extra, void *value, void *out, int *flag) {
    (void)comm, (void)key, (void)extra;
    copies++;
    *(void **)out = value;
    *flag = 1;
    return MPI_SUCCESS;
}
static int delete_one(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm, (void)key, (void)value, (void)extra;
    deletions++;
    return MPI_SUCCESS;
}
static int delete_and_free(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm, (void)value, (void)extra;
    deletions++;
    return MPI_Comm_free_keyval(&key);
}
static int copy_type(MPI_Datatype type, int key, void *extra, void *value, void *out, int *flag) {
    (void)type;
    return copy_one(MPI_COMM_NULL, key, extra, value, out, flag);
}
static int delete_type(MPI_Datatype type, int key, void *value, void *extra) {
    (void)type;
    return delete_one(MPI_COMM_NULL, key, value, extra);
}

/* A key that was freed stays for the objects that have it. */
static void freed_keys(void) {
    MPI_Comm comm, copy;
    int key, saved, others[32], flag, x = 0;
    void *value;
    copies = deletions = 0;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Comm_create_keyval(copy_one, delete_one, &key, NULL);
    saved = key;
    MPI_Comm_set_attr(comm, key, &x);
    MPI_Comm_free_keyval(&key);
    CHECK(key == MPI_KEYVAL_INVALID);
    for (int i = 0; i < 32; i++) MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &others[i], NULL);
    MPI_Comm_dup(comm, &copy);
    CHECK(copies == 1);
    GIVES(MPI_SUCCESS, MPI_Comm_get_attr(copy, saved, &value, &flag));
    CHECK(flag && value == &x);
    GIVES(MPI_SUCCESS, MPI_Comm_set_attr(copy, saved, &flag));
    CHECK(deletions == 1);
    GIVES(MPI_SUCCESS, MPI_Comm_delete_attr(copy, saved));
    CHECK(deletions == 2);
    GIVES(MPI_SUCCESS, MPI_Comm_get_attr(copy, saved, &value, &flag));
    CHECK(!flag);
    key = saved;
    GIVES(MPI_SUCCESS, MPI_Comm_free_keyval(&key)); /* in use by comm still */
    MPI_Comm_free(&copy);
    CHECK(deletions == 2);
    MPI_Comm_free(&comm);
    CHECK(deletions == 3);
    /* No object has it any more. */
    key = saved;
    GIVES(MPI_ERR_KEYVAL, MPI_Comm_free_keyval(&key));
    GIVES(MPI_ERR_KEYVAL, MPI_Comm_set_attr(MPI_COMM_SELF, saved, &x));
    for (int i = 0; i < 32; i++) GIVES(MPI_SUCCESS, MPI_Comm_free_keyval(&others[i]));

    /* Freed by its own delete function, and again while the last object has it. */
    deletions = 0;
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Comm_dup(MPI_COMM_SELF, &copy);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_and_free, &key, NULL);
    saved = key;
    MPI_Comm_set_attr(comm, key, &x);
    MPI_Comm_set_attr(copy, key, &x);
    GIVES(MPI_SUCCESS, MPI_Comm_free(&copy));
    GIVES(MPI_SUCCESS, MPI_Comm_free_keyval(&key));
    GIVES(MPI_SUCCESS, MPI_Comm_free_keyval(&saved));
    GIVES(MPI_SUCCESS, MPI_Comm_free(&comm));
    CHECK(deletions == 2);

    /* Of datatypes. */
    MPI_Datatype type, twin;
    copies = deletions = 0;
    MPI_Type_contiguous(2, MPI_INT, &type);
    MPI_Type_create_keyval(copy_type, delete_type, &key, NULL);
    saved = key;
    MPI_Type_set_attr(type, key, &x);
    MPI_Type_free_keyval(&key);
    GIVES(MPI_SUCCESS, MPI_Type_dup(type, &twin));
    CHECK(copies == 1);
    MPI_Type_free(&type);
    CHECK(deletions == 1);
    GIVES(MPI_SUCCESS, MPI_Type_delete_attr(twin, saved));
    CHECK(deletions == 2);
    MPI_Type_free(&twin);
    GIVES(MPI_ERR_KEYVAL, MPI_Type_free_keyval(&saved));
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}

/* The codes that callbacks return are those that the calls return. */
static int given, freed_code;
static int failing_copy(MPI_Comm comm, int key, void *extra, void *value, void *out, int *flag) {
    (void)comm, (void)key, (void)extra, (void)value, (void)out;
    *flag = 0;
    return given;
}
static int failing_delete(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm, (void)key, (void)value, (void)extra;
    return given;
}
static int failing_type_copy(MPI_Datatype type, int key, void *extra, void *value, void *out, int *flag) {
    (void)type;
    return failing_copy(MPI_COMM_NULL, key, extra, value, out, flag);
}
static int failing_type_delete(MPI_Datatype type, int key, void *value, void *extra) {
    (void)type, (void)key, (void)value, (void)extra;
    return given;
}
static int query(void *state, MPI_Status *status) {
    (void)state;
    MPI_Status_set_elements(status, MPI_INT, 0);
    MPI_Status_set_cancelled(status, 0);
    return given;
}
static int release(void *state) {
    (void)state;
    return freed_code;
}
static int cancel(void *state, int complete) {
    (void)state, (void)complete;
    return given;
}
static int told;
static void note(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    told = *code;
}

static void callbacks(void) {
    int class, code, other, x = 0, index, count, flag;
    MPI_Comm comm, copy;
    MPI_Errhandler noting;
    MPI_Status statuses[2];
    MPI_Add_error_class(&class);
    MPI_Add_error_code(class, &code);
    MPI_Add_error_code(class, &other);
    MPI_Comm_create_errhandler(note, &noting);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, noting);
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    /* Codes of the standard, of the program, and unknown ones. */
    const int codes[] = {MPI_ERR_OTHER, MPI_ERR_TRUNCATE, class, code, 12345, 77777777, -5};
    for (int i = 0; i < (int)(sizeof codes / sizeof *codes); i++) {
        int key;
        MPI_Comm_create_keyval(failing_copy, failing_delete, &key, NULL);
        MPI_Comm_set_attr(comm, key, &x);
        given = codes[i];
        told = 0;
        CHECK(MPI_Comm_dup(comm, &copy) == given && told == given);
        CHECK(copy == MPI_COMM_NULL);
        MPI_Request request;
        CHECK(MPI_Comm_idup(comm, &copy, &request) == given);
        CHECK(copy == MPI_COMM_NULL && request == MPI_REQUEST_NULL);
        told = 0;
        CHECK(MPI_Comm_delete_attr(comm, key) == given && told == given);
        CHECK(MPI_Comm_set_attr(comm, key, &x) == given);
        CHECK(MPI_Comm_free(&comm) == given);
        CHECK(comm != MPI_COMM_NULL);
        given = MPI_SUCCESS;
        CHECK(MPI_Comm_delete_attr(comm, key) == MPI_SUCCESS);
        MPI_Comm_free_keyval(&key);

        MPI_Datatype type, twin;
        MPI_Type_contiguous(3, MPI_INT, &type);
        MPI_Type_create_keyval(failing_type_copy, failing_type_delete, &key, NULL);
        MPI_Type_set_attr(type, key, &x);
        given = codes[i];
        CHECK(MPI_Type_dup(type, &twin) == given && twin == MPI_DATATYPE_NULL);
        CHECK(MPI_Type_free(&type) == given && type != MPI_DATATYPE_NULL);
        given = MPI_SUCCESS;
        CHECK(MPI_Type_free(&type) == MPI_SUCCESS);
        MPI_Type_free_keyval(&key);

        /* Generalised requests (MPI 5.0, section 13.2): the code of the last function that failed. */
        MPI_Request requests[2];
        given = codes[i], freed_code = MPI_SUCCESS, told = 0;
        MPI_Grequest_start(query, release, cancel, NULL, &requests[0]);
        CHECK(MPI_Cancel(&requests[0]) == given && told == given);
        MPI_Grequest_complete(requests[0]);
        CHECK(MPI_Request_get_status(requests[0], &flag, &statuses[0]) == given);
        CHECK(MPI_Wait(&requests[0], &statuses[0]) == given);
        CHECK(requests[0] == MPI_REQUEST_NULL);
        freed_code = other;
        MPI_Grequest_start(query, release, cancel, NULL, &requests[0]);
        MPI_Grequest_complete(requests[0]);
        CHECK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE) == other);
        MPI_Grequest_start(query, release, cancel, NULL, &requests[0]);
        CHECK(MPI_Request_free(&requests[0]) == MPI_SUCCESS);
        freed_code = codes[i], given = MPI_SUCCESS;
        MPI_Grequest_start(query, release, cancel, NULL, &requests[0]);
        MPI_Grequest_complete(requests[0]);
        CHECK(MPI_Request_free(&requests[0]) == codes[i]);
        for (int call = 0; call < 6; call++) {
            given = freed_code = codes[i];
            told = 0;
            MPI_Grequest_start(query, release, cancel, NULL, &requests[0]);
            MPI_Isend(&x, 0, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_SELF, &requests[1]);
            MPI_Grequest_complete(requests[0]);
            int result = MPI_SUCCESS, in_status = call == 0 || call == 1 || call == 4 || call == 5;
            int indices[2] = {1, 1};
            switch (call) {
            case 0: result = MPI_Waitall(2, requests, statuses); break;
            case 1: result = MPI_Testall(2, requests, &flag, statuses); break;
            case 2: result = MPI_Waitany(1, requests, &index, statuses); break;
            case 3: result = MPI_Testany(1, requests, &index, &flag, statuses); break;
            case 4: result = MPI_Waitsome(2, requests, &count, indices, statuses); break;
            case 5: result = MPI_Testsome(2, requests, &count, indices, statuses); break;
            }
            CHECK(told == result);
            if (in_status) {
                CHECK(result == MPI_ERR_IN_STATUS);
                CHECK(statuses[0].MPI_ERROR == codes[i]);
                CHECK(statuses[1].MPI_ERROR == MPI_SUCCESS);
                CHECK(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL);
            } else {
                CHECK(result == codes[i] && requests[0] == MPI_REQUEST_NULL);
                MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
            }
        }
        /* The same without statuses. */
        MPI_Grequest_start(query, release, cancel, NULL, &requests[0]);
        MPI_Grequest_complete(requests[0]);
        CHECK(MPI_Waitall(1, requests, MPI_STATUSES_IGNORE) == MPI_ERR_IN_STATUS);
        /* A handler receives the code that the program passes. */
        CHECK(MPI_Comm_call_errhandler(MPI_COMM_SELF, codes[i]) == MPI_SUCCESS && told == codes[i]);
    }
    MPI_Comm_free(&comm);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&noting);
}

/* Errors of no communicator, of MPI_COMM_SELF, of MPI_COMM_WORLD. */
static int of_self, of_world, of_dup;
static void handler_self(MPI_Comm *comm, int *code, ...) {
    (void)code;
    CHECK(*comm == MPI_COMM_SELF);
    of_self++;
}
static void handler_world(MPI_Comm *comm, int *code, ...) {
    (void)code;
    CHECK(*comm == MPI_COMM_WORLD);
    of_world++;
}
static void handler_win(MPI_Win *win, int *code, ...) {
    (void)win;
    (void)code;
}
static MPI_Comm dup;
static void handler_dup(MPI_Comm *comm, int *code, ...) {
    (void)code;
    CHECK(*comm == dup);
    of_dup++;
}

/* Runs before any other point has set a handler of MPI_COMM_SELF. */
static void routes(void) {
    int x;
    MPI_Errhandler self, world;
    MPI_Comm_create_errhandler(handler_self, &self);
    MPI_Comm_create_errhandler(handler_world, &world);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, world);
    GIVES(MPI_ERR_GROUP, MPI_Group_size(MPI_GROUP_NULL, &x));
    GIVES(MPI_ERR_COMM, MPI_Comm_size(MPI_COMM_NULL, &x));
    GIVES(MPI_ERR_TYPE, MPI_Type_size(MPI_DATATYPE_NULL, &x));
    CHECK(of_world == 3 && of_self == 0);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, self);
    GIVES(MPI_ERR_GROUP, MPI_Group_size(MPI_GROUP_NULL, &x));
    CHECK(of_world == 3 && of_self == 1);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    GIVES(MPI_ERR_GROUP, MPI_Group_size(MPI_GROUP_NULL, &x));
    CHECK(of_world == 3 && of_self == 2);
    MPI_Errhandler_free(&self);
    MPI_Errhandler_free(&world);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    /* What frees a window fails: that is the window's. */
    int *memory;
    MPI_Win win;
    MPI_Win_allocate(sizeof(int), 1, MPI_INFO_NULL, MPI_COMM_SELF, &memory, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    GIVES(MPI_ERR_RMA_SYNC, MPI_Win_free(&win));
    CHECK(win != MPI_WIN_NULL);
    MPI_Win_unlock(0, win);
    /* A handler of one kind of object is none of another. */
    MPI_Errhandler kept, of_comm, of_win;
    MPI_Comm_create_errhandler(handler_self, &of_comm);
    MPI_Win_create_errhandler(handler_win, &of_win);
    GIVES(MPI_ERR_ARG, MPI_Win_set_errhandler(win, of_comm));
    MPI_Win_get_errhandler(win, &kept);
    CHECK(kept == MPI_ERRORS_RETURN);
    GIVES(MPI_ERR_ARG, MPI_File_set_errhandler(MPI_FILE_NULL, of_win));
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    GIVES(MPI_ERR_ARG, MPI_Comm_set_errhandler(MPI_COMM_SELF, of_win));
    MPI_Session session;
    GIVES(MPI_ERR_ARG, MPI_Session_init(MPI_INFO_NULL, of_comm, &session));
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&of_comm);
    MPI_Errhandler_free(&of_win);
    MPI_Win_free(&win);
}

/* Errors of a matched receive go to the communicator of the probe. */
static void matched(void) {
    MPI_Errhandler handler;
    MPI_Request send, receive;
    MPI_Message message;
    MPI_Status status;
    int data[4] = {1, 2, 3, 4}, room[4];
    MPI_Comm_create_errhandler(handler_dup, &handler);
    MPI_Comm_dup(MPI_COMM_SELF, &dup);
    MPI_Comm_set_errhandler(dup, handler);
    of_dup = 0;
    MPI_Isend(data, 4, MPI_INT, 0, 1, dup, &send);
    MPI_Mprobe(0, 1, dup, &message, &status);
    GIVES(MPI_ERR_TRUNCATE, MPI_Mrecv(room, 2, MPI_INT, &message, &status));
    CHECK(of_dup == 1 && room[1] == 2);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    MPI_Isend(data, 4, MPI_INT, 0, 1, dup, &send);
    MPI_Mprobe(0, 1, dup, &message, &status);
    GIVES(MPI_ERR_COUNT, MPI_Mrecv(room, -1, MPI_INT, &message, &status));
    CHECK(of_dup == 2);
    GIVES(MPI_ERR_TYPE, MPI_Imrecv(room, 1, MPI_DATATYPE_NULL, &message, &receive));
    CHECK(of_dup == 3);
    GIVES(MPI_SUCCESS, MPI_Imrecv(room, 1, MPI_INT, &message, &receive));
    GIVES(MPI_ERR_TRUNCATE, MPI_Wait(&receive, &status));
    CHECK(of_dup == 4);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    MPI_Comm_free(&dup);
    MPI_Errhandler_free(&handler);
}

/* Names of process sets in any case. */
static void process_sets(void) {
    static const char *const names[] = {"mpi://WORLD", "mpi://world", "MPI://World", "mpi://SELF", "mpi://self"};
    MPI_Session session;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    for (int i = 0; i < 5; i++) {
        MPI_Group group;
        MPI_Info info;
        int size;
        GIVES(MPI_SUCCESS, MPI_Group_from_session_pset(session, names[i], &group));
        MPI_Group_size(group, &size);
        CHECK(size == (i < 3 ? check_size : 1));
        MPI_Group_free(&group);
        GIVES(MPI_SUCCESS, MPI_Session_get_pset_info(session, names[i], &info));
        MPI_Info_free(&info);
    }
    MPI_Group group;
    GIVES(MPI_ERR_ARG, MPI_Group_from_session_pset(session, "mpi://worlds", &group));
    MPI_Session_finalize(&session);
}

/* What kinds of memory there are is told, and not what was asked for. */
static void memory_kinds(void) {
    MPI_Info asked, told;
    MPI_Session session;
    MPI_Comm comm;
    MPI_Win win;
    int *memory;
    MPI_Info_create(&asked);
    MPI_Info_set(asked, "mpi_memory_alloc_kinds", "cuda:device,mpi:alloc_mem,system");
    /* A value may be the empty text, which means no kinds here. */
    GIVES(MPI_SUCCESS, MPI_Info_set(asked, "mpi_assert_memory_alloc_kinds", ""));
    char none[4] = "xyz";
    int room = sizeof none, set;
    MPI_Info_get_string(asked, "mpi_assert_memory_alloc_kinds", &room, none, &set);
    CHECK(set && room == 1 && !*none);
    MPI_Session_init(asked, MPI_ERRORS_RETURN, &session);
    MPI_Comm_dup_with_info(MPI_COMM_SELF, asked, &comm);
    MPI_Comm_set_info(comm, asked);
    MPI_Win_allocate(sizeof(int), 1, asked, MPI_COMM_SELF, &memory, &win);
    for (int i = 0; i < 4; i++) {
        char value[256];
        int length = sizeof value, there;
        if (i == 0) MPI_Session_get_info(session, &told);
        if (i == 1) MPI_Comm_get_info(comm, &told);
        if (i == 2) MPI_Win_get_info(win, &told);
        if (i == 3) MPI_Comm_get_info(MPI_COMM_WORLD, &told);
        MPI_Info_get_string(told, "mpi_memory_alloc_kinds", &length, value, &there);
        CHECK(there && strstr(value, "system") && strstr(value, "mpi:alloc_mem") && !strstr(value, "cuda"));
        MPI_Info_free(&told);
    }
    MPI_Info_free(&asked);
    MPI_Win_free(&win);
    MPI_Comm_free(&comm);
    MPI_Session_finalize(&session);
}

/* The alignment of a window's memory is told as it is: the one that was asked for if it is met. */
static void alignments(void) {
    static const char *asked[] = {NULL, "16", "512", "4096", "48"};
    for (int shared = 0; shared < 2; shared++) {
        for (int i = 0; i < 5; i++) {
            MPI_Info info, told;
            MPI_Win win;
            char *memory, value[32];
            int length = sizeof value, there;
            MPI_Info_create(&info);
            if (asked[i]) MPI_Info_set(info, "mpi_minimum_memory_alignment", asked[i]);
            /* In contiguous memory one part begins where the one before ends. */
            if (shared) MPI_Win_allocate_shared(24, 1, info, MPI_COMM_WORLD, &memory, &win);
            else MPI_Win_allocate(24, 1, info, MPI_COMM_WORLD, &memory, &win);
            MPI_Win_get_info(win, &told);
            MPI_Info_get_string(told, "mpi_minimum_memory_alignment", &length, value, &there);
            long alignment = strtol(value, NULL, 10), wanted = asked[i] ? strtol(asked[i], NULL, 10) : 64;
            CHECK(there && alignment >= 8 && (alignment & (alignment - 1)) == 0);
            CHECK((uintptr_t)memory % (uintptr_t)alignment == 0);
            if (!shared && i < 4) CHECK(alignment == wanted);
            if (shared && check_rank == 1) CHECK(alignment == 8);
            MPI_Info_free(&told);
            MPI_Info_free(&info);
            MPI_Win_free(&win);
        }
    }
}

/* No datatype and no elements, to or from MPI_PROC_NULL. */
static void nothing_to_nobody(void) {
    MPI_Comm comm;
    MPI_Request request;
    MPI_Status status;
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    const MPI_Datatype none = MPI_DATATYPE_NULL;
    const int nobody = MPI_PROC_NULL;
    GIVES(MPI_SUCCESS, MPI_Send(NULL, 0, none, nobody, 0, comm));
    GIVES(MPI_SUCCESS, MPI_Ssend(NULL, 0, none, nobody, 0, comm));
    GIVES(MPI_SUCCESS, MPI_Send_c(NULL, 0, none, nobody, 0, comm));
    GIVES(MPI_SUCCESS, MPI_Recv(NULL, 0, none, nobody, 0, comm, &status));
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG);
    GIVES(MPI_SUCCESS, MPI_Isend(NULL, 0, none, nobody, 0, comm, &request));
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    GIVES(MPI_SUCCESS, MPI_Irecv(NULL, 0, none, nobody, 0, comm, &request));
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    GIVES(MPI_SUCCESS, MPI_Send_init(NULL, 0, none, nobody, 0, comm, &request));
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);
    GIVES(MPI_SUCCESS, MPI_Psend_init(NULL, 3, 0, none, nobody, 0, comm, MPI_INFO_NULL, &request));
    MPI_Start(&request);
    MPI_Pready_range(0, 2, request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);
    GIVES(MPI_SUCCESS, MPI_Precv_init_c(NULL, 1, 0, none, nobody, 0, comm, MPI_INFO_NULL, &request));
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);
    GIVES(MPI_SUCCESS, MPI_Sendrecv(NULL, 0, none, nobody, 0, NULL, 0, none, nobody, 0, comm, &status));
    GIVES(MPI_SUCCESS, MPI_Sendrecv_replace(NULL, 0, none, nobody, 0, nobody, 0, comm, &status));
    MPI_Message message;
    MPI_Mprobe(nobody, 0, comm, &message, &status);
    GIVES(MPI_SUCCESS, MPI_Mrecv(NULL, 0, none, &message, &status));
    MPI_Mprobe(nobody, 0, comm, &message, &status);
    GIVES(MPI_SUCCESS, MPI_Imrecv(NULL, 0, none, &message, &request));
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    /* But everywhere else. */
    GIVES(MPI_ERR_TYPE, MPI_Send(NULL, 1, none, nobody, 0, comm));
    GIVES(MPI_ERR_TYPE, MPI_Send(NULL, 0, none, 0, 0, comm));
    GIVES(MPI_ERR_TYPE, MPI_Psend_init(NULL, 1, 0, none, 0, 0, comm, MPI_INFO_NULL, &request));
    GIVES(MPI_ERR_TYPE, MPI_Recv(NULL, 0, none, MPI_ANY_SOURCE, 0, comm, &status));
    MPI_Datatype loose;
    MPI_Type_contiguous(2, MPI_INT, &loose);
    GIVES(MPI_ERR_TYPE, MPI_Send(NULL, 0, loose, nobody, 0, comm));
    MPI_Type_free(&loose);
    MPI_Comm_free(&comm);
}

/* Structures with entries of no elements, and pairs of long double. */
static void structures(void) {
    MPI_Datatype type, resized, vector;
    MPI_Aint lower, extent;
    int size;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Type_create_resized(MPI_INT, -100, 400, &resized);
    MPI_Type_vector(0, 1, 1, MPI_INT, &vector);
    {
        /* Entries without elements change nothing, whatever their type. */
        const int lengths[] = {0, 2, 0, 0, 1};
        const MPI_Aint places[] = {-64, 0, 1000, 4, 8};
        const MPI_Datatype types[] = {MPI_DOUBLE, MPI_INT, resized, MPI_DATATYPE_NULL, vector};
        GIVES(MPI_SUCCESS, MPI_Type_create_struct(5, lengths, places, types, &type));
        MPI_Type_get_extent(type, &lower, &extent);
        MPI_Type_size(type, &size);
        CHECK(size == 8 && lower == 0 && extent == 8);
        MPI_Type_commit(&type);
        int from[4] = {1, 2, 3, 4}, to[4] = {0};
        MPI_Sendrecv(from, 2, type, 0, 0, to, 4, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
        CHECK(to[3] == 4);
        int integers, addresses, datatypes, combiner;
        MPI_Type_get_envelope(type, &integers, &addresses, &datatypes, &combiner);
        CHECK(combiner == MPI_COMBINER_STRUCT && integers == 6 && addresses == 5 && datatypes == 5);
        int i[6];
        MPI_Aint a[5];
        MPI_Datatype t[5];
        GIVES(MPI_SUCCESS, MPI_Type_get_contents(type, 6, 5, 5, i, a, t));
        CHECK(i[0] == 5 && i[2] == 2 && a[2] == 1000 && t[1] == MPI_INT);
        CHECK(t[3] == MPI_DATATYPE_NULL);
        MPI_Type_free(&t[2]);
        MPI_Type_free(&t[4]);
        MPI_Type_free(&type);
        GIVES(MPI_ERR_TYPE, MPI_Type_create_struct(5, (int[]){0, 2, 0, 1, 1}, places, types, &type));
    }
    GIVES(MPI_SUCCESS, MPI_Type_create_struct(0, NULL, NULL, NULL, &type));
    MPI_Type_get_extent(type, &lower, &extent);
    MPI_Type_size(type, &size);
    CHECK(size == 0 && lower == 0 && extent == 0);
    MPI_Type_commit(&type);
    MPI_Type_free(&type);
    {
        const int lengths[] = {0, 0};
        const MPI_Aint places[] = {8, 16};
        const MPI_Datatype types[] = {MPI_DOUBLE, MPI_DATATYPE_NULL};
        GIVES(MPI_SUCCESS, MPI_Type_create_struct(2, lengths, places, types, &type));
        MPI_Type_get_extent(type, &lower, &extent);
        CHECK(lower == 0 && extent == 0);
        MPI_Type_commit(&type);
        GIVES(MPI_SUCCESS, MPI_Sendrecv(NULL, 3, type, 0, 0, NULL, 3, type, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE));
        MPI_Type_free(&type);
    }
    {
        /* A structure with all types of C. */
        struct all {
            char c;
            long double ld;
            struct { long double value; int index; } pair;
            struct { short value; int index; } shorts;
            _Bool b;
        };
        const int lengths[] = {1, 1, 1, 1, 1};
        const MPI_Aint places[] = {offsetof(struct all, c), offsetof(struct all, ld), offsetof(struct all, pair),
                                   offsetof(struct all, shorts), offsetof(struct all, b)};
        const MPI_Datatype types[] = {MPI_CHAR, MPI_LONG_DOUBLE, MPI_LONG_DOUBLE_INT, MPI_SHORT_INT, MPI_C_BOOL};
        GIVES(MPI_SUCCESS, MPI_Type_create_struct(5, lengths, places, types, &type));
        MPI_Type_get_extent(type, &lower, &extent);
        CHECK(lower == 0 && extent == sizeof(struct all));
        MPI_Type_free(&type);
    }
    MPI_Type_free(&resized);
    MPI_Type_free(&vector);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);

    struct pair { long double value; int index; } mine[3], best[3];
    MPI_Type_get_extent(MPI_LONG_DOUBLE_INT, &lower, &extent);
    MPI_Type_size(MPI_LONG_DOUBLE_INT, &size);
    CHECK(extent == sizeof(struct pair) && size == sizeof(long double) + sizeof(int));
    memset(mine, 0, sizeof mine);
    for (int i = 0; i < 3; i++) {
        mine[i].value = i == 2 ? 1.5L : (check_rank - 1) * (i ? -1.0L : 1.0L) / 3;
        mine[i].index = check_rank;
    }
    int last = check_size - 1;
    for (int in_place = 0; in_place < 2; in_place++) {
        for (int max = 0; max < 2; max++) {
            MPI_Op op = max ? MPI_MAXLOC : MPI_MINLOC;
            memset(best, 0, sizeof best);
            if (in_place) memcpy(best, mine, sizeof best);
            MPI_Allreduce(in_place ? MPI_IN_PLACE : mine, best, 3, MPI_LONG_DOUBLE_INT, op, MPI_COMM_WORLD);
            CHECK(best[0].index == (max ? last : 0) && best[1].index == (max ? 0 : last) && best[2].index == 0);
            CHECK(best[0].value == ((max ? last : 0) - 1) / 3.0L && best[2].value == 1.5L);
        }
    }
    MPI_Scan(mine, best, 3, MPI_LONG_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
    CHECK(best[0].index == check_rank && best[1].index == 0);
    MPI_Reduce_local(mine, best, 3, MPI_LONG_DOUBLE_INT, MPI_MINLOC);
    CHECK(best[2].index == 0);
    char packed[3 * 32];
    int position = 0;
    MPI_Pack(mine, 3, MPI_LONG_DOUBLE_INT, packed, sizeof packed, &position, MPI_COMM_SELF);
    CHECK(position == 60);
    position = 0;
    MPI_Unpack(packed, sizeof packed, &position, best, 3, MPI_LONG_DOUBLE_INT, MPI_COMM_SELF);
    CHECK(best[1].value == mine[1].value && best[1].index == mine[1].index);
    MPI_Datatype pair;
    MPI_Type_get_value_index(MPI_LONG_DOUBLE, MPI_INT, &pair);
    CHECK(pair == MPI_LONG_DOUBLE_INT);
    long double values[2] = {check_rank + 1, -check_rank}, sums[2];
    MPI_Allreduce(values, sums, 2, MPI_LONG_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sums[0] == check_size * (check_size + 1) / 2);
}

/* A million classes, codes and texts are added and removed; in quadratic time this would take hours. */
static void many_codes(void) {
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
    enum { MANY = 20000 }; /* a call takes many times as long, and all are the same */
#else
    enum { MANY = 1000000 };
#endif
    if (check_rank > 0) return;
    int *codes = malloc(MANY * sizeof *codes), first, flag, *last;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_get_attr(MPI_COMM_SELF, MPI_LASTUSEDCODE, &last, &flag);
    int before = *last;
    MPI_Add_error_class(&first);
    for (int i = 0; i < MANY; i++) {
        if (i % 2) {
            MPI_Add_error_code(i % 4 == 1 ? first : codes[i - 1], &codes[i]);
        } else {
            MPI_Add_error_class(&codes[i]);
        }
        MPI_Add_error_string(codes[i], "text");
        if (i % 16 == 0) {
            MPI_Comm_get_attr(MPI_COMM_SELF, MPI_LASTUSEDCODE, &last, &flag);
            CHECK(flag && *last >= codes[i]);
        }
    }
    GIVES(MPI_ERR_OTHER, MPI_Remove_error_class(codes[2])); /* it has codes and a text */
    for (int i = 0; i < MANY; i++) MPI_Remove_error_string(codes[i]);
    GIVES(MPI_ERR_OTHER, MPI_Remove_error_class(first)); /* it has codes */
    for (int i = 1; i < MANY; i += 2) CHECK(MPI_Remove_error_code(codes[i]) == MPI_SUCCESS);
    for (int i = 0; i < MANY; i += 2) {
        CHECK(MPI_Remove_error_class(codes[i]) == MPI_SUCCESS);
        if (i % 16 == 0) MPI_Comm_get_attr(MPI_COMM_SELF, MPI_LASTUSEDCODE, &last, &flag);
    }
    CHECK(*last >= first);
    /* One at a time beside many that were removed. */
    for (int i = 0; i < MANY; i++) {
        int class;
        MPI_Add_error_class(&class);
        CHECK(MPI_Remove_error_class(class) == MPI_SUCCESS);
        if (i % 16 == 0) MPI_Comm_get_attr(MPI_COMM_SELF, MPI_LASTUSEDCODE, &last, &flag);
    }
    GIVES(MPI_SUCCESS, MPI_Remove_error_class(first));
    MPI_Comm_get_attr(MPI_COMM_SELF, MPI_LASTUSEDCODE, &last, &flag);
    CHECK(*last == before);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    free(codes);
}

/* One buffer as both arguments of a collective. */
static void aliases(void) {
    MPI_Comm comm;
    MPI_Request request;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    int n = check_size, *data = calloc(2 * n + 2, sizeof *data), *counts = calloc(n, sizeof *counts),
        *places = calloc(n, sizeof *places), *bytes = calloc(n, sizeof *bytes);
    MPI_Datatype *types = calloc(n, sizeof *types);
    for (int i = 0; i < n; i++) counts[i] = 1, places[i] = i, bytes[i] = 4 * i, types[i] = MPI_INT;
    /* By messages, and on a board, where calls may end at once. */
    for (int round = 0; round < 2; round++) {
        GIVES(MPI_ERR_BUFFER, MPI_Allreduce(data, data, 1, MPI_INT, MPI_SUM, comm));
        GIVES(MPI_ERR_BUFFER, MPI_Iallreduce(data, data, 1, MPI_INT, MPI_SUM, comm, &request));
        GIVES(MPI_ERR_BUFFER, MPI_Allreduce_init(data, data, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &request));
        GIVES(MPI_ERR_BUFFER, MPI_Scan(data, data, 1, MPI_INT, MPI_SUM, comm));
        GIVES(MPI_ERR_BUFFER, MPI_Exscan(data, data, 1, MPI_INT, MPI_SUM, comm));
        GIVES(MPI_ERR_BUFFER, MPI_Reduce_scatter_block(data, data, 1, MPI_INT, MPI_SUM, comm));
        GIVES(MPI_ERR_BUFFER, MPI_Reduce_scatter(data, data, counts, MPI_INT, MPI_SUM, comm));
        GIVES(MPI_ERR_BUFFER, MPI_Alltoall(data, 1, MPI_INT, data, 1, MPI_INT, comm));
        GIVES(MPI_ERR_BUFFER, MPI_Alltoallv(data, counts, places, MPI_INT, data, counts, places, MPI_INT, comm));
        GIVES(MPI_ERR_BUFFER, MPI_Alltoallw(data, counts, bytes, types, data, counts, bytes, types, comm));
        GIVES(MPI_ERR_BUFFER, MPI_Allgather(data + check_rank, 1, MPI_INT, data, 1, MPI_INT, comm));
        GIVES(MPI_ERR_BUFFER, MPI_Allgatherv(data + check_rank, 1, MPI_INT, data, counts, places, MPI_INT, comm));
        if (check_rank == 0) {
            /* At the root alone: the others would wait for it. */
            GIVES(MPI_ERR_BUFFER, MPI_Reduce(data, data, 1, MPI_INT, MPI_SUM, 0, comm));
            GIVES(MPI_ERR_BUFFER, MPI_Gather(data, 1, MPI_INT, data, 1, MPI_INT, 0, comm));
            GIVES(MPI_ERR_BUFFER, MPI_Gatherv(data, 1, MPI_INT, data, counts, places, MPI_INT, 0, comm));
            GIVES(MPI_ERR_BUFFER, MPI_Scatter(data, 1, MPI_INT, data, 1, MPI_INT, 0, comm));
            GIVES(MPI_ERR_BUFFER, MPI_Scatterv(data, counts, places, MPI_INT, data, 1, MPI_INT, 0, comm));
        }
        for (int call = 0; call < 6; call++) MPI_Barrier(comm);
    }
    /* Not aliased: no elements, arguments that are not significant, parts of one array, interleaved types. */
    GIVES(MPI_SUCCESS, MPI_Allreduce(data, data, 0, MPI_INT, MPI_SUM, comm));
    GIVES(MPI_SUCCESS, MPI_Allreduce(NULL, NULL, 0, MPI_INT, MPI_SUM, comm));
    GIVES(MPI_SUCCESS, MPI_Alltoall(data, 0, MPI_INT, data, 0, MPI_INT, comm));
    GIVES(MPI_SUCCESS, MPI_Allreduce(data, data + 1, 1, MPI_INT, MPI_SUM, comm));
    GIVES(MPI_SUCCESS, MPI_Alltoall(data, 1, MPI_INT, data + n, 1, MPI_INT, comm));
    GIVES(MPI_SUCCESS, MPI_Allgather(data + n, 1, MPI_INT, data, 1, MPI_INT, comm));
    GIVES(MPI_SUCCESS, MPI_Allreduce(MPI_IN_PLACE, data, 1, MPI_INT, MPI_SUM, comm));
    if (check_rank == 0) {
        GIVES(MPI_SUCCESS, MPI_Reduce(data, data + 1, 1, MPI_INT, MPI_SUM, 0, comm));
    } else {
        GIVES(MPI_SUCCESS, MPI_Reduce(data, data, 1, MPI_INT, MPI_SUM, 0, comm)); /* not significant here */
    }
    MPI_Datatype first, second, shifted;
    MPI_Type_create_resized(MPI_INT, 0, 8, &first);
    MPI_Type_create_struct(1, (int[]){1}, (MPI_Aint[]){4}, (MPI_Datatype[]){MPI_INT}, &shifted);
    MPI_Type_create_resized(shifted, 0, 8, &second);
    MPI_Type_free(&shifted);
    MPI_Type_commit(&first);
    MPI_Type_commit(&second);
    for (int i = 0; i < n; i++) data[2 * i] = 100 * check_rank + i, data[2 * i + 1] = -1;
    GIVES(MPI_SUCCESS, MPI_Alltoall(data, 1, first, data, 1, second, comm));
    for (int i = 0; i < n; i++) CHECK(data[2 * i + 1] == 100 * i + check_rank);
    MPI_Type_free(&first);
    MPI_Type_free(&second);
    free(data), free(counts), free(places), free(bytes), free(types);
    MPI_Comm_free(&comm);
}

/* Characters as numbers. */
static void characters(void) {
    char one[3] = {1, 2, (char)check_rank}, sum[3];
    MPI_Allreduce(one, sum, 3, MPI_CHAR, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum[0] == check_size && sum[1] == 2 * check_size && sum[2] == check_size * (check_size - 1) / 2);
    MPI_Allreduce(one, sum, 3, MPI_CHAR, MPI_MAX, MPI_COMM_WORLD);
    CHECK(sum[0] == 1 && sum[2] == check_size - 1);
    one[2] = (char)-check_rank;
    MPI_Allreduce(one, sum, 3, MPI_CHAR, MPI_MIN, MPI_COMM_WORLD);
    CHECK((signed char)sum[2] == 1 - check_size);
    MPI_Allreduce(one, sum, 3, MPI_CHAR, MPI_PROD, MPI_COMM_WORLD);
    CHECK(sum[0] == 1);
    MPI_Allreduce(one, sum, 3, MPI_CHAR, MPI_BOR, MPI_COMM_WORLD);
    CHECK(sum[1] == 2);
    MPI_Allreduce(one, sum, 3, MPI_CHAR, MPI_LAND, MPI_COMM_WORLD);
    CHECK(check_size == 1 || (sum[1] == 1 && sum[2] == 0));
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    wchar_t wide[2] = {1, 2}, wider[2];
    GIVES(MPI_ERR_OP, MPI_Allreduce(wide, wider, 2, MPI_WCHAR, MPI_SUM, MPI_COMM_SELF));
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}

/* Dimensions as close to each other as possible. */
static void dimensions(void) {
    int dims[5] = {0};
    MPI_Dims_create(19008, 3, dims);
    CHECK(dims[0] == 33 && dims[1] == 24 && dims[2] == 24);
    int some[3] = {0, 2, 0};
    MPI_Dims_create(24, 3, some);
    CHECK(some[0] == 4 && some[1] == 2 && some[2] == 3);
}

/* Not one of the points: messages that nobody receives before their communicator is freed. The first of two
 * communicators has none. */
static void forgotten(void) {
    MPI_Comm comm, second;
    MPI_Request request;
    int data[3] = {1, 2, 3};
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Comm_dup(MPI_COMM_SELF, &second);
    MPI_Sendrecv(data, 1, MPI_INT, 0, 1, data + 1, 1, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE);
    /* A posted receive is no message, and may end after its communicator is freed. */
    MPI_Irecv(data, 1, MPI_INT, 0, 7, comm, &request);
    MPI_Send(data, 1, MPI_INT, 0, 7, comm);
    MPI_Comm_free(&comm);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    fprintf(stderr, "so far\n");
    MPI_Comm_set_name(second, "second");
    MPI_Send(data, 3, MPI_INT, 0, 5, second);
    MPI_Send(data, 1, MPI_INT, 0, 6, second);
    CHECK(MPI_Comm_free(&second) == MPI_SUCCESS && second == MPI_COMM_NULL);
    /* Said once. */
    MPI_Comm_dup(MPI_COMM_SELF, &second);
    MPI_Send(data, 3, MPI_INT, 0, 5, second);
    MPI_Comm_free(&second);
}

static const struct point {
    const char *name;
    void (*run)(void);
} points[] = {
    {"routes", routes},
    {"flushes", flushes},
    {"freed_keys", freed_keys},
    {"callbacks", callbacks},
    {"matched", matched},
    {"process_sets", process_sets},
    {"memory_kinds", memory_kinds},
    {"alignments", alignments},
    {"nothing_to_nobody", nothing_to_nobody},
    {"structures", structures},
    {"many_codes", many_codes},
    {"aliases", aliases},
    {"characters", characters},
    {"dimensions", dimensions},
};

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    for (int i = 0; i < (int)(sizeof points / sizeof *points); i++) {
        int wanted = argc < 2;
        for (int j = 1; j < argc; j++) wanted |= !strcmp(argv[j], points[i].name);
        if (wanted) points[i].run();
    }
    if (argc == 2 && !strcmp(argv[1], "forgotten")) forgotten();
    check_done("fine_print");
    return 0;
}
