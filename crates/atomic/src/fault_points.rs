//! Fault points (`--cfg fault_points`): each access to a word that processes may share is reported to a
//! machine, which may let another process continue there, or end the caller for ever.
//!
//! ```text
//!   word.store(…) ─► before_write ─► the store itself ─► after_write     the caller may end here
//!   word.load(…)  ─► before_read  ─► the load itself
//!   futex         ─► wait, wake                                          from `weft_sys::Futex`
//! ```
//!
//! A [`Machine`] is installed for a thread. Several *processes* then run on that thread, one at a time, and
//! the machine decides which one and for how long: so a history of a protocol is a function of a seed. Only
//! words of 32 and 64 bits have points: nothing else is shared between processes. Without the flag none of
//! this is compiled, and the words are the ones of the standard library.
//!
//! Memory is sequentially consistent here. Loom explores the effects of weaker memory.
#![allow(clippy::disallowed_types)] // this is the door

use core::cell::Cell;
use core::panic::Location;
use std::sync::atomic as base;

use crate::{Ordering, Woken};

/// Plays the machine for the processes of one thread.
pub trait Machine {
    /// The calling process is about to read a word at this place of the source.
    fn before_read(&'static self, place: &'static Location<'static>);
    /// The calling process is about to write. False: it has ended, and none of its further writes may be
    /// visible.
    fn before_write(&'static self, place: &'static Location<'static>) -> bool;
    /// The calling process has written. Ends the process by unwinding, if it shall end there.
    fn after_write(&'static self, place: &'static Location<'static>);
    /// The calling process lets others run first.
    fn yield_core(&'static self);
    /// The futex: sleeps while the word holds this.
    fn wait(&'static self, word: &AtomicU32, expected: u32) -> Woken;
    /// The futex: wakes all who sleep at the word.
    fn wake(&'static self, word: &AtomicU32);
}

thread_local! {
    static MACHINE: Cell<Option<&'static dyn Machine>> = const { Cell::new(None) };
}

/// Installs a machine for this thread, or removes it; returns the previous one.
pub fn install(machine: Option<&'static dyn Machine>) -> Option<&'static dyn Machine> {
    MACHINE.replace(machine)
}

/// The machine of this thread.
#[must_use]
pub fn machine() -> Option<&'static dyn Machine> {
    MACHINE.get()
}

/// An atomic integer with points: the methods of the standard library's that are in use.
macro_rules! word {
    ($name:ident, $value:ty) => {
        /// The atomic integer of the standard library, with fault points.
        #[derive(Default, Debug)]
        #[repr(transparent)]
        pub struct $name(base::$name);

        #[allow(missing_docs)] // as in the standard library
        impl $name {
            pub const fn new(value: $value) -> Self {
                Self(base::$name::new(value))
            }

            /// The integer of the standard library, for the kernel, whose accesses are not fault points.
            pub const fn plain(&self) -> &base::$name {
                &self.0
            }

            /// # Safety
            /// As in the standard library.
            pub const unsafe fn from_ptr<'a>(pointer: *mut $value) -> &'a Self {
                // SAFETY: the caller promises what `from_ptr` of the standard library asks: aligned, valid for `'a`,
                // accessed atomically alone. The layout is that of the standard library's type.
                unsafe { &*pointer.cast::<Self>() }
            }

            pub const fn as_ptr(&self) -> *mut $value {
                self.0.as_ptr()
            }

            pub fn get_mut(&mut self) -> &mut $value {
                self.0.get_mut()
            }

            pub fn into_inner(self) -> $value {
                self.0.into_inner()
            }

            #[inline]
            #[track_caller]
            pub fn load(&self, order: Ordering) -> $value {
                if let Some(machine) = machine() {
                    machine.before_read(Location::caller());
                }
                self.0.load(order)
            }

            /// A write; for a process that has ended, only a read of the word.
            #[inline]
            #[track_caller]
            fn write(&self, write: impl FnOnce(&base::$name) -> $value) -> $value {
                let Some(machine) = machine() else {
                    return write(&self.0);
                };
                let place = Location::caller();
                if !machine.before_write(place) {
                    return self.0.load(Ordering::SeqCst);
                }
                let before = write(&self.0);
                machine.after_write(place);
                before
            }

            #[inline]
            #[track_caller]
            pub fn store(&self, value: $value, order: Ordering) {
                self.write(|word| {
                    word.store(value, order);
                    value
                });
            }

            #[inline]
            #[track_caller]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                self.write(|word| word.swap(value, order))
            }

            #[inline]
            #[track_caller]
            pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                self.write(|word| word.fetch_add(value, order))
            }

            #[inline]
            #[track_caller]
            pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                self.write(|word| word.fetch_sub(value, order))
            }

            #[inline]
            #[track_caller]
            pub fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                self.write(|word| word.fetch_and(value, order))
            }

            #[inline]
            #[track_caller]
            pub fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                self.write(|word| word.fetch_or(value, order))
            }

            #[inline]
            #[track_caller]
            pub fn fetch_xor(&self, value: $value, order: Ordering) -> $value {
                self.write(|word| word.fetch_xor(value, order))
            }

            /// # Errors
            /// As in the standard library.
            #[inline]
            #[track_caller]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                let mut exchanged = Ok(current);
                self.write(|word| {
                    exchanged = word.compare_exchange(current, new, success, failure);
                    current
                });
                exchanged
            }

            /// # Errors
            /// As in the standard library.
            #[inline]
            #[track_caller]
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(current, new, success, failure)
            }

            /// # Errors
            /// As in the standard library.
            #[inline]
            #[track_caller]
            pub fn fetch_update(
                &self,
                success: Ordering,
                failure: Ordering,
                mut next: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let mut seen = self.load(failure);
                while let Some(value) = next(seen) {
                    match self.compare_exchange(seen, value, success, failure) {
                        Ok(before) => return Ok(before),
                        Err(other) => seen = other,
                    }
                }
                Err(seen)
            }
        }
    };
}

word!(AtomicU32, u32);
word!(AtomicI32, i32);
word!(AtomicU64, u64);
