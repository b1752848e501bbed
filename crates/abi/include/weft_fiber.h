/* Fibers: threads of the program's own. A million of them may wait at once, also in blocking calls
 * of MPI; a waiting fiber uses a page of memory and no core. Part of weft.h; the symbols are in
 * libmpi_abi.so.1.
 *
 * Functions return 0 or more, or a negative errno; weft_error() then says what was expected, what
 * was found, and a remedy.
 *
 * A fiber yields its core only in these calls: weft_fiber_yield, weft_fiber_park,
 * weft_fiber_join, and every call of MPI that blocks. It runs on one worker (a thread) all its life, unless
 * its attributes let it migrate. Thread-local variables and the floating-point environment belong to the
 * worker: another fiber may have changed them during a suspension. errno is preserved. A call that blocks the
 * thread (read, pthread_mutex_lock, sleep) blocks all fibers of the worker. With fibers on more than one
 * worker, or other threads beside them, initialise MPI with MPI_THREAD_MULTIPLE. */
#ifndef WEFT_FIBER_H
#define WEFT_FIBER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The name of a fiber; 0 names none, and no name is used twice. Calls return -ESRCH for a name that is
 * stale or was never given, and for a fiber that has ended and was joined or detached, in either order. */
typedef uint64_t weft_fiber;

/* How a fiber is started. Start from WEFT_FIBER_ATTRIBUTES: fields may be added. */
typedef struct {
    /* Bytes of the stack, guard included, rounded up to a power of two from 16 KiB to 64 MiB; 0: 64 KiB. A
     * fiber that needs more hits the guard, and the process ends with a message. Before Linux 6.13 only the
     * first 16384 stacks have a guard: a later fiber must not use up its stack. */
    size_t stack;
    /* The worker that runs it; -1: that of the starting fiber, or each in turn if a thread starts it. */
    int worker;
    /* Not 0: it may continue on another worker when its own has more to do. Its code must not rely on
     * thread-local variables to keep their values over a suspension. */
    int migrating;
} weft_fiber_attributes;

#define WEFT_FIBER_ATTRIBUTES { 0, -1, 0 }

/* Starts a fiber; callable from fibers and threads. attributes may be NULL, fiber may be NULL (then it is
 * detached). -EAGAIN: all fibers are in use, or there is no memory; -EINVAL: attributes out of range. */
int weft_fiber_spawn(weft_fiber *fiber, const weft_fiber_attributes *attributes,
                     void *(*body)(void *), void *argument);
/* Waits for its end; *result (may be NULL) is the value that body returned. Of all calls that join or
 * detach a fiber, one succeeds. -ESRCH: there is no such fiber, or another joins it, or it was joined or
 * detached; -EDEADLK: it is the caller, joined or detached or not. */
int weft_fiber_join(weft_fiber fiber, void **result);
/* Declares that it will not be joined; a fiber may detach itself. -ESRCH as above. */
int weft_fiber_detach(weft_fiber fiber);
/* Lets every other runnable fiber of the worker run first. */
int weft_fiber_yield(void);
/* Suspends the caller until it is signalled. May return early, and a signal counts only if it comes after
 * the last suspension of any kind: check your condition right before, in a loop. -EPERM: not a fiber. */
int weft_fiber_park(void);
/* Makes a fiber check again. It sees everything written before. Allowed while another joins it, or after it
 * was detached. -ESRCH: there is no such fiber, or it has ended and was joined or detached. */
int weft_fiber_signal(weft_fiber fiber);
/* The calling fiber; 0 if the caller is not a fiber. */
weft_fiber weft_fiber_self(void);
/* Number of workers. */
int weft_fiber_workers(void);
/* The worker that runs the caller, from 0; -EPERM: not a fiber. */
int weft_fiber_worker(void);
/* Sets the number of workers, 1 to 64, before the first spawn. Otherwise there are as many as cores
 * for this rank. -EBUSY: there are fibers already. */
int weft_fiber_set_workers(int workers);
/* The error of the last of these calls that failed on this thread. */
const char *weft_error(void);

#ifdef __cplusplus
}
#endif
#endif
