/* The tool interface: everything that there is, variables against what the program does, sessions apart from each other, events
 * of several threads. */
#include "check.h"
#include <pthread.h>

#define TEXT 256
#define OK(call) CHECK((call) == MPI_SUCCESS)
typedef unsigned long long number;

/* Enumerates all variables, categories and events. */
static void everything(void) {
    int cvars, pvars, categories, events, sources, seen[3] = {0, 0, 0};
    static char names[512][TEXT];
    int count = 0;
    OK(MPI_T_cvar_get_num(&cvars));
    OK(MPI_T_pvar_get_num(&pvars));
    OK(MPI_T_category_get_num(&categories));
    OK(MPI_T_event_get_num(&events));
    OK(MPI_T_source_get_num(&sources));
    CHECK(cvars >= 4 && pvars >= 40 && categories > 5 && events >= 10 && sources == 1);
    for (int i = 0; i < cvars; i++) {
        char description[TEXT];
        int length = TEXT, described = TEXT, verbosity, bind, scope, index;
        MPI_Datatype type;
        MPI_T_enum names_of;
        OK(MPI_T_cvar_get_info(i, names[count], &length, &verbosity, &type, &names_of, description, &described, &bind, &scope));
        CHECK(length == (int)strlen(names[count]) + 1 && bind == MPI_T_BIND_NO_OBJECT);
        OK(MPI_T_cvar_get_index(names[count], &index));
        CHECK(index == i);
        count++;
        MPI_T_cvar_handle handle;
        int elements;
        union { number value; char text[64]; } room;
        OK(MPI_T_cvar_handle_alloc(i, NULL, &handle, &elements));
        OK(MPI_T_cvar_read(handle, &room));
        int written = MPI_T_cvar_write(handle, &room);
        CHECK(written == (scope == MPI_T_SCOPE_READONLY ? MPI_T_ERR_CVAR_SET_NEVER : MPI_SUCCESS));
        OK(MPI_T_cvar_handle_free(&handle));
        CHECK(handle == MPI_T_CVAR_HANDLE_NULL && MPI_T_cvar_handle_free(&handle) == MPI_T_ERR_INVALID_HANDLE);
    }
    for (int i = 0; i < pvars; i++) {
        int length = 0, verbosity, class, bind, readonly, continuous, atomic, index;
        MPI_Datatype type;
        MPI_T_enum values;
        /* Only the length at first. */
        OK(MPI_T_pvar_get_info(i, NULL, &length, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
        CHECK(length > 1 && length < TEXT);
        OK(MPI_T_pvar_get_info(i, names[count], &length, &verbosity, &class, &type, &values, NULL, NULL, &bind, &readonly,
                               &continuous, &atomic));
        CHECK((int)strlen(names[count]) + 1 == length && readonly == continuous);
        CHECK((class == MPI_T_PVAR_CLASS_STATE) == (values != MPI_T_ENUM_NULL));
        CHECK((class == MPI_T_PVAR_CLASS_STATE) == (type == MPI_INT));
        OK(MPI_T_pvar_get_index(names[count], class, &index));
        CHECK(index == i && MPI_T_pvar_get_index(names[count], class + 1, &index) == MPI_T_ERR_INVALID_NAME);
        if (values != MPI_T_ENUM_NULL) {
            int items, value, size = TEXT;
            char text[TEXT];
            OK(MPI_T_enum_get_info(values, &items, text, &size));
            for (int item = 0; item < items; item++) {
                size = TEXT;
                OK(MPI_T_enum_get_item(values, item, &value, text, &size));
            }
            CHECK(MPI_T_enum_get_item(values, items, &value, text, &size) == MPI_T_ERR_INVALID_INDEX);
        }
        count++;
    }
    for (int i = 0; i < events; i++) {
        MPI_Datatype types[8];
        MPI_Aint places[8];
        int length = TEXT, elements = 8, index, bind, verbosity;
        MPI_Info info;
        OK(MPI_T_event_get_info(i, names[count], &length, &verbosity, types, places, &elements, NULL, &info, NULL, NULL, &bind));
        CHECK(elements > 0 && elements <= 8 && places[0] == 0);
        OK(MPI_T_event_get_index(names[count], &index));
        CHECK(index == i);
        MPI_Info_free(&info);
        count++;
    }
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++) CHECK(strcmp(names[i], names[j]) != 0);
    /* Each is in one category, each category but one in another. */
    int within = 0;
    for (int i = 0; i < categories; i++) {
        char name[TEXT];
        int length = TEXT, some[3], children, list[128], index;
        OK(MPI_T_category_get_info(i, name, &length, NULL, NULL, &some[0], &some[1], &children));
        OK(MPI_T_category_get_num_events(i, &some[2]));
        OK(MPI_T_category_get_index(name, &index));
        CHECK(index == i);
        for (int kind = 0; kind < 3; kind++) seen[kind] += some[kind];
        within += children;
        OK(MPI_T_category_get_pvars(i, 128, list));
        for (int j = 0; j < some[1]; j++) CHECK(list[j] >= 0 && list[j] < pvars);
        OK(MPI_T_category_get_cvars(i, 128, list));
        OK(MPI_T_category_get_events(i, 128, list));
        OK(MPI_T_category_get_categories(i, 128, list));
    }
    CHECK(seen[0] == cvars && seen[1] == pvars && seen[2] == events && within == categories - 1);
    int stamp;
    OK(MPI_T_category_changed(&stamp));
    CHECK(MPI_T_pvar_get_info(pvars, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL) ==
          MPI_T_ERR_INVALID_INDEX);
    CHECK(MPI_T_cvar_get_index("nothing", &stamp) == MPI_T_ERR_INVALID_NAME);
}

static MPI_T_pvar_handle handle_of(MPI_T_pvar_session session, const char *name, int class, void *object) {
    int index, count;
    MPI_T_pvar_handle handle;
    OK(MPI_T_pvar_get_index(name, class, &index));
    OK(MPI_T_pvar_handle_alloc(session, index, object, &handle, &count));
    CHECK(count == 1);
    return handle;
}

static number value_of(MPI_T_pvar_session session, MPI_T_pvar_handle handle) {
    number value = 12345;
    OK(MPI_T_pvar_read(session, handle, &value));
    return value;
}

#define COUNTER MPI_T_PVAR_CLASS_COUNTER
#define LEVEL MPI_T_PVAR_CLASS_LEVEL

/* Messages to oneself, whose number is known. */
static void ground_truth(void) {
    MPI_T_pvar_session session;
    MPI_Comm self;
    MPI_Comm_dup(MPI_COMM_SELF, &self);
    OK(MPI_T_pvar_session_create(&session));
    MPI_T_pvar_handle sent = handle_of(session, "eager_messages", COUNTER, NULL);
    MPI_T_pvar_handle bytes = handle_of(session, "eager_bytes", MPI_T_PVAR_CLASS_AGGREGATE, NULL);
    MPI_T_pvar_handle synchronous = handle_of(session, "eager_synchronous_messages", COUNTER, NULL);
    MPI_T_pvar_handle large = handle_of(session, "rendezvous_bytes", MPI_T_PVAR_CLASS_AGGREGATE, NULL);
    MPI_T_pvar_handle received = handle_of(session, "messages_received", COUNTER, NULL);
    MPI_T_pvar_handle posted = handle_of(session, "matched_posted", COUNTER, NULL);
    MPI_T_pvar_handle unexpected = handle_of(session, "matched_unexpected", COUNTER, NULL);
    MPI_T_pvar_handle barriers = handle_of(session, "barrier", COUNTER, NULL);
    MPI_T_pvar_handle waiting = handle_of(session, "unexpected_messages", LEVEL, NULL);
    MPI_T_pvar_handle held = handle_of(session, "unexpected_bytes", LEVEL, NULL);
    MPI_T_pvar_handle most = handle_of(session, "unexpected_messages_most", MPI_T_PVAR_CLASS_HIGHWATERMARK, NULL);
    MPI_T_pvar_handle receives = handle_of(session, "posted_receives", LEVEL, NULL);
    MPI_T_pvar_handle ours = handle_of(session, "comm_unexpected_messages", LEVEL, &self);
    MPI_T_pvar_handle ours_bytes = handle_of(session, "comm_unexpected_bytes", LEVEL, &self);
    MPI_T_pvar_handle our_receives = handle_of(session, "comm_posted_receives", LEVEL, &self);
    MPI_T_pvar_handle our_collectives = handle_of(session, "comm_collectives", COUNTER, &self);
    MPI_T_pvar_handle requests = handle_of(session, "requests_live", LEVEL, NULL);
    CHECK(value_of(session, handle_of(session, "processes", MPI_T_PVAR_CLASS_SIZE, NULL)) == (number)check_size);
    CHECK(value_of(session, handle_of(session, "process_slots", MPI_T_PVAR_CLASS_SIZE, NULL)) >= (number)check_size);
    number before = value_of(session, waiting), before_held = value_of(session, held);
    number live = value_of(session, requests), before_posted = value_of(session, receives);
    OK(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES));
    enum { COUNT = 37, LENGTH = 11 };
    char out[COUNT][LENGTH], in[LENGTH];
    MPI_Request request[COUNT];
    for (int i = 0; i < COUNT; i++) MPI_Send(out[i], LENGTH, MPI_CHAR, 0, i, self);
    int there = 0;
    while (!there) MPI_Iprobe(0, COUNT - 1, self, &there, MPI_STATUS_IGNORE);
    CHECK(value_of(session, sent) == COUNT && value_of(session, bytes) == COUNT * LENGTH);
    CHECK(value_of(session, waiting) == before + COUNT && value_of(session, held) == before_held + COUNT * LENGTH);
    CHECK(value_of(session, ours) == COUNT && value_of(session, ours_bytes) == COUNT * LENGTH);
    CHECK(value_of(session, most) >= COUNT);
    for (int i = 0; i < COUNT; i++) MPI_Recv(in, LENGTH, MPI_CHAR, 0, i, self, MPI_STATUS_IGNORE);
    CHECK(value_of(session, unexpected) == COUNT && value_of(session, posted) == 0);
    CHECK(value_of(session, waiting) == before && value_of(session, held) == before_held && value_of(session, ours) == 0);
    for (int i = 0; i < COUNT; i++) MPI_Irecv(out[i], LENGTH, MPI_CHAR, 0, i, self, &request[i]);
    CHECK(value_of(session, receives) == before_posted + COUNT && value_of(session, our_receives) == COUNT);
    CHECK(value_of(session, requests) == live + COUNT);
    MPI_Cancel(&request[COUNT - 1]);
    for (int i = 0; i < COUNT - 1; i++) MPI_Ssend(in, LENGTH, MPI_CHAR, 0, i, self);
    MPI_Waitall(COUNT, request, MPI_STATUSES_IGNORE);
    CHECK(value_of(session, receives) == before_posted && value_of(session, our_receives) == 0);
    CHECK(value_of(session, synchronous) == COUNT - 1 && value_of(session, posted) == COUNT - 1);
    CHECK(value_of(session, received) == 2 * COUNT - 1 && value_of(session, requests) == live);
    enum { LARGE = 3000000 };
    char *from = calloc(LARGE, 1), *into = malloc(LARGE);
    MPI_Sendrecv(from, LARGE, MPI_CHAR, 0, 0, into, LARGE, MPI_CHAR, 0, 0, self, MPI_STATUS_IGNORE);
    CHECK(value_of(session, large) == LARGE);
    free(from);
    free(into);
    for (int i = 0; i < 5; i++) MPI_Barrier(self);
    CHECK(value_of(session, barriers) == 5 && value_of(session, our_collectives) == 5);
    CHECK(MPI_T_pvar_start(session, waiting) == MPI_T_ERR_PVAR_NO_STARTSTOP);
    CHECK(MPI_T_pvar_reset(session, most) == MPI_T_ERR_PVAR_NO_WRITE);
    OK(MPI_T_pvar_session_free(&session));
    CHECK(session == MPI_T_PVAR_SESSION_NULL && MPI_T_pvar_session_free(&session) == MPI_T_ERR_INVALID_SESSION);
    MPI_Comm_free(&self);
}

static void to_oneself(int times) {
    char byte = 0;
    for (int i = 0; i < times; i++)
        MPI_Sendrecv_replace(&byte, 1, MPI_CHAR, 0, 0, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
}

/* Two handles of one variable, in two sessions, count apart. */
static void sessions(void) {
    MPI_T_pvar_session one, two;
    OK(MPI_T_pvar_session_create(&one));
    OK(MPI_T_pvar_session_create(&two));
    MPI_T_pvar_handle first = handle_of(one, "messages_sent", COUNTER, NULL);
    MPI_T_pvar_handle second = handle_of(two, "messages_sent", COUNTER, NULL);
    number value;
    OK(MPI_T_pvar_start(one, first));
    to_oneself(3);
    OK(MPI_T_pvar_start(two, second));
    to_oneself(4);
    CHECK(value_of(one, first) == 7 && value_of(two, second) == 4);
    OK(MPI_T_pvar_stop(one, first));
    to_oneself(5);
    CHECK(value_of(one, first) == 7 && value_of(two, second) == 9);
    OK(MPI_T_pvar_reset(two, second));
    OK(MPI_T_pvar_start(one, first));
    to_oneself(2);
    CHECK(value_of(one, first) == 9);
    OK(MPI_T_pvar_readreset(two, second, &value));
    CHECK(value == 2 && value_of(two, second) == 0);
    value = 100;
    OK(MPI_T_pvar_write(one, first, &value));
    to_oneself(1);
    CHECK(value_of(one, first) == 101);
    CHECK(MPI_T_pvar_read(two, first, &value) == MPI_T_ERR_INVALID_HANDLE);
    OK(MPI_T_pvar_handle_free(one, &first));
    CHECK(first == MPI_T_PVAR_HANDLE_NULL && MPI_T_pvar_read(one, first, &value) == MPI_T_ERR_INVALID_HANDLE);
    OK(MPI_T_pvar_session_free(&two));
    OK(MPI_T_pvar_session_free(&one));
}

/* The value written to the limit decides the protocol. */
static void eager_limit(void) {
    int index, count;
    MPI_T_cvar_handle handle;
    MPI_T_pvar_session session;
    number before, value = 100;
    OK(MPI_T_cvar_get_index("eager_limit", &index));
    OK(MPI_T_cvar_handle_alloc(index, NULL, &handle, &count));
    OK(MPI_T_cvar_read(handle, &before));
    OK(MPI_T_pvar_session_create(&session));
    MPI_T_pvar_handle eager = handle_of(session, "eager_messages", COUNTER, NULL);
    MPI_T_pvar_handle pulled = handle_of(session, "rendezvous_messages", COUNTER, NULL);
    OK(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES));
    for (int round = 0; round < 2; round++) {
        char data[101] = {0};
        OK(MPI_T_cvar_write(handle, round ? &before : &value));
        for (int length = 100; length <= 101; length++)
            MPI_Sendrecv_replace(data, length, MPI_CHAR, 0, 0, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    }
    CHECK(value_of(session, eager) == 3 && value_of(session, pulled) == 1);
    value = (number)-1;
    CHECK(MPI_T_cvar_write(handle, &value) == MPI_T_ERR_INVALID);
    OK(MPI_T_cvar_write(handle, &before));
    OK(MPI_T_pvar_session_free(&session));
    OK(MPI_T_cvar_handle_free(&handle));
}

static int told[3], freed, missed, calls;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void on_event(MPI_T_event_instance instance, MPI_T_event_registration registration, MPI_T_cb_safety safety, void *data) {
    struct { int peer, tag, context; number bytes; } all = {-1, -1, -1, 0};
    int source = -1, tag = -1;
    MPI_Count when = 0, now = 0;
    OK(MPI_T_event_get_source(instance, &source));
    OK(MPI_T_event_get_timestamp(instance, &when));
    OK(MPI_T_source_get_timestamp(source, &now));
    OK(MPI_T_event_copy(instance, &all));
    OK(MPI_T_event_read(instance, 1, &tag));
    CHECK(source == 0 && when <= now && tag == all.tag && all.peer == check_rank);
    CHECK(MPI_T_event_read(instance, 4, &tag) == MPI_T_ERR_INVALID_INDEX);
    (void)registration;
    (void)safety;
    pthread_mutex_lock(&lock);
    if (all.tag >= 500 && all.bytes == 3) told[(long)data]++;
    pthread_mutex_unlock(&lock);
    /* All of MPI may be called; events in this thread meanwhile are not reported. */
    if (calls) to_oneself(1);
}

static void on_free(MPI_T_event_registration registration, MPI_T_cb_safety safety, void *data) {
    (void)registration;
    (void)safety;
    freed += (int)(long)data;
}

static void on_drop(MPI_Count count, MPI_T_event_registration registration, int source, MPI_T_cb_safety safety, void *data) {
    (void)registration;
    (void)source;
    (void)safety;
    (void)data;
    pthread_mutex_lock(&lock);
    missed += (int)count;
    pthread_mutex_unlock(&lock);
}

static void *talk(void *argument) {
    int tag = 500 + (int)(long)argument;
    char data[3] = {0};
    for (int i = 0; i < 50; i++) MPI_Send(data, 3, MPI_CHAR, 0, tag, MPI_COMM_SELF);
    for (int i = 0; i < 50; i++) MPI_Recv(data, 3, MPI_CHAR, 0, tag, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    return NULL;
}

static void events(void) {
    const char *names[] = {"message_unexpected", "receive_matched", "message_matched"};
    MPI_T_event_registration registrations[3];
    int index;
    for (long i = 0; i < 3; i++) {
        OK(MPI_T_event_get_index(names[i], &index));
        OK(MPI_T_event_handle_alloc(index, NULL, MPI_INFO_NULL, &registrations[i]));
        OK(MPI_T_event_set_dropped_handler(registrations[i], on_drop));
        OK(MPI_T_event_register_callback(registrations[i], MPI_T_CB_REQUIRE_THREAD_SAFE, MPI_INFO_NULL, (void *)i, on_event));
    }
    pthread_t threads[4];
    for (long i = 0; i < 4; i++) pthread_create(&threads[i], NULL, talk, (void *)i);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    /* Every message came before its receive, or met a waiting one. */
    CHECK(told[0] == told[1] && told[1] + told[2] == 200 && missed == 0);
    calls = 1;
    to_oneself(1);
    CHECK(told[1] + told[2] == 200 && missed > 0);
    calls = 0;
    MPI_Pcontrol(0);
    talk((void *)0);
    CHECK(told[1] + told[2] == 200);
    MPI_Pcontrol(1);
    for (long i = 0; i < 3; i++) OK(MPI_T_event_handle_free(registrations[i], (void *)1, on_free));
    talk((void *)0);
    CHECK(told[1] + told[2] == 200 && freed == 3);
    CHECK(MPI_T_event_handle_free(registrations[0], NULL, NULL) == MPI_T_ERR_INVALID_HANDLE);
    /* With room for none, all are dropped. */
    MPI_T_cvar_handle length;
    number none = 0, before;
    int count;
    OK(MPI_T_cvar_get_index("event_queue_length", &index));
    OK(MPI_T_cvar_handle_alloc(index, NULL, &length, &count));
    OK(MPI_T_cvar_read(length, &before));
    OK(MPI_T_cvar_write(length, &none));
    OK(MPI_T_event_get_index("message_unexpected", &index));
    OK(MPI_T_event_handle_alloc(index, NULL, MPI_INFO_NULL, &registrations[0]));
    OK(MPI_T_event_set_dropped_handler(registrations[0], on_drop));
    OK(MPI_T_event_register_callback(registrations[0], MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, NULL, on_event));
    missed = 0;
    talk((void *)0);
    CHECK(missed > 0 && missed <= 50 && told[1] + told[2] == 200); /* the others met a waiting receive */
    OK(MPI_T_cvar_write(length, &before));
    OK(MPI_T_cvar_handle_free(&length));
    OK(MPI_T_event_handle_free(registrations[0], (void *)1, on_free));
    CHECK(freed == 4);
}

/* A rank that waits for a late one sleeps, and the time is counted. */
static void waiting(void) {
    MPI_T_pvar_session session;
    OK(MPI_T_pvar_session_create(&session));
    MPI_T_pvar_handle sleeps = handle_of(session, "sleeps", COUNTER, NULL);
    MPI_T_pvar_handle slept = handle_of(session, "time_slept", MPI_T_PVAR_CLASS_TIMER, NULL);
    OK(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES));
    int word = 0;
    double seconds = -1;
    /* No handle counts the earlier messages any more. */
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 1) {
        /* The other rank is about to wait. */
        MPI_Recv(&word, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        double until = MPI_Wtime() + 0.2;
        while (MPI_Wtime() < until) {}
        MPI_Send(&word, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    } else if (check_rank == 0 && check_size > 1) {
        MPI_Send(&word, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
        MPI_Recv(&word, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        OK(MPI_T_pvar_read(session, slept, &seconds));
        CHECK(value_of(session, sleeps) > 0 && seconds > 0);
    }
    OK(MPI_T_pvar_session_free(&session));
}

int main(int argc, char **argv) {
    int provided, count;
    CHECK(MPI_T_pvar_get_num(&count) == MPI_T_ERR_NOT_INITIALIZED);
    CHECK(MPI_T_finalize() == MPI_T_ERR_NOT_INITIALIZED);
    OK(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided));
    CHECK(provided == MPI_THREAD_MULTIPLE);
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, NULL));
    OK(MPI_T_finalize());
    everything();
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    everything();
    ground_truth();
    sessions();
    eager_limit();
    events();
    waiting();
    check_done("tools");
    everything();
    OK(MPI_T_finalize());
    CHECK(MPI_T_pvar_get_num(&count) == MPI_T_ERR_NOT_INITIALIZED);
    return 0;
}
