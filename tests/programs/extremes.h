/* What the arguments of extremes_calls.h are made of: for each kind of parameter a value that the call may
 * have, and the extremes of that kind, one of which takes its place when it is the parameter's turn.
 *
 * Addresses are null, constants of the standard, or memory that is really there: lists and buffers are as
 * long as the largest `int` count of their elements, by mapping a little memory again and again. */
#ifndef WEFT_EXTREMES_H
#define WEFT_EXTREMES_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <limits.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The error in an argument, if one wrong value of it is wanted and not all extremes. */
enum wrong { RIGHT, WRONG_NULL, WRONG_NUMBER, WRONG_HANDLE };

/* Whose turn it is, and which of its extremes; `over` says that there are no more. Or, if `wrong` says how, which
 * argument is wrong. */
struct choice {
    int argument, extreme, over;
    enum wrong wrong;
};

/* A number that is no count, rank, root, tag, key or index; a handle that nobody has. */
#define NO_NUMBER (-77)
#define NO_HANDLE ((void *)(intptr_t)0x7fffff0)

struct function {
    const char *name;
    int (*call)(struct choice *);
    int arguments;
};

#define NUMBER_OF(list) ((int)(sizeof(list) / sizeof *(list)))

/* Whether this parameter is to be wrong in this way. */
static int is_wrong(const struct choice *c, int place, enum wrong way) {
    return c->wrong == way && c->argument == place;
}

/* The extreme that this parameter is to have, or -1. */
static int chosen(struct choice *c, int place, int number) {
    if (c->wrong || c->argument != place) return -1;
    if (c->extreme < number) return c->extreme;
    c->over = 1;
    return -1;
}

/* Objects that calls may be about, made once in each process. */
static MPI_Comm cartesian, graph, distributed;
static MPI_Datatype vector, empty, uncommitted, backwards, vast, spread, freed_datatype;
static MPI_Group group;
static MPI_Info info;
static MPI_Op operation;
static MPI_Session session;
static MPI_Comm freed_communicator;
/* Null as long as nobody can make them. */
static MPI_Win window;
static MPI_File file;
static int comm_key, type_key, added_class, added_code;

static int answer_zero(void) { return 0; }

static MPI_Comm fresh_communicator(void) {
    MPI_Comm made;
    MPI_Comm_dup(MPI_COMM_SELF, &made);
    return made;
}
static MPI_Datatype fresh_datatype(void) {
    MPI_Datatype made;
    MPI_Type_contiguous(2, MPI_INT, &made);
    return made;
}
static MPI_Group fresh_group(void) {
    MPI_Group made;
    MPI_Comm_group(MPI_COMM_SELF, &made);
    return made;
}
static MPI_Op fresh_operation(void) {
    MPI_Op made;
    MPI_Op_create((MPI_User_function *)(void *)answer_zero, 1, &made);
    return made;
}
static MPI_Info fresh_info(void) {
    MPI_Info made;
    MPI_Info_create(&made);
    MPI_Info_set(made, "key", "value");
    return made;
}
static MPI_Errhandler fresh_errhandler(void) {
    MPI_Errhandler made;
    MPI_Comm_create_errhandler((MPI_Comm_errhandler_function *)(void *)answer_zero, &made);
    return made;
}
static MPI_Session fresh_session(void) {
    MPI_Session made;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &made);
    return made;
}
static MPI_Request fresh_request(void) {
    MPI_Request made;
    MPI_Irecv(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_SELF, &made);
    return made;
}
static MPI_Request fresh_persistent(void) {
    MPI_Request made;
    MPI_Recv_init(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_SELF, &made);
    return made;
}
static MPI_Request fresh_generalised(void) {
    MPI_Request made;
    MPI_Grequest_start((MPI_Grequest_query_function *)(void *)answer_zero,
                       (MPI_Grequest_free_function *)(void *)answer_zero,
                       (MPI_Grequest_cancel_function *)(void *)answer_zero, NULL, &made);
    return made;
}
static int fresh_comm_key(void) {
    int made;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &made, NULL);
    return made;
}
static int fresh_type_key(void) {
    int made;
    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &made, NULL);
    return made;
}

static MPI_Win fresh_window(void) {
    MPI_Win made = MPI_WIN_NULL;
    void *base;
    if (MPI_Win_allocate(4096, 1, MPI_INFO_NULL, MPI_COMM_SELF, &base, &made) == MPI_SUCCESS)
        MPI_Win_set_errhandler(made, MPI_ERRORS_RETURN);
    return made;
}
static MPI_File fresh_file(void) {
    MPI_File made = MPI_FILE_NULL;
    char path[64];
    snprintf(path, sizeof path, "/tmp/weft-extremes-%d", (int)getpid());
    MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                  &made);
    unlink(path);
    return made;
}

/* After MPI_Init. */
static void make_objects(void) {
    int one = 1, zero = 0;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Cart_create(MPI_COMM_SELF, 1, &one, &zero, 0, &cartesian);
    MPI_Graph_create(MPI_COMM_SELF, 1, &one, &zero, 0, &graph);
    MPI_Dist_graph_create_adjacent(MPI_COMM_SELF, 1, &zero, MPI_UNWEIGHTED, 1, &zero,
                                   MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &distributed);
    freed_communicator = fresh_communicator();
    MPI_Comm copy = freed_communicator;
    MPI_Comm_free(&copy);
    MPI_Type_vector(2, 1, 2, MPI_INT, &vector);
    MPI_Type_contiguous(0, MPI_INT, &empty);
    MPI_Type_contiguous(2, MPI_INT, &uncommitted);
    MPI_Type_create_resized(MPI_INT, 0, -8, &backwards);
    MPI_Type_contiguous_c((MPI_Count)1 << 61, MPI_BYTE, &vast);
    MPI_Type_create_resized_c(MPI_INT, 0, (MPI_Count)1 << 61, &spread);
    freed_datatype = fresh_datatype();
    MPI_Datatype gone = freed_datatype;
    MPI_Type_free(&gone);
    MPI_Type_commit(&vector);
    MPI_Type_commit(&empty);
    MPI_Type_commit(&backwards);
    MPI_Type_commit(&vast);
    MPI_Type_commit(&spread);
    group = fresh_group();
    info = fresh_info();
    operation = fresh_operation();
    session = fresh_session();
    comm_key = fresh_comm_key();
    type_key = fresh_type_key();
    window = fresh_window();
    file = fresh_file();
    MPI_Add_error_class(&added_class);
    MPI_Add_error_code(added_class, &added_code);
}

/* Numbers. */
static const int ints[] = {0, -1, 1, 2, INT_MAX, INT_MIN, INT_MIN + 1, 1 << 30, -2, -3, 4095};
static const int64_t wides[] = {0,
                                -1,
                                1,
                                2,
                                INT64_MAX,
                                INT64_MIN,
                                (int64_t)1 << 62,
                                -((int64_t)1 << 62),
                                INT64_MAX - 4,
                                (int64_t)1 << 61,
                                INT_MAX,
                                INT_MIN};

static int take_int(struct choice *c, int place, int ordinary) {
    if (is_wrong(c, place, WRONG_NUMBER)) return NO_NUMBER;
    int which = chosen(c, place, NUMBER_OF(ints));
    return which < 0 ? ordinary : ints[which];
}

/* The length of a list, or of a message. Memory is as long as the largest, which takes a while to look at:
 * one such extreme is enough. */
static int take_length(struct choice *c, int place, int ordinary, int longest) {
    if (is_wrong(c, place, WRONG_NUMBER)) return NO_NUMBER;
    const int lengths[] = {0, -1, 2, longest, INT_MIN};
    int which = chosen(c, place, NUMBER_OF(lengths));
    return which < 0 ? ordinary : lengths[which];
}

static int64_t take_wide(struct choice *c, int place, int64_t ordinary) {
    if (is_wrong(c, place, WRONG_NUMBER)) return NO_NUMBER;
    int which = chosen(c, place, NUMBER_OF(wides));
    return which < 0 ? ordinary : wides[which];
}

/* A rank to send to or receive from. A call that would rightly wait for ever is not made. */
static int take_peer(struct choice *c, int place, int may_wait) {
    if (is_wrong(c, place, WRONG_NUMBER)) return NO_NUMBER;
    int which = chosen(c, place, NUMBER_OF(ints));
    int value = which < 0 ? MPI_PROC_NULL : ints[which];
    return may_wait && (value == 0 || value == MPI_ANY_SOURCE) ? MPI_PROC_NULL : value;
}

/* Memory that is the same `chunk` bytes of a file again and again, as long as `bytes`; shared by all processes. */
static void *repeated(int file, size_t chunk, size_t bytes) {
    char *start = mmap(NULL, bytes + chunk, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) exit(3);
    for (size_t at = 0; at < bytes; at += chunk)
        if (mmap(start + at, chunk, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED)
            exit(3);
    return start;
}

/* A file of that many bytes, in memory. */
static int file_of(size_t bytes) {
    int file = memfd_create("repeated", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, bytes) != 0) exit(3);
    return file;
}

#define LONGEST ((size_t)INT_MAX)
#define CHUNK ((size_t)12 << 20)

/* Lists by their element. The contents of a list are written once; its memory is mapped when a process first asks for it: starting
 * and ending a process with the pieces of all lists takes longer than the calls of most functions. */
struct list {
    char element[16];
    size_t width;
    int file;
    void *start;
};

static struct list *known(const void *element, size_t width) {
    static struct list lists[256];
    static int number;
    for (int i = 0; i < number; i++)
        if (lists[i].width == width && !memcmp(lists[i].element, element, width)) return &lists[i];
    if (number == NUMBER_OF(lists)) exit(4);
    struct list *list = &lists[number++];
    memcpy(list->element, element, width);
    list->width = width;
    list->file = file_of(CHUNK);
    char *once = repeated(list->file, CHUNK, CHUNK);
    for (size_t at = 0; at < CHUNK; at += width) memcpy(once + at, element, width);
    munmap(once, 2 * CHUNK);
    return list;
}

static void *list_of(const void *element, size_t width) {
    struct list *list = known(element, width);
    if (!list->start) list->start = repeated(list->file, CHUNK, LONGEST * width);
    return list->start;
}

static const int listed_ints[] = {0, -1, 1, INT_MAX, INT_MIN};
static const int64_t listed_wides[] = {0, -1, 1, INT64_MAX, INT64_MIN, (int64_t)1 << 62, INT_MAX};
static const int ranges[][3] = {{0, 0, 1},
                                {INT_MIN, INT_MAX, 1},
                                {0, INT_MAX, 1},
                                {INT_MAX, INT_MIN, -1},
                                {0, 0, 0},
                                {0, 0, INT_MIN},
                                {0, -1, 1}};

/* Memory that results go to, and that every buffer lies in: 0 at first. It reaches as far in front as the
 * least `int` displacement leads, and as far behind as the largest. */
static char *area;
/* What it repeats is larger than in a list, as nothing is written to it here. */
#define AREA (8 * CHUNK)

/* Before the processes part: what most of them need. */
static void make_memory(void) {
    area = (char *)repeated(file_of(AREA), AREA, LONGEST * 16) + LONGEST / CHUNK * CHUNK * 5;
    for (int i = 0; i < NUMBER_OF(listed_ints); i++) known(&listed_ints[i], sizeof(int));
    for (int i = 0; i < NUMBER_OF(listed_wides); i++) known(&listed_wides[i], sizeof(int64_t));
}

static void *take_ints(struct choice *c, int place, int ordinary) {
    if (is_wrong(c, place, WRONG_NULL)) return NULL;
    int which = chosen(c, place, NUMBER_OF(listed_ints) + 1);
    if (which == NUMBER_OF(listed_ints)) return NULL;
    return list_of(which < 0 ? &ordinary : &listed_ints[which], sizeof(int));
}

static void *take_wides(struct choice *c, int place, int64_t ordinary) {
    if (is_wrong(c, place, WRONG_NULL)) return NULL;
    int which = chosen(c, place, NUMBER_OF(listed_wides) + 1);
    if (which == NUMBER_OF(listed_wides)) return NULL;
    return list_of(which < 0 ? &ordinary : &listed_wides[which], sizeof(int64_t));
}

static void *take_ranges(struct choice *c, int place) {
    if (is_wrong(c, place, WRONG_NULL)) return NULL;
    int which = chosen(c, place, NUMBER_OF(ranges) + 1);
    if (which == NUMBER_OF(ranges)) return NULL;
    return list_of(ranges[which < 0 ? 0 : which], sizeof ranges[0]);
}

static void *take_area(struct choice *c, int place) {
    if (is_wrong(c, place, WRONG_NULL)) return NULL;
    return chosen(c, place, 1) == 0 ? NULL : area + place * 4096;
}

static void *take_buffer(struct choice *c, int place) {
    if (is_wrong(c, place, WRONG_NULL)) return NULL;
    void *extremes[] = {NULL, MPI_IN_PLACE, MPI_BUFFER_AUTOMATIC, (void *)4095};
    int which = chosen(c, place, NUMBER_OF(extremes));
    return which < 0 ? area + place * CHUNK / 16 : extremes[which];
}

static void *take_allocated(struct choice *c, int place) {
    if (is_wrong(c, place, WRONG_NULL)) return NULL;
    void *made = NULL;
    if (chosen(c, place, 1) != 0) MPI_Alloc_mem(64, MPI_INFO_NULL, &made);
    return made;
}

static void *take_status(struct choice *c, int place) {
    if (is_wrong(c, place, WRONG_NULL)) return NULL;
    static MPI_Status status;
    int which = chosen(c, place, 3);
    if (which == 0) return MPI_STATUS_IGNORE;
    memset(&status, which == 1 ? 0xff : which == 2 ? 0x7f : 0, sizeof status);
    return &status;
}

/* Statuses for as many requests as there may be would take long to write: they are there for a few only. */
static void *take_statuses(struct choice *c, int place) {
    static MPI_Status statuses[4096];
    return chosen(c, place, 1) == 0 ? statuses : MPI_STATUSES_IGNORE;
}

static void *take_text(struct choice *c, int place, const char *ordinary) {
    if (is_wrong(c, place, WRONG_NULL)) return NULL;
    static char text[64], lengthy[70000];
    const char *extremes[] = {NULL, "", lengthy, "\xff\xfe\x80", "(infinite)"};
    int which = chosen(c, place, NUMBER_OF(extremes));
    memset(lengthy, 'x', sizeof lengthy - 1);
    snprintf(text, sizeof text, "%s", ordinary);
    return which < 0 ? text : (void *)extremes[which];
}

/* Words of a command line, with a null pointer behind the last. */
static void *take_words(struct choice *c, int place) {
    static char word[] = "word", empty[] = "", *words[] = {word, empty, NULL}, *none[] = {NULL};
    void *extremes[] = {NULL, none};
    if (is_wrong(c, place, WRONG_NULL)) return NULL;
    int which = chosen(c, place, NUMBER_OF(extremes));
    return which < 0 ? (void *)words : extremes[which];
}

/* As many texts as are asked for, all the same. */
static void *take_texts(struct choice *c, int place) {
    static char text[] = "no such program", empty[] = "";
    char *texts[] = {text, empty};
    if (is_wrong(c, place, WRONG_NULL)) return NULL;
    int which = chosen(c, place, 2);
    return which == 1 ? NULL : list_of(&texts[which + 1], sizeof(char *));
}

/* As many lists of words as are asked for, all the same. */
static void *take_lists_of_words(struct choice *c, int place) {
    static char word[] = "word", *words[] = {word, NULL}, **list = words;
    if (is_wrong(c, place, WRONG_NULL)) return NULL;
    return chosen(c, place, 1) == 0 ? NULL : list_of(&list, sizeof(char **));
}

static void *take_int_at(struct choice *c, int place, int ordinary) {
    if (is_wrong(c, place, WRONG_NULL)) return NULL;
    static int values[32];
    int which = chosen(c, place, NUMBER_OF(ints) + 1);
    if (which == NUMBER_OF(ints)) return NULL;
    values[place] = is_wrong(c, place, WRONG_NUMBER) ? NO_NUMBER : which < 0 ? ordinary : ints[which];
    return &values[place];
}

static void *take_wide_at(struct choice *c, int place, int64_t ordinary) {
    if (is_wrong(c, place, WRONG_NULL)) return NULL;
    static int64_t values[32];
    int which = chosen(c, place, NUMBER_OF(wides) + 1);
    if (which == NUMBER_OF(wides)) return NULL;
    values[place] = which < 0 ? ordinary : wides[which];
    return &values[place];
}

static void *take_function(struct choice *c, int place) {
    if (is_wrong(c, place, WRONG_NULL)) return NULL;
    return chosen(c, place, 1) == 0 ? NULL : (void *)answer_zero;
}

/* Handles. */
enum family {
    COMMUNICATORS,
    DATATYPES,
    GROUPS,
    OPERATIONS,
    INFOS,
    ERRHANDLERS,
    REQUESTS,
    MESSAGES,
    SESSIONS,
    WINDOWS,
    FILES,
    OTHERS
};

/* The extremes of a family; returns how many. Values that no family has come first. */
static int extreme_handles(enum family family, void **out) {
    int number = 0;
    out[number++] = NULL;
    out[number++] = (void *)-1;
    out[number++] = (void *)(intptr_t)INT_MAX;
    out[number++] = (void *)(intptr_t)0x40000000;
    out[number++] = &session;
    out[number++] = MPI_COMM_WORLD;
    out[number++] = MPI_SUM;
    switch (family) {
    case COMMUNICATORS:
        out[number++] = MPI_COMM_NULL;
        out[number++] = cartesian;
        out[number++] = graph;
        out[number++] = distributed;
        out[number++] = freed_communicator;
        break;
    case DATATYPES:
        out[number++] = MPI_DATATYPE_NULL;
        out[number++] = vector;
        out[number++] = empty;
        out[number++] = uncommitted;
        out[number++] = backwards;
        out[number++] = vast;
        out[number++] = spread;
        out[number++] = freed_datatype;
        out[number++] = MPI_PACKED;
        out[number++] = MPI_DOUBLE_INT;
        break;
    case GROUPS:
        out[number++] = MPI_GROUP_NULL;
        out[number++] = MPI_GROUP_EMPTY;
        break;
    case OPERATIONS:
        out[number++] = MPI_OP_NULL;
        out[number++] = MPI_MAXLOC;
        out[number++] = MPI_REPLACE;
        out[number++] = MPI_NO_OP;
        out[number++] = MPI_BAND;
        out[number++] = operation;
        break;
    case INFOS:
        out[number++] = MPI_INFO_NULL;
        out[number++] = MPI_INFO_ENV;
        break;
    case ERRHANDLERS: /* those that end the job do what they must */
        out[number++] = MPI_ERRHANDLER_NULL;
        break;
    case REQUESTS:
        out[number++] = MPI_REQUEST_NULL;
        break;
    case MESSAGES:
        out[number++] = MPI_MESSAGE_NULL;
        break;
    case SESSIONS:
        out[number++] = MPI_SESSION_NULL;
        break;
    case WINDOWS:
        out[number++] = MPI_WIN_NULL;
        break;
    case FILES:
        out[number++] = MPI_FILE_NULL;
        break;
    case OTHERS:
        break;
    }
    return number;
}

static void *take_handle(struct choice *c, int place, void *ordinary, enum family family) {
    if (is_wrong(c, place, WRONG_HANDLE)) return NO_HANDLE;
    void *extremes[32];
    int which = chosen(c, place, extreme_handles(family, extremes));
    return which < 0 ? ordinary : extremes[which];
}

static void *take_handle_at(struct choice *c, int place, void *ordinary, enum family family) {
    if (is_wrong(c, place, WRONG_NULL)) return NULL;
    static void *values[32];
    void *extremes[32];
    int number = extreme_handles(family, extremes);
    int which = chosen(c, place, number + 1);
    if (which == number) return NULL;
    values[place] = is_wrong(c, place, WRONG_HANDLE) ? NO_HANDLE : which < 0 ? ordinary : extremes[which];
    return &values[place];
}

static void *take_handles(struct choice *c, int place, void *ordinary, enum family family) {
    void *extremes[32];
    int number = extreme_handles(family, extremes);
    int which = chosen(c, place, number + 1);
    if (which == number || is_wrong(c, place, WRONG_NULL)) return NULL;
    if (is_wrong(c, place, WRONG_HANDLE)) ordinary = NO_HANDLE;
    return list_of(which < 0 ? &ordinary : &extremes[which], sizeof(void *));
}

#endif
