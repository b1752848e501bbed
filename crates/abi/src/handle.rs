//! Handles of objects: what the number in an `MPI_Comm` says, and where the object is.
//!
//! ```text
//!   bit      30 29     26 25        20 19                 0
//!          ┌───┬─────────┬────────────┬────────────────────┐
//!   object │ 0 │  kind   │ generation │       index        │   always ≥ 2^26
//!          ├───┼─────────┴──┬─────────┴────────────────────┤
//!   request│ 1 │ the engine's own name of it (see request)│
//!          └───┴───────────────────────────────────────────┘
//! ```
//!
//! Predefined handles are the constants of the standard, below 4096: no object is confused with them.
//! All fits 31 bits, so that `MPI_Comm_toint` and its family are the identity. The generation lets a
//! handle used after its end be noticed. Requests live in the table of the engine and have no second
//! one here.
//!
//! A handle may be freed while another thread is inside a call with it (MPI 5.0, section 5.1.9: what uses
//! a datatype completes normally). The [table](weft_atomic::table) keeps what was removed in place for a
//! while, and what an operation needs beyond its call it has a counted reference of.

pub mod made;
pub mod request;

use weft_atomic::table::{GENERATION_BITS, INDEX_BITS, Table};

/// Kinds of objects. Zero is none, so that no object is below 2^26.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ObjectKind {
    Comm = 1,
    Group = 2,
    Datatype = 3,
    Op = 4,
    Info = 5,
    Errhandler = 6,
    Message = 7,
    Session = 8,
    Win = 9,
    File = 10,
    ToolCvar = 11,
    ToolSession = 12,
    ToolPvar = 13,
    ToolEvents = 14,
}

const KIND_SHIFT: u32 = INDEX_BITS + GENERATION_BITS;

/// Packs a handle.
#[inline]
pub const fn pack(kind: ObjectKind, index: u32, generation: u32) -> usize {
    let generation = generation & ((1 << GENERATION_BITS) - 1);
    ((kind as u32) << KIND_SHIFT | generation << INDEX_BITS | index) as usize
}

/// Index and generation of a handle of a kind; `None` for anything else.
#[inline]
pub const fn unpack(kind: ObjectKind, handle: usize) -> Option<(u32, u32)> {
    if handle >> KIND_SHIFT != kind as usize {
        return None;
    }
    let low = handle as u32;
    Some((
        low & ((1 << INDEX_BITS) - 1),
        low >> INDEX_BITS & ((1 << GENERATION_BITS) - 1),
    ))
}

/// An object that stands in a table of its own.
pub trait Object: Sized + 'static {
    /// Its kind.
    const KIND: ObjectKind;
    /// Its table.
    fn table() -> &'static Table<Self>;
}

macro_rules! objects {
    ($($object:ty => $kind:ident;)*) => {$(
        impl Object for $object {
            const KIND: ObjectKind = ObjectKind::$kind;
            #[inline]
            fn table() -> &'static Table<Self> {
                static TABLE: Table<$object> = Table::new();
                &TABLE
            }
        }
    )*};
}

objects! {
    std::sync::Arc<weft_mpi::Comm> => Comm;
    std::sync::Arc<weft_mpi::Group> => Group;
    std::sync::Arc<weft_mpi::Datatype> => Datatype;
    std::sync::Arc<weft_mpi::Op> => Op;
    crate::state::InfoObject => Info;
    crate::state::ErrhandlerObject => Errhandler;
    crate::state::MessageObject => Message;
    crate::state::SessionObject => Session;
    crate::state::WinObject => Win;
    crate::state::FileObject => File;
    crate::tool::handles::CvarHandle => ToolCvar;
    crate::tool::handles::Session => ToolSession;
    crate::tool::handles::PvarHandle => ToolPvar;
    std::sync::Arc<crate::tool::registrations::Registration> => ToolEvents;
}

/// The object behind a handle, if it is live.
#[inline]
pub fn find<T: Object>(handle: usize) -> Option<&'static T> {
    let (index, generation) = unpack(T::KIND, handle)?;
    T::table().get(index, generation)
}

/// A handle for a new object; `None` when the table is full.
pub fn insert<T: Object>(object: T) -> Option<usize> {
    let (index, generation) = T::table().insert(object).ok()?;
    Some(pack(T::KIND, index, generation))
}

/// Ends a handle; answers whether it was live.
pub fn remove<T: Object>(handle: usize) -> bool {
    let removed = unpack(T::KIND, handle)
        .is_some_and(|(index, generation)| T::table().remove(index, generation));
    if removed {
        made::forget(handle);
    }
    removed
}

/// The kind that a handle of an object says.
pub fn kind_of(handle: usize) -> Option<ObjectKind> {
    use ObjectKind as Kind;
    let kinds = [
        Kind::Comm,
        Kind::Group,
        Kind::Datatype,
        Kind::Op,
        Kind::Info,
        Kind::Errhandler,
        Kind::Message,
        Kind::Session,
        Kind::Win,
        Kind::File,
    ];
    kinds
        .into_iter()
        .find(|kind| handle >> KIND_SHIFT == *kind as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_fit_31_bits_and_stay_clear_of_the_constants() {
        let largest = pack(
            ObjectKind::Session,
            (1 << INDEX_BITS) - 1,
            (1 << GENERATION_BITS) - 1,
        );
        let smallest = pack(ObjectKind::Comm, 0, 0);
        assert!(
            smallest >= 4096 && largest < 1 << 30,
            "{smallest:#x} to {largest:#x}"
        );
        assert_eq!(
            unpack(ObjectKind::Session, largest),
            Some(((1 << INDEX_BITS) - 1, (1 << GENERATION_BITS) - 1))
        );
        assert_eq!(unpack(ObjectKind::Comm, largest), None);
        assert_eq!(
            unpack(ObjectKind::Comm, 0x101),
            None,
            "a predefined handle is no object"
        );
        assert_eq!(
            unpack(ObjectKind::Comm, smallest | 1 << 40),
            None,
            "a pointer is no handle"
        );
    }
}
