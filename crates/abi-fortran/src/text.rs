//! Texts: as many letters as the variable has, filled with blanks, and no zero at the end.

use alloc::vec::Vec;
use core::ffi::{c_char, c_int};

/// Texts up to this length cost no allocation.
const SHORT: usize = 255;

/// A text of the program, in the form of C: without blanks at its end, with a zero.
pub struct Text {
    short: [u8; SHORT + 1],
    long: Vec<u8>,
}

impl Text {
    /// # Safety
    /// There are `length` letters at the address.
    pub unsafe fn new(at: *const c_char, length: usize) -> Self {
        // SAFETY: as this function demands.
        Self::of(unsafe { letters(at, length) }.trim_ascii_end_blanks())
    }

    /// … without blanks at its start either: a key or a value of an info object.
    ///
    /// # Safety
    /// As for [`new`](Self::new).
    pub unsafe fn bare(at: *const c_char, length: usize) -> Self {
        // SAFETY: as this function demands.
        let all = unsafe { letters(at, length) }.trim_ascii_end_blanks();
        let begin = all
            .iter()
            .position(|&letter| letter != b' ')
            .unwrap_or(all.len());
        Self::of(&all[begin..])
    }

    fn of(letters: &[u8]) -> Self {
        let mut made = Self {
            short: [0; SHORT + 1],
            long: Vec::new(),
        };
        if letters.len() <= SHORT {
            made.short[..letters.len()].copy_from_slice(letters);
        } else {
            made.long = [letters, &[0]].concat();
        }
        made
    }

    /// The text.
    pub fn pointer(&mut self) -> *mut c_char {
        if self.long.is_empty() {
            self.short.as_mut_ptr().cast()
        } else {
            self.long.as_mut_ptr().cast()
        }
    }

    /// Whether there is no letter in it.
    pub fn is_empty(&self) -> bool {
        self.long.is_empty() && self.short[0] == 0
    }
}

/// The letters of a variable.
///
/// # Safety
/// There are `length` letters at the address.
unsafe fn letters<'a>(at: *const c_char, length: usize) -> &'a [u8] {
    if at.is_null() {
        return &[];
    }
    // SAFETY: as this function demands; the program does not write them during the call.
    unsafe { core::slice::from_raw_parts(at.cast(), length) }
}

trait Blanks {
    fn trim_ascii_end_blanks(&self) -> &Self;
}

impl Blanks for [u8] {
    fn trim_ascii_end_blanks(&self) -> &Self {
        let end = self
            .iter()
            .rposition(|&letter| letter != b' ')
            .map_or(0, |last| last + 1);
        &self[..end]
    }
}

/// Stores for the program a text that a call has written, as much as fits.
///
/// # Safety
/// There is space for `length` letters at the address.
pub unsafe fn give(code: c_int, room: &[u8], at: *mut c_char, length: usize) {
    if code != 0 || at.is_null() {
        return;
    }
    let end = room
        .iter()
        .position(|&letter| letter == 0)
        .unwrap_or(room.len());
    let given = end.min(length);
    // SAFETY: as this function demands; the text that is given is no longer than that.
    unsafe {
        at.cast::<u8>()
            .copy_from_nonoverlapping(room.as_ptr(), given);
        at.cast::<u8>().add(given).write_bytes(b' ', length - given);
    }
}
