//! Types of the C binding. In C, handles are pointers that nobody dereferences; here they are numbers of that
//! size (see [`crate::handle`] for their meaning).

use std::ffi::c_int;

use weft_mpi::marks::Mark;

/// `MPI_Aint`.
pub type Aint = isize;
/// `MPI_Count`.
pub type Count = i64;
/// `MPI_Offset`.
pub type Offset = i64;

macro_rules! handles {
    ($($name:ident)*) => {$(
        #[doc = concat!("`MPI_", stringify!($name), "`.")]
        #[repr(transparent)]
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub struct $name(pub usize);
    )*};
}

handles! { Comm Group Win File Session Message Info Errhandler Request Datatype Op }

/// A handle of the tool interface.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ToolHandle(pub usize);

/// Address of a function of the user. Small numbers stand for predefined functions that are never called
/// (`MPI_COMM_DUP_FN` is 1), so it must be compared before it is called.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Callback(pub usize);

/// `MPI_Status`. The words behind `error` are ours.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status {
    /// `MPI_SOURCE`.
    pub source: c_int,
    /// `MPI_TAG`.
    pub tag: c_int,
    /// `MPI_ERROR`.
    pub error: c_int,
    internal: [c_int; 5],
}

const _: () = assert!(size_of::<Status>() == 32 && align_of::<Status>() == 4);
const _: () =
    assert!(size_of::<Comm>() == 8 && size_of::<Callback>() == 8 && size_of::<Aint>() == 8);

/// Place of the flag of cancelled operations in the internal words, with sender and engine of a mark above it; the bytes are in the first two words,
/// the mark's word in the last two.
const CANCELLED: usize = 2;
/// Bits of that word: the flag, the engine, and the sender.
const FLAG_BITS: u32 = 1;
const ENGINE_BITS: u32 = 2;
const SENDER_BITS: u32 = 32 - ENGINE_BITS - FLAG_BITS;
const MARK: usize = 3;

impl Status {
    /// Offset of the mark's word in a status.
    pub const MARK_AT: usize = std::mem::offset_of!(Self, internal) + MARK * size_of::<c_int>();

    /// A status with a source and a tag, of no bytes.
    #[must_use]
    pub const fn new(source: c_int, tag: c_int) -> Self {
        Self {
            source,
            tag,
            error: 0,
            internal: [0; 5],
        }
    }

    /// Bytes received.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        (self.internal[0] as u32 as u64) | (self.internal[1] as u32 as u64) << 32
    }

    /// Sets the bytes received.
    pub const fn set_bytes(&mut self, bytes: u64) {
        self.internal[0] = bytes as u32 as c_int;
        self.internal[1] = (bytes >> 32) as u32 as c_int;
    }

    /// The mark that the message has carried.
    #[must_use]
    pub const fn mark(&self) -> Mark {
        let origin = self.internal[CANCELLED] as u32 >> FLAG_BITS;
        Mark {
            word: (self.internal[MARK] as u32 as u64)
                | (self.internal[MARK + 1] as u32 as u64) << 32,
            from: origin >> ENGINE_BITS,
            engine: origin % (1 << ENGINE_BITS),
        }
    }

    /// Sets the mark that the message has carried; no mark if there is no room for its sender's number.
    pub const fn set_mark(&mut self, mark: Mark) {
        if mark.word == 0 || mark.from >> SENDER_BITS != 0 {
            return;
        }
        let origin = (mark.from << ENGINE_BITS) | (mark.engine % (1 << ENGINE_BITS));
        self.internal[CANCELLED] |= (origin << FLAG_BITS) as c_int;
        self.internal[MARK] = mark.word as u32 as c_int;
        self.internal[MARK + 1] = (mark.word >> 32) as u32 as c_int;
    }

    /// Whether the operation was cancelled.
    #[must_use]
    pub const fn is_cancelled(&self) -> bool {
        self.internal[CANCELLED] & 1 != 0
    }

    /// Sets whether the operation was cancelled.
    pub const fn set_cancelled(&mut self, cancelled: bool) {
        self.internal[CANCELLED] = (self.internal[CANCELLED] & !1) | cancelled as c_int;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_keeps_large_counts() {
        let mut status = Status::new(3, 4);
        status.set_bytes(0x1_8000_0005);
        status.set_cancelled(true);
        let mark = Mark {
            word: 0xc000_0001_9000_0002,
            from: (1 << SENDER_BITS) - 1,
            engine: 3,
        };
        status.set_mark(mark);
        assert_eq!(
            (status.bytes(), status.is_cancelled(), status.mark()),
            (0x1_8000_0005, true, mark)
        );
        assert_eq!((status.source, status.tag, status.error), (3, 4, 0));
        status.set_cancelled(false);
        assert!(!status.is_cancelled() && status.mark() == mark);
    }
}
