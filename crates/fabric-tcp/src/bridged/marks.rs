//! Marks: bits in the token of a grant that name the bridge to which the grant belongs.

use weft_fabric::Token;

/// Marks the tokens of [`Tcp`](crate::Tcp).
pub(super) const REMOTE: u64 = 1 << 63;
/// Where a token names its bridge, counted from 1.
const BRIDGE: u64 = 0xff << 24;

/// Most bridges of a process at a time: as many as a token can name.
pub const MOST_BRIDGES: usize = 255;

/// Whether a token has room for a mark.
pub(super) fn is_markable(token: Token) -> bool {
    token.0 & BRIDGE == 0
}

/// A token of a bridge, as the granting process names it.
pub(super) fn mark(token: Token, bridge: usize) -> Token {
    Token(token.0 | (bridge as u64 + 1) << BRIDGE.trailing_zeros())
}

/// The same token, as the endpoint of the bridge knows it.
pub(super) fn unmarked(token: Token) -> Token {
    match token.0 & REMOTE {
        0 => token,
        _ => Token(token.0 & !BRIDGE),
    }
}

pub(super) fn bridge_of(token: Token) -> Option<usize> {
    if token.0 & REMOTE == 0 {
        return None;
    }
    (((token.0 & BRIDGE) >> BRIDGE.trailing_zeros()) as usize).checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_comes_off_again() {
        let token = Token(REMOTE | 7 << 32 | 0x12_3456);
        for bridge in [0, 1, MOST_BRIDGES - 1] {
            let marked = mark(token, bridge);
            assert_eq!((bridge_of(marked), unmarked(marked)), (Some(bridge), token));
            assert!(is_markable(token) && !is_markable(marked));
        }
        let own = Token(5 << 24);
        assert_eq!((bridge_of(own), unmarked(own)), (None, own));
    }
}
