//! Card: where an endpoint can be reached, as it tells the others through the launcher.
//!
//! ```text
//!   provider/address/number        address and number in hexadecimal digits; no spaces, at most LONGEST bytes
//! ```
//!
//! Each endpoint draws a number of its own: messages meant for an earlier endpoint at the same address are
//! not taken.

use std::fmt;
use std::str::FromStr;

/// Longest text of a card: what fits into a value of every launcher.
pub const LONGEST: usize = 1000;

/// Where an endpoint can be reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Card {
    /// The name of the provider, which must be the same for all.
    pub provider: String,
    /// The address, as the provider writes it.
    pub address: Vec<u8>,
    /// The number that the endpoint has drawn.
    pub number: u64,
}

/// A text that is not a card.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CardError {
    text: String,
}

impl fmt::Display for CardError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "'{}' does not say where an endpoint of libfabric can be reached: provider/address/number was expected; all \
             ranks must run the same release",
            self.text
        )
    }
}

impl std::error::Error for CardError {}

impl fmt::Display for Card {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/", self.provider)?;
        for byte in &self.address {
            write!(out, "{byte:02x}")?;
        }
        write!(out, "/{:016x}", self.number)
    }
}

impl FromStr for Card {
    type Err = CardError;

    fn from_str(text: &str) -> Result<Self, CardError> {
        let wrong = || CardError {
            text: text.chars().take(100).collect(),
        };
        let mut parts = text.split('/');
        let mut next = || parts.next().filter(|_| text.len() <= LONGEST);
        let (provider, address, number) = (next(), next(), next());
        let provider = provider.filter(|name| !name.is_empty()).ok_or_else(wrong)?;
        let digits: Option<Vec<u8>> = address
            .ok_or_else(wrong)?
            .chars()
            .map(|digit| digit.to_digit(16).map(|value| value as u8))
            .collect();
        let digits = digits.ok_or_else(wrong)?;
        let (pairs, rest) = digits.as_chunks::<2>();
        let number = number.and_then(|number| u64::from_str_radix(number, 16).ok());
        if pairs.is_empty() || !rest.is_empty() || parts.next().is_some() {
            return Err(wrong());
        }
        Ok(Self {
            provider: provider.to_owned(),
            address: pairs.iter().map(|[high, low]| high << 4 | low).collect(),
            number: number.ok_or_else(wrong)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_survives_its_text() {
        let card = Card {
            provider: "tcp;ofi_rxm".into(),
            address: vec![2, 0, 255, 16],
            number: 77,
        };
        let text = card.to_string();
        assert_eq!(text, "tcp;ofi_rxm/0200ff10/000000000000004d");
        assert_eq!(text.parse(), Ok(card));
    }

    #[test]
    fn other_texts_are_refused() {
        let long = format!("tcp/{}/1", "00".repeat(LONGEST));
        for text in [
            "",
            "tcp",
            "tcp/00",
            "/00/1",
            "tcp/0/1",
            "tcp/0g/1",
            "tcp//1",
            "tcp/00/x",
            "tcp/00/1/",
            &long,
        ] {
            let error = text.parse::<Card>().expect_err(text);
            assert!(error.to_string().contains("was expected"), "{error}");
        }
    }
}
