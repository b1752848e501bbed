//! Extras: the name, info, error handler and attributes of a communicator or a datatype. Callbacks and handles of the
//! caller's language are opaque numbers here; the ABI gives them a meaning.

use std::sync::{Mutex, MutexGuard, PoisonError};

use weft_atomic::{AtomicUsize, Ordering};

use crate::info::Info;

/// Cached values by key, in the order set (MPI 5.0, section 7.7).
#[derive(Debug, Default)]
pub struct Attributes {
    values: Vec<(i32, usize)>,
}

impl Attributes {
    /// Sets a value; answers the old one.
    pub fn set(&mut self, key: i32, value: usize) -> Option<usize> {
        match self.values.iter_mut().find(|(other, _)| *other == key) {
            Some((_, old)) => Some(std::mem::replace(old, value)),
            None => {
                self.values.push((key, value));
                None
            }
        }
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: i32) -> Option<usize> {
        self.values
            .iter()
            .find(|(other, _)| *other == key)
            .map(|(_, value)| *value)
    }

    /// Removes a value; answers it.
    pub fn remove(&mut self, key: i32) -> Option<usize> {
        let place = self.values.iter().position(|(other, _)| *other == key)?;
        Some(self.values.remove(place).1)
    }

    /// All of them, in the order set.
    #[must_use]
    pub fn all(&self) -> Vec<(i32, usize)> {
        self.values.clone()
    }
}

/// Name, info, error handler and attributes of an object.
#[derive(Debug, Default)]
pub struct Extras {
    name: Mutex<String>,
    info: Mutex<Info>,
    attributes: Mutex<Attributes>,
    errhandler: AtomicUsize,
}

fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Extras {
    /// Extras with a name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self {
            name: Mutex::new(name.to_owned()),
            ..Self::default()
        }
    }

    /// The name; empty if none was set.
    #[must_use]
    pub fn name(&self) -> String {
        open(&self.name).clone()
    }

    /// The name, for people: `nameless` if none was set.
    #[must_use]
    pub fn name_or(&self, nameless: &str) -> String {
        match self.name() {
            name if name.is_empty() => nameless.to_owned(),
            name => name,
        }
    }

    /// Sets the name.
    pub fn set_name(&self, name: &str) {
        name.clone_into(&mut open(&self.name));
    }

    /// The info. Not to be held across calls that may call back.
    pub fn info(&self) -> MutexGuard<'_, Info> {
        open(&self.info)
    }

    /// The attributes. Not to be held across calls that may call back.
    pub fn attributes(&self) -> MutexGuard<'_, Attributes> {
        open(&self.attributes)
    }

    /// The error handler, as the number that the ABI gave; 0 if none was set.
    #[must_use]
    pub fn errhandler(&self) -> usize {
        self.errhandler.load(Ordering::Relaxed)
    }

    /// Sets the error handler.
    pub fn set_errhandler(&self, handler: usize) {
        self.errhandler.store(handler, Ordering::Relaxed);
    }
}
