//! Predefined groups, datatypes and operations by their handles.

use std::sync::{Arc, LazyLock, OnceLock};

use weft_mpi::datatype::{Basic, BasicKind, Datatype, Recipe, SignatureCode};
use weft_mpi::op::Predefined;
use weft_mpi::{Group, Op};

use crate::c;
use crate::generated::constants as k;

/// `MPI_GROUP_EMPTY`.
pub fn empty_group() -> &'static Arc<Group> {
    static EMPTY: OnceLock<Arc<Group>> = OnceLock::new();
    EMPTY.get_or_init(|| Arc::new(Group::of(Vec::new())))
}

/// First handle of the predefined datatypes, and how many handles the standard reserves for them.
const DATATYPES: (usize, usize) = (0x200, 0x200);

/// Predefined datatypes by handle, from the table.
static BASICS: [Option<Basic>; DATATYPES.1] = {
    let mut basics = [None; DATATYPES.1];
    let mut row = 0;
    while row < k::DATATYPES.len() {
        basics[k::DATATYPES[row].0 - DATATYPES.0] = Some(k::DATATYPES[row].2);
        row += 1;
    }
    basics
};

/// For predefined datatypes by handle, if elements are contiguous: the bytes of an element in the lower half, the
/// signature code in the upper one. 0 for all others.
static DENSE: [u32; DATATYPES.1] = {
    let mut dense = [0; DATATYPES.1];
    let mut row = 0;
    while row < k::DATATYPES.len() {
        let (handle, size, basic) = k::DATATYPES[row];
        // A pair may have a gap.
        if !matches!(basic.kind(), BasicKind::Pair(..)) {
            assert!(size <= u8::MAX as usize);
            let code = SignatureCode::of(basic).bits() as u32;
            dense[handle - DATATYPES.0] = size as u32 | code << 16;
        }
        row += 1;
    }
    dense
};

/// Bytes of an element of a predefined datatype, if its elements are contiguous without gaps; otherwise 0. With the code of
/// their signature, which holds for any number of them.
#[inline]
pub fn dense(handle: c::Datatype) -> (usize, SignatureCode) {
    let entry = DENSE.get(handle.0.wrapping_sub(DATATYPES.0));
    let entry = entry.map_or(0, |entry| *entry);
    let code = SignatureCode::from_bits((entry >> 16) as u16);
    ((entry & 0xffff) as usize, code)
}

/// The kind of a handle's predefined operation.
#[inline]
pub fn predefined_kind(handle: c::Op) -> Option<Predefined> {
    let place = *PLACES.get(handle.0.wrapping_sub(k::MPI_OP_NULL.0))?;
    Some(OPERATIONS.get(usize::from(place?))?.1)
}

/// The predefined datatype of a handle.
#[inline]
pub fn predefined_datatype(handle: c::Datatype) -> Option<Basic> {
    *BASICS.get(handle.0.wrapping_sub(DATATYPES.0))?
}

/// The handle of a predefined datatype.
pub fn handle_of_basic(basic: Basic) -> c::Datatype {
    let row = k::DATATYPES.iter().find(|(_, _, other)| *other == basic);
    row.map_or(k::MPI_DATATYPE_NULL, |(handle, _, _)| c::Datatype(*handle))
}

/// Replaces `MPI_DATATYPE_NULL` in a structure, for entries without elements.
pub fn no_datatype() -> &'static Arc<Datatype> {
    static NOTHING: LazyLock<Arc<Datatype>> = LazyLock::new(|| {
        let recipe = Recipe::Contiguous {
            count: 0,
            of: Arc::clone(Basic::Byte.datatype()),
        };
        Datatype::build(recipe, false).expect("no elements fit any memory")
    });
    &NOTHING
}

/// Predefined operations and their handles.
const OPERATIONS: [(c::Op, Predefined); 14] = [
    (k::MPI_SUM, Predefined::Sum),
    (k::MPI_MIN, Predefined::Min),
    (k::MPI_MAX, Predefined::Max),
    (k::MPI_PROD, Predefined::Prod),
    (k::MPI_BAND, Predefined::Band),
    (k::MPI_BOR, Predefined::Bor),
    (k::MPI_BXOR, Predefined::Bxor),
    (k::MPI_LAND, Predefined::Land),
    (k::MPI_LOR, Predefined::Lor),
    (k::MPI_LXOR, Predefined::Lxor),
    (k::MPI_MINLOC, Predefined::Minloc),
    (k::MPI_MAXLOC, Predefined::Maxloc),
    (k::MPI_REPLACE, Predefined::Replace),
    (k::MPI_NO_OP, Predefined::NoOp),
];

/// Number of handles, from `MPI_OP_NULL`, that the standard reserves for operations.
const OPERATION_HANDLES: usize = 32;

/// The place of a handle's operation in [`OPERATIONS`].
static PLACES: [Option<u8>; OPERATION_HANDLES] = {
    let mut places = [None; OPERATION_HANDLES];
    let mut place = 0;
    while place < OPERATIONS.len() {
        places[OPERATIONS[place].0.0 - k::MPI_OP_NULL.0] = Some(place as u8);
        place += 1;
    }
    places
};

/// The predefined operation of a handle.
#[inline]
pub fn predefined_operation(handle: c::Op) -> Option<&'static Arc<Op>> {
    static OBJECTS: LazyLock<[Arc<Op>; OPERATIONS.len()]> =
        LazyLock::new(|| OPERATIONS.map(|(_, operation)| Op::predefined(operation)));
    let place = (*PLACES.get(handle.0.wrapping_sub(k::MPI_OP_NULL.0))?)?;
    OBJECTS.get(usize::from(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predefined_datatypes_are_as_the_table_says() {
        for (handle, size, basic) in k::DATATYPES {
            assert_eq!(predefined_datatype(c::Datatype(*handle)), Some(*basic));
            assert_eq!(basic.datatype().size(), *size, "{}", basic.name());
            assert_eq!(handle_of_basic(*basic), c::Datatype(*handle));
            let (size_here, code) = dense(c::Datatype(*handle));
            if size_here > 0 {
                assert_eq!(code, basic.datatype().code(7), "{}", basic.name());
                assert_eq!(basic.datatype().flat(3), Some((0, 3 * size_here)));
            }
            if handle & 0x340 == 0x240 {
                assert_eq!(
                    1 << (handle >> 3 & 7),
                    *size,
                    "the handle of {} says its size",
                    basic.name()
                );
            }
        }
        assert_eq!(predefined_datatype(k::MPI_DATATYPE_NULL), None);
        assert_eq!(predefined_datatype(c::Datatype(0x1ff)), None);
        assert_eq!(predefined_datatype(c::Datatype(usize::MAX)), None);
        for handle in [
            k::MPI_DATATYPE_NULL,
            c::Datatype(0x1ff),
            c::Datatype(usize::MAX),
        ] {
            assert_eq!(dense(handle).0, 0);
        }
        assert_eq!(dense(k::MPI_BYTE).0, 1);
        assert_eq!(dense(k::MPI_SHORT_INT).0, 0, "there may be a gap");
    }

    #[test]
    fn predefined_operations_have_their_handles() {
        for (handle, operation) in OPERATIONS {
            let found = predefined_operation(handle).and_then(|op| op.as_predefined());
            assert_eq!(found, Some(operation));
        }
        assert!(predefined_operation(k::MPI_OP_NULL).is_none());
        assert!(predefined_operation(c::Op(0x101)).is_none());
    }
}
