/* Fibers: threads of the program's own. A million of them may wait at once, in blocking calls of MPI as
 * well; a waiting fiber costs a page of memory and no core. Part of weft.h; the symbols stand in
 * libmpi_abi.so.1.
 *
 * Functions answer 0 or more, or a negative errno; weft_error() then says what was expected, what
 * came, and a remedy.
 *
 * A fiber gives its core away where it says so, and nowhere else: weft_fiber_yield, weft_fiber_park,
 * weft_fiber_join, and every call of MPI that blocks. It runs on one worker (a thread) all its life, unless
 * its attributes let it migrate. Thread-local variables and the floating-point environment belong to the
 * worker: another fiber may have changed them during a suspension. errno is kept. A call that blocks the
 * thread (read, pthread_mutex_lock, sleep) blocks all fibers of the worker. With fibers on more than one
 * worker, or threads besides, initialise MPI with MPI_THREAD_MULTIPLE. */
#ifndef WEFT_FIBER_H
#define WEFT_FIBER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The name of a fiber; 0 names none, and no name is used twice. A name that is stale, or was never given,
 * is answered -ESRCH; so is one that was joined or detached, in whatever order that and its end came. */
typedef uint64_t weft_fiber;

/* How a fiber is started. Start from WEFT_FIBER_ATTRIBUTES: fields may be added. */
typedef struct {
    /* Bytes of the stack, guard included, rounded up to a power of two from 16 KiB to 64 MiB; 0: 64 KiB. Who
     * uses up more hits the guard, and the process ends with a sentence. Before Linux 6.13 only the first
     * 16384 stacks have one: a fiber beyond must not use up its stack. */
    size_t stack;
    /* The worker that runs it; -1: that of the fiber that starts it, or from outside each in turn. */
    int worker;
    /* Not 0: goes on on another worker when its own has more to do. Its code must not rely on
     * thread-local variables keeping their values over a suspension. */
    int migrating;
} weft_fiber_attributes;

#define WEFT_FIBER_ATTRIBUTES { 0, -1, 0 }

/* Starts a fiber; callable from fibers and threads. attributes may be NULL, fiber may be NULL (then it is
 * detached). -EAGAIN: all are in use, or there is no memory; -EINVAL: attributes out of range. */
int weft_fiber_spawn(weft_fiber *fiber, const weft_fiber_attributes *attributes,
                     void *(*body)(void *), void *argument);
/* Waits for its end; *result (may be NULL) is what body answered. Of all calls that join or detach a fiber,
 * by whomever, one succeeds. -ESRCH: there is no such fiber, or another joins it, or it was joined or
 * detached; -EDEADLK: it is the caller, joined or detached or not. */
int weft_fiber_join(weft_fiber fiber, void **result);
/* Nobody will join it; a fiber may detach itself. -ESRCH as above. */
int weft_fiber_detach(weft_fiber fiber);
/* Lets every other runnable fiber of the worker run first. */
int weft_fiber_yield(void);
/* Suspends the caller until it is signalled. May return early, and a signal counts only if it comes after
 * the last suspension of any kind: look at your condition right before, in a loop. -EPERM: no fiber. */
int weft_fiber_park(void);
/* Makes a fiber look again. What was written before is seen by it. Also while another joins it, or it is
 * detached. -ESRCH: there is no such fiber, or it has ended and was joined or detached. */
int weft_fiber_signal(weft_fiber fiber);
/* The calling fiber; 0 if the caller is none. */
weft_fiber weft_fiber_self(void);
/* How many workers there are. */
int weft_fiber_workers(void);
/* The worker that runs the caller, from 0; -EPERM: no fiber. */
int weft_fiber_worker(void);
/* Before the first spawn: how many workers there shall be, 1 to 64. Without, as many as there are cores
 * for this rank. -EBUSY: there are fibers already. */
int weft_fiber_set_workers(int workers);
/* What was wrong with the last of these calls on this thread that failed. */
const char *weft_error(void);

#ifdef __cplusplus
}
#endif
#endif
