//! The key of a job: who knows it belongs to the job.

use std::fmt;
use std::io;

/// Bytes of a key.
pub const LENGTH: usize = 32;

/// 256 unpredictable bits. Goes to those who belong to the job, by ways that others cannot read: never
/// on a command line, never in an environment. Does not show itself when printed for debugging.
#[derive(Clone, PartialEq, Eq)]
pub struct JobKey([u8; LENGTH]);

impl JobKey {
    /// A new one.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn generate() -> io::Result<Self> {
        weft_sys::random::bytes().map(Self)
    }

    /// The bytes, for a cipher.
    #[must_use]
    pub fn bytes(&self) -> &[u8; LENGTH] {
        &self.0
    }

    /// As 64 hexadecimal digits.
    #[must_use]
    pub fn to_text(&self) -> String {
        hex(&self.0)
    }

    /// From 64 hexadecimal digits.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        unhex(text)?.try_into().ok().map(Self)
    }

    /// Whether these are the bytes of the key. How long that takes does not depend on which of them
    /// differ.
    #[must_use]
    pub fn is(&self, bytes: &[u8]) -> bool {
        if bytes.len() != LENGTH {
            return false;
        }
        let differing = self
            .0
            .iter()
            .zip(bytes)
            .fold(0, |all, (one, other)| all | (one ^ other));
        std::hint::black_box(differing) == 0
    }
}

impl fmt::Debug for JobKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("JobKey(…)")
    }
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from(DIGITS[usize::from(digit)]));
    digits.collect()
}

/// Hexadecimal digits as bytes.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|digit| digit.to_digit(16).map(|value| value as u8))
        .collect();
    let digits = digits?;
    let (pairs, rest) = digits.as_chunks::<2>();
    rest.is_empty()
        .then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_the_way_and_keeps_quiet() {
        let key = JobKey::generate().expect("the kernel has a generator");
        let text = key.to_text();
        assert_eq!(JobKey::from_text(&text), Some(key.clone()));
        assert!(key.is(key.bytes()) && !key.is(&key.bytes()[1..]));
        let mut other = *key.bytes();
        other[31] ^= 1;
        assert!(!key.is(&other));
        assert_eq!(format!("{key:?}"), "JobKey(…)");
        for wrong in [&text[1..], &text[2..], &format!("x{}", &text[1..])] {
            assert_eq!(JobKey::from_text(wrong), None);
        }
    }
}
