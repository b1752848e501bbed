//! Partial line: a line that comes in pieces.

/// Most bytes of a line: a policy for 64 clients takes about two thousand.
pub const LONGEST: usize = 16 << 10;

/// The bytes of a line so far, never more than [`LONGEST`] bytes.
#[derive(Debug, Default)]
pub struct PartialLine(Vec<u8>);

/// The state of the line after a further piece.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LineProgress {
    /// It is not complete.
    Incomplete,
    /// The line, without its end. Anything after it is ignored.
    Whole(Vec<u8>),
    /// It is longer than a line may be.
    TooLong,
}

impl PartialLine {
    /// Takes the next piece.
    pub fn push(&mut self, piece: &[u8]) -> LineProgress {
        let end = piece.iter().position(|&byte| byte == b'\n');
        let piece = &piece[..end.unwrap_or(piece.len())];
        if self.0.len() + piece.len() > LONGEST {
            self.0 = Vec::new();
            return LineProgress::TooLong;
        }
        self.0.extend_from_slice(piece);
        match end {
            Some(_) => LineProgress::Whole(std::mem::take(&mut self.0)),
            None => LineProgress::Incomplete,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_make_a_line_of_bounded_length() {
        let mut line = PartialLine::default();
        assert_eq!(line.push(b""), LineProgress::Incomplete);
        assert_eq!(line.push(b"\"Sta"), LineProgress::Incomplete);
        assert_eq!(
            line.push(b"tus\"\nrest"),
            LineProgress::Whole(b"\"Status\"".into())
        );
        assert_eq!(line.push(b"\n"), LineProgress::Whole(Vec::new()));
        assert_eq!(line.push(&[b'x'; LONGEST]), LineProgress::Incomplete);
        assert_eq!(line.push(b"y\n"), LineProgress::TooLong);
        assert_eq!(line.push(&[b'x'; LONGEST + 1]), LineProgress::TooLong);
        let mut whole = vec![b'z'; LONGEST];
        whole.push(b'\n');
        assert_eq!(line.push(&whole), LineProgress::Whole(vec![b'z'; LONGEST]));
    }
}
