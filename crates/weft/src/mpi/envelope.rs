//! Envelope of a message as programs name it: destination, source and tag (MPI 5.0, section 3.2.3), and the status of a
//! received message.

use weft_mpi::{Error, ErrorClass, Result, TagPattern};

use super::Element;

/// Largest tag (`MPI_TAG_UB`).
pub const MAX_TAG: i32 = (1 << 30) - 1;

/// Any rank, or any tag: `MPI_ANY_SOURCE`, `MPI_ANY_TAG`.
///
/// ```
/// use weft::mpi::{self, Any};
///
/// mpi::test(3, |world| {
///     if world.rank() > 0 {
///         return world.send(&world.rank(), 0, 7);
///     }
///     let mut sum = 0;
///     for _ in 1..world.size() {
///         let (rank, status) = world.receive::<usize>(Any, Any)?;
///         assert_eq!((status.source(), status.tag()), (Some(rank), 7));
///         sum += rank;
///     }
///     assert_eq!(sum, 3);
///     Ok(())
/// });
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Any;

/// Destination of a message: a rank; `None` stands for `MPI_PROC_NULL`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Destination(pub(super) weft_mpi::Target);

/// Source of a message: a rank, or [`Any`]; `None` stands for `MPI_PROC_NULL`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Source(pub(super) weft_mpi::Source);

/// Tag to receive: a number, or [`Any`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tag(TagPattern);

/// Ranks that no communicator has are refused by it, with their number.
fn number(rank: usize) -> u32 {
    u32::try_from(rank).unwrap_or(u32::MAX)
}

impl From<usize> for Destination {
    fn from(rank: usize) -> Self {
        Self(weft_mpi::Target::Rank(number(rank)))
    }
}

impl From<Option<usize>> for Destination {
    fn from(rank: Option<usize>) -> Self {
        rank.map_or(Self(weft_mpi::Target::Null), Self::from)
    }
}

impl From<usize> for Source {
    fn from(rank: usize) -> Self {
        Self(weft_mpi::Source::Rank(number(rank)))
    }
}

impl From<Option<usize>> for Source {
    fn from(rank: Option<usize>) -> Self {
        rank.map_or(Self(weft_mpi::Source::Null), Self::from)
    }
}

impl From<Any> for Source {
    fn from(_: Any) -> Self {
        Self(weft_mpi::Source::Any)
    }
}

impl From<i32> for Tag {
    fn from(tag: i32) -> Self {
        Self(TagPattern::Exact(tag))
    }
}

impl From<Any> for Tag {
    fn from(_: Any) -> Self {
        Self(TagPattern::Any)
    }
}

impl Tag {
    pub(super) fn checked(self) -> Result<TagPattern> {
        if let TagPattern::Exact(tag) = self.0 {
            check_tag(tag)?;
        }
        Ok(self.0)
    }
}

/// An error unless a message can have that tag.
pub(super) fn check_tag(tag: i32) -> Result<i32> {
    if (0..=MAX_TAG).contains(&tag) {
        return Ok(tag);
    }
    Err(Error::new(
        ErrorClass::Tag,
        format!("the tag is {tag}; choose one from 0 to {MAX_TAG}"),
    ))
}

/// Status of a received message (`MPI_Status`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Status(weft_mpi::Status);

impl Status {
    pub(super) fn of(status: weft_mpi::Status) -> Self {
        Self(status)
    }

    /// The sender; `None` if the source was `MPI_PROC_NULL`.
    #[must_use]
    pub fn source(&self) -> Option<usize> {
        self.0.source.map(|rank| rank as usize)
    }

    /// Its tag; -1 if there was no message.
    #[must_use]
    pub fn tag(&self) -> i32 {
        self.0.tag
    }

    /// Bytes of data, without padding.
    #[must_use]
    pub fn bytes(&self) -> usize {
        usize::try_from(self.0.bytes).unwrap_or(usize::MAX)
    }

    /// Number of elements of a type in the message; `None` if it is no whole number (`MPI_UNDEFINED`).
    #[must_use]
    pub fn count<T: Element>(&self) -> Option<usize> {
        let count = T::datatype().count_of(self.0.bytes)?;
        usize::try_from(count).ok()
    }

    /// Whether the receive was cancelled before a message arrived.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled
    }

    /// The elements that came, as a number; an error if the message has a part of one.
    pub(super) fn elements<T: Element>(&self) -> Result<usize> {
        self.count::<T>().ok_or_else(|| {
            let sender = self.source().map_or("nobody".to_owned(), |rank| format!("rank {rank}"));
            Error::new(
                ErrorClass::Truncate,
                format!(
                    "{sender} sent {} bytes (tag {}), which is no whole number of {}, {} bytes each; send the same type as is received",
                    self.bytes(),
                    self.tag(),
                    std::any::type_name::<T>(),
                    T::datatype().size()
                ),
            )
        })
    }
}
