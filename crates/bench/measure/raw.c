/* The bare stream between two processes, without a message-passing library: the two ranks do over one TCP
 * connection what the other workloads do by MPI, spinning on sockets that do not block. Each side reads
 * into a buffer of the whole message. The connection is made once and kept, as a library keeps its own. */
#define _GNU_SOURCE
#include "measure.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TAG 46

/* Bytes that the kernel takes ahead of what it has sent. As measured, with this many a stream of large messages
 * over loopback carries a tenth to a third more than with the kernel's choice, and equally many small ones: the
 * bytes under way fit in a cache. */
#define AHEAD (512 << 10)

/* The control of congestion that costs least: within a host nobody else uses the path. */
#define SIMPLEST "reno"

/* Connects the two ranks, over loopback. */
static int connection(const struct task *task)
{
    static int known = -1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int on = 1, ahead = AHEAD;

    if (known >= 0)
        return known;
    int opened = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (opened < 0)
        fail("no socket: %s", strerror(errno));
    if (task->rank == 0) {
        if (bind(opened, (struct sockaddr *)&address, length) || listen(opened, 1) ||
            getsockname(opened, (struct sockaddr *)&address, &length))
            fail("cannot listen on loopback: %s", strerror(errno));
        MPI_Send(&address, sizeof address, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
        known = accept4(opened, NULL, NULL, SOCK_CLOEXEC);
        close(opened);
    } else {
        MPI_Recv(&address, sizeof address, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (connect(opened, (struct sockaddr *)&address, sizeof address))
            fail("cannot connect over loopback: %s", strerror(errno));
        known = opened;
    }
    if (known < 0 || setsockopt(known, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) ||
        setsockopt(known, SOL_SOCKET, SO_SNDBUF, &ahead, sizeof ahead) ||
        setsockopt(known, IPPROTO_TCP, TCP_CONGESTION, SIMPLEST, sizeof SIMPLEST - 1) ||
        fcntl(known, F_SETFL, O_NONBLOCK))
        fail("the connection over loopback is not usable: %s", strerror(errno));
    return known;
}

/* Adds the bytes moved; a stream without room, or with nothing to read, is tried again. */
static void moved(ssize_t count, size_t *have, const char *what)
{
    if (count > 0)
        *have += (size_t)count;
    else if (count == 0 || (errno != EAGAIN && errno != EINTR))
        fail("%s: %s", what, count ? strerror(errno) : "the other side is gone");
}

/* Sends and receives the given numbers of bytes, both at once. */
static void both(int stream, const char *out, size_t sends, char *in, size_t receives)
{
    size_t sent = 0, received = 0;
    while (sent < sends || received < receives) {
        if (sent < sends)
            moved(write(stream, out + sent, sends - sent), &sent, "writing to a stream");
        if (received < receives)
            moved(read(stream, in + received, receives - received), &received, "reading from a stream");
    }
}

/* mode=window: rank 0 writes `window` messages, then waits for four bytes: a value is the time of a window.
 * mode=blocking: a message each way in turn; mode=nonblocking: both at once: the time of an exchange. */
void raw(struct task *task)
{
    size_t size = (size_t)task_number(task, "size", 8);
    int window = (int)task_number(task, "window", 64), first = task->rank == 0;
    int windows = task_is(task, "mode", "window"), at_once = task_is(task, "mode", "nonblocking");
    char *out = buffer(size), *in = buffer(size), answer[4] = {0};
    double took = 0;

    if (task->rank > 1)
        fail("a raw stream has two ends, this is rank %d", task->rank);
    int stream = connection(task);
    pattern_fill(out, size, (unsigned)task->rank);
    for (int sample = -1; sample < task->samples; sample++) {
        int count = sample < 0 ? task->warmup + 1 : task->iterations;
        both(stream, out, 1, in, 1); /* both are here */
        double start = now();
        for (int index = 0; index < count; index++) {
            if (windows) {
                for (int slot = 0; slot < window; slot++)
                    both(stream, out, first ? size : 0, in, first ? 0 : size);
                both(stream, answer, first ? 0 : 4, answer, first ? 4 : 0);
            } else if (at_once) {
                both(stream, out, size, in, size);
            } else if (first) {
                both(stream, out, size, in, 0);
                both(stream, out, 0, in, size);
            } else {
                both(stream, out, 0, in, size);
                both(stream, out, size, in, 0);
            }
        }
        took = now() - start;
        if (sample >= 0)
            task->values[sample] = took / task->iterations;
    }
    if (!windows || !first)
        pattern_check(in, size, (unsigned)(1 - task->rank), "a raw stream");
    free(out);
    free(in);
}
