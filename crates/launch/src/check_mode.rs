//! Mode of the checks: which checks of a program are on besides those of its arguments, and the effect of a finding
//! (`mpiexec --check`).

use std::fmt;

/// The variable that a rank reads it from.
pub const VARIABLE: &str = "WEFT_CHECK";

/// The exit code of a job that failed because of a finding (`--check=strict`).
pub const STRICT_EXIT: u8 = 120;

/// Extent of the checks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Extent {
    /// Nothing.
    Off,
    /// Checks whose cost is not noticeable.
    #[default]
    Usual,
    /// All checks, for development.
    Full,
}

/// The value of `--check`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CheckMode {
    /// Extent of the checks.
    pub extent: Extent,
    /// Whether a finding fails the job.
    pub strict: bool,
}

impl CheckMode {
    /// Reads the value of the option: words with commas between them. `None` if a word is not known.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut mode = Self::default();
        for word in text.split(',') {
            match word.trim() {
                "off" | "0" => mode.extent = Extent::Off,
                "usual" => mode.extent = Extent::Usual,
                "full" | "1" => mode.extent = Extent::Full,
                "strict" => mode.strict = true,
                _ => return None,
            }
        }
        Some(mode)
    }

    /// The value of the variable: `usual` if it is missing or empty.
    ///
    /// # Errors
    /// If a word is not known, with a sentence.
    pub fn read(text: Option<&str>) -> Result<Self, String> {
        let Some(text) = text.filter(|text| !text.is_empty()) else {
            return Ok(Self::default());
        };
        Self::parse(text).ok_or_else(|| {
            format!(
                "{VARIABLE} is '{text}'; off, usual, full and strict are possible, several with commas between them"
            )
        })
    }

    /// The mode of this process. An invalid value was refused when it joined its job.
    #[must_use]
    pub fn of_environment() -> Self {
        let text = std::env::var(VARIABLE).ok();
        Self::read(text.as_deref()).unwrap_or_default()
    }

    /// Whether anything is checked.
    #[must_use]
    pub fn is_on(self) -> bool {
        self.extent != Extent::Off
    }

    /// Whether everything is.
    #[must_use]
    pub fn is_full(self) -> bool {
        self.extent == Extent::Full
    }
}

impl fmt::Display for CheckMode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self.extent {
            Extent::Off => "off",
            Extent::Usual => "usual",
            Extent::Full => "full",
        })?;
        out.write_str(if self.strict { ",strict" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_what_is_read() {
        for (text, extent, strict) in [
            ("off", Extent::Off, false),
            ("0", Extent::Off, false),
            ("1", Extent::Full, false),
            ("strict", Extent::Usual, true),
            ("full,strict", Extent::Full, true),
            ("strict,full", Extent::Full, true),
        ] {
            let mode = CheckMode::parse(text).expect(text);
            assert_eq!(mode, CheckMode { extent, strict });
            assert_eq!(CheckMode::parse(&mode.to_string()), Some(mode));
        }
        assert_eq!(CheckMode::parse("ful"), None);
        assert_eq!(CheckMode::parse(""), None);
    }

    #[test]
    fn a_variable_that_is_misspelt_is_refused() {
        for usual in [None, Some(""), Some("usual")] {
            assert_eq!(CheckMode::read(usual), Ok(CheckMode::default()));
        }
        let refused = CheckMode::read(Some("stric")).expect_err("no such word");
        assert!(refused.contains("WEFT_CHECK is 'stric'"), "{refused}");
    }
}
