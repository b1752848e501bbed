//! A mutual exclusion, by the lock of C.

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

/// A value that one thread at a time accesses. The lock of C must not move while it is held: this is one for statics.
pub struct Mutex<T> {
    lock: UnsafeCell<libc::pthread_mutex_t>,
    value: UnsafeCell<T>,
}

// SAFETY: one thread at a time has access to the value; the lock itself is made for many.
unsafe impl<T: Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    /// Free.
    pub const fn new(value: T) -> Self {
        Self {
            lock: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits until no other thread has access.
    pub fn lock(&'static self) -> Guard<T> {
        // SAFETY: the lock is initialised and stays where it is.
        let code = unsafe { libc::pthread_mutex_lock(self.lock.get()) };
        assert!(code == 0, "a lock cannot be taken: error {code}");
        Guard(self, PhantomData)
    }
}

/// Access to the value of a [`Mutex`] until it is dropped, by the thread that has taken it: the lock of C demands that.
pub struct Guard<T: 'static>(&'static Mutex<T>, PhantomData<*mut T>);

impl<T> Deref for Guard<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread holds the lock.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread holds the lock.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Guard<T> {
    fn drop(&mut self) {
        // SAFETY: this thread holds the lock.
        unsafe { libc::pthread_mutex_unlock(self.0.lock.get()) };
    }
}

#[cfg(test)]
mod tests {
    use super::Mutex;

    #[test]
    fn one_thread_at_a_time_counts() {
        static COUNT: Mutex<usize> = Mutex::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        *COUNT.lock() += 1;
                    }
                });
            }
        });
        assert_eq!(*COUNT.lock(), 4000);
    }
}
