//! Directory: members of a job that are started while it runs, and those that have died. Their numbers are reused.
//!
//! ```text
//!   directory   another version ─► for each number: another incarnation? ─► the session with the one before ends,
//!                                                                            Sink::succeeded, a session is begun anew
//!                                                   its process is lost? ─► without a connection that tells it: Sink::lost
//! ```
//!
//! An *incarnation* is one of the processes that have the same number one after the other; it has a number of its own,
//! which grows. Each side of a connection gives in its hello its own incarnation, and the one of the other that it wants:
//! so no process talks to another one that has the number, or the port, of the wanted one.
//!
//! A member must be in the directory before any process can learn of it otherwise: a process that is told of it by
//! another looks here, and finds it.
//!
//! A member without a connection to one that dies notices nothing by itself. Everything that the dead process had handed
//! over still arrives: a connection stays until its end was read.

use crate::card::Card;

/// Who tells where later members are. Its calls do not wait.
pub trait Directory: Send {
    /// Changes whenever the answer to another question does.
    fn version(&self) -> u32;

    /// Which process has a number: 0 for those that were there from the start, and where nobody is.
    fn incarnation(&self, peer: u32) -> u32;

    /// Where it can be reached; `None` if nobody is there.
    fn card(&self, peer: u32) -> Option<Card>;

    /// How the process that has a number was lost, for people; `None` if it was not, has left in order, or that is not told here.
    fn loss(&self, peer: u32) -> Option<String>;
}

/// What is known of the incarnations of all members.
pub(crate) struct Incarnations {
    directory: Option<Box<dyn Directory>>,
    version: u32,
    /// By rank.
    known: Vec<u32>,
}

impl Incarnations {
    /// As the directory has them now; without one all are there from the start.
    pub fn new(peers: u32, directory: Option<Box<dyn Directory>>) -> Self {
        let version = directory
            .as_ref()
            .map_or(0, |directory| directory.version());
        let incarnation = |peer| {
            let found = directory.as_ref();
            found.map_or(0, |directory| directory.incarnation(peer))
        };
        Self {
            version,
            known: (0..peers).map(incarnation).collect(),
            directory,
        }
    }

    /// The incarnation of a member, as it is known.
    pub fn of(&self, peer: u32) -> u32 {
        self.known.get(peer as usize).copied().unwrap_or(0)
    }

    /// The incarnation of a member, as the directory has it now.
    pub fn recorded(&self, peer: u32) -> u32 {
        let directory = self.directory.as_ref();
        directory.map_or(0, |directory| directory.incarnation(peer))
    }

    /// Whether the directory has changed.
    #[inline]
    pub fn are_stale(&self) -> bool {
        match &self.directory {
            None => false,
            Some(directory) => directory.version() != self.version,
        }
    }

    /// The members whose number another process has now.
    pub fn renew(&mut self) -> Vec<u32> {
        let Some(directory) = &self.directory else {
            return Vec::new();
        };
        self.version = directory.version();
        let mut changed = Vec::new();
        for (peer, known) in (0..).zip(&mut self.known) {
            let now = directory.incarnation(peer);
            // They grow; what stands there otherwise is nonsense.
            if now > *known {
                *known = now;
                changed.push(peer);
            }
        }
        changed
    }

    /// How the process of a member was lost, as the directory knows it.
    pub fn loss(&self, peer: u32) -> Option<String> {
        self.directory.as_ref()?.loss(peer)
    }

    /// Where a member is that was started later.
    pub fn card(&self, peer: u32) -> Option<Card> {
        match self.of(peer) {
            0 => None,
            _ => self.directory.as_ref()?.card(peer),
        }
    }
}
