//! Info objects: ordered (key, value) pairs of text (MPI 5.0, chapter 10).

use crate::error::{Error, ErrorClass, Result};

/// Longest key, without the terminating zero (`MPI_MAX_INFO_KEY` counts it).
pub const KEY_MAX: usize = 255;
/// Longest value, without the terminating zero (`MPI_MAX_INFO_VAL` counts it).
pub const VALUE_MAX: usize = 1023;

/// The key by which a program asks which kinds of memory its data may lie in (MPI 5.0, section 11.4.3).
const MEMORY_KINDS: &str = "mpi_memory_alloc_kinds";
/// The answer, whatever was asked for: all that the processor loads and stores, and no memory of devices.
const SUPPORTED_KINDS: &str = "mpi,system,mpi:alloc_mem,mpi:win_allocate,mpi:win_allocate_shared";

/// Pairs in the order in which they were first set.
///
/// ```
/// use weft_mpi::info::Info;
///
/// let mut info = Info::default();
/// info.set("cb_nodes", "2")?;
/// info.set("cb_buffer_size", "1048576")?;
/// assert_eq!(info.get("cb_nodes")?, Some("2"));
/// assert_eq!(info.iter().map(|(key, _)| key).collect::<Vec<_>>(), ["cb_nodes", "cb_buffer_size"]);
/// # Ok::<(), weft_mpi::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    pairs: Vec<(String, String)>,
}

impl Info {
    /// Sets a pair, replacing the value of the key.
    ///
    /// # Errors
    /// `InfoKey` for an empty or too long key, `InfoValue` for a value that is too long.
    pub fn set(&mut self, key: &str, value: &str) -> Result<()> {
        check_key(key)?;
        if value.len() > VALUE_MAX {
            return Err(Error::new(
                ErrorClass::InfoValue,
                format!(
                    "an info value of {} bytes; give at most {VALUE_MAX}",
                    value.len()
                ),
            ));
        }
        match self.pairs.iter_mut().find(|(other, _)| other == key) {
            Some((_, old)) => value.clone_into(old),
            None => self.pairs.push((key.to_owned(), value.to_owned())),
        }
        Ok(())
    }

    /// These hints of an object as the program gets them: what the object supports is said by Weft, not by whoever has
    /// set hints.
    #[must_use]
    pub fn answered(mut self) -> Self {
        // Neither text is too long.
        let _ = self.set(MEMORY_KINDS, SUPPORTED_KINDS);
        self
    }

    /// The value of a key.
    ///
    /// # Errors
    /// `InfoKey` for an empty or too long key.
    pub fn get(&self, key: &str) -> Result<Option<&str>> {
        check_key(key)?;
        Ok(self
            .pairs
            .iter()
            .find(|(other, _)| other == key)
            .map(|(_, value)| value.as_str()))
    }

    /// Removes a pair.
    ///
    /// # Errors
    /// `InfoNoKey` if there is none.
    pub fn delete(&mut self, key: &str) -> Result<()> {
        check_key(key)?;
        let place = self
            .pairs
            .iter()
            .position(|(other, _)| other == key)
            .ok_or_else(|| {
                Error::new(
                    ErrorClass::InfoNoKey,
                    format!("the info object has no key \"{key}\" to delete"),
                )
            })?;
        self.pairs.remove(place);
        Ok(())
    }

    /// Number of pairs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// All pairs, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.pairs.iter();
        pairs.map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// The key at a place.
    #[must_use]
    pub fn key(&self, place: usize) -> Option<&str> {
        self.pairs.get(place).map(|(key, _)| key.as_str())
    }
}

fn check_key(key: &str) -> Result<()> {
    if key.is_empty() || key.len() > KEY_MAX {
        return Err(Error::new(
            ErrorClass::InfoKey,
            format!("an info key of {} bytes; give 1 to {KEY_MAX}", key.len()),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_keep_their_order() {
        let mut info = Info::default();
        info.set("b", "1").unwrap();
        info.set("a", "2").unwrap();
        info.set("b", "3").unwrap();
        assert_eq!(
            (info.len(), info.key(0), info.get("b").unwrap()),
            (2, Some("b"), Some("3"))
        );
        info.delete("b").unwrap();
        assert_eq!(info.delete("b").unwrap_err().class(), ErrorClass::InfoNoKey);
        assert_eq!(info.set("", "x").unwrap_err().class(), ErrorClass::InfoKey);
        info.set("none", "").unwrap();
        assert_eq!(info.get("none").unwrap(), Some(""));
        assert_eq!(
            info.set("k", &"v".repeat(VALUE_MAX + 1))
                .unwrap_err()
                .class(),
            ErrorClass::InfoValue
        );
    }
}
