//! Pass: eight bytes that a message from one member to another carries where the network keeps no connections.
//!
//! ```text
//!   pass = first 8 bytes of HMAC-SHA-256 (key of the job; purpose, from, to, number that the receiver has drawn)
//! ```
//!
//! With the job's key one can make the pass of any two members; without it nobody can. A pass for one endpoint serves no
//! other, because the receiver's number is part of it. It is the same in each message: an attacker who can read the
//! network can send it, too. So it keeps out strangers and stale messages, but does not protect against an attacker who
//! reads or changes packets.

use aws_lc_rs::hmac;

use crate::key::Key;

/// The pass of messages `from` one member `to` another, whose endpoint has drawn `number`.
#[must_use]
pub fn pass(key: &Key, purpose: &str, (from, to): (u32, u32), number: u64) -> u64 {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
    let mut context = hmac::Context::with_key(&key);
    context.update(&(purpose.len() as u64).to_le_bytes());
    context.update(purpose.as_bytes());
    context.update(&from.to_le_bytes());
    context.update(&to.to_le_bytes());
    context.update(&number.to_le_bytes());
    let tag = context.sign();
    let first = tag.as_ref().first_chunk().copied();
    // A tag of SHA-256 has 32 bytes.
    u64::from_le_bytes(first.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_is_for_one_key_one_direction_and_one_endpoint() {
        let key = |byte| Key::from_bytes([byte; Key::BYTES]);
        let one = pass(&key(1), "test", (0, 1), 7);
        assert_eq!(one, pass(&key(1), "test", (0, 1), 7));
        let others = [
            pass(&key(2), "test", (0, 1), 7),
            pass(&key(1), "other", (0, 1), 7),
            pass(&key(1), "test", (1, 0), 7),
            pass(&key(1), "test", (0, 1), 8),
        ];
        assert!(!others.contains(&one), "{one:x} {others:x?}");
    }
}
