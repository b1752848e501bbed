/* The services for C, alone or beside MPI ("mpi"): each node writes to the next, the first one gathers
 * by portal, names are found, barriers hold, wrong calls get their codes. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mpi.h>
#include <weft.h>

#define CHECK(condition)                                                                              \
    do {                                                                                              \
        if (!(condition)) {                                                                           \
            fprintf(stderr, "node %d: line %d: %s; last error: %s\n", me, __LINE__, #condition,       \
                    weft_error());                                                                    \
            exit(1);                                                                                  \
        }                                                                                             \
    } while (0)

static int me, count;

static void barrier(void) {
    if (count < 2)
        return;
    int list[count];
    for (int node = 0; node < count; node++)
        list[node] = node;
    if (me == 0) {
        int up = weft_sync_create(list, count, WEFT_SYNC_ALL_TO_ONE);
        int down = weft_sync_open(list, count, WEFT_SYNC_ONE_TO_ALL);
        CHECK(up >= 0 && down >= 0);
        CHECK(weft_sync_wait(up) == 0 && weft_sync_signal(down) == 0);
        CHECK(weft_sync_unlink(up) == 0 && weft_sync_close(down) == 0);
    } else {
        int up = weft_sync_open(list, count, WEFT_SYNC_ALL_TO_ONE);
        int down = weft_sync_create(list, count, WEFT_SYNC_ONE_TO_ALL);
        CHECK(up >= 0 && down >= 0);
        CHECK(weft_sync_signal(up) == 0 && weft_sync_wait(down) == 0);
        CHECK(weft_sync_close(up) == 0 && weft_sync_unlink(down) == 0);
    }
}

static void ring(void) {
    int in = weft_mailbox_create(me, 3), out = weft_mailbox_open((me + 1) % count, 3);
    CHECK(in >= 0 && out >= 0);
    for (int round = 0; round < 100; round++) {
        char body[WEFT_MAILBOX_MAX];
        memset(body, round, sizeof body);
        CHECK(weft_mailbox_write(out, body, sizeof body) == sizeof body);
        CHECK(weft_mailbox_read(in, body, sizeof body) == sizeof body);
        CHECK(body[0] == round && body[sizeof body - 1] == round);
        int node, port;
        CHECK(weft_mailbox_source(in, &node, &port) == 0);
        CHECK(node == (me + count - 1) % count && port == 0);
    }
    size_t volume;
    uint64_t latency, reads;
    CHECK(weft_mailbox_ioctl(in, WEFT_IOCTL_VOLUME, &volume) == 0 && volume == 100 * WEFT_MAILBOX_MAX);
    CHECK(weft_mailbox_ioctl(in, WEFT_IOCTL_LATENCY, &latency) == 0 && latency > 0);
    CHECK(weft_mailbox_ioctl(in, WEFT_IOCTL_READS, &reads) == 0 && reads > 0 && reads % 100 == 0);
    CHECK(weft_mailbox_ioctl(in, WEFT_IOCTL_READS, NULL) == -EFAULT);
    CHECK(weft_mailbox_ioctl(in, 99, &reads) == -ENOTSUP);
    CHECK(weft_mailbox_ioctl(in, WEFT_IOCTL_SET_REMOTE, WEFT_ANY, WEFT_ANY) == 0);
    CHECK(weft_mailbox_ioctl(out, WEFT_IOCTL_SET_REMOTE, WEFT_ANY, WEFT_ANY) == -EFAULT);
    CHECK(weft_mailbox_read(in, NULL, 1) == -EINVAL && weft_mailbox_write(out, NULL, 1) == -EINVAL);
    CHECK(weft_mailbox_read(in, &volume, 0) == -EINVAL);
    CHECK(weft_mailbox_read(out, &volume, 1) == -EBADF);
    CHECK(strstr(weft_error(), "output") != NULL);
    CHECK(weft_mailbox_create(me, 3) == -EBUSY && weft_mailbox_create(me, -1) == -EINVAL);
    barrier();
    CHECK(weft_mailbox_unlink(in) == 0 && weft_mailbox_close(out) == 0);
    CHECK(weft_mailbox_unlink(in) == -EBADF);
}

static void gather(size_t size) {
    char *block = malloc(size);
    if (me == 0) {
        int in = weft_portal_create(0, 1);
        CHECK(in >= 0);
        CHECK(weft_portal_read(in, block, size) == -EACCES);
        for (int node = 1; node < count; node++) {
            CHECK(weft_portal_allow(in, node, 0) == 0);
            CHECK(weft_portal_aread(in, block, size) == 0);
            CHECK(weft_portal_wait(in) == (ssize_t)size);
            CHECK(block[0] == (char)node && block[size - 1] == (char)(node + 1));
        }
        CHECK(weft_portal_unlink(in) == 0);
    } else {
        int out = weft_portal_open(me, 0, 1);
        CHECK(out >= 0);
        memset(block, me, size);
        block[size - 1] = (char)(me + 1);
        CHECK(weft_portal_write(out, block, size) == (ssize_t)size);
        CHECK(weft_portal_close(out) == 0);
    }
    free(block);
}

static void names(void) {
    int node = -1, port = -1;
    if (me == count - 1)
        CHECK(weft_name_link("last", 77) == 0);
    CHECK(weft_name_find("last", &node, &port) == 0);
    CHECK(node == count - 1 && port == 77);
    CHECK(weft_name_lookup("nobody", &node, &port) == -ENOENT);
    CHECK(weft_name_link("", 0) == -EINVAL && weft_name_link(NULL, 0) == -EINVAL);
}

/* Threads of one node wait in mailboxes of their own. */
static void *echo(void *argument) {
    int port = (int)(intptr_t)argument;
    int in = weft_mailbox_create(me, port), out = weft_mailbox_open(me, port + 100);
    CHECK(in >= 0 && out >= 0);
    for (int round = 0; round < 200; round++) {
        int body;
        CHECK(weft_mailbox_read(in, &body, sizeof body) == sizeof body);
        CHECK(weft_mailbox_write(out, &body, sizeof body) == sizeof body);
    }
    CHECK(weft_mailbox_unlink(in) == 0 && weft_mailbox_close(out) == 0);
    return NULL;
}

static void threads(void) {
    enum { MANY = 4 };
    pthread_t thread[MANY];
    int in[MANY], out[MANY];
    for (int number = 0; number < MANY; number++) {
        in[number] = weft_mailbox_create(me, 110 + number);
        out[number] = weft_mailbox_open(me, 10 + number);
        CHECK(in[number] >= 0 && out[number] >= 0);
        CHECK(pthread_create(&thread[number], NULL, echo, (void *)(intptr_t)(10 + number)) == 0);
    }
    for (int round = 0; round < 200; round++)
        for (int number = 0; number < MANY; number++) {
            int body = round * MANY + number;
            CHECK(weft_mailbox_write(out[number], &body, sizeof body) == sizeof body);
            CHECK(weft_mailbox_read(in[number], &body, sizeof body) == sizeof body);
            CHECK(body == round * MANY + number);
        }
    for (int number = 0; number < MANY; number++) {
        CHECK(pthread_join(thread[number], NULL) == 0);
        CHECK(weft_mailbox_unlink(in[number]) == 0 && weft_mailbox_close(out[number]) == 0);
    }
}

int main(int words, char **word) {
    int with_mpi = words > 1 && strcmp(word[1], "mpi") == 0;
    CHECK(weft_node() == -EBADF && weft_finalize() == -EBADF);
    if (with_mpi)
        MPI_Init(NULL, NULL);
    CHECK(weft_init() == 0);
    me = weft_node(), count = weft_nodes();
    for (int round = 0; round < 3; round++) {
        ring();
        gather(100);
        gather(200000);
        if (with_mpi) {
            int sum = 0, one = 1;
            MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            CHECK(sum == count);
        }
    }
    names();
    threads();
    barrier();
    if (me == 0)
        printf("services: ok with %d rank%s\n", count, count == 1 ? "" : "s");
    CHECK(weft_finalize() == 0);
    if (with_mpi)
        MPI_Finalize();
    return 0;
}
