//! Steps: from the stack pointer within a function to the return address of its caller, known once for each place in the
//! code of one object.
//!
//! ```text
//!   │ … frame … │ back │ … frame of the caller … │ back │
//!   ▲ pointer          ▲ pointer in the caller
//!   └──── step ────────┘
//! ```
//!
//! The tables for unwinding have a rule for each instruction. To search for it and to interpret it costs some two thousand
//! instructions, for each frame of each unwinding. But the rule of one place is always the same: a register and a constant, and perhaps a place where
//! the function has saved the other register that such a rule may name. So it is kept in one word, by the return address, and
//! a frame costs some forty instructions.
//!
//! Whatever has another rule, or is not in that object, is left to the general unwinder.
//!
//! # Invariant
//! A word of [`KNOWN`] is 0, or holds a place with the step from there: a reader finds none or the right one.

use std::ops::Range;

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, NativeEndian, Pointer, RegisterRule,
    UnwindContext, UnwindSection, X86_64,
};
use weft_atomic::{AtomicU64, Ordering};

use super::Code;

/// Most frames that are walked through.
const FRAMES: usize = 128;

/// Bytes of an address.
const WORD: usize = size_of::<usize>();

/// How one frame is left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Step {
    /// Whether it is from the frame pointer, not from the stack pointer.
    from_frame: bool,
    /// So many words up to the frame of the caller, which the return address is below.
    words: u16,
    /// The frame pointer of the caller is so many words below that; 0: it has not changed.
    saved: u16,
}

impl Step {
    /// Bits of each number.
    const BITS: u32 = 15;

    /// From bytes up and down, if they fit.
    fn new(from_frame: bool, up: i64, saved: Option<i64>) -> Option<Self> {
        let words = |bytes: i64| {
            let (words, rest) = (bytes / WORD as i64, bytes % WORD as i64);
            let words = u16::try_from(words).ok().filter(|words| *words > 0)?;
            (rest == 0 && words >> Self::BITS == 0).then_some(words)
        };
        Some(Self {
            from_frame,
            words: words(up)?,
            saved: match saved {
                None => 0,
                Some(offset) => words(-offset)?,
            },
        })
    }

    fn pack(self) -> u32 {
        u32::from(self.from_frame) << (2 * Self::BITS)
            | u32::from(self.words) << Self::BITS
            | u32::from(self.saved)
    }

    fn unpack(word: u32) -> Self {
        let mask = (1 << Self::BITS) - 1;
        Self {
            from_frame: word >> (2 * Self::BITS) & 1 != 0,
            words: (word >> Self::BITS & mask) as u16,
            saved: (word & mask) as u16,
        }
    }
}

/// In place of a step: there is none at this place.
const NONE: u32 = 1 << 31;

/// Steps by the places they are from: each in one of the [`TRIES`] words from that of its place on. When another place needs its
/// word it is forgotten.
static KNOWN: [AtomicU64; (1 << KNOWN_BITS) + TRIES] =
    [const { AtomicU64::new(0) }; (1 << KNOWN_BITS) + TRIES];
const KNOWN_BITS: u32 = 12;
const TRIES: usize = 4;

/// The step from a return address in this code.
#[inline(always)]
fn step_from(code: &Code, address: usize) -> Option<Step> {
    // Half a word is enough: no object is that long.
    let place = (address - code.addresses.start) as u32;
    let first = place.wrapping_mul(0x9e37_79b1) >> (u32::BITS - KNOWN_BITS);
    let words = &KNOWN[first as usize..][..TRIES];
    let known = words.iter().map(|word| word.load(Ordering::Relaxed));
    let mut found = known.filter(|known| *known != 0 && (known >> u32::BITS) as u32 == place);
    let step = match found.next() {
        Some(known) => known as u32,
        None => learn(code, address, place, words),
    };
    (step != NONE).then(|| Step::unpack(step))
}

#[cold]
#[inline(never)]
fn learn(code: &Code, address: usize, place: u32, words: &[AtomicU64]) -> u32 {
    let step = rule_at(code, address).map_or(NONE, Step::pack);
    let free = words.iter().find(|word| word.load(Ordering::Relaxed) == 0);
    let known = u64::from(place) << u32::BITS | u64::from(step);
    free.unwrap_or(&words[0]).store(known, Ordering::Relaxed);
    step
}

/// What the tables say of a return address.
fn rule_at(code: &Code, address: usize) -> Option<Step> {
    let bytes = |range: Range<usize>| {
        // SAFETY: the object was loaded with these bytes, which nobody changes, and stays: it is the program, or a library that is
        // never unloaded (`-z nodelete`).
        unsafe { std::slice::from_raw_parts(range.start as *const u8, range.len()) }
    };
    if code.index.is_empty() {
        return None;
    }
    let bases = BaseAddresses::default().set_eh_frame_hdr(code.index.start as u64);
    let index = EhFrameHdr::new(bytes(code.index.clone()), NativeEndian)
        .parse(&bases, WORD as u8)
        .ok()?;
    let Pointer::Direct(tables) = index.eh_frame_ptr() else {
        return None;
    };
    let bases = bases.set_eh_frame(tables);
    let tables = tables as usize;
    if !code.segment.contains(&tables) {
        return None;
    }
    // What follows them in the segment is not in the index.
    let tables = EhFrame::new(bytes(tables..code.segment.end), NativeEndian);
    // The call is before the address to which it returns.
    let address = (address - 1) as u64;
    let entry = index
        .table()?
        .fde_for_address(&tables, &bases, address, EhFrame::cie_from_offset)
        .ok()?;
    let mut context = UnwindContext::new();
    let row = entry
        .unwind_info_for_address(&tables, &bases, &mut context, address)
        .ok()?;
    let CfaRule::RegisterAndOffset { register, offset } = *row.cfa() else {
        return None;
    };
    let from_frame = match register {
        X86_64::RSP => false,
        X86_64::RBP => true,
        _ => return None,
    };
    if row.register(X86_64::RA) != Some(RegisterRule::Offset(-(WORD as i64))) {
        return None;
    }
    let saved = match row.register(X86_64::RBP) {
        // No rule: the function leaves it alone.
        None | Some(RegisterRule::SameValue) => None,
        Some(RegisterRule::Offset(offset)) => Some(offset),
        _ => return None,
    };
    Step::new(from_frame, offset, saved)
}

/// The place of this code, and its two pointers.
#[inline(always)]
fn here() -> (usize, usize, usize) {
    let (address, stack, frame);
    // SAFETY: copies three registers.
    unsafe {
        std::arch::asm!(
            "lea {0}, [rip]",
            "mov {1}, rsp",
            "mov {2}, rbp",
            out(reg) address,
            out(reg) stack,
            out(reg) frame,
            options(nomem, preserves_flags),
        );
    }
    (address, stack, frame)
}

/// Calls `each` with the return addresses of the frames of this thread, the innermost first, until it answers false. False if
/// that was not possible: `each` may have been called for some. Part of its caller, whose own caller is the innermost.
#[inline(always)]
pub(super) fn trace(code: &Code, mut each: impl FnMut(usize) -> bool) -> bool {
    let (mut address, mut stack, mut frame) = here();
    for _ in 0..FRAMES {
        if !code.addresses.contains(&address) {
            return false;
        }
        let Some(step) = step_from(code, address) else {
            return false;
        };
        let from = if step.from_frame { frame } else { stack };
        let above = from + usize::from(step.words) * WORD;
        // SAFETY: the tables for unwinding, which the compiler has made for each instruction, say that the frame that this thread is in
        // ends there, with its return address, and where it has saved the frame pointer.
        unsafe {
            address = *((above - WORD) as *const usize);
            if step.saved != 0 {
                frame = *((above - usize::from(step.saved) * WORD) as *const usize);
            }
        }
        stack = above;
        if !each(address) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::super::object_with;
    use super::*;

    /// Both ways to the first frames, without the one that asks.
    #[inline(never)]
    fn frames(code: &Code, most: usize) -> [Vec<usize>; 2] {
        let mut by_steps = Vec::new();
        let walked = trace(code, |address| {
            by_steps.push(address);
            by_steps.len() < most + 1
        });
        assert!(walked, "after {by_steps:x?}");
        let mut by_tables = Vec::new();
        backtrace::trace(|frame| {
            by_tables.push(frame.ip() as usize);
            true
        });
        by_steps.remove(0);
        let first = by_tables.iter().position(|address| *address == by_steps[0]);
        let first = first.expect("both go through the caller");
        let by_tables = by_tables[first..][..by_steps.len()].to_vec();
        [by_steps, by_tables]
    }

    /// A frame whose pointer is aligned, so that its length differs.
    #[repr(align(64))]
    struct Aligned([u8; 64]);

    #[inline(never)]
    fn deeper(code: &Code, depth: usize) -> [Vec<usize>; 2] {
        if depth == 0 {
            return frames(code, 8);
        }
        let room = black_box([depth; 3]);
        let found = match depth % 3 {
            0 => aligned(code, depth),
            1 => deeper(code, depth - 1),
            _ => (black_box(&deeper) as &dyn Fn(&Code, usize) -> [Vec<usize>; 2])(code, depth - 1),
        };
        assert_eq!(black_box(room)[0], depth);
        found
    }

    #[inline(never)]
    fn aligned(code: &Code, depth: usize) -> [Vec<usize>; 2] {
        let room = black_box(Aligned([depth as u8; 64]));
        let found = deeper(code, depth - 1);
        assert_eq!(black_box(&room).0[63], depth as u8);
        found
    }

    #[test]
    fn steps_lead_where_the_tables_lead() {
        let here = steps_lead_where_the_tables_lead as fn() as usize;
        let (code, is_program) = object_with(here).expect("the program");
        assert!(is_program);
        // The second time all of them are known.
        for _ in 0..2 {
            let [by_steps, by_tables] = deeper(&code, 7);
            assert_eq!(by_steps, by_tables);
            assert!(by_steps.len() >= 8);
        }
    }

    #[test]
    fn a_step_survives_its_word() {
        for (up, saved) in [
            (8, None),
            (8 << 10, Some(-16)),
            (((1 << 15) - 1) * 8, Some(-8)),
        ] {
            for from_frame in [false, true] {
                let step = Step::new(from_frame, up, saved).expect("it fits");
                assert_eq!(Step::unpack(step.pack()), step);
                assert_ne!(step.pack(), NONE);
            }
        }
        for (up, saved) in [
            (0, None),
            (12, None),
            (8 << 15, None),
            (8, Some(8)),
            (-8, None),
        ] {
            assert_eq!(Step::new(false, up, saved), None, "{up} {saved:?}");
        }
    }

    #[test]
    fn what_is_elsewhere_is_left_to_others() {
        let here = steps_lead_where_the_tables_lead as fn() as usize;
        let (code, _) = object_with(here).expect("the program");
        assert!(!trace(&code, |_| true), "it leaves the program at last");
        let without = Code {
            index: 0..0,
            segment: 0..0,
            ..code
        };
        assert_eq!(rule_at(&without, here), None);
    }
}
