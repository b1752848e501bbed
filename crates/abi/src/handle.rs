//! Handles of objects: the meaning of the number in an `MPI_Comm`, and the place of the object.
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
//! Predefined handles are the constants of the standard, below 4096: no object is confused with them. All handles fit into 31 bits, so that
//! `MPI_Comm_toint` and its family are the identity. The generation reveals the use of a handle after its end. The fields of a handle are the name of
//! its object in the table of its kind. Requests are in the table of the engine, and have no second one here.
//!
//! A handle may be freed while another thread is inside a call with it (MPI 5.0, section 5.1.9: what uses a
//! datatype completes normally). The [table](weft_atomic::table) keeps removed objects in place for a while,
//! and an operation has a counted reference to everything that it needs beyond its call.

pub mod creation;
pub mod request;

use std::collections::HashMap;

use weft_atomic::table::{KIND_SHIFT, Table};

/// A table by handles, or by what is known of objects: its keys are our own, so nobody chooses them to collide.
pub type HandleMap<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// Kinds of objects. Zero is none, so that no object is below 2^26.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ObjectKind {
    // Those up to `File` are numbered as in `KINDS`.
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

/// An object that has a table.
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
                static TABLE: Table<$object> = Table::new(ObjectKind::$kind as u8);
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

/// The object of a handle, if it is live.
#[inline]
pub fn find<T: Object>(handle: usize) -> Option<&'static T> {
    T::table().get(handle)
}

/// A handle for a new object; `None` when the table is full.
pub fn insert<T: Object>(object: T) -> Option<usize> {
    T::table().insert(object).ok()
}

/// Ends a handle; returns whether it was live.
pub fn remove<T: Object>(handle: usize) -> bool {
    let removed = T::table().remove(handle);
    if removed {
        creation::forget_of(T::KIND, handle);
    }
    removed
}

/// The kinds of objects of MPI, by their numbers, from one.
const KINDS: [ObjectKind; 10] = [
    ObjectKind::Comm,
    ObjectKind::Group,
    ObjectKind::Datatype,
    ObjectKind::Op,
    ObjectKind::Info,
    ObjectKind::Errhandler,
    ObjectKind::Message,
    ObjectKind::Session,
    ObjectKind::Win,
    ObjectKind::File,
];

/// The kind in a handle of an object.
#[inline]
pub fn kind_of(handle: usize) -> Option<ObjectKind> {
    KINDS.get((handle >> KIND_SHIFT).wrapping_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::InfoObject;

    #[test]
    fn handles_fit_31_bits_and_stay_clear_of_the_constants() {
        let largest = ObjectKind::ToolEvents as usize;
        assert!((largest + 1) << KIND_SHIFT <= 1 << 30);
        assert!((ObjectKind::Comm as usize) << KIND_SHIFT >= 4096);
    }

    #[test]
    fn kinds_are_found_by_their_numbers() {
        for (place, kind) in KINDS.into_iter().enumerate() {
            assert_eq!(kind as usize, place + 1);
            assert_eq!(kind_of((kind as usize) << KIND_SHIFT | 7), Some(kind));
        }
        let beyond = (ObjectKind::ToolCvar as usize) << KIND_SHIFT;
        assert_eq!([0, 7, beyond, usize::MAX].map(kind_of), [None; 4]);
    }

    #[test]
    fn a_handle_is_that_of_its_kind_alone() {
        let handle = insert(InfoObject::new(weft_mpi::info::Info::default())).expect("room");
        assert_eq!(kind_of(handle), Some(ObjectKind::Info));
        assert!(find::<InfoObject>(handle).is_some());
        assert!(find::<std::sync::Arc<weft_mpi::Comm>>(handle).is_none());
        for other in [0x101, handle | 1 << 40, handle | 1 << 63] {
            assert!(
                find::<InfoObject>(other).is_none(),
                "{other:#x} is no handle"
            );
        }
        assert!(remove::<InfoObject>(handle));
        assert!(find::<InfoObject>(handle).is_none());
    }
}
