//! Moves: methods to move one piece, of which one is chosen for a whole loop by the size of its pieces.
//!
//! A piece is moved as words: as many of 16 bytes as fit, from the front, and then one word that ends with the piece and
//! is no longer than necessary; it may overlap the one before. A piece of fewer than 16 bytes begins with the largest
//! word that fits. Words that are longer than the rest of a piece would work, too, but stores that cross cache lines cost
//! twice, and small pieces are moved at one store for each cycle. Moves go from the front because processors combine
//! consecutive stores to a line in ascending order.
//!
//! A loop over pieces of up to 64 bytes knows their [size](Exact), like a hand-written one. For longer pieces, and pieces
//! that are moved beside others, it knows only the [last word](Words): there would be too many loops.

/// Longest piece that is moved without a call.
pub(super) const LONGEST: usize = 128;

/// A way to move one piece.
pub(super) trait Move: Copy {
    /// How many pieces a loop had better move in one turn: more of those that cost no more than the loop itself.
    const GROUP: usize = 4;
    /// Whether what a row costs beside its pieces shows, so that a loop over short rows had better know how long they are. It is a loop for each length.
    const SHORT_ROWS: bool = false;

    /// Whether a piece is one short word, so that what a loop does beside its loads and stores shows most.
    const IS_WORD: bool = false;

    /// # Safety
    /// As [`std::ptr::copy`] of all bytes of the piece.
    unsafe fn piece(self, from: *const u8, to: *mut u8);
}

/// Pieces of one size, of which each is to be moved.
pub(super) trait Pieces {
    /// # Safety
    /// All pieces are valid for reads on one side and for writes on the other.
    unsafe fn each(&self, by: impl Move);
}

/// Moves `N` bytes as one word, both sides `at` bytes further on.
///
/// # Safety
/// These bytes are valid, for reads and for writes.
#[inline(always)]
unsafe fn word<const N: usize>(from: *const u8, to: *mut u8, at: usize) {
    // SAFETY: the promise of the caller; arrays of bytes have no alignment to keep.
    unsafe {
        let word = from.add(at).cast::<[u8; N]>().read();
        to.add(at).cast::<[u8; N]>().write(word);
    }
}

/// The word that ends a piece after the whole words of 16 bytes, or after the largest that fits: so many bytes, if so many are left.
const fn last_word(left: usize) -> usize {
    left.next_power_of_two()
}

/// Pieces of this size.
#[derive(Clone, Copy)]
pub(super) struct Exact<const N: usize>;

impl<const N: usize> Exact<N> {
    /// The words that it begins with: the largest power of two, but 16 bytes at most.
    const WORD: usize = match N {
        0 => 1,
        1..16 => 1 << N.ilog2(),
        _ => 16,
    };
}

impl<const N: usize> Move for Exact<N> {
    const GROUP: usize = if N <= 24 { 8 } else { 4 };
    const SHORT_ROWS: bool = N <= 16;
    const IS_WORD: bool = N.is_power_of_two() && N <= 4;

    #[inline(always)]
    unsafe fn piece(self, from: *const u8, to: *mut u8) {
        // The compiler makes the few words of all this, as everything but the addresses is known to it.
        let move_word = |bytes: usize, at: usize| {
            // SAFETY: the caller promises N bytes on both sides, and no word reaches further.
            unsafe {
                match bytes {
                    1 => word::<1>(from, to, at),
                    2 => word::<2>(from, to, at),
                    4 => word::<4>(from, to, at),
                    8 => word::<8>(from, to, at),
                    _ => word::<16>(from, to, at),
                }
            }
        };
        let mut at = 0;
        while at + Self::WORD <= N {
            move_word(Self::WORD, at);
            at += Self::WORD;
        }
        if at < N {
            let bytes = last_word(N - at);
            move_word(bytes, N - bytes);
        }
    }
}

/// Pieces of so many bytes, more than half of `MOST` and no more, that end with a word of `LAST` bytes.
#[derive(Clone, Copy)]
pub(super) struct Words<'a, const LAST: usize, const MOST: usize>(&'a usize);

impl<const LAST: usize, const MOST: usize> Move for Words<'_, LAST, MOST> {
    #[inline(always)]
    unsafe fn piece(self, from: *const u8, to: *mut u8) {
        let bytes = if MOST > 32 {
            // Read anew for each piece: else the compiler makes a loop of its own for each number of words. From where it lies: a value of this
            // type would be stored to the stack each time.
            // SAFETY: a reference may be read.
            unsafe { std::ptr::from_ref(self.0).read_volatile() }
        } else {
            *self.0
        };
        // SAFETY: the caller promises so many bytes on both sides, which are more than half of `MOST`; no word reaches further.
        unsafe {
            word::<16>(from, to, 0);
            let mut at = 16;
            while at < MOST - 16 && (at < MOST / 2 || at + 16 < bytes) {
                word::<16>(from, to, at);
                at += 16;
            }
            word::<LAST>(from, to, bytes - LAST);
        }
    }
}

/// So many bytes, by a call.
#[derive(Clone, Copy)]
struct Many(usize);

impl Move for Many {
    #[inline(always)]
    unsafe fn piece(self, from: *const u8, to: *mut u8) {
        // SAFETY: the promise of the caller is that of `copy`.
        unsafe { std::ptr::copy(from, to, self.0) };
    }
}

/// Moves one piece of any size: for lists in which each piece may have another one, where to jump to a way of its own costs more than a few
/// comparisons and words that overlap.
///
/// # Safety
/// As for [`Move::piece`].
#[inline(always)]
pub(super) unsafe fn move_one(from: *const u8, to: *mut u8, bytes: usize) {
    /// Two words, or the few that the compiler makes of each: the first and the last so many bytes.
    ///
    /// # Safety
    /// As for [`word`], for a piece of no fewer bytes than a word.
    #[inline(always)]
    unsafe fn ends<const N: usize>(from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: the promise of the caller.
        unsafe {
            word::<N>(from, to, 0);
            word::<N>(from, to, bytes - N);
        }
    }
    // SAFETY: the caller promises so many bytes on both sides.
    unsafe {
        match bytes {
            0 => {}
            1 => word::<1>(from, to, 0),
            2..4 => ends::<2>(from, to, bytes),
            4..8 => ends::<4>(from, to, bytes),
            8..=16 => ends::<8>(from, to, bytes),
            17..=32 => ends::<16>(from, to, bytes),
            33..=64 => ends::<32>(from, to, bytes),
            _ => Many(bytes).piece(from, to),
        }
    }
}

/// Calls `each` with the exact way for one of these sizes.
macro_rules! exactly {
    ($bytes:expr, $pieces:expr, [$($size:literal)*], $other:expr) => {
        match $bytes {
            0 => {}
            $($size => $pieces.each(Exact::<$size>),)*
            _ => $other,
        }
    };
}

/// Moves pieces of more than half of `MOST` bytes, and no more, by a loop that knows only their last word.
///
/// # Safety
/// As for [`Pieces::each`].
#[inline(always)]
unsafe fn move_words<const MOST: usize>(bytes: usize, pieces: &impl Pieces) {
    debug_assert!(MOST / 2 < bytes && bytes <= MOST);
    // SAFETY: the promise of the caller; each way moves `bytes` bytes.
    unsafe {
        match last_word((bytes - 1) % 16 + 1) {
            1 => pieces.each(Words::<1, MOST>(&bytes)),
            2 => pieces.each(Words::<2, MOST>(&bytes)),
            4 => pieces.each(Words::<4, MOST>(&bytes)),
            8 => pieces.each(Words::<8, MOST>(&bytes)),
            _ => pieces.each(Words::<16, MOST>(&bytes)),
        }
    }
}

/// Moves pieces of `bytes` bytes by one of the few ways that a sanitizer has to watch: one word, several, a last one that overlaps. The
/// loops differ in numbers alone, and with checks of each word they were a third of what the room takes to compile.
///
/// # Safety
/// As for [`Pieces::each`].
#[cfg(any(sanitizer = "address", sanitizer = "thread"))]
#[inline]
pub(super) unsafe fn move_watched(bytes: usize, pieces: &impl Pieces) {
    // SAFETY: the promise of the caller; each way moves `bytes` bytes.
    unsafe {
        exactly!(
            bytes,
            pieces,
            [1 4 7 8 16 23],
            match bytes {
                33..=64 => move_words::<64>(bytes, pieces),
                _ => pieces.each(Many(bytes)),
            }
        );
    }
}

#[cfg(any(sanitizer = "address", sanitizer = "thread"))]
pub(super) use {move_watched as move_all, move_watched as move_beside};

/// Moves pieces of `bytes` bytes.
///
/// # Safety
/// As for [`Pieces::each`].
#[cfg(not(any(sanitizer = "address", sanitizer = "thread")))]
#[inline]
pub(super) unsafe fn move_all(bytes: usize, pieces: &impl Pieces) {
    // SAFETY: the promise of the caller; each way moves `bytes` bytes.
    unsafe {
        exactly!(
            bytes,
            pieces,
            [1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
             33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64],
            if bytes <= LONGEST {
                move_words::<LONGEST>(bytes, pieces);
            } else {
                pieces.each(Many(bytes));
            }
        );
    }
}

/// Moves pieces of `bytes` bytes, no more than [`LONGEST`], by one of fewer ways: for loops over two pieces, of which there is one for each two
/// ways.
///
/// # Safety
/// As for [`Pieces::each`].
#[cfg(not(any(sanitizer = "address", sanitizer = "thread")))]
#[inline]
pub(super) unsafe fn move_beside(bytes: usize, pieces: &impl Pieces) {
    // SAFETY: the promise of the caller; each way moves `bytes` bytes.
    unsafe {
        exactly!(
            bytes,
            pieces,
            [1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16],
            match bytes {
                17..=32 => move_words::<32>(bytes, pieces),
                33..=64 => move_words::<64>(bytes, pieces),
                65..=LONGEST => move_words::<LONGEST>(bytes, pieces),
                _ => unreachable!("a piece of {bytes} bytes, which is too long for a pair"),
            }
        );
    }
}
