//! Words: aligned elements of 1, 2, 4 or 8 bytes, which the processor changes at once.

use weft_atomic::Ordering::{AcqRel, Acquire, Relaxed};
use weft_atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};
use weft_fabric::Region;

use crate::datatype::{Basic, BasicKind, Scalar};
use crate::op::{Combine, Predefined};

/// Whether the processor has atomic instructions for elements of so many bytes.
#[inline]
pub(super) const fn is_word(size: usize) -> bool {
    matches!(size, 1 | 2 | 4 | 8)
}

/// Others that may change the elements meanwhile.
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

    /// The word at byte `at` of the region, and the operand; what it was is to go to `fetched`. `None` if it is not
    /// there or not aligned, or the others are too short.
    #[inline(always)]
    pub(super) fn word<'a>(
        self,
        region: &'a Region,
        at: usize,
        operand: &Region,
        fetched: Option<&'a Region>,
    ) -> Option<Word<'a>> {
        let is_short = |fetched: &Region| fetched.len() < usize::from(self.size);
        if fetched.is_some_and(is_short) {
            return None;
        }
        let (place, operand) = match self.size {
            8 => (WordRef::Eight(region.atomic_u64(at)?), value_8(operand)?),
            4 => (WordRef::Four(region.atomic_u32(at)?), value_4(operand)?),
            2 => (WordRef::Two(region.atomic_u16(at)?), value_2(operand)?),
            _ => (WordRef::One(region.atomic_u8(at)?), value_1(operand)?),
        };
        Some(Word {
            instruction: self.instruction,
            place,
            operand,
            fetched,
        })
    }
}

/// Where a word is.
#[derive(Clone, Copy)]
enum WordRef<'a> {
    One(&'a AtomicU8),
    Two(&'a AtomicU16),
    Four(&'a AtomicU32),
    Eight(&'a AtomicU64),
}

/// A word that is there, and what is to be done to it: nothing can go wrong any more.
pub(super) struct Word<'a> {
    instruction: Instruction,
    place: WordRef<'a>,
    operand: u64,
    /// As long as the word at least.
    fetched: Option<&'a Region>,
}

impl Word<'_> {
    /// Combines it with the operand by one atomic instruction, or by a loop of them.
    #[inline]
    pub(super) fn combine_among_others(self) {
        let old = change(self.place, self.instruction, self.operand);
        self.fetch(old);
    }

    /// As [`combine_among_others`](Self::combine_among_others) while nobody else changes it: the lock is held. Others may look all the same.
    #[inline(always)]
    pub(super) fn combine_alone(self) {
        let old = match self.place {
            WordRef::Eight(word) => set_8(self.instruction, word, self.operand),
            WordRef::Four(word) => set_4(self.instruction, word, self.operand),
            place => set_short(place, self.instruction, self.operand),
        };
        self.fetch(old);
    }

    /// Says what it was.
    #[inline(always)]
    fn fetch(&self, old: u64) {
        if let Some(fetched) = self.fetched {
            self.place.write(fetched, old);
        }
    }
}

impl WordRef<'_> {
    /// Writes a value of such a word to where it is fetched to, which is long enough.
    #[inline(always)]
    fn write(&self, fetched: &Region, value: u64) {
        let _ = match self {
            WordRef::Eight(_) => fetched.write(value.to_ne_bytes()),
            WordRef::Four(_) => fetched.write((value as u32).to_ne_bytes()),
            WordRef::Two(_) => fetched.write((value as u16).to_ne_bytes()),
            WordRef::One(_) => fetched.write((value as u8).to_ne_bytes()),
        };
    }
}

/// Changes a word at once; what it was.
#[inline]
fn change(place: WordRef<'_>, instruction: Instruction, operand: u64) -> u64 {
    match place {
        WordRef::Eight(word) => change_8(instruction, word, operand),
        WordRef::Four(word) => change_4(instruction, word, operand),
        WordRef::Two(word) => change_2(instruction, word, operand),
        WordRef::One(word) => change_1(instruction, word, operand),
    }
}

/// Changes a short word that nobody else changes; what it was. Rarely called for.
#[cold]
fn set_short(place: WordRef<'_>, instruction: Instruction, operand: u64) -> u64 {
    match place {
        WordRef::Two(word) => set_2(instruction, word, operand),
        WordRef::One(word) => set_1(instruction, word, operand),
        _ => 0,
    }
}

/// The sum of two numbers given by their bits.
#[inline]
fn add(instruction: Instruction, one: u64, two: u64) -> u64 {
    if instruction == Instruction::AddFloat {
        let sum = f32::from_bits(one as u32) + f32::from_bits(two as u32);
        return sum.to_bits().into();
    }
    (f64::from_bits(one) + f64::from_bits(two)).to_bits()
}

macro_rules! words {
    ($($value:ident $change:ident $set:ident $combine:ident $swap:ident $number:ty, $word:ty, $atomic:ident;)*) => {$(
        /// A value that a call gives; `None` if it is too short.
        #[inline(always)]
        fn $value(given: &Region) -> Option<u64> {
            Some(<$number>::from_ne_bytes(given.read()?).into())
        }

        /// Changes a word at once; what it was.
        #[inline]
        fn $change(instruction: Instruction, word: &$word, operand: u64) -> u64 {
            let value = operand as $number;
            let old = match instruction {
                Instruction::Load => word.load(Acquire),
                Instruction::Swap => word.swap(value, AcqRel),
                Instruction::Add => word.fetch_add(value, AcqRel),
                Instruction::And => word.fetch_and(value, AcqRel),
                Instruction::Or => word.fetch_or(value, AcqRel),
                Instruction::Xor => word.fetch_xor(value, AcqRel),
                Instruction::AddFloat | Instruction::AddDouble => {
                    let added = |old: $number| Some(add(instruction, old.into(), operand) as $number);
                    word.fetch_update(AcqRel, Relaxed, added).unwrap_or_default()
                }
            };
            old.into()
        }

        /// Changes a word that nobody else changes; what it was.
        #[inline(always)]
        fn $set(instruction: Instruction, word: &$word, operand: u64) -> u64 {
            let value = operand as $number;
            let old = word.load(Relaxed);
            let new = match instruction {
                Instruction::Load => old,
                Instruction::Swap => value,
                Instruction::Add => old.wrapping_add(value),
                Instruction::And => old & value,
                Instruction::Or => old | value,
                Instruction::Xor => old ^ value,
                Instruction::AddFloat | Instruction::AddDouble => {
                    add(instruction, old.into(), operand) as $number
                }
            };
            word.store(new, Relaxed);
            old.into()
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

        /// Replaces a word if it is what it is compared with, at once, or while nobody else changes it; what it was.
        #[inline(always)]
        fn $swap(word: &$word, (compare, new): (u64, u64), others: Others) -> u64 {
            let (compare, new) = (compare as $number, new as $number);
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
            old.into()
        }
    )*};
}

words! {
    value_1 change_1 set_1 combine_1 swap_1 u8, AtomicU8, atomic_u8;
    value_2 change_2 set_2 combine_2 swap_2 u16, AtomicU16, atomic_u16;
    value_4 change_4 set_4 combine_4 swap_4 u32, AtomicU32, atomic_u32;
    value_8 change_8 set_8 combine_8 swap_8 u64, AtomicU64, atomic_u64;
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
            let fetched = fetched.and_then(|all| all.part(at, size));
            let word = word.word(place, at, &operand, fetched.as_ref());
            if let Some(word) = word {
                word.combine_among_others();
            }
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

/// A word that is there, to be replaced if it is what it is compared with: nothing can go wrong any more.
pub(super) struct Exchange<'a> {
    place: WordRef<'a>,
    compare: u64,
    new: u64,
    /// As long as the word at least.
    fetched: &'a Region,
}

impl<'a> Exchange<'a> {
    /// Of the word of `bytes` at byte `at`, with what to compare with, what to write, and where to fetch to. `None` if it is not
    /// there or not aligned, or the others are too short.
    #[inline(always)]
    pub(super) fn new(
        region: &'a Region,
        at: usize,
        bytes: usize,
        [compare, new, fetched]: [&'a Region; 3],
    ) -> Option<Self> {
        let sides = (compare, new);
        let (place, compare, new) = match bytes {
            8 => (
                WordRef::Eight(region.atomic_u64(at)?),
                value_8(sides.0)?,
                value_8(sides.1)?,
            ),
            4 => (
                WordRef::Four(region.atomic_u32(at)?),
                value_4(sides.0)?,
                value_4(sides.1)?,
            ),
            2 => (
                WordRef::Two(region.atomic_u16(at)?),
                value_2(sides.0)?,
                value_2(sides.1)?,
            ),
            1 => (
                WordRef::One(region.atomic_u8(at)?),
                value_1(sides.0)?,
                value_1(sides.1)?,
            ),
            _ => return None,
        };
        (fetched.len() >= bytes).then_some(Self {
            place,
            compare,
            new,
            fetched,
        })
    }

    /// Exchanges it by an atomic instruction, or, while the lock is held, by a load and a store: others may look all the same.
    #[inline(always)]
    pub(super) fn run(self, others: Others) {
        let sides = (self.compare, self.new);
        let old = match self.place {
            WordRef::Eight(word) => swap_8(word, sides, others),
            WordRef::Four(word) => swap_4(word, sides, others),
            WordRef::Two(word) => swap_2(word, sides, others),
            WordRef::One(word) => swap_1(word, sides, others),
        };
        self.place.write(self.fetched, old);
    }
}
