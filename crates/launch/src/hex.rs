//! Hexadecimal digits: bytes over channels that carry text only.

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
    fn bytes_survive_the_way() {
        for bytes in [&[][..], &[0], &[255, 16, 1]] {
            assert_eq!(unhex(&hex(bytes)), Some(bytes.to_vec()));
        }
        for wrong in ["0", "0g", "abc"] {
            assert_eq!(unhex(wrong), None);
        }
    }
}
