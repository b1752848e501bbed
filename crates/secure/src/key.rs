//! Key of a job: 256 random bits drawn by its launcher. Every member gets them by a private path of its own
//! (a descriptor, a pipe, a token that a person carries), never by a command line that others can see.

use std::fmt;
use std::str::FromStr;

/// The key of one job. Not shown by `Debug`; the text is for the token of a person or a private pipe.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; Key::BYTES]);

/// Why a text is not a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyError {
    length: usize,
}

impl Key {
    /// How many bytes a key has.
    pub const BYTES: usize = 32;

    /// A fresh key from the kernel's generator.
    ///
    /// # Errors
    /// If the kernel refuses random bytes (a filter).
    pub fn random() -> std::io::Result<Self> {
        weft_sys::random::bytes().map(Self)
    }

    /// The key with these bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes of the key: a secret.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }

    /// The key as 64 hexadecimal digits: a secret.
    #[must_use]
    pub fn to_text(&self) -> String {
        use fmt::Write;
        self.0.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

impl FromStr for Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let refused = KeyError {
            length: text.chars().count(),
        };
        let digits: Vec<u8> = text
            .chars()
            .map(|digit| digit.to_digit(16).map(|value| value as u8))
            .collect::<Option<_>>()
            .ok_or(refused)?;
        let (pairs, rest) = digits.as_chunks::<2>();
        let mut bytes = [0; Self::BYTES];
        if !rest.is_empty() || pairs.len() != bytes.len() {
            return Err(refused);
        }
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = high << 4 | low;
        }
        Ok(Self(bytes))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Key(secret)")
    }
}

impl fmt::Display for KeyError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "the key of a job is 64 hexadecimal digits; what came has {} characters, or others than \
             digits; copy the whole token",
            self.length
        )
    }
}

impl std::error::Error for KeyError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_its_text_and_hides_from_logs() {
        let key = Key::random().expect("the kernel has a generator");
        assert_eq!(key.to_text().parse(), Ok(key.clone()));
        assert_eq!(format!("{key:?}"), "Key(secret)");
        assert_ne!(key, Key::random().expect("the kernel has a generator"));
    }

    #[test]
    fn other_texts_are_refused() {
        let long = "0".repeat(65);
        for text in ["", "ab", "zz", &long, &"é".repeat(64), &"g0".repeat(32)] {
            let error = text.parse::<Key>().expect_err("no key");
            assert!(error.to_string().contains("64 hexadecimal"), "{error}");
        }
    }
}
