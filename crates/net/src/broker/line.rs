//! A line that comes in pieces.

/// Bytes of a line at most: a policy for 64 clients takes about two thousand.
pub const LONGEST: usize = 16 << 10;

/// What has come of a line so far, never more than [`LONGEST`] bytes.
#[derive(Debug, Default)]
pub struct Line(Vec<u8>);

/// What a further piece made of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Heard {
    /// It is not complete.
    More,
    /// All before its end. What came after it is not looked at.
    Whole(Vec<u8>),
    /// It is longer than a line may be.
    TooLong,
}

impl Line {
    /// Takes the next piece.
    pub fn hear(&mut self, piece: &[u8]) -> Heard {
        let end = piece.iter().position(|&byte| byte == b'\n');
        let piece = &piece[..end.unwrap_or(piece.len())];
        if self.0.len() + piece.len() > LONGEST {
            self.0 = Vec::new();
            return Heard::TooLong;
        }
        self.0.extend_from_slice(piece);
        match end {
            Some(_) => Heard::Whole(std::mem::take(&mut self.0)),
            None => Heard::More,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_make_a_line_of_bounded_length() {
        let mut line = Line::default();
        assert_eq!(line.hear(b""), Heard::More);
        assert_eq!(line.hear(b"\"Sta"), Heard::More);
        assert_eq!(
            line.hear(b"tus\"\nrest"),
            Heard::Whole(b"\"Status\"".into())
        );
        assert_eq!(line.hear(b"\n"), Heard::Whole(Vec::new()));
        assert_eq!(line.hear(&[b'x'; LONGEST]), Heard::More);
        assert_eq!(line.hear(b"y\n"), Heard::TooLong);
        assert_eq!(line.hear(&[b'x'; LONGEST + 1]), Heard::TooLong);
        let mut whole = vec![b'z'; LONGEST];
        whole.push(b'\n');
        assert_eq!(line.hear(&whole), Heard::Whole(vec![b'z'; LONGEST]));
    }
}
