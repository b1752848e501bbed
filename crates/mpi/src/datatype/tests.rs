//! Datatypes against a naive expansion of the type map, and against values of the standard.
#![allow(unsafe_code)]

use std::sync::Arc;

use super::*;
use crate::buffer::{Buffer, region_of};

/// A small generator of numbers: the same ones in every run.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    pub(super) fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as u64) as i64
    }
}

/// A type map, written out.
#[derive(Clone, Default)]
pub(super) struct Naive {
    pub(super) map: Vec<(i64, Basic)>,
    marks: Vec<(i64, i64)>,
    /// The bounds of the datatypes that it is made of.
    parts: Vec<(i64, i64)>,
}

impl Naive {
    fn of(basic: Basic) -> Self {
        let mut map = vec![(0, basic)];
        if let BasicKind::Pair(value, index) = basic.kind() {
            let second = value.size().next_multiple_of(index.kind().alignment());
            map = vec![(0, value), (second as i64, index)];
        }
        let parts = map
            .iter()
            .map(|(at, basic)| (*at, at + basic.size() as i64));
        Self {
            parts: parts.collect(),
            map,
            marks: Vec::new(),
        }
        .settled()
    }

    /// As a part of others.
    fn settled(mut self) -> Self {
        if self.marks.is_empty() && !self.map.is_empty() {
            self.parts = vec![self.bounds()];
        }
        self
    }

    fn bounds(&self) -> (i64, i64) {
        if !self.marks.is_empty() {
            let lower = self.marks.iter().map(|mark| mark.0).min().unwrap();
            return (lower, self.marks.iter().map(|mark| mark.1).max().unwrap());
        }
        let Some(lower) = self.parts.iter().map(|part| part.0).min() else {
            return (0, 0);
        };
        let mut upper = self.parts.iter().map(|part| part.1).max().unwrap();
        let alignment = |entry: &(i64, Basic)| entry.1.kind().alignment() as i64;
        let alignment = self.map.iter().map(alignment).max().unwrap();
        while (upper - lower) % alignment != 0 {
            upper += 1;
        }
        (lower, upper)
    }

    fn extent(&self) -> i64 {
        self.bounds().1 - self.bounds().0
    }

    fn add(&mut self, other: &Self, by: i64) {
        self.map
            .extend(other.map.iter().map(|(at, basic)| (at + by, *basic)));
        let shift = |(low, high): &(i64, i64)| (low + by, high + by);
        self.marks.extend(other.marks.iter().map(shift));
        self.parts.extend(other.parts.iter().map(shift));
    }

    fn repeated(&self, count: i64, stride: i64) -> Self {
        let mut all = Self::default();
        for index in 0..count {
            all.add(self, index * stride);
        }
        all
    }

    fn block(&self, count: i64) -> Self {
        self.repeated(count, self.extent())
    }

    /// Displacements of all bytes of `count` elements, in order.
    fn bytes(&self, count: i64) -> Vec<i64> {
        let all = self.block(count);
        let spread = |(at, basic): &(i64, Basic)| *at..*at + basic.size() as i64;
        all.map.iter().flat_map(spread).collect()
    }
}

const BASICS: [Basic; 8] = [
    Basic::Byte,
    Basic::Short,
    Basic::Int,
    Basic::Double,
    Basic::LongDouble,
    Basic::DoubleInt,
    Basic::ShortInt,
    Basic::FloatInt,
];

pub(super) fn random(dice: &mut Random, depth: u32) -> (Arc<Datatype>, Naive) {
    if depth == 0 {
        let basic = BASICS[dice.below(BASICS.len() as u64) as usize];
        return (Arc::clone(basic.datatype()), Naive::of(basic));
    }
    let (of, naive) = random(dice, depth - 1);
    let (count, block) = (dice.between(0, 4), dice.between(0, 3));
    let list = |dice: &mut Random, low, high| -> Box<[i64]> {
        (0..count).map(|_| dice.between(low, high)).collect()
    };
    let unit = naive.extent();
    let joined = |blocks: &[i64], displacements: &[i64], unit: i64| {
        let mut all = Naive::default();
        for (block, displacement) in blocks.iter().zip(displacements) {
            all.add(&naive.block(*block), displacement * unit);
        }
        all
    };
    let (recipe, expected) = match dice.below(10) {
        0 => (Recipe::Contiguous { count, of }, naive.block(count)),
        1 => {
            let stride = dice.between(-4, 6);
            let expected = naive.block(block).repeated(count, stride * unit);
            (
                Recipe::Vector {
                    count,
                    block,
                    stride,
                    of,
                },
                expected,
            )
        }
        2 => {
            let stride = dice.between(-30, 40);
            (
                Recipe::Hvector {
                    count,
                    block,
                    stride,
                    of,
                },
                naive.block(block).repeated(count, stride),
            )
        }
        3 => {
            let (blocks, displacements) = (list(dice, 0, 3), list(dice, -5, 9));
            let expected = joined(&blocks, &displacements, unit);
            (
                Recipe::Indexed {
                    blocks,
                    displacements,
                    of,
                },
                expected,
            )
        }
        4 => {
            let (blocks, displacements) = (list(dice, 0, 3), list(dice, -50, 90));
            let expected = joined(&blocks, &displacements, 1);
            (
                Recipe::Hindexed {
                    blocks,
                    displacements,
                    of,
                },
                expected,
            )
        }
        5 => {
            let displacements = list(dice, -5, 9);
            let expected = joined(&vec![block; count as usize], &displacements, unit);
            (
                Recipe::IndexedBlock {
                    block,
                    displacements,
                    of,
                },
                expected,
            )
        }
        6 => {
            let displacements = list(dice, -50, 90);
            let expected = joined(&vec![block; count as usize], &displacements, 1);
            (
                Recipe::HindexedBlock {
                    block,
                    displacements,
                    of,
                },
                expected,
            )
        }
        7 => {
            let (other, second) = random(dice, depth - 1);
            let (blocks, displacements) = (
                [1, block, 1],
                [0, dice.between(-9, 99), dice.between(-99, 99)],
            );
            let mut expected = naive.block(1);
            expected.add(&second.block(block), displacements[1]);
            expected.add(&naive.block(1), displacements[2]);
            let of = [Arc::clone(&of), other, of].into();
            (
                Recipe::Struct {
                    blocks: blocks.into(),
                    displacements: displacements.into(),
                    of,
                },
                expected,
            )
        }
        8 => {
            let (lower, extent) = (dice.between(-20, 20), dice.between(-30, 60));
            let mut expected = naive.clone();
            expected.marks = vec![(lower, lower + extent)];
            (Recipe::Resized { lower, extent, of }, expected)
        }
        _ => (Recipe::duplicate(&of), naive.clone()),
    };
    (Datatype::build(recipe, false).unwrap(), expected.settled())
}

#[test]
fn any_datatype_is_its_type_map() {
    let mut dice = Random(0x9e37_79b9_7f4a_7c15);
    let rounds = if cfg!(miri) { 12 } else { 4000 };
    for round in 0..rounds {
        let depth = dice.below(5) as u32;
        let (datatype, naive) = random(&mut dice, depth);
        // Many elements are taken in another order than few.
        let count = match dice.below(4) {
            0 => dice.between(0, 80),
            _ => dice.between(0, 3),
        };
        let what = format!("round {round}: {datatype:?} {:?}", datatype.recipe());
        let (lower, upper) = naive.bounds();
        let size: usize = naive.map.iter().map(|entry| entry.1.size()).sum();
        assert_eq!(datatype.size(), size, "{what}");
        assert_eq!(datatype.lower_bound() as i64, lower, "{what}");
        assert_eq!(datatype.extent() as i64, upper - lower, "{what}");
        let bytes = naive.bytes(1);
        let first = bytes.iter().min().copied().unwrap_or(0);
        let last = bytes.iter().max().map_or(first, |last| last + 1);
        assert_eq!(datatype.true_lower_bound() as i64, first, "{what}");
        assert_eq!(datatype.true_extent() as i64, last - first, "{what}");
        check_copies(&datatype, &naive, count, &mut dice, &what);
        check_between_layouts(&datatype, &naive, count, &what);
        check_elements(&datatype, &naive, &what);
    }
}

/// Packs and unpacks in portions of random size.
fn check_copies(
    datatype: &Arc<Datatype>,
    naive: &Naive,
    count: i64,
    dice: &mut Random,
    what: &str,
) {
    let bytes = naive.bytes(count);
    let first = bytes.iter().min().copied().unwrap_or(0);
    let covered = bytes.iter().max().map_or(0, |last| last + 1 - first) as usize;
    let footprint = datatype.footprint(count as usize).unwrap();
    assert_eq!(
        (footprint.0 as i64, footprint.1),
        (first, covered),
        "{what}"
    );
    if let Some((offset, length)) = datatype.flat(count as usize) {
        let flat: Vec<i64> = (offset as i64..offset as i64 + length as i64).collect();
        assert_eq!(flat, bytes, "{what}");
    }
    let memory: Vec<u8> = (0..covered).map(|index| (index * 7 + 3) as u8).collect();
    let in_memory = &memory[..];
    let expected: Vec<u8> = bytes
        .iter()
        .map(|at| in_memory[(at - first) as usize])
        .collect();
    let base = memory.as_ptr().wrapping_offset(-first as isize);
    let mut packed = Vec::new();
    loop {
        let most = [40, 400, 20_000][dice.below(3) as usize];
        let mut portion = vec![0; 1 + dice.below(most) as usize];
        // SAFETY: `memory` covers all displacements of the type map.
        let length = unsafe { datatype.pack(base, count as usize, packed.len(), &mut portion) };
        packed.extend_from_slice(&portion[..length]);
        if length == 0 {
            break;
        }
    }
    assert_eq!(packed, expected, "{what}");

    let data: Vec<u8> = (0..bytes.len())
        .map(|index| (index * 11 + 5) as u8)
        .collect();
    let mut memory = vec![0xee; covered];
    let base = memory.as_mut_ptr().wrapping_offset(-first as isize);
    let mut position = 0;
    while position < data.len() {
        let most = [40, 400, 20_000][dice.below(3) as usize];
        let portion = (1 + dice.below(most) as usize).min(data.len() - position);
        let portion = &data[position..position + portion];
        // SAFETY: as above; nothing else looks at `memory` before the loop has ended.
        let length = unsafe { datatype.unpack(base, count as usize, position, portion) };
        assert_eq!(length, portion.len());
        position += length;
    }
    // SAFETY: as above.
    let beyond = unsafe { datatype.unpack(base, count as usize, position, &[1, 2, 3]) };
    assert_eq!(beyond, 0, "{what}");
    // Where pieces overlap, any of them may be there. Slices: at each index of a vector Miri looks at all of it.
    let memory = &memory[..];
    let is_right = &mut vec![None; covered][..];
    for (at, byte) in bytes.iter().zip(&data) {
        let place = (at - first) as usize;
        let is_one = is_right[place] == Some(true) || memory[place] == *byte;
        is_right[place] = Some(is_one);
    }
    let mut whole = memory.iter().zip(is_right.iter());
    assert!(
        whole.all(|(byte, is_right)| is_right.unwrap_or(*byte == 0xee)),
        "{what}"
    );
}

/// Pieces of every size that has a loop of its own, and some beyond, in every shape.
#[test]
fn pieces_of_every_size_are_copied_in_every_shape() {
    let mut dice = Random(0x1234_5678_9abc_def1);
    let sizes: Vec<i64> = match cfg!(miri) {
        true => vec![3, 17],
        false => (1..=140).chain([255, 256, 257, 5000]).collect(),
    };
    // More than the loops take at once.
    let many = if cfg!(miri) { 10 } else { 40 };
    for size in sizes {
        let byte = Naive::of(Basic::Byte);
        let piece = byte.block(size);
        let bytes = Datatype::contiguous(size, Basic::Byte.datatype()).unwrap();
        let gap = dice.between(1, 9);
        let vector = Datatype::hvector(5, 1, size + gap, &bytes).unwrap();
        let in_vector = piece.repeated(5, size + gap).settled();
        let backwards = Datatype::hvector(6, 1, -size - gap, &bytes).unwrap();
        let in_backwards = piece.repeated(6, -size - gap).settled();
        let rows = Datatype::hvector(3, 1, 6 * (size + gap), &vector).unwrap();
        let in_rows = in_vector.repeated(3, 6 * (size + gap)).settled();
        // A row that leaves some pieces however many a loop takes in one turn.
        let wide = Datatype::hvector(15, 1, size + gap, &bytes).unwrap();
        let in_wide = piece.repeated(15, size + gap).settled();
        let wide_rows = Datatype::hvector(3, 1, 16 * (size + gap), &wide).unwrap();
        let in_wide_rows = in_wide.repeated(3, 16 * (size + gap)).settled();
        let pairs = Datatype::hvector(2, 1, size + gap, &bytes).unwrap();
        let in_pairs = piece.repeated(2, size + gap).settled();
        let many_pairs = Datatype::hvector(many, 1, 3 * (size + gap), &pairs).unwrap();
        let in_many_pairs = in_pairs.repeated(many, 3 * (size + gap)).settled();
        let displacements = [0, size + gap, 2 * size + 3 * gap, 7 * size, 9 * size + 1];
        let listed = Recipe::HindexedBlock {
            block: 1,
            displacements: displacements.into(),
            of: Arc::clone(&bytes),
        };
        let listed = Datatype::build(listed, false).unwrap();
        let mut in_listed = Naive::default();
        for at in displacements {
            in_listed.add(&piece, at);
        }
        let in_listed = in_listed.settled();
        let structure = Recipe::Struct {
            blocks: [1, 2, 1].into(),
            displacements: [0, size + gap, 4 * size + 2 * gap].into(),
            of: [Arc::clone(&bytes), Arc::clone(&bytes), Arc::clone(&vector)].into(),
        };
        let structure = Datatype::build(structure, false).unwrap();
        let mut in_structure = piece.block(1);
        in_structure.add(&piece.block(2), size + gap);
        in_structure.add(&in_vector, 4 * size + 2 * gap);
        let in_structure = in_structure.settled();
        // Fields of several sizes, two at a time and one that is left.
        let fields = Recipe::Struct {
            blocks: [2, 1, 3].into(),
            displacements: [size + gap, 0, 4 * size + gap].into(),
            of: [
                Arc::clone(&bytes),
                Arc::clone(&bytes),
                Arc::clone(Basic::Byte.datatype()),
            ]
            .into(),
        };
        let fields = Datatype::build(fields, false).unwrap();
        let mut in_fields = Naive::default();
        in_fields.add(&piece.block(2), size + gap);
        in_fields.add(&piece.block(1), 0);
        in_fields.add(&byte.block(3), 4 * size + gap);
        let in_fields = in_fields.settled();
        let many_fields = Datatype::hvector(many, 1, 5 * size + gap + 4, &fields).unwrap();
        let in_many_fields = in_fields.repeated(many, 5 * size + gap + 4).settled();
        for (name, datatype, naive, counts) in [
            ("fields", many_fields, in_many_fields, [1, 2]),
            ("vector", vector, in_vector, [1, 7]),
            ("backwards", backwards, in_backwards, [1, 2]),
            ("rows", rows, in_rows, [1, 3]),
            ("wide rows", wide_rows, in_wide_rows, [1, 2]),
            ("pairs", many_pairs, in_many_pairs, [1, 2]),
            ("listed", listed, in_listed, [1, 50]),
            ("struct", structure, in_structure, [1, 41]),
        ] {
            // Miri has time for two elements alone.
            let counts = if cfg!(miri) { &[2][..] } else { &counts };
            for &count in counts {
                let what = format!("{count} of {name} of {size} bytes");
                check_copies(&datatype, &naive, count, &mut dice, &what);
                check_between_layouts(&datatype, &naive, count, &what);
            }
        }
    }
}

/// Copies elements to others of the same datatype.
fn check_between_layouts(datatype: &Datatype, naive: &Naive, count: i64, what: &str) {
    let bytes = naive.bytes(count);
    let (first, covered) = datatype.footprint(count as usize).unwrap();
    let from: Vec<u8> = (0..covered).map(|index| (index * 7 + 3) as u8).collect();
    let mut to = vec![0xee; covered];
    let mut expected = to.clone();
    {
        let (expected, from) = (&mut expected[..], &from[..]);
        for at in bytes {
            let at = (at - first as i64) as usize;
            expected[at] = from[at];
        }
    }
    let source = from.as_ptr().wrapping_offset(-first);
    let target = to.as_mut_ptr().wrapping_offset(-first);
    // SAFETY: both are the footprint of the elements.
    unsafe { datatype.copy(source, target, count as usize) };
    assert_eq!(to, expected, "{what}");
}

fn check_elements(datatype: &Datatype, naive: &Naive, what: &str) {
    let (mut bytes, mut elements) = (0, 0);
    for (_, basic) in naive.map.iter().chain(&naive.map) {
        assert_eq!(datatype.elements(bytes), Some(elements), "{what}: {bytes}");
        assert_eq!(datatype.bytes_of_elements(elements), Some(bytes), "{what}");
        for inside in 1..basic.size() as u64 {
            assert_eq!(datatype.elements(bytes + inside), None, "{what}");
        }
        bytes += basic.size() as u64;
        elements += 1;
    }
}

#[test]
fn predefined_ones_have_the_sizes_of_the_compiler() {
    let facts = [
        (Basic::DoubleInt, 12, 16),
        (Basic::LongDoubleInt, 20, 32),
        (Basic::ShortInt, 6, 8),
        (Basic::LongInt, 12, 16),
        (Basic::FloatInt, 8, 8),
        (Basic::LongDouble, 16, 16),
        (Basic::Wchar, 4, 4),
        (Basic::Complex32, 32, 32),
        (Basic::LongDoubleComplex, 32, 32),
    ];
    for (basic, size, extent) in facts {
        let datatype = basic.datatype();
        assert_eq!(
            (datatype.size(), datatype.extent()),
            (size, extent),
            "{}",
            basic.name()
        );
        assert!(datatype.is_committed() && datatype.is_predefined());
        assert_eq!(datatype.name(), basic.name());
    }
    assert_eq!(Basic::ALL.len(), 70);
}

#[test]
fn large_vectors_stay_small_and_large_sizes_are_refused() {
    let int = Basic::Int.datatype();
    let vector = Datatype::vector(1 << 40, 1, 2, int).unwrap();
    assert_eq!((vector.size(), vector.extent()), (1 << 42, (1 << 43) - 4));
    let square = Datatype::hvector(1 << 10, 1, 1 << 45, &vector).unwrap();
    assert_eq!(square.size(), 1 << 52);
    for (count, stride) in [
        (i64::MAX, 1),
        (1 << 40, 1 << 40),
        (2, i64::MAX),
        (i64::MAX, i64::MIN),
    ] {
        assert_eq!(
            Datatype::vector(count, 1, stride, int).unwrap_err().class(),
            ErrorClass::Arg
        );
    }
    assert_eq!(
        Datatype::contiguous(-1, int).unwrap_err().class(),
        ErrorClass::Count
    );
    assert_eq!(
        Datatype::vector(1, -1, 1, int).unwrap_err().class(),
        ErrorClass::Arg
    );
    assert_eq!(
        Datatype::resized(i64::MAX, i64::MAX, int)
            .unwrap_err()
            .class(),
        ErrorClass::Arg
    );
    assert_eq!(
        int.bytes(usize::MAX).unwrap_err().class(),
        ErrorClass::Count
    );
}

#[test]
fn deep_nests_are_walked_without_deep_recursion() {
    let mut datatype = Arc::clone(Basic::Byte.datatype());
    for level in 0..300 {
        let recipe = Recipe::Struct {
            blocks: [1, 1].into(),
            displacements: [0, 2 * level + 3].into(),
            of: [datatype, Arc::clone(Basic::Byte.datatype())].into(),
        };
        datatype = Datatype::build(recipe, false).unwrap();
    }
    let mut memory: Vec<u8> = (0..700).map(|index| index as u8).collect();
    let mut packed = vec![0; 400];
    // SAFETY: the last byte lies at 2 * 299 + 3.
    let length = unsafe { datatype.pack(memory.as_mut_ptr(), 1, 0, &mut packed) };
    assert_eq!(length, 301);
    assert_eq!(packed[..4], [0, 3, 5, 7]);
    assert_eq!(packed[300], (2 * 299 + 3) as u8);
}

#[test]
fn subarrays_pick_the_middle() {
    let sizes = [3, 4, 5];
    let (subsizes, starts) = ([2, 2, 3], [1, 0, 2]);
    for order in [Order::C, Order::Fortran] {
        let recipe = Recipe::Subarray {
            sizes: sizes.into(),
            subsizes: subsizes.into(),
            starts: starts.into(),
            order,
            of: Arc::clone(Basic::Byte.datatype()),
        };
        let datatype = Datatype::build(recipe, false).unwrap();
        let mut expected = Vec::new();
        let (mut at, mut index) = (0u8, [0i64; 3]);
        while at < 60 {
            let inside = (0..3)
                .all(|axis| (starts[axis]..starts[axis] + subsizes[axis]).contains(&index[axis]));
            if inside {
                expected.push(at);
            }
            at += 1;
            let axes = if order == Order::C {
                [2, 1, 0]
            } else {
                [0, 1, 2]
            };
            for axis in axes {
                index[axis] += 1;
                if index[axis] < sizes[axis] {
                    break;
                }
                index[axis] = 0;
            }
        }
        let memory: Vec<u8> = (0..60).collect();
        let mut packed = vec![0; 60];
        // SAFETY: the array has 60 bytes.
        let length = unsafe { datatype.pack(memory.as_ptr(), 1, 0, &mut packed) };
        assert_eq!(packed[..length], expected, "{order:?}");
        assert_eq!((datatype.lower_bound(), datatype.extent()), (0, 60));
    }
}

#[test]
fn shares_of_a_distributed_array_cover_it_once() {
    let block = Distribution::Block(None);
    for (sizes, distributions, processes) in [
        ([7, 10], [block, block], [2, 3]),
        ([7, 10], [Distribution::Cyclic(None), block], [3, 2]),
        (
            [9, 11],
            [Distribution::Cyclic(Some(2)), Distribution::Cyclic(Some(3))],
            [2, 2],
        ),
        (
            [5, 6],
            [Distribution::None, Distribution::Block(Some(4))],
            [1, 3],
        ),
    ] {
        for order in [Order::C, Order::Fortran] {
            let total = (sizes[0] * sizes[1]) as usize;
            let mut seen = vec![0; total];
            let size = processes[0] * processes[1];
            for rank in 0..size {
                let recipe = Recipe::Darray {
                    size,
                    rank,
                    sizes: sizes.into(),
                    distributions: distributions.into(),
                    processes: processes.into(),
                    order,
                    of: Arc::clone(Basic::Byte.datatype()),
                };
                let datatype = Datatype::build(recipe, false).unwrap();
                assert_eq!(
                    (datatype.lower_bound(), datatype.extent()),
                    (0, total as isize)
                );
                let memory: Vec<u8> = (0..total as u8).collect();
                let mut packed = vec![0; total];
                // SAFETY: the array has `total` bytes.
                let length = unsafe { datatype.pack(memory.as_ptr(), 1, 0, &mut packed) };
                packed[..length]
                    .iter()
                    .for_each(|at| seen[usize::from(*at)] += 1);
            }
            assert!(
                seen.iter().all(|times| *times == 1),
                "{distributions:?} {order:?} {seen:?}"
            );
        }
    }
}

#[test]
fn an_envelope_counts_the_contents() {
    let int = Basic::Int.datatype();
    let vector = Datatype::vector(3, 2, 4, int).unwrap();
    let recipes = [
        Recipe::duplicate(&vector.duplicate().unwrap()),
        Recipe::Struct {
            blocks: [1, 2].into(),
            displacements: [0, 80].into(),
            of: [Arc::clone(int), Arc::clone(&vector)].into(),
        },
        Recipe::HindexedBlock {
            block: 2,
            displacements: [0, 16, 40].into(),
            of: Arc::clone(int),
        },
        Recipe::Subarray {
            sizes: [4, 5].into(),
            subsizes: [2, 2].into(),
            starts: [1, 0].into(),
            order: Order::C,
            of: Arc::clone(int),
        },
        Recipe::Darray {
            size: 2,
            rank: 1,
            sizes: [8, 3].into(),
            distributions: [Distribution::Block(None), Distribution::None].into(),
            processes: [2, 1].into(),
            order: Order::Fortran,
            of: Arc::clone(int),
        },
        Recipe::Resized {
            lower: -4,
            extent: 16,
            of: Arc::clone(int),
        },
    ];
    for recipe in recipes {
        for large in [false, true] {
            let datatype = Datatype::build(recipe.clone(), large).unwrap();
            let (envelope, contents) = (datatype.envelope(), datatype.contents());
            let lengths = [
                contents.integers.len(),
                contents.addresses.len(),
                contents.counts.len(),
                contents.datatypes.len(),
            ];
            assert_eq!(
                [
                    envelope.integers,
                    envelope.addresses,
                    envelope.counts,
                    envelope.datatypes
                ],
                lengths,
                "{recipe:?}"
            );
        }
    }
    assert_eq!(int.envelope(), Envelope::default());
}

#[test]
fn contents_come_back_in_the_order_of_the_standard() {
    let int = Basic::Int.datatype();
    let recipe = Recipe::Hvector {
        count: 3,
        block: 2,
        stride: 40,
        of: Arc::clone(int),
    };
    let small = Datatype::build(recipe.clone(), false).unwrap().contents();
    assert_eq!(
        (small.integers, small.addresses, small.counts),
        (vec![3, 2], vec![40], vec![])
    );
    let large = Datatype::build(recipe, true).unwrap().contents();
    assert_eq!(
        (large.integers, large.addresses, large.counts),
        (vec![], vec![], vec![3, 2, 40])
    );
    let recipe = Recipe::Indexed {
        blocks: [1, 2].into(),
        displacements: [0, 5].into(),
        of: Arc::clone(int),
    };
    let contents = Datatype::build(recipe, false).unwrap().contents();
    assert_eq!(contents.integers, [2, 1, 2, 0, 5]);
    assert!(Arc::ptr_eq(&contents.datatypes[0], int));
    assert!(int.contents().datatypes.is_empty());
}

/// Packs and unpacks values in `external32`; answers the packed form.
fn around(basic: Basic, values: &mut [u8]) -> Result<Vec<u8>> {
    let (count, datatype) = (values.len() / basic.size(), basic.datatype());
    let flat = |bytes: &mut [u8]| Buffer::untyped(region_of(bytes));
    let mut packed = vec![0xaa; datatype.external_size(count)? + 3];
    let room = region_of(&mut packed);
    let end = pack_external(&flat(values), count, datatype, &room, 2)?;
    assert_eq!(end, room.len() - 1);
    assert!(pack_external(&flat(values), count, datatype, &room, 4).is_err());
    let mut back = vec![0; values.len()];
    assert_eq!(
        unpack_external(&room, 2, &flat(&mut back), count, datatype)?,
        end
    );
    assert_eq!(back, values, "{}", basic.name());
    Ok(packed[2..end].to_vec())
}

#[test]
fn external_data_are_big_endian_with_widths_of_their_own() {
    let mut longs: Vec<u8> = [1i64, -2]
        .iter()
        .flat_map(|one| one.to_ne_bytes())
        .collect();
    assert_eq!(
        around(Basic::Long, &mut longs).unwrap(),
        [0, 0, 0, 1, 255, 255, 255, 254]
    );
    let mut wide = (1i64 << 31).to_ne_bytes();
    assert_eq!(
        around(Basic::Long, &mut wide).unwrap_err().class(),
        ErrorClass::Arg
    );
    assert_eq!(
        around(Basic::UnsignedLong, &mut wide).unwrap(),
        [128, 0, 0, 0]
    );
    assert_eq!(
        around(Basic::Int64, &mut wide).unwrap(),
        [0, 0, 0, 0, 128, 0, 0, 0]
    );
    let mut real = 1.0f64.to_ne_bytes();
    assert_eq!(
        around(Basic::Double, &mut real).unwrap(),
        [63, 240, 0, 0, 0, 0, 0, 0]
    );
    assert_eq!(
        around(Basic::Wchar, &mut 0x20acu32.to_ne_bytes()).unwrap(),
        [0x20, 0xac]
    );
    for &basic in Basic::ALL
        .iter()
        .filter(|basic| !matches!(basic.kind(), BasicKind::Pair(..)))
    {
        // Zeros are a value of everything.
        around(basic, &mut vec![0; 3 * basic.size()]).unwrap();
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn external_long_doubles_are_quads() {
    // 1.5 as x87 extended, and as binary128.
    let mut extended = [0; 16];
    extended[7..10].copy_from_slice(&[0xc0, 0xff, 0x3f]);
    let quad = around(Basic::LongDouble, &mut extended).unwrap();
    assert_eq!(quad[..4], [0x3f, 0xff, 0x80, 0]);
    assert!(quad[4..].iter().all(|byte| *byte == 0));
}

#[test]
fn packed_data_are_the_data_alone() {
    let column = Datatype::vector(3, 1, 2, Basic::Int16.datatype()).unwrap();
    let mut matrix: Vec<u8> = (0..12).collect();
    // SAFETY: the matrix holds one column, and is not looked at while the buffer is used.
    let buffer = unsafe { Buffer::new(matrix.as_mut_ptr(), 1, &column) };
    let mut packed = vec![0; 8];
    let room = region_of(&mut packed);
    assert_eq!(pack(&buffer, &room, 1).unwrap(), 7);
    assert_eq!(
        pack(&buffer, &room, 3).unwrap_err().class(),
        ErrorClass::Truncate
    );
    assert_eq!(packed, [0, 0, 1, 4, 5, 8, 9, 0]);
    let room = region_of(&mut packed);
    let mut other = vec![0xee; 12];
    // SAFETY: as above.
    let buffer = unsafe { Buffer::new(other.as_mut_ptr(), 1, &column) };
    assert_eq!(unpack(&room, 1, &buffer).unwrap(), 7);
    assert_eq!(
        unpack(&room, 3, &buffer).unwrap_err().class(),
        ErrorClass::Truncate
    );
    assert_eq!(
        other,
        [0, 1, 0xee, 0xee, 4, 5, 0xee, 0xee, 8, 9, 0xee, 0xee]
    );
}

/// Work on a stack like the smallest of fibers.
fn on_a_small_stack(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(16 << 10).spawn(work);
    thread.expect("a thread").join().expect("it does not panic");
}

/// A program that duplicates, frees the original and repeats that keeps one datatype, however often it does so.
#[test]
fn a_chain_of_duplicates_keeps_the_first_only() {
    on_a_small_stack(|| {
        let first = Datatype::vector(2, 1, 3, Basic::Int.datatype()).unwrap();
        let mut last = first.duplicate().unwrap();
        for _ in 1..1_000_000 {
            last = last.duplicate().unwrap();
        }
        assert_eq!(Arc::strong_count(&first), 2);
        assert!(!last.is_committed());
        last.commit();
        let committed = last.duplicate().unwrap();
        assert!(committed.is_committed(), "as what it was made of");
        // What it is made of is a duplicate, and so on down to the first.
        for (levels, of_first) in [(3, false), (2, false), (1, true)] {
            let mut one = first.duplicate().unwrap();
            for _ in 1..levels {
                one = one.duplicate().unwrap();
            }
            let contents = one.contents();
            assert_eq!(contents.datatypes.len(), 1);
            assert_eq!(Arc::ptr_eq(&contents.datatypes[0], &first), of_first);
            let combiner = contents.datatypes[0].combiner();
            assert_eq!(combiner == Combiner::Dup, !of_first);
        }
    });
}

/// A datatype keeps all that it was built from. The end of a long chain takes no stack.
#[test]
fn a_chain_of_constructors_ends_without_recursion() {
    on_a_small_stack(|| {
        let mut contiguous = Datatype::contiguous(1, Basic::Int.datatype()).unwrap();
        let mut structure = Arc::clone(&contiguous);
        for number in 0..100_000 {
            contiguous = Datatype::contiguous(1, &contiguous).unwrap();
            let recipe = Recipe::Struct {
                blocks: [1, 1].into(),
                displacements: [0, 4 + number].into(),
                of: [structure, Arc::clone(Basic::Byte.datatype())].into(),
            };
            structure = Datatype::build(recipe, false).unwrap();
        }
        assert_eq!(structure.elements(4 + 100_000), Some(1 + 100_000));
        assert_eq!(structure.size(), 4 + 100_000);
    });
}

/// Vectors of vectors: neither their construction nor packing needs a stack that grows with them.
#[test]
fn deep_nesting_is_packed_on_a_small_stack() {
    on_a_small_stack(|| {
        let mut nested = Arc::clone(Basic::Byte.datatype());
        let mut offsets = vec![0usize];
        for level in 0..14u32 {
            // Twice, with a gap as long as the element: nothing merges.
            let extent = nested.extent();
            let stride = 2 * extent as i64 + i64::from(level % 2);
            nested = Datatype::hvector(2, 1, stride, &nested).unwrap();
            let second: Vec<usize> = offsets.iter().map(|at| at + stride as usize).collect();
            offsets.extend(second);
        }
        let memory: Vec<u8> = (0..nested.extent() as usize)
            .map(|at| (at * 7 + (at >> 8)) as u8)
            .collect();
        let mut packed = vec![0; nested.size()];
        // SAFETY: the memory is as long as the element.
        let length = unsafe { nested.pack(memory.as_ptr(), 1, 0, &mut packed) };
        assert_eq!(length, offsets.len());
        assert!(
            packed
                .iter()
                .zip(&offsets)
                .all(|(byte, at)| *byte == memory[*at])
        );
        // From the middle of it, in parts.
        let mut part = [0; 100];
        for from in [1, 99, 5000, offsets.len() - 100] {
            // SAFETY: as above.
            unsafe { nested.pack(memory.as_ptr(), 1, from, &mut part) };
            assert_eq!(part, packed[from..from + 100]);
        }
    });
}

/// The size of the external form is arithmetic, also of what no memory could hold.
#[test]
fn external_sizes_of_the_empty_and_the_vast() {
    let pair = Basic::LongDoubleInt.datatype();
    let many = Datatype::contiguous(1 << 50, pair).unwrap();
    assert_eq!(many.external_size(1).unwrap(), 20 << 50);
    let empty = Recipe::Struct {
        blocks: [].into(),
        displacements: [].into(),
        of: [].into(),
    };
    let empty = Datatype::build(empty, false).unwrap();
    let empties = Datatype::contiguous(1 << 40, &empty).unwrap();
    assert_eq!(empties.external_size(1 << 40).unwrap(), 0);
    assert_eq!(empties.elements(0), Some(0));
    assert_eq!(empties.elements(1), None);
}

/// More elements than any number of bytes counts, all at one place: what there is room for is packed, and no more.
#[test]
fn a_count_beyond_all_bytes_is_packed_as_far_as_there_is_room() {
    let doubles = Datatype::vector(2, 1, 2, Basic::Double.datatype()).unwrap();
    let at_one_place = Datatype::resized(0, 0, &doubles).unwrap();
    let (memory, mut out) = ([1.0_f64, 0.0, 3.0], [0; 40]);
    // So many times 16 bytes are 32, but for the bits that are lost.
    let count = (1 << 60) + 2;
    for room in [16, 32, 40] {
        // SAFETY: all elements lie in `memory`.
        let packed =
            unsafe { at_one_place.pack(memory.as_ptr().cast(), count, 0, &mut out[..room]) };
        assert_eq!(packed, room);
    }
    let first = [1.0_f64, 3.0, 1.0, 3.0, 1.0].map(f64::to_ne_bytes);
    assert_eq!(out, first.as_flattened());
}
