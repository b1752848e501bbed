/* Fibers: user-level threads. A million of them may wait at once, also in blocking MPI calls;
 * a waiting fiber costs a page of memory and no core. Part of weft.h; the symbols are in
 * libmpi_abi.so.1.
 *
 * Functions return 0 or more, or a negative errno; weft_error() then says what was expected, what
 * came, and a remedy.
 *
 * A fiber yields its core only in these calls: weft_fiber_yield, weft_fiber_park,
 * weft_fiber_join, and every MPI call that blocks. It runs on one worker (a thread) all its life, unless
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

/* The name of a fiber; 0 names none, and no name is reused. Calls with a stale or unknown name return
 * -ESRCH; so do calls with one that has ended and was joined or detached, in either order. */
typedef uint64_t weft_fiber;

/* How a fiber is started. Start from WEFT_FIBER_ATTRIBUTES: fields may be added. */
typedef struct {
    /* Bytes of the stack, guard included, rounded up to a power of two from 16 KiB to 64 MiB; 0: 64 KiB. A
     * fiber that overflows it hits the guard, and the process ends with a message. Before Linux 6.13 only the
     * first 16384 stacks have one: a fiber beyond these must not overflow its stack. */
    size_t stack;
    /* The worker that runs it; -1: that of the fiber that starts it, or, from outside, each in turn. */
    int worker;
    /* Not 0: may continue on another worker when its own has more to do. Its code must not rely on
     * thread-local variables keeping their values over a suspension. */
    int migrating;
} weft_fiber_attributes;

#define WEFT_FIBER_ATTRIBUTES { 0, -1, 0 }

/* Starts a fiber; callable from fibers and threads. attributes may be NULL, fiber may be NULL (then it is
 * detached). -EAGAIN: all fibers are in use, or there is no memory; -EINVAL: attributes out of range. */
int weft_fiber_spawn(weft_fiber *fiber, const weft_fiber_attributes *attributes,
                     void *(*body)(void *), void *argument);
/* Waits for its end; *result (result may be NULL) is what body returned. Of all calls that join or detach
 * a fiber, one succeeds. -ESRCH: there is no such fiber, or another call joins it, or it was joined or
 * detached; -EDEADLK: it is the caller, even if it was joined or detached. */
int weft_fiber_join(weft_fiber fiber, void **result);
/* Declares that it will not be joined; a fiber may detach itself. -ESRCH as above. */
int weft_fiber_detach(weft_fiber fiber);
/* Lets every other runnable fiber of the worker run first. */
int weft_fiber_yield(void);
/* Suspends the caller until it is signalled. May return early, and a signal counts only if it comes after
 * the last suspension of any kind: check your condition right before, in a loop. -EPERM: no fiber. */
int weft_fiber_park(void);
/* Signals a fiber: it runs at least once more, and sees what was written before. Works even while the fiber
 * is being joined, or is detached. -ESRCH: there is no such fiber, or it has ended and was joined or detached. */
int weft_fiber_signal(weft_fiber fiber);
/* The calling fiber; 0 if the caller is none. */
weft_fiber weft_fiber_self(void);
/* Number of workers. */
int weft_fiber_workers(void);
/* The worker that runs the caller, from 0; -EPERM: no fiber. */
int weft_fiber_worker(void);
/* Before the first spawn: sets the number of workers, 1 to 64; by default, the number of cores
 * for this rank. -EBUSY: there are fibers already. */
int weft_fiber_set_workers(int workers);
/* The error of the last failed one of these calls on this thread. */
const char *weft_error(void);

#ifdef __cplusplus
}
#endif
#endif
