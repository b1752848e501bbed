/* The functions of weft.h and weft_fiber.h with the extremes of their arguments: each call returns what
 * the header says, and none ends the process or waits for ever. Ids that are live belong to this node. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft.h>

static const char *current;
static int calls;

static void say_where(int number) {
    char line[200];
    int length = snprintf(line, sizeof line, "signal %d in %s\n", number, current);
    if (write(2, line, (size_t)length) < 0) _exit(4);
    _exit(3);
}

/* An error is a negative errno, as the header says. */
static void check(const char *text, long result) {
    calls++;
    if (result < -4095) {
        fprintf(stderr, "%s returns %ld\n", text, result);
        exit(1);
    }
}
#define CALL(call)                                                                                           \
    do {                                                                                                     \
        current = #call;                                                                                     \
        check(#call, (long)(call));                                                                          \
    } while (0)

static const int ints[] = {INT_MIN, INT_MIN + 1, -2, -1, 0, 1, 255, 256, 1024, 1 << 20, INT_MAX};
static const size_t sizes[] = {0, 1, 119, 121, (size_t)1 << 30, ((size_t)1 << 30) + 1, SIZE_MAX / 2, SIZE_MAX};
#define EACH(variable, list)                                                                                 \
    for (size_t i_##variable = 0; i_##variable < sizeof(list) / sizeof *(list); i_##variable++)              \
        for (__typeof__(*(list)) variable = (list)[i_##variable], *once = (void *)&variable; once; once = NULL)

/* Ids that do not exist: a call that waits for an existing id would rightly wait. */
static void with_ids_of_nothing(void) {
    char buffer[128] = {0};
    int node, port;
    struct weft_request request = {0};
    memset(&request, 0xff, sizeof request);
    EACH(id, ints) {
        CALL(weft_mailbox_unlink(id));
        CALL(weft_mailbox_close(id));
        CALL(weft_mailbox_wait(id));
        CALL(weft_mailbox_read(id, buffer, sizeof buffer));
        CALL(weft_mailbox_read(id, NULL, SIZE_MAX));
        CALL(weft_mailbox_write(id, NULL, 8));
        CALL(weft_mailbox_awrite(id, buffer, SIZE_MAX));
        CALL(weft_mailbox_aread(id, NULL, 0));
        CALL(weft_mailbox_source(id, &node, &port));
        CALL(weft_mailbox_source(id, NULL, NULL));
        CALL(weft_mailbox_port(id));
        CALL(weft_mailbox_set_remote(id, INT_MIN, INT_MAX));
        CALL(weft_mailbox_ioctl(id, UINT_MAX, buffer));
        CALL(weft_mailbox_ioctl(id, WEFT_IOCTL_VOLUME, NULL));
        CALL(weft_portal_unlink(id));
        CALL(weft_portal_close(id));
        CALL(weft_portal_wait(id));
        CALL(weft_portal_read(id, NULL, SIZE_MAX));
        CALL(weft_portal_write(id, NULL, SIZE_MAX));
        CALL(weft_portal_awrite(id, buffer, 8));
        CALL(weft_portal_aread(id, buffer, 8));
        CALL(weft_portal_allow(id, INT_MAX, INT_MIN));
        CALL(weft_portal_port(id));
        CALL(weft_portal_ioctl(id, 0, NULL));
        CALL(weft_sync_signal(id));
        CALL(weft_sync_wait(id));
        CALL(weft_sync_unlink(id));
        CALL(weft_sync_close(id));
        CALL(weft_sync_ioctl(id, UINT_MAX, NULL));
        CALL(weft_server_next(id, &request));
        CALL(weft_server_next(id, NULL));
        CALL(weft_server_take(id, &request, buffer, SIZE_MAX));
        CALL(weft_server_take(id, NULL, NULL, 8));
        CALL(weft_server_give(id, &request, NULL, SIZE_MAX));
        CALL(weft_server_unlink(id));
        CALL(weft_client_tell(id, NULL, SIZE_MAX));
        CALL(weft_client_give(id, buffer, 8, NULL, SIZE_MAX));
        CALL(weft_client_take(id, buffer, SIZE_MAX, NULL, 8));
        CALL(weft_client_close(id));
        CALL(weft_fiber_join((weft_fiber)(unsigned)id, NULL));
        CALL(weft_fiber_join((weft_fiber)(unsigned)id << 32 | 7, NULL));
        CALL(weft_fiber_detach((weft_fiber)(unsigned)id << 32));
        CALL(weft_fiber_signal((weft_fiber)(unsigned)id));
    }
}

static void with_numbers(void) {
    int here = weft_node(), nodes[4] = {INT_MIN, -1, INT_MAX, 0};
    EACH(number, ints) {
        CALL(weft_mailbox_create(number, number));
        CALL(weft_mailbox_open(number, number));
        CALL(weft_portal_create(number, number));
        CALL(weft_portal_open(number, number, number));
        CALL(weft_portal_open(here, number, number));
        CALL(weft_sync_create(NULL, number, 0));
        CALL(weft_sync_open(NULL, number, 1));
        CALL(weft_sync_create(nodes, number & 3, number));
        CALL(weft_sync_open(nodes, number & 3, number));
        CALL(weft_name_link("a name", number));
        CALL(weft_fiber_set_workers(number < 0 || number > 4 ? number : 1));
    }
}

static void with_texts(void) {
    static char lengthy[70000];
    const char *texts[] = {NULL, "", lengthy, "\xff\xfe"};
    int node, port;
    memset(lengthy, 'x', sizeof lengthy - 1);
    EACH(text, texts) {
        CALL(weft_name_link(text, 7));
        CALL(weft_name_lookup(text, &node, &port));
        CALL(weft_name_lookup(text, NULL, NULL));
        CALL(weft_name_unlink(text));
    }
    CALL(weft_server_create(NULL));
    CALL(weft_server_create(""));
    CALL(weft_server_create(lengthy));
    CALL(weft_client_open(NULL));
    CALL(weft_client_open(""));
    CALL(weft_client_open(lengthy));
    CALL(weft_name_find(NULL, &node, &port));
    CALL(weft_name_find("", &node, &port));
    CALL(weft_name_find(lengthy, &node, &port));
}

/* A mailbox to this node, whose messages are never read: sizes and null pointers. */
static void with_sizes(void) {
    int here = weft_node(), input = weft_mailbox_create(here, 41), output = weft_mailbox_open(here, 41);
    char buffer[128] = {0};
    size_t volume;
    CALL(weft_mailbox_ioctl(output, WEFT_IOCTL_VOLUME, &volume));
    CALL(weft_mailbox_ioctl(output, WEFT_IOCTL_VOLUME, NULL));
    CALL(weft_mailbox_ioctl(output, WEFT_IOCTL_SET_REMOTE, INT_MIN, INT_MAX));
    CALL(weft_mailbox_ioctl(output, UINT_MAX, NULL));
    EACH(size, sizes) {
        CALL(weft_mailbox_awrite(output, NULL, size));
        if (size <= sizeof buffer || size > WEFT_MAILBOX_MAX) CALL(weft_mailbox_awrite(output, buffer, size));
        CALL(weft_mailbox_aread(input, NULL, size));
    }
    CALL(weft_mailbox_source(input, NULL, NULL));
    CALL(weft_mailbox_unlink(input));
    CALL(weft_mailbox_close(output));
    int portal = weft_portal_create(here, 42);
    EACH(place, ints) CALL(weft_portal_allow(portal, place, place));
    EACH(size, sizes) if (size > WEFT_PORTAL_MAX) {
        CALL(weft_portal_aread(portal, buffer, size));
        CALL(weft_portal_read(portal, NULL, size));
    }
    CALL(weft_portal_unlink(portal));
}

static void *nothing(void *argument) { return argument; }

static void with_fibers(void) {
    weft_fiber fiber;
    EACH(size, sizes) {
        weft_fiber_attributes attributes = {.stack = size, .worker = -1};
        if (size == (size_t)1 << 30) continue;
        CALL(weft_fiber_spawn(&fiber, &attributes, nothing, NULL) == 0 ? weft_fiber_join(fiber, NULL) : 0);
    }
    EACH(worker, ints) {
        weft_fiber_attributes attributes = {.worker = worker};
        CALL(weft_fiber_spawn(&fiber, &attributes, nothing, NULL) == 0 ? weft_fiber_join(fiber, NULL) : 0);
    }
    CALL(weft_fiber_spawn(&fiber, NULL, NULL, NULL));
    CALL(weft_fiber_spawn(NULL, NULL, nothing, NULL));
    CALL(weft_fiber_signal(UINT64_MAX));
    CALL(weft_fiber_join(UINT64_MAX, NULL));
    CALL(weft_fiber_detach(UINT64_MAX));
    CALL(weft_fiber_yield());
}

int main(void) {
    signal(SIGSEGV, say_where);
    signal(SIGABRT, say_where);
    signal(SIGBUS, say_where);
    signal(SIGALRM, say_where);
    alarm(30);
    with_ids_of_nothing(); /* before weft_init as well */
    CALL(weft_init());
    with_ids_of_nothing();
    with_numbers();
    with_texts();
    with_sizes();
    with_fibers();
    CALL(weft_finalize());
    CALL(weft_finalize());
    with_ids_of_nothing();
    printf("extremes_weft: %d calls\n", calls);
    return 0;
}
