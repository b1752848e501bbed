//! Shared file pointer: one position for all ranks of a file (MPI 5.0, section 14.4.4).
//!
//! It lives in a [window](crate::rma) at rank 0 of the file and is moved by an atomic addition: on one host in shared memory,
//! whatever rank 0 does meanwhile; from other hosts by messages that rank 0 answers.

use std::fmt::Debug;
use std::sync::Arc;

use weft_atomic::{AtomicI64, Ordering};

use crate::buffer::{Buffer, region_of};
use crate::comm::Comm;
use crate::datatype::Basic;
use crate::error::Result;
use crate::info::Info;
use crate::op::{Op, Predefined};
use crate::rma::{Allocation, Assertion, Ends, Flavor, TargetBuffer, Window};

/// A position in etypes that all ranks see and move.
pub(super) trait SharedPointer: Debug + Send + Sync {
    /// Moves it on by so many etypes; answers where it was.
    ///
    /// # Errors
    /// When the rank that has it is lost.
    fn advance(&self, by: i64) -> Result<i64>;

    /// Puts it there.
    ///
    /// # Errors
    /// As for [`Self::advance`].
    fn set(&self, position: i64) -> Result<()>;

    /// The end of its use by all ranks.
    ///
    /// # Errors
    /// When a rank is lost.
    fn close(&self) -> Result<()>;
}

/// That of a file of one rank.
#[derive(Debug, Default)]
pub(super) struct OwnPointer(AtomicI64);

impl SharedPointer for OwnPointer {
    fn advance(&self, by: i64) -> Result<i64> {
        Ok(self.0.fetch_add(by, Ordering::Relaxed))
    }

    fn set(&self, position: i64) -> Result<()> {
        self.0.store(position, Ordering::Relaxed);
        Ok(())
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}

/// That of a file of several ranks.
#[derive(Debug)]
struct WindowPointer {
    window: Arc<Window>,
    add: Arc<Op>,
    replace: Arc<Op>,
}

/// The rank that has the position.
const OWNER: u32 = 0;

impl WindowPointer {
    /// Combines the position with a number at once; answers what it was.
    fn exchange(&self, op: &Op, number: i64) -> Result<i64> {
        let (mut given, mut before) = (number.to_ne_bytes(), [0; 8]);
        let target = TargetBuffer {
            rank: OWNER,
            displacement: 0,
            count: 1,
            datatype: Basic::Int64.datatype(),
        };
        let given = Buffer::untyped(region_of(&mut given));
        let into = Buffer::untyped(region_of(&mut before));
        let done = self
            .window
            .get_accumulate(Some(given), into, &target, op, Ends::WithEpoch);
        // Also then: nothing may move into `before` after this.
        let flushed = self.window.flush(OWNER);
        done?;
        flushed?;
        Ok(i64::from_ne_bytes(before))
    }
}

impl SharedPointer for WindowPointer {
    fn advance(&self, by: i64) -> Result<i64> {
        self.exchange(&self.add, by)
    }

    fn set(&self, position: i64) -> Result<()> {
        self.exchange(&self.replace, position).map(drop)
    }

    fn close(&self) -> Result<()> {
        let unlocked = self.window.unlock_all();
        unlocked.and(self.window.free())
    }
}

/// The shared pointer of a new file, at 0.
///
/// # Errors
/// When a rank is lost, or there is no memory.
pub(super) fn of(comm: &Arc<Comm>) -> Result<Box<dyn SharedPointer>> {
    if comm.size() == 1 {
        return Ok(Box::new(OwnPointer::default()));
    }
    let bytes = if comm.rank() == OWNER { 8 } else { 0 };
    let allocation = Allocation::OfWeft(bytes);
    let window = Window::new(comm, Flavor::Allocate, allocation, 1, &Info::default())?;
    window.lock_all(Assertion {
        // Nobody ever locks it alone.
        no_check: true,
        ..Assertion::default()
    })?;
    let pointer = WindowPointer {
        window,
        add: Op::predefined(Predefined::Sum),
        replace: Op::predefined(Predefined::Replace),
    };
    if comm.rank() == OWNER {
        pointer.set(0)?;
    }
    Ok(Box::new(pointer))
}
