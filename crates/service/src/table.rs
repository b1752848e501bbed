//! Ids: small numbers that name the ends of a service, lowest free one first.

use crate::error::{Code, Error, Result};

/// Ids of one service in one process.
pub const IDS: usize = 1024;

/// What the ids of one service name.
#[derive(Debug)]
pub struct Table<T> {
    /// For sentences: "mailbox", "portal", "sync".
    service: &'static str,
    entries: Vec<Option<T>>,
}

impl<T> Table<T> {
    /// A table without entries, of what is called `service` in sentences.
    #[must_use]
    pub const fn new(service: &'static str) -> Self {
        Self {
            service,
            entries: Vec::new(),
        }
    }

    /// Gives an id to `entry`.
    ///
    /// # Errors
    /// `Again` if all [`IDS`] are in use.
    pub fn insert(&mut self, entry: T) -> Result<i32> {
        let free = self.entries.iter().position(Option::is_none);
        let index = match free {
            Some(index) => index,
            None if self.entries.len() < IDS => {
                self.entries.push(None);
                self.entries.len() - 1
            }
            None => {
                return Err(Error::new(
                    Code::Again,
                    format!(
                        "all {IDS} {} ids of this process are in use; close or unlink some first",
                        self.service
                    ),
                ));
            }
        };
        self.entries[index] = Some(entry);
        Ok(index as i32)
    }

    /// What an id names.
    ///
    /// # Errors
    /// `BadId`, or `Invalid` for what can be no id.
    #[inline]
    pub fn get(&mut self, id: i32) -> Result<&mut T> {
        match usize::try_from(id)
            .ok()
            .and_then(|index| self.entries.get_mut(index))
        {
            Some(Some(entry)) => Ok(entry),
            _ => Err(unknown(self.service, id)),
        }
    }

    /// Takes an id back.
    pub fn remove(&mut self, id: i32) -> Option<T> {
        self.entries.get_mut(usize::try_from(id).ok()?)?.take()
    }

    /// All that there is, with its id.
    pub(crate) fn all(&mut self) -> impl Iterator<Item = (i32, &mut T)> {
        let entries = self.entries.iter_mut().enumerate();
        entries.filter_map(|(index, entry)| Some((index as i32, entry.as_mut()?)))
    }
}

#[cold]
fn unknown(service: &str, id: i32) -> Error {
    if (0..IDS as i32).contains(&id) {
        return Error::new(
            Code::BadId,
            format!(
                "{id} names no {service}: it was never given out, or was closed or unlinked since"
            ),
        );
    }
    Error::new(
        Code::Invalid,
        format!(
            "{id} is no id of a {service}: ids lie between 0 and {}; was the error of the call that gave it overlooked?",
            IDS - 1
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_the_lowest_free_and_end() {
        let mut table = Table::new("mailbox");
        for id in 0..IDS as i32 {
            assert_eq!(table.insert(id), Ok(id));
        }
        assert_eq!(table.insert(0).expect_err("full").code(), Code::Again);
        assert_eq!(table.remove(7), Some(7));
        assert_eq!(table.get(7).expect_err("gone").code(), Code::BadId);
        assert_eq!(table.remove(7), None);
        assert_eq!(table.insert(1), Ok(7));
        for id in [-1, IDS as i32] {
            assert_eq!(table.get(id).expect_err("no id").code(), Code::Invalid);
        }
    }
}
