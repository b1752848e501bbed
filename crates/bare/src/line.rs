//! A line on standard error.

use core::fmt::{self, Write};

/// A line as it is put together; what does not fit is cut off. In one piece, it is not mixed with what other processes write.
pub struct Line {
    bytes: [u8; Line::MOST],
    used: usize,
}

impl Line {
    /// The bytes of the longest line: more than our longest sentence with a path in it.
    const MOST: usize = 2048;

    /// The line with this text.
    pub fn of(text: fmt::Arguments<'_>) -> Self {
        let mut line = Self {
            bytes: [0; Self::MOST],
            used: 0,
        };
        // It fails if the text is cut off, which it is then.
        let _ = line.write_fmt(text);
        line.bytes[line.used] = b'\n';
        line.used += 1;
        line
    }

    /// Its bytes, with the end of the line.
    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    /// Writes it to standard error.
    pub fn write(&self) {
        let mut rest = self.bytes();
        while !rest.is_empty() {
            // SAFETY: the address and the length are those of a slice.
            let written = unsafe { libc::write(2, rest.as_ptr().cast(), rest.len()) };
            match usize::try_from(written) {
                Ok(written) if written > 0 => rest = &rest[written..],
                // Nobody can be told that nothing can be said.
                _ => return,
            }
        }
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // One byte is left for the end of the line.
        let room = Self::MOST - 1 - self.used;
        let fits = text.floor_char_boundary(room);
        self.bytes[self.used..self.used + fits].copy_from_slice(&text.as_bytes()[..fits]);
        self.used += fits;
        match fits == text.len() {
            true => Ok(()),
            false => Err(fmt::Error),
        }
    }
}

/// Writes a line to standard error; arguments as those of `format!`.
#[macro_export]
macro_rules! say {
    ($($argument:tt)*) => {
        $crate::line::Line::of(::core::format_args!($($argument)*)).write()
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_cut_off_between_characters() {
        let line = Line::of(format_args!("{} {}", 1, "two"));
        assert_eq!(line.bytes(), b"1 two\n");
        let long = "ä".repeat(Line::MOST);
        let line = Line::of(format_args!("{long}{long}"));
        let text = core::str::from_utf8(line.bytes()).expect("whole characters");
        assert_eq!(text.len(), Line::MOST - 1, "2046 bytes of text and the end");
        assert!(text.ends_with("ä\n"));
    }
}
