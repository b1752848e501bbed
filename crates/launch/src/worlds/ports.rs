//! Ports of a job: which are open, by which a world is awaited, and by which none comes any more.
//!
//! ```text
//!   open ── a world is to come: awaited ── they have met ──► closed
//!                                        └─ it is lost ────► failed, until its owner closes it or ends
//! ```
//!
//! *Invariant:* a number is given once. Worlds are awaited by open ports only, and a failed port is not open.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

/// Ports that one process may have open at a time.
const MOST: usize = 4096;

/// Ports that all processes of a job may open, one after the other.
const LAST: u32 = 1 << 30;

/// The ports, by their numbers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Ports {
    next: u32,
    /// The owner of each open port.
    open: HashMap<u32, u32>,
    /// The world that is to come by an open port.
    awaited: HashMap<u32, u32>,
    /// The owner of a failed port, and why none comes.
    failed: HashMap<u32, (u32, String)>,
}

/// A process has too many ports open: so many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TooMany(pub usize);

impl Ports {
    /// No port is open.
    pub(super) fn new() -> Self {
        Self {
            next: 1,
            open: HashMap::new(),
            awaited: HashMap::new(),
            failed: HashMap::new(),
        }
    }

    /// Opens a port of a process; answers its number.
    pub(super) fn open(&mut self, owner: u32) -> Result<u32, TooMany> {
        let open = self.open.values().filter(|other| **other == owner).count();
        if open >= MOST || self.next >= LAST {
            return Err(TooMany(open));
        }
        let number = self.next;
        self.next += 1;
        self.open.insert(number, owner);
        Ok(number)
    }

    /// The owner of a port that is open.
    pub(super) fn owner(&self, number: u32) -> Option<u32> {
        self.open.get(&number).copied()
    }

    /// Why none comes any more by a port.
    pub(super) fn failure(&self, number: u32) -> Option<&str> {
        self.failed.get(&number).map(|(_, reason)| reason.as_str())
    }

    /// Closes an open port.
    pub(super) fn close(&mut self, number: u32) {
        self.open.remove(&number);
        self.awaited.remove(&number);
    }

    /// Closes a failed port, if it is of this process.
    pub(super) fn close_failed(&mut self, number: u32, owner: u32) {
        if self
            .failed
            .get(&number)
            .is_some_and(|(other, _)| *other == owner)
        {
            self.failed.remove(&number);
        }
    }

    /// A world is to come by an open port.
    pub(super) fn await_world(&mut self, number: u32, world: u32) {
        self.awaited.insert(number, world);
    }

    /// A world that is awaited does not come, for this reason. A port by which all of it have come was closed before.
    pub(super) fn lose(&mut self, world: u32, reason: &str) {
        let awaited = self.awaited.iter().find(|(_, other)| **other == world);
        if let Some((&number, _)) = awaited
            && let Some(owner) = self.owner(number)
        {
            self.close(number);
            self.failed.insert(number, (owner, reason.to_owned()));
        }
    }

    /// A process has ended, and with it its ports.
    pub(super) fn end(&mut self, owner: u32) {
        self.open.retain(|_, other| *other != owner);
        let open = &self.open;
        self.awaited.retain(|number, _| open.contains_key(number));
        self.failed.retain(|_, (other, _)| *other != owner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_given_once() {
        let mut ports = Ports::new();
        assert_eq!((ports.open(3), ports.open(4)), (Ok(1), Ok(2)));
        ports.close(2);
        assert_eq!(
            (ports.open(4), ports.owner(2), ports.owner(3)),
            (Ok(3), None, Some(4))
        );
    }

    #[test]
    fn a_process_has_so_many_ports_and_others_have_theirs() {
        let mut ports = Ports::new();
        for _ in 0..MOST {
            ports.open(0).expect("one more");
        }
        assert_eq!(ports.open(0), Err(TooMany(MOST)));
        assert!(ports.open(1).is_ok());
    }

    #[test]
    fn a_port_fails_with_the_world_that_it_awaits_until_its_owner_closes_it() {
        let mut ports = Ports::new();
        let [met, lost] = [(), ()].map(|()| ports.open(0).expect("few"));
        ports.await_world(met, 7);
        ports.close(met);
        ports.lose(7, "late");
        assert_eq!((ports.owner(met), ports.failure(met)), (None, None));
        ports.await_world(lost, 8);
        ports.lose(8, "it was killed");
        assert_eq!(
            (ports.owner(lost), ports.failure(lost)),
            (None, Some("it was killed"))
        );
        ports.close_failed(lost, 1);
        assert!(ports.failure(lost).is_some(), "another's");
        ports.close_failed(lost, 0);
        assert!(ports.failure(lost).is_none() && ports.awaited.is_empty());
    }
}
