//! Elements that the processor changes at once: of 1, 2, 4 or 8 bytes, at a multiple of as many.

use weft_atomic::Ordering::{AcqRel, Acquire};
use weft_fabric::Region;

use crate::datatype::{BasicKind, Scalar};
use crate::op::{Combine, Predefined};

/// Whether the processor has atomic instructions for elements of so many bytes.
#[inline]
pub(super) fn is_word(size: usize) -> bool {
    matches!(size, 1 | 2 | 4 | 8)
}

/// What is done to a word, where an instruction does it all.
#[derive(Clone, Copy)]
enum Instruction {
    Load,
    Swap,
    Add,
    And,
    Or,
    Xor,
    /// None does, but it is short enough to be computed here.
    AddFloat,
    AddDouble,
    /// None does: it is computed, and stored if nobody was faster.
    Compute,
}

impl Instruction {
    fn of(combine: &Combine) -> Self {
        let kind = combine.basic().kind();
        let integer = match kind {
            BasicKind::Integer(_)
            | BasicKind::FortranInteger(_)
            | BasicKind::Address(_)
            | BasicKind::Byte => true,
            // Bitwise operations are defined for none of the others.
            BasicKind::Logical(_) | BasicKind::Floating(_) | BasicKind::Complex(_) => false,
            BasicKind::Character(Scalar::I8) => true,
            BasicKind::Character(_) | BasicKind::Packed | BasicKind::Pair(..) => false,
        };
        match combine.operation() {
            Predefined::NoOp => Self::Load,
            Predefined::Replace => Self::Swap,
            Predefined::Sum if integer => Self::Add,
            Predefined::Sum if kind == BasicKind::Floating(Scalar::F32) => Self::AddFloat,
            Predefined::Sum if kind == BasicKind::Floating(Scalar::F64) => Self::AddDouble,
            Predefined::Band if integer => Self::And,
            Predefined::Bor if integer => Self::Or,
            Predefined::Bxor if integer => Self::Xor,
            _ => Self::Compute,
        }
    }
}

/// The sum of two numbers given by their bits.
#[inline]
fn add_floats(one: u64, two: u64) -> u64 {
    let sum = f32::from_bits(one as u32) + f32::from_bits(two as u32);
    sum.to_bits().into()
}

#[inline]
fn add_doubles(one: u64, two: u64) -> u64 {
    (f64::from_bits(one) + f64::from_bits(two)).to_bits()
}

macro_rules! words {
    ($($function:ident $swap:ident $number:ty, $atomic:ident;)*) => {$(
        /// Combines the elements from `at`, one after the other.
        fn $function(
            region: &Region,
            at: usize,
            combine: &Combine,
            operand: &mut [u8],
            mut fetched: Option<&mut [u8]>,
        ) {
            const SIZE: usize = size_of::<$number>();
            let instruction = Instruction::of(combine);
            let add = if matches!(instruction, Instruction::AddFloat) { add_floats } else { add_doubles };
            for (index, one) in operand.as_chunks_mut::<SIZE>().0.iter_mut().enumerate() {
                let Some(word) = region.$atomic(at + index * SIZE) else { return };
                let value = <$number>::from_ne_bytes(*one);
                let old = match instruction {
                    Instruction::Load => word.load(Acquire),
                    Instruction::Swap => word.swap(value, AcqRel),
                    Instruction::Add => word.fetch_add(value, AcqRel),
                    Instruction::And => word.fetch_and(value, AcqRel),
                    Instruction::Or => word.fetch_or(value, AcqRel),
                    Instruction::Xor => word.fetch_xor(value, AcqRel),
                    Instruction::AddFloat | Instruction::AddDouble => {
                        let add = |old: $number| Some(add(old.into(), value.into()) as $number);
                        let done = word.fetch_update(AcqRel, Acquire, add);
                        done.unwrap_or_default()
                    }
                    Instruction::Compute => {
                        let computed = |old: $number| {
                            let mut new = old.to_ne_bytes();
                            combine.run(one, &mut new);
                            Some(<$number>::from_ne_bytes(new))
                        };
                        let done = word.fetch_update(AcqRel, Acquire, computed);
                        done.unwrap_or_default()
                    }
                };
                if let Some(fetched) = &mut fetched {
                    fetched[index * SIZE..][..SIZE].copy_from_slice(&old.to_ne_bytes());
                }
            }
        }

        /// Swaps the element that the part is.
        fn $swap(part: &Region, compare: &[u8], new: &[u8], fetched: &mut [u8]) {
            let number = |bytes: &[u8]| {
                let mut word = <$number>::default().to_ne_bytes();
                word.copy_from_slice(bytes);
                <$number>::from_ne_bytes(word)
            };
            if let Some(word) = part.$atomic(0) {
                let swapped = word.compare_exchange(number(compare), number(new), AcqRel, Acquire);
                let old = swapped.unwrap_or_else(|old| old);
                fetched.copy_from_slice(&old.to_ne_bytes());
            }
        }
    )*};
}

words! {
    combine_1 swap_1 u8, atomic_u8;
    combine_2 swap_2 u16, atomic_u16;
    combine_4 swap_4 u32, atomic_u32;
    combine_8 swap_8 u64, atomic_u64;
}

/// Combines elements of one piece, which is aligned to them.
#[inline]
pub(super) fn combine(
    region: &Region,
    at: usize,
    combine: &Combine,
    operand: &mut [u8],
    fetched: Option<&mut [u8]>,
) {
    match combine.basic().size() {
        1 => combine_1(region, at, combine, operand, fetched),
        2 => combine_2(region, at, combine, operand, fetched),
        4 => combine_4(region, at, combine, operand, fetched),
        _ => combine_8(region, at, combine, operand, fetched),
    }
}

/// Swaps an element, which is aligned and as long as the other three.
#[inline]
pub(super) fn compare_and_swap(part: &Region, compare: &[u8], new: &[u8], fetched: &mut [u8]) {
    match new.len() {
        1 => swap_1(part, compare, new, fetched),
        2 => swap_2(part, compare, new, fetched),
        4 => swap_4(part, compare, new, fetched),
        _ => swap_8(part, compare, new, fetched),
    }
}
