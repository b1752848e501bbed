/* The wrong argument of every function of MPI_T gets its code: one wrong argument at a time, and all of them before MPI_T was
 * initialised. These functions have no text of their own (MPI 5.0, section 15.3.10); what a code means, MPI_Error_string says. */
#include "check.h"

static int calls;

/* A code of MPI_T, which has a text. */
#define GIVES(code, call)                                                                              \
    do {                                                                                               \
        int given = (call), length = 0;                                                                \
        char text[MPI_MAX_ERROR_STRING];                                                               \
        if (given != (code)) fprintf(stderr, "%s: expected %d, found %d\n", #call, (int)(code), given); \
        CHECK(given == (code));                                                                        \
        CHECK(MPI_Error_string(given, text, &length) == MPI_SUCCESS && length > 0);                    \
        calls++;                                                                                       \
    } while (0)
#define OK(call) CHECK((call) == MPI_SUCCESS)

static void ignore(MPI_T_event_instance event, MPI_T_event_registration registration, MPI_T_cb_safety safety, void *data) {
    (void)event, (void)registration, (void)safety, (void)data;
}

static void before_it_is_initialised(void) {
    enum { NOT = MPI_T_ERR_NOT_INITIALIZED };
    int i, j;
    MPI_Count time;
    MPI_T_pvar_session session = MPI_T_PVAR_SESSION_NULL;
    MPI_T_pvar_handle pvar = MPI_T_PVAR_HANDLE_NULL;
    MPI_T_cvar_handle cvar = MPI_T_CVAR_HANDLE_NULL;
    MPI_T_event_registration registration = (MPI_T_event_registration)NULL;
    MPI_T_event_instance event = (MPI_T_event_instance)NULL;
    MPI_Info info;
    GIVES(NOT, MPI_T_finalize());
    GIVES(NOT, MPI_T_category_changed(&i));
    GIVES(NOT, MPI_T_category_get_categories(0, 1, &i));
    GIVES(NOT, MPI_T_category_get_cvars(0, 1, &i));
    GIVES(NOT, MPI_T_category_get_events(0, 1, &i));
    GIVES(NOT, MPI_T_category_get_pvars(0, 1, &i));
    GIVES(NOT, MPI_T_category_get_index("p2p", &i));
    GIVES(NOT, MPI_T_category_get_info(0, NULL, NULL, NULL, NULL, &i, &i, &i));
    GIVES(NOT, MPI_T_category_get_num(&i));
    GIVES(NOT, MPI_T_category_get_num_events(0, &i));
    GIVES(NOT, MPI_T_cvar_get_index("x", &i));
    GIVES(NOT, MPI_T_cvar_get_info(0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    GIVES(NOT, MPI_T_cvar_get_num(&i));
    GIVES(NOT, MPI_T_cvar_handle_alloc(0, NULL, &cvar, &i));
    GIVES(NOT, MPI_T_cvar_handle_free(&cvar));
    GIVES(NOT, MPI_T_cvar_read(cvar, &i));
    GIVES(NOT, MPI_T_cvar_write(cvar, &i));
    GIVES(NOT, MPI_T_enum_get_info(MPI_T_ENUM_NULL, &i, NULL, NULL));
    GIVES(NOT, MPI_T_enum_get_item(MPI_T_ENUM_NULL, 0, &i, NULL, NULL));
    GIVES(NOT, MPI_T_event_callback_get_info(registration, MPI_T_CB_REQUIRE_NONE, &info));
    GIVES(NOT, MPI_T_event_callback_set_info(registration, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL));
    GIVES(NOT, MPI_T_event_copy(event, &i));
    GIVES(NOT, MPI_T_event_get_index("x", &i));
    GIVES(NOT, MPI_T_event_get_info(0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    GIVES(NOT, MPI_T_event_get_num(&i));
    GIVES(NOT, MPI_T_event_get_source(event, &i));
    GIVES(NOT, MPI_T_event_get_timestamp(event, &time));
    GIVES(NOT, MPI_T_event_handle_alloc(0, NULL, MPI_INFO_NULL, &registration));
    GIVES(NOT, MPI_T_event_handle_free(registration, NULL, NULL));
    GIVES(NOT, MPI_T_event_handle_get_info(registration, &info));
    GIVES(NOT, MPI_T_event_handle_set_info(registration, MPI_INFO_NULL));
    GIVES(NOT, MPI_T_event_read(event, 0, &i));
    GIVES(NOT, MPI_T_event_register_callback(registration, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, NULL, ignore));
    GIVES(NOT, MPI_T_event_set_dropped_handler(registration, NULL));
    GIVES(NOT, MPI_T_pvar_get_index("x", MPI_T_PVAR_CLASS_LEVEL, &i));
    GIVES(NOT, MPI_T_pvar_get_info(0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    GIVES(NOT, MPI_T_pvar_get_num(&i));
    GIVES(NOT, MPI_T_pvar_handle_alloc(session, 0, NULL, &pvar, &i));
    GIVES(NOT, MPI_T_pvar_handle_free(session, &pvar));
    GIVES(NOT, MPI_T_pvar_read(session, pvar, &i));
    GIVES(NOT, MPI_T_pvar_readreset(session, pvar, &i));
    GIVES(NOT, MPI_T_pvar_reset(session, pvar));
    GIVES(NOT, MPI_T_pvar_session_create(&session));
    GIVES(NOT, MPI_T_pvar_session_free(&session));
    GIVES(NOT, MPI_T_pvar_start(session, pvar));
    GIVES(NOT, MPI_T_pvar_stop(session, pvar));
    GIVES(NOT, MPI_T_pvar_write(session, pvar, &i));
    GIVES(NOT, MPI_T_source_get_info(0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    GIVES(NOT, MPI_T_source_get_num(&i));
    GIVES(NOT, MPI_T_source_get_timestamp(0, &time));
    (void)j;
}

static void of_indices(int wrong) {
    enum { INDEX = MPI_T_ERR_INVALID_INDEX };
    int i;
    MPI_Count time;
    MPI_T_cvar_handle cvar;
    MPI_T_pvar_handle pvar;
    MPI_T_event_registration registration;
    MPI_T_pvar_session session;
    OK(MPI_T_pvar_session_create(&session));
    GIVES(INDEX, MPI_T_category_get_categories(wrong, 1, &i));
    GIVES(INDEX, MPI_T_category_get_cvars(wrong, 1, &i));
    GIVES(INDEX, MPI_T_category_get_events(wrong, 1, &i));
    GIVES(INDEX, MPI_T_category_get_pvars(wrong, 1, &i));
    GIVES(INDEX, MPI_T_category_get_info(wrong, NULL, NULL, NULL, NULL, &i, &i, &i));
    GIVES(INDEX, MPI_T_category_get_num_events(wrong, &i));
    GIVES(INDEX, MPI_T_cvar_get_info(wrong, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    GIVES(INDEX, MPI_T_cvar_handle_alloc(wrong, NULL, &cvar, &i));
    GIVES(INDEX, MPI_T_event_get_info(wrong, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    GIVES(INDEX, MPI_T_event_handle_alloc(wrong, NULL, MPI_INFO_NULL, &registration));
    GIVES(INDEX, MPI_T_pvar_get_info(wrong, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    GIVES(INDEX, MPI_T_pvar_handle_alloc(session, wrong, NULL, &pvar, &i));
    GIVES(INDEX, MPI_T_source_get_info(wrong, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    GIVES(INDEX, MPI_T_source_get_timestamp(wrong, &time));
    OK(MPI_T_pvar_session_free(&session));
}

static void of_names(const char *wrong) {
    enum { NAME = MPI_T_ERR_INVALID_NAME };
    int i;
    GIVES(NAME, MPI_T_category_get_index(wrong, &i));
    GIVES(NAME, MPI_T_cvar_get_index(wrong, &i));
    GIVES(NAME, MPI_T_event_get_index(wrong, &i));
    GIVES(NAME, MPI_T_pvar_get_index(wrong, MPI_T_PVAR_CLASS_LEVEL, &i));
}

/* Null handles, and handles of another kind. */
static void of_handles(void) {
    enum { HANDLE = MPI_T_ERR_INVALID_HANDLE, SESSION = MPI_T_ERR_INVALID_SESSION };
    int i;
    long long room[8];
    MPI_Count time;
    MPI_Info info;
    MPI_T_pvar_session session, none = MPI_T_PVAR_SESSION_NULL;
    MPI_T_cvar_handle cvar;
    OK(MPI_T_pvar_session_create(&session));
    OK(MPI_T_cvar_handle_alloc(0, NULL, &cvar, &i));
    GIVES(SESSION, MPI_T_pvar_session_free(&none));
    for (int other = 0; other < 2; other++) {
        MPI_T_pvar_handle pvar = other ? (MPI_T_pvar_handle)(void *)cvar : MPI_T_PVAR_HANDLE_NULL;
        MPI_T_cvar_handle wrong = other ? (MPI_T_cvar_handle)(void *)session : MPI_T_CVAR_HANDLE_NULL;
        MPI_T_event_registration registration =
            other ? (MPI_T_event_registration)(void *)cvar : (MPI_T_event_registration)NULL;
        MPI_T_event_instance event = other ? (MPI_T_event_instance)(void *)cvar : (MPI_T_event_instance)NULL;
        MPI_T_enum values = other ? (MPI_T_enum)(void *)cvar : MPI_T_ENUM_NULL;
        GIVES(HANDLE, MPI_T_cvar_handle_free(&wrong));
        GIVES(HANDLE, MPI_T_cvar_read(wrong, room));
        GIVES(HANDLE, MPI_T_cvar_write(wrong, room));
        GIVES(HANDLE, MPI_T_enum_get_info(values, &i, NULL, NULL));
        GIVES(HANDLE, MPI_T_enum_get_item(values, 0, &i, NULL, NULL));
        GIVES(HANDLE, MPI_T_event_callback_get_info(registration, MPI_T_CB_REQUIRE_NONE, &info));
        GIVES(HANDLE, MPI_T_event_callback_set_info(registration, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL));
        GIVES(HANDLE, MPI_T_event_handle_free(registration, NULL, NULL));
        GIVES(HANDLE, MPI_T_event_handle_get_info(registration, &info));
        GIVES(HANDLE, MPI_T_event_handle_set_info(registration, MPI_INFO_NULL));
        GIVES(HANDLE, MPI_T_event_register_callback(registration, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, NULL, ignore));
        GIVES(HANDLE, MPI_T_event_set_dropped_handler(registration, NULL));
        GIVES(HANDLE, MPI_T_event_copy(event, room));
        GIVES(HANDLE, MPI_T_event_read(event, 0, room));
        GIVES(HANDLE, MPI_T_event_get_source(event, &i));
        GIVES(HANDLE, MPI_T_event_get_timestamp(event, &time));
        GIVES(HANDLE, MPI_T_pvar_handle_free(session, &pvar));
        GIVES(HANDLE, MPI_T_pvar_read(session, pvar, room));
        GIVES(HANDLE, MPI_T_pvar_readreset(session, pvar, room));
        GIVES(HANDLE, MPI_T_pvar_reset(session, pvar));
        GIVES(HANDLE, MPI_T_pvar_start(session, pvar));
        GIVES(HANDLE, MPI_T_pvar_stop(session, pvar));
        GIVES(HANDLE, MPI_T_pvar_write(session, pvar, room));
    }
    MPI_T_pvar_handle pvar;
    GIVES(SESSION, MPI_T_pvar_handle_alloc(none, 0, NULL, &pvar, &i));
    GIVES(SESSION, MPI_T_pvar_start(none, MPI_T_PVAR_ALL_HANDLES));
    GIVES(SESSION, MPI_T_pvar_stop(none, MPI_T_PVAR_ALL_HANDLES));
    GIVES(SESSION, MPI_T_pvar_reset(none, MPI_T_PVAR_ALL_HANDLES));
    OK(MPI_T_cvar_handle_free(&cvar));
    OK(MPI_T_pvar_session_free(&session));
}

/* What is left: levels, lengths, buffers that are needed. */
static void of_the_rest(void) {
    enum { INVALID = MPI_T_ERR_INVALID };
    int i;
    MPI_Info info;
    MPI_T_event_registration registration;
    OK(MPI_T_event_handle_alloc(0, NULL, MPI_INFO_NULL, &registration));
    MPI_T_cb_safety wrong = (MPI_T_cb_safety)12345;
    GIVES(INVALID, MPI_T_event_callback_get_info(registration, wrong, &info));
    GIVES(INVALID, MPI_T_event_callback_set_info(registration, wrong, MPI_INFO_NULL));
    GIVES(INVALID, MPI_T_event_register_callback(registration, wrong, MPI_INFO_NULL, NULL, ignore));
    OK(MPI_T_event_handle_free(registration, NULL, NULL));
    GIVES(INVALID, MPI_T_category_get_cvars(0, -1, &i));
    GIVES(INVALID, MPI_T_category_get_pvars(0, -1, &i));
    GIVES(INVALID, MPI_T_category_get_events(0, -1, &i));
    GIVES(INVALID, MPI_T_category_get_categories(0, -1, &i));
    MPI_T_cvar_handle cvar;
    OK(MPI_T_cvar_handle_alloc(0, NULL, &cvar, &i));
    GIVES(INVALID, MPI_T_cvar_read(cvar, NULL));
    OK(MPI_T_cvar_handle_free(&cvar));
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    int provided, number;
    before_it_is_initialised();
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    OK(MPI_T_pvar_get_num(&number));
    CHECK(number >= 40);
    for (int i = 0; i < 3; i++) of_indices((int[]){-1, 100000, 2147483647}[i]);
    for (int i = 0; i < 2; i++) of_names((const char *[]){"", "nothing of this name"}[i]);
    of_handles();
    of_the_rest();
    OK(MPI_T_finalize());
    MPI_Finalize();
    CHECK(calls > 150);
    if (check_rank == 0) printf("wrong_tools: ok with %d ranks, %d calls\n", check_size, calls);
    return 0;
}
