//! Words: elements of 1, 2, 4 or 8 bytes, at a multiple of as many, which the processor changes at once.

use weft_atomic::Ordering::{AcqRel, Acquire, Relaxed};
use weft_fabric::Region;

use crate::datatype::{Basic, BasicKind, Scalar};
use crate::op::{Combine, Predefined};

/// Whether the processor has atomic instructions for elements of so many bytes.
#[inline]
pub(super) const fn is_word(size: usize) -> bool {
    matches!(size, 1 | 2 | 4 | 8)
}

/// Who else may change the elements meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Others {
    /// Anybody: each element is changed at once.
    Any,
    /// Nobody: the lock is held. Others may look all the same.
    None,
}

/// What is done to a word, where an instruction does it all, or a short computation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Instruction {
    Load,
    Swap,
    Add,
    And,
    Or,
    Xor,
    AddFloat,
    AddDouble,
}

impl Instruction {
    const fn of(operation: Predefined, basic: Basic) -> Option<Self> {
        if !operation.is_defined_for(basic) {
            return None;
        }
        let kind = basic.kind();
        // Bitwise operations are defined for none of the others.
        let integer = matches!(
            kind,
            BasicKind::Integer(_)
                | BasicKind::FortranInteger(_)
                | BasicKind::Address(_)
                | BasicKind::Byte
                | BasicKind::Character(Scalar::I8)
        );
        Some(match operation {
            Predefined::NoOp => Self::Load,
            Predefined::Replace => Self::Swap,
            Predefined::Sum if integer => Self::Add,
            Predefined::Sum if matches!(kind, BasicKind::Floating(Scalar::F32)) => Self::AddFloat,
            Predefined::Sum if matches!(kind, BasicKind::Floating(Scalar::F64)) => Self::AddDouble,
            Predefined::Band if integer => Self::And,
            Predefined::Bor if integer => Self::Or,
            Predefined::Bxor if integer => Self::Xor,
            _ => return None,
        })
    }
}

/// A predefined operation on words, which needs no loop of [`Combine`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WordOperation {
    instruction: Instruction,
    size: u8,
}

const OPERATIONS: usize = Predefined::ALL.len();

static WORD_OPERATIONS: [[Option<WordOperation>; Basic::ALL.len()]; OPERATIONS] = {
    let mut table = [[None; Basic::ALL.len()]; OPERATIONS];
    let mut place = 0;
    while place < OPERATIONS * Basic::ALL.len() {
        let operation = Predefined::ALL[place / Basic::ALL.len()];
        let basic = Basic::ALL[place % Basic::ALL.len()];
        let size = basic.kind().size();
        if is_word(size)
            && let Some(instruction) = Instruction::of(operation, basic)
        {
            table[operation as usize][basic as usize] = Some(WordOperation {
                instruction,
                size: size as u8,
            });
        }
        place += 1;
    }
    table
};

impl WordOperation {
    /// `None` if it is none, or not defined for such elements.
    #[inline]
    pub(crate) fn of(operation: Predefined, basic: Basic) -> Option<Self> {
        WORD_OPERATIONS[operation as usize][basic as usize]
    }

    /// Whether it only reads.
    #[inline]
    pub(crate) fn only_reads(self) -> bool {
        self.instruction == Instruction::Load
    }

    /// Combines the word at byte `at` of the region with the operand, zero without one; what it was goes to `fetched`. False,
    /// and nothing done, if it is not there or not aligned, or the others are too short.
    #[inline]
    pub(super) fn run(
        self,
        region: &Region,
        at: usize,
        operand: Option<&Region>,
        fetched: Option<&Region>,
        others: Others,
    ) -> bool {
        let sides = (operand, fetched);
        let done = match self.size {
            8 => run_8(self.instruction, region, at, sides, others),
            4 => run_4(self.instruction, region, at, sides, others),
            2 => run_2(self.instruction, region, at, sides, others),
            _ => run_1(self.instruction, region, at, sides, others),
        };
        done.is_some()
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
    ($($run:ident $combine:ident $swap:ident $number:ty, $atomic:ident;)*) => {$(
        /// Combines one word, as [`WordOperation::run`].
        #[inline]
        fn $run(
            instruction: Instruction,
            region: &Region,
            at: usize,
            (operand, fetched): (Option<&Region>, Option<&Region>),
            others: Others,
        ) -> Option<()> {
            let word = region.$atomic(at)?;
            let value = match operand {
                Some(operand) => <$number>::from_ne_bytes(operand.read()?),
                None => 0,
            };
            if fetched.is_some_and(|fetched| fetched.len() < size_of::<$number>()) {
                return None;
            }
            let added = |old: $number| match instruction {
                Instruction::AddFloat => add_floats(old.into(), value.into()) as $number,
                _ => add_doubles(old.into(), value.into()) as $number,
            };
            let old = if others == Others::None {
                let old = word.load(Relaxed);
                let new = match instruction {
                    Instruction::Load => old,
                    Instruction::Swap => value,
                    Instruction::Add => old.wrapping_add(value),
                    Instruction::And => old & value,
                    Instruction::Or => old | value,
                    Instruction::Xor => old ^ value,
                    Instruction::AddFloat | Instruction::AddDouble => added(old),
                };
                word.store(new, Relaxed);
                old
            } else {
                match instruction {
                    Instruction::Load => word.load(Acquire),
                    Instruction::Swap => word.swap(value, AcqRel),
                    Instruction::Add => word.fetch_add(value, AcqRel),
                    Instruction::And => word.fetch_and(value, AcqRel),
                    Instruction::Or => word.fetch_or(value, AcqRel),
                    Instruction::Xor => word.fetch_xor(value, AcqRel),
                    Instruction::AddFloat | Instruction::AddDouble => {
                        let update = word.fetch_update(AcqRel, Relaxed, |old| Some(added(old)));
                        update.unwrap_or_default()
                    }
                }
            };
            if let Some(fetched) = fetched {
                // It is long enough.
                let _ = fetched.write(old.to_ne_bytes());
            }
            Some(())
        }

        /// Combines elements by what no instruction does: computed, and stored if nobody was faster.
        fn $combine(place: &Region, combine: &Combine, operand: &Region, fetched: Option<&Region>) {
            const SIZE: usize = size_of::<$number>();
            for at in (0..place.len()).step_by(SIZE) {
                let (Some(word), Some(one)) = (place.$atomic(at), operand.part(at, SIZE)) else {
                    return;
                };
                let computed = |old: $number| {
                    let mut new = old.to_ne_bytes();
                    combine.run_at(&one, &crate::buffer::region_of(&mut new));
                    Some(<$number>::from_ne_bytes(new))
                };
                let old = word.fetch_update(AcqRel, Acquire, computed).unwrap_or_default();
                if let Some(fetched) = fetched.and_then(|all| all.part(at, SIZE)) {
                    fetched.copy_from_slice(&old.to_ne_bytes());
                }
            }
        }

        /// Swaps one word, as [`swap_word`].
        #[inline]
        fn $swap(
            region: &Region,
            at: usize,
            [compare, new, fetched]: [&Region; 3],
            others: Others,
        ) -> Option<()> {
            let word = region.$atomic(at)?;
            let compare = <$number>::from_ne_bytes(compare.read()?);
            let new = <$number>::from_ne_bytes(new.read()?);
            if fetched.len() < size_of::<$number>() {
                return None;
            }
            let old = if others == Others::None {
                let old = word.load(Relaxed);
                if old == compare {
                    word.store(new, Relaxed);
                }
                old
            } else {
                let swapped = word.compare_exchange(compare, new, AcqRel, Acquire);
                swapped.unwrap_or_else(|old| old)
            };
            // It is long enough.
            let _ = fetched.write(old.to_ne_bytes());
            Some(())
        }
    )*};
}

words! {
    run_1 combine_1 swap_1 u8, atomic_u8;
    run_2 combine_2 swap_2 u16, atomic_u16;
    run_4 combine_4 swap_4 u32, atomic_u32;
    run_8 combine_8 swap_8 u64, atomic_u64;
}

/// Combines all elements of the place, which is aligned to them, each at once, with those of `operand`, which are as many.
#[inline]
pub(super) fn combine(
    place: &Region,
    combine: &Combine,
    operand: &Region,
    fetched: Option<&Region>,
) {
    let size = combine.basic().size();
    if let Some(word) = WordOperation::of(combine.operation(), combine.basic()) {
        for at in (0..place.len()).step_by(size) {
            let Some(operand) = operand.part(at, size) else {
                return;
            };
            let Some(all) = fetched else {
                word.run(place, at, Some(&operand), None, Others::Any);
                continue;
            };
            let Some(fetched) = all.part(at, size) else {
                return;
            };
            word.run(place, at, Some(&operand), Some(&fetched), Others::Any);
        }
        return;
    }
    match size {
        1 => combine_1(place, combine, operand, fetched),
        2 => combine_2(place, combine, operand, fetched),
        4 => combine_4(place, combine, operand, fetched),
        _ => combine_8(place, combine, operand, fetched),
    }
}

/// Replaces the word of `bytes` at byte `at` by `new` if it is `compare`; what it was goes to `fetched`. False, and nothing
/// done, if it is not there or not aligned, or the others are too short.
#[inline]
pub(super) fn swap_word(
    region: &Region,
    at: usize,
    bytes: usize,
    sides: [&Region; 3],
    others: Others,
) -> bool {
    let done = match bytes {
        8 => swap_8(region, at, sides, others),
        4 => swap_4(region, at, sides, others),
        2 => swap_2(region, at, sides, others),
        1 => swap_1(region, at, sides, others),
        _ => None,
    };
    done.is_some()
}
