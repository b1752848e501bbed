//! Windows: memory that the ranks of a communicator let each other read and write (MPI 5.0, chapter 12).
//!
//! All access is by calls, even to this rank's own part, and within an [`Epoch`]: there is never a reference into the
//! memory while others write to it. Weft allocates the memory; ranks of one host access it directly, whatever its owner
//! does.
//!
//! | epoch | begun by | its accesses end |
//! |---|---|---|
//! | of locks, without the target's help | [`Window::lock`], [`Window::lock_shared`], [`Window::lock_all`] | with each call, or by [`Epoch::flush`] |
//! | of all ranks | [`Window::fence`] | by the next fence |
//! | of two groups | [`Window::start`] and [`Window::post`] | by [`ActiveEpoch::end`] and [`Exposure::wait`] |

mod active;
mod epoch;

use std::marker::PhantomData;
use std::sync::{Arc, Mutex};

use weft_mpi::rma::{self, Allocation, Assertion, Flavor, LockKind, TargetBuffer};
use weft_mpi::{Error, ErrorClass, Result};

use super::attribute::Attributes;
use super::communicator::Communicator;
use super::state::Handle;
use super::{Element, Info};

use active::Held;
pub use active::{ActiveEpoch, Expected, Exposure};
pub use epoch::Epoch;
use epoch::{Locked, number};

/// Elements of each rank of a communicator, which all ranks may read and write.
///
/// ```
/// use weft::mpi::{self, op};
///
/// mpi::test(4, |world| {
///     let window = world.window::<u64>(2)?;
///     // Each rank takes a number, and leaves its own at its right neighbour.
///     let counter = window.lock_shared(0)?;
///     let ticket = counter.fetch_and_op(1, 0, 0, op::sum())?;
///     counter.end()?;
///     let right = (world.rank() + 1) % 4;
///     window.lock(right)?.put(&ticket, right, 1)?; // ends with the line
///     world.barrier()?;
///
///     let all = window.lock_all()?;
///     let mut tickets = Vec::new();
///     for rank in 0..4 {
///         tickets.extend(all.get(rank, 1, 1)?);
///     }
///     tickets.sort();
///     assert_eq!(tickets, [0, 1, 2, 3]);
///     all.end()?;
///     window.free()
/// });
/// ```
///
/// Types with invalid bit patterns, such as `bool`, cannot be the elements: others may write at any time.
#[derive(Debug)]
pub struct Window<T: Element> {
    window: Arc<rma::Window>,
    handle: Arc<Handle>,
    freed: bool,
    /// What accesses of an active epoch use until it ends.
    held: Mutex<Held>,
    _elements: PhantomData<T>,
}

impl Communicator {
    /// Makes a window of `count` elements at this rank, and as many at the others as they give (`MPI_Win_allocate`).
    /// Collective.
    ///
    /// It is freed by [`Window::free`], which is collective, too. If it is dropped instead, its memory stays until this
    /// rank ends, because others may still use it.
    ///
    /// # Errors
    /// `NoMem` if there is no memory for it; `Other` if another rank has failed.
    pub fn window<T: Element>(&self, count: usize) -> Result<Window<T>> {
        self.window_with(count, &Info::default())
    }

    /// Like [`window`](Self::window), with hints: the keys that `MPI_Win_allocate` knows.
    ///
    /// ```
    /// use weft::mpi::{self, Info};
    ///
    /// mpi::test(2, |world| {
    ///     let mut hints = Info::default();
    ///     hints.set("mpi_accumulate_granularity", "4096")?; // many elements at a time
    ///     let window = world.window_with::<f64>(1000, &hints)?;
    ///     assert_eq!(window.info().get("mpi_accumulate_granularity")?, Some("4096"));
    ///     window.free()
    /// });
    /// ```
    ///
    /// # Errors
    /// As for [`window`](Self::window).
    pub fn window_with<T: Element>(&self, count: usize, hints: &Info) -> Result<Window<T>> {
        const {
            assert!(
                !T::CHECKED,
                "elements of a window are any bits that others write"
            )
        };
        weft_mpi::memory::ensure_list(count, size_of::<T>())?;
        let window = rma::Window::new(
            &self.handle().comm,
            Flavor::Allocate,
            Allocation::OfWeft(count * size_of::<T>()),
            size_of::<T>() as i64,
            hints,
        )?;
        let comm = Arc::clone(window.comm());
        Ok(Window {
            handle: Handle::predefined(comm, Arc::clone(self.state())),
            window,
            freed: false,
            held: Mutex::default(),
            _elements: PhantomData,
        })
    }
}

/// Elements of a rank; `RmaRange` if no window has so many before them.
fn target<T: Element>(rank: usize, index: usize, count: usize) -> Result<TargetBuffer<'static>> {
    let displacement = i64::try_from(index).map_err(|_| {
        Error::new(
            ErrorClass::RmaRange,
            format!("no window has an element {index}, as was asked for of rank {rank}"),
        )
    })?;
    Ok(TargetBuffer {
        rank: number(rank),
        displacement,
        count,
        datatype: T::datatype(),
    })
}

impl<T: Element> Window<T> {
    pub(super) fn attributes(&self) -> &Attributes {
        &self.handle.attributes
    }

    /// The hints that apply (`MPI_Win_get_info`).
    #[must_use]
    pub fn info(&self) -> Info {
        self.window.extras().info().clone().answered()
    }

    /// Changes hints (`MPI_Win_set_info`). Collective.
    ///
    /// # Errors
    /// None that pairs of an info object could cause.
    pub fn set_info(&self, hints: &Info) -> Result<()> {
        self.window.set_info(hints)
    }

    /// Number of elements of this rank.
    #[must_use]
    pub fn len(&self) -> usize {
        self.window.memory().len() / size_of::<T>()
    }

    /// Whether this rank has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Begins to access one rank's elements, and excludes all others (`MPI_Win_lock` with `MPI_LOCK_EXCLUSIVE`).
    ///
    /// # Errors
    /// `Rank` for a rank that does not exist, `RmaSync` if another epoch is open, `ProcFailed` if the rank is lost.
    pub fn lock(&self, rank: usize) -> Result<Epoch<'_, T>> {
        self.lock_by(LockKind::Exclusive, rank)
    }

    /// Like [`lock`](Self::lock), but shared with others that do the same (`MPI_LOCK_SHARED`).
    ///
    /// # Errors
    /// As for [`lock`](Self::lock).
    pub fn lock_shared(&self, rank: usize) -> Result<Epoch<'_, T>> {
        self.lock_by(LockKind::Shared, rank)
    }

    fn lock_by(&self, kind: LockKind, rank: usize) -> Result<Epoch<'_, T>> {
        let rank = number(rank);
        self.window.lock(kind, rank, Assertion::default())?;
        Ok(Epoch::new(self, Locked::One(rank)))
    }

    /// Begins to access all ranks' elements, shared with others (`MPI_Win_lock_all`).
    ///
    /// # Errors
    /// As for [`lock`](Self::lock).
    pub fn lock_all(&self) -> Result<Epoch<'_, T>> {
        self.window.lock_all(Assertion::default())?;
        Ok(Epoch::new(self, Locked::All))
    }

    /// Frees the window (`MPI_Win_free`). Collective.
    ///
    /// # Errors
    /// `ProcFailed` if a rank is lost.
    pub fn free(mut self) -> Result<()> {
        let outcome = self.window.free();
        self.freed = outcome.is_ok();
        outcome
    }
}

impl<T: Element> Drop for Window<T> {
    fn drop(&mut self) {
        if !self.freed {
            let held = std::mem::take(&mut self.held);
            let window = Arc::clone(&self.window);
            self.handle.state.keep(Box::new((window, held)));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::mpi::{self, ErrorClass, op};

    #[test]
    fn elements_with_padding_are_put_and_got() {
        mpi::test(3, |world| {
            let window = world.window::<(u8, f64, u16)>(4)?;
            let rank = world.rank();
            let mine: Vec<_> = (0..4).map(|place| (rank as u8, place as f64, 7)).collect();
            let right = (rank + 1) % 3;
            let epoch = window.lock(right)?;
            epoch.put(&mine, right, 0)?;
            let again = epoch.rget(right, 1, 2)?;
            epoch.end()?;
            assert_eq!(again.wait()?, mine[1..3]);
            world.barrier()?;
            let own = window.lock_shared(rank)?.get(rank, 3, 1)?;
            assert_eq!(own, [(((rank + 2) % 3) as u8, 3.0, 7)]);
            world.barrier()?;
            window.free()
        });
    }

    #[test]
    fn what_is_wrong_is_named() {
        mpi::test(2, |world| {
            let window = world.window::<i64>(5 - world.rank())?;
            assert_eq!(window.len(), 5 - world.rank());
            let class = |outcome: mpi::Result<()>| outcome.unwrap_err().class();
            assert_eq!(class(window.lock(2).map(drop)), ErrorClass::Rank);
            let one = window.lock_shared(1)?;
            assert_eq!(class(one.put(&[1, 2], 1, 4)), ErrorClass::RmaRange);
            let far = one.put(&[1], 1, usize::MAX).unwrap_err();
            assert_eq!(far.class(), ErrorClass::RmaRange);
            assert!(far.to_string().contains(&usize::MAX.to_string()), "{far}");
            assert_eq!(class(one.put(&[1], 0, 0)), ErrorClass::RmaSync);
            assert_eq!(class(window.lock_all().map(drop)), ErrorClass::RmaSync);
            let own = mpi::Op::new(|left: &i64, _: &i64| *left);
            assert_eq!(class(one.accumulate(&[1], 1, 0, own)), ErrorClass::Op);
            one.end()?;
            world.barrier()?;
            window.free()
        });
    }

    /// Dropped, not freed: what others do with it still works.
    #[test]
    fn a_window_that_is_dropped_is_there_until_the_end() {
        mpi::test(3, |world| {
            let window = world.window::<u32>(1)?;
            if world.rank() == 0 {
                drop(window);
                return world.barrier();
            }
            let all = window.lock_all()?;
            all.accumulate(&[1], 0, 0, op::sum())?;
            all.flush_all()?;
            world.barrier()?;
            assert_eq!(all.fetch(0, 0)?, 2);
            Ok(())
        });
    }
}
