//! `UnsafeCell` whose accesses loom can see: a data race in a model becomes a failing test.

/// Memory that is written through a shared reference, under a protocol that its user must justify.
#[derive(Debug)]
pub struct UnsafeCell<T>(Inner<T>);

#[cfg(loom)]
type Inner<T> = loom::cell::UnsafeCell<T>;
#[cfg(not(loom))]
type Inner<T> = core::cell::UnsafeCell<T>;

impl<T> UnsafeCell<T> {
    /// A cell that holds `value`.
    pub fn new(value: T) -> Self {
        Self(Inner::new(value))
    }

    /// Calls `look` with a pointer for reading. The caller must argue that nobody writes at the same time
    /// before dereferencing it.
    #[inline]
    pub fn with<R>(&self, look: impl FnOnce(*const T) -> R) -> R {
        #[cfg(loom)]
        return self.0.with(look);
        #[cfg(not(loom))]
        look(self.0.get())
    }

    /// Calls `change` with a pointer for writing. The caller must argue that nobody else reads or writes at
    /// the same time before dereferencing it.
    #[inline]
    pub fn with_mut<R>(&self, change: impl FnOnce(*mut T) -> R) -> R {
        #[cfg(loom)]
        return self.0.with_mut(change);
        #[cfg(not(loom))]
        change(self.0.get())
    }

    /// The value, by exclusive ownership.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}
