//! Token of a call under way: where it is counted, and how it is recorded, in one word.

use weft_launch::profile::layout::SITES;

const SITE_MASK: u64 = (1 << 10) - 1;
const SLICE_MASK: u64 = (1 << 20) - 1;
const _: () = assert!(SITES as u64 <= SITE_MASK);

/// A call under way: its site, whether it is timed, whether it returns to the trampoline, and the slice in
/// which it began.
///
/// ```text
///  bits 32..64  12..32  2..12      1      0
///       area    slice   site + 1   plain  timed
/// ```
///
/// The end of a call that does not return to the trampoline is not noticed, so its token stays until the next recorded call. It must not be
/// mistaken for calls left out in between: it is stale as soon as anything has been left out since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token(pub u64);

impl Token {
    /// No call.
    pub const NONE: Self = Self(0);

    /// A call.
    #[inline]
    pub fn new(area: usize, site: usize, (timed, plain): (bool, bool), slice: u64) -> Self {
        let flags = u64::from(timed) | u64::from(plain) << 1;
        Self((area as u64) << 32 | (slice & SLICE_MASK) << 12 | (site as u64 + 1) << 2 | flags)
    }

    /// Whether this may be a call that ended before others were left out: `slice` is the number of the present slice, `whole`
    /// whether it leaves out nothing.
    #[inline]
    pub fn is_stale(self, slice: u64, whole: bool) -> bool {
        self.is_plain() && (!whole || self.0 >> 12 & SLICE_MASK != slice & SLICE_MASK)
    }

    /// The number of its area.
    #[inline]
    pub fn area(self) -> usize {
        (self.0 >> 32) as usize
    }

    /// Its site there.
    #[inline]
    pub fn site(self) -> Option<usize> {
        ((self.0 >> 2 & SITE_MASK) as usize).checked_sub(1)
    }

    /// Whether it does not return to the trampoline.
    #[inline]
    pub fn is_plain(self) -> bool {
        self.0 & 2 == 2
    }

    /// Whether it is timed.
    #[inline]
    pub fn is_timed(self) -> bool {
        self.0 & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_says_what_it_was_made_of() {
        for (timed, plain) in [(true, false), (false, true), (false, false)] {
            let token = Token::new(63, SITES - 1, (timed, plain), 7);
            assert_eq!((token.area(), token.site()), (63, Some(SITES - 1)));
            assert_eq!((token.is_timed(), token.is_plain()), (timed, plain));
        }
        assert_eq!(Token::NONE.site(), None);
    }

    #[test]
    fn a_call_that_does_not_return_is_not_taken_for_one_left_out() {
        let plain = Token::new(0, 3, (false, true), 7);
        assert!(!plain.is_stale(7, true));
        // Stale both within the gap and after it.
        assert!(plain.is_stale(7, false) && plain.is_stale(8, true));
        let other = Token::new(0, 3, (true, false), 7);
        assert!(!other.is_stale(7, false) && !other.is_stale(8, true));
    }
}
