//! One line of PMI version 1: `cmd=get_result rc=0 value=abc`, ended by a newline.
//!
//! The other side is a launcher that we did not write. A line is bounded, read once, and its required fields are looked
//! up by name.

use std::fmt;

/// Longest line in bytes, its end included. Launchers announce values of 1 to 4 KiB.
pub const LONGEST: usize = 64 << 10;

/// A line: its command, and the values with their names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PmiLine {
    fields: Vec<(String, String)>,
}

/// Why bytes are no line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LineError {
    text: String,
}

impl fmt::Display for LineError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl std::error::Error for LineError {}

impl PmiLine {
    /// A line that says this.
    #[must_use]
    pub fn new(command: &str) -> Self {
        Self {
            fields: vec![("cmd".into(), command.into())],
        }
    }

    /// With one more value. Blanks and newlines in it would end it: they are the caller's to avoid.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl fmt::Display) -> Self {
        self.fields.push((name.into(), value.to_string()));
        self
    }

    /// Reads the bytes of one line, with or without its end.
    ///
    /// # Errors
    /// If it is too long, not text, or a part of it has no name.
    pub fn parse(bytes: &[u8]) -> Result<Self, LineError> {
        let error = |text: String| Err(LineError { text });
        if bytes.len() > LONGEST {
            return error(format!(
                "a line of {} bytes; at most {LONGEST} were expected",
                bytes.len()
            ));
        }
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let Ok(text) = std::str::from_utf8(bytes) else {
            return error("a line that is no text".into());
        };
        let mut fields = Vec::new();
        for word in text
            .split([' ', '\t', '\r'])
            .filter(|word| !word.is_empty())
        {
            match word.split_once('=') {
                Some((name, value)) if !name.is_empty() => {
                    fields.push((name.to_owned(), value.to_owned()));
                }
                _ => return error(format!("'{}' without a name", shown(word))),
            }
        }
        if fields.first().is_none_or(|(name, _)| name != "cmd") {
            return error(format!(
                "a line that does not begin with cmd=: {}",
                shown(text)
            ));
        }
        Ok(Self { fields })
    }

    /// The command.
    #[must_use]
    pub fn command(&self) -> &str {
        self.get("cmd").unwrap_or("")
    }

    /// The value of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// A number by name.
    #[must_use]
    pub fn number<N: std::str::FromStr>(&self, name: &str) -> Option<N> {
        self.get(name)?.parse().ok()
    }

    /// As it goes over the wire.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        format!("{self}\n").into_bytes()
    }
}

impl fmt::Display for PmiLine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, value)) in self.fields.iter().enumerate() {
            let blank = if index == 0 { "" } else { " " };
            write!(out, "{blank}{name}={value}")?;
        }
        Ok(())
    }
}

/// The beginning of a foreign text, for a message.
pub fn shown(text: &str) -> String {
    const SHOWN: usize = 60;
    let clean = text
        .chars()
        .map(|letter| if letter.is_control() { '?' } else { letter });
    let mut short: String = clean.clone().take(SHOWN).collect();
    if clean.count() > SHOWN {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_survive_the_way() {
        let line = PmiLine::new("put")
            .with("kvsname", "kvs_1")
            .with("key", "address-3")
            .with("value", "a=b=c");
        let bytes = line.encode();
        assert_eq!(bytes, b"cmd=put kvsname=kvs_1 key=address-3 value=a=b=c\n");
        assert_eq!(PmiLine::parse(&bytes), Ok(line));
    }

    #[test]
    fn values_are_asked_for_by_name() {
        let line =
            PmiLine::parse(b"cmd=maxes rc=0 vallen_max=1024 keylen_max=x\n").expect("a line");
        assert_eq!(line.command(), "maxes");
        assert_eq!(line.number("vallen_max"), Some(1024));
        assert_eq!(line.number::<u32>("keylen_max"), None);
        assert_eq!((line.get("rc"), line.get("msg")), (Some("0"), None));
    }

    #[test]
    fn what_is_no_line_says_why() {
        for (bytes, said) in [
            (&b""[..], "begin with cmd="),
            (b"rc=0 cmd=x", "begin with cmd="),
            (b"cmd=x nonsense", "'nonsense'"),
            (b"cmd=x =y", "'=y'"),
            (b"cmd=\xff", "no text"),
            (&[b'x'; LONGEST + 1], "at most"),
        ] {
            let error = PmiLine::parse(bytes).expect_err("no line").to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
