//! Datatypes built from any numbers, and data packed and unpacked with them: what a constructor takes
//! has to be right, and the bytes stay within the bounds that it names.

use std::sync::Arc;

use weft_fabric::Region;
use weft_mpi::Buffer;
use weft_mpi::datatype::{Basic, Datatype, Order, Recipe, pack, unpack};

use super::script::Script;

/// Bytes that one test may take.
const ROOM: usize = 1 << 20;

/// Builds up to eight types, one from the other, and packs with each.
pub fn run(bytes: &[u8]) {
    let mut script = Script::new(bytes);
    let mut types: Vec<Arc<Datatype>> = [Basic::Byte, Basic::Int, Basic::Double]
        .iter()
        .map(|basic| Arc::clone(basic.datatype()))
        .collect();
    while !script.is_over() && types.len() < 11 {
        let Ok(built) = Datatype::build(recipe(&mut script, &types), true) else {
            continue;
        };
        pack_and_back(&built, usize::from(script.byte() % 4));
        let contents = built.contents();
        assert_eq!(contents.datatypes.len(), built.contents().datatypes.len());
        types.push(built);
    }
}

fn recipe(script: &mut Script<'_>, types: &[Arc<Datatype>]) -> Recipe {
    let of = |script: &mut Script<'_>| Arc::clone(&types[usize::from(script.byte()) % types.len()]);
    let kind = script.byte() % 11;
    let many = usize::from(script.byte() % 5);
    let of_one = of(script);
    match kind {
        0 => Recipe::Contiguous {
            count: script.count(),
            of: of_one,
        },
        1 => Recipe::Vector {
            count: script.count(),
            block: script.count(),
            stride: script.count(),
            of: of_one,
        },
        2 => Recipe::Hvector {
            count: script.count(),
            block: script.count(),
            stride: script.count(),
            of: of_one,
        },
        3 => Recipe::Indexed {
            blocks: script.counts(many),
            displacements: script.counts(many),
            of: of_one,
        },
        4 => Recipe::Hindexed {
            blocks: script.counts(many),
            displacements: script.counts(many),
            of: of_one,
        },
        5 => Recipe::IndexedBlock {
            block: script.count(),
            displacements: script.counts(many),
            of: of_one,
        },
        6 => Recipe::HindexedBlock {
            block: script.count(),
            displacements: script.counts(many),
            of: of_one,
        },
        7 => Recipe::Struct {
            blocks: script.counts(many),
            displacements: script.counts(many),
            of: (0..many).map(|_| of(script)).collect(),
        },
        8 => Recipe::Subarray {
            sizes: script.counts(many),
            subsizes: script.counts(many),
            starts: script.counts(many),
            order: if script.byte().is_multiple_of(2) {
                Order::C
            } else {
                Order::Fortran
            },
            of: of_one,
        },
        9 => Recipe::Resized {
            lower: script.count(),
            extent: script.count(),
            of: of_one,
        },
        _ => Recipe::duplicate(&of_one),
    }
}

/// Packs `count` elements, unpacks them elsewhere, packs again: the same bytes.
fn pack_and_back(datatype: &Arc<Datatype>, count: usize) {
    datatype.commit();
    let (Ok(bytes), Ok((lowest, span))) = (datatype.bytes(count), datatype.footprint(count)) else {
        return;
    };
    if bytes > ROOM || span > ROOM {
        return;
    }
    // Exactly the footprint, so that a sanitizer sees the first byte beside it.
    let mut one: Vec<u8> = (0..span)
        .map(|place| (place * 31 + (place >> 8)) as u8)
        .collect();
    let mut other = vec![0; span];
    let mut first = vec![0; bytes];
    let mut second = vec![0; bytes];
    // SAFETY: each buffer and each region ends with its call, before the memory is used otherwise.
    let ends = unsafe {
        [
            pack(
                &buffer(datatype, count, &mut one, lowest),
                &region(&mut first),
                0,
            ),
            unpack(
                &region(&mut first),
                0,
                &buffer(datatype, count, &mut other, lowest),
            ),
            pack(
                &buffer(datatype, count, &mut other, lowest),
                &region(&mut second),
                0,
            ),
        ]
    };
    for end in ends {
        assert_eq!(end.ok(), Some(bytes));
    }
    assert_eq!(first, second);
}

/// # Safety
/// The memory must outlive the region, and not be touched meanwhile.
unsafe fn region(memory: &mut [u8]) -> Region {
    // SAFETY: valid for its length, by the caller's promise.
    unsafe { Region::new(memory.as_mut_ptr(), memory.len()) }
}

/// # Safety
/// The memory must outlive the buffer, and not be touched meanwhile.
unsafe fn buffer(
    datatype: &Arc<Datatype>,
    count: usize,
    memory: &mut [u8],
    lowest: isize,
) -> Buffer {
    let address = memory.as_mut_ptr().wrapping_offset(lowest.wrapping_neg());
    // SAFETY: `memory` is the whole footprint, which begins `lowest` bytes from the address.
    unsafe { Buffer::new(address, count, datatype) }
}
