//! Directory: the members of a job that are started while it runs, and those that have died. Numbers are
//! reused.
//!
//! ```text
//!   directory   another version ─► for each number: another incarnation? ─► the session with the one before ends,
//!                                                                            Sink::replaced, a session is begun anew
//!                                                   its process is lost? ─► without a connection that tells it: Sink::lost
//!                                                   it has left? ─► without one: what is sent to it is refused
//! ```
//!
//! An *incarnation* is one of the processes that have a number one after the other; incarnations are counted upwards.
//! Each side of a connection says in its hello which incarnation it is, and which incarnation of the other it wants:
//! so nobody talks to a process that has inherited the number, or the port, of another one.
//!
//! The directory must know a member before anybody can learn of it otherwise: a process that is told of another one
//! looks here, and finds it.
//!
//! A member that has no connection to a process that ends would not notice, and would call it. What the dead process handed over arrives all the
//! same: a connection stays until its end was read.

use crate::card::Card;

/// Tells where later members are. Its calls do not wait.
pub trait Directory: Send {
    /// Changes whenever an answer of another method does.
    fn version(&self) -> u32;

    /// Which incarnation has a number: 0 for processes that were there from the start, and for unused
    /// numbers.
    fn incarnation(&self, peer: u32) -> u32;

    /// Where it can be reached; `None` if nobody is there.
    fn card(&self, peer: u32) -> Option<Card>;

    /// How the process of this incarnation of a number was lost, for people; `None` if it was not lost, has left in order,
    /// or is not covered here.
    fn loss(&self, peer: u32, incarnation: u32) -> Option<String>;

    /// Whether the process of this incarnation of a number has ended in order.
    fn has_left(&self, peer: u32, incarnation: u32) -> bool;

    /// Whether each end that is a loss is told here soon after it has shown in a connection: then how the process has ended, too.
    fn tells_ends(&self) -> bool;

    /// Whether the process that has a number is on this host, if its ends are covered here: then what it has handed over is
    /// in this host's kernel.
    fn is_here(&self, peer: u32) -> bool;
}

/// The knowledge about the incarnations of all members.
pub(crate) struct Incarnations {
    directory: Option<Box<dyn Directory>>,
    version: u32,
    /// By rank.
    known: Vec<u32>,
}

/// News of the directory.
#[derive(Debug, Default)]
pub(crate) struct News {
    version: u32,
    /// Processes that have the number of a member now, with their incarnation.
    successors: Vec<(u32, u32)>,
}

impl News {
    /// Members whose number another process has now.
    pub fn succeeded(&self) -> impl Iterator<Item = u32> + use<'_> {
        self.successors.iter().map(|(peer, _)| *peer)
    }
}

impl Incarnations {
    /// As the directory has them now; without a directory all members exist from the start.
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

    /// The incarnation of a member, as known here.
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

    /// What the directory has now and is not known here. What changes later is found the next time.
    pub fn news(&self) -> News {
        let Some(directory) = &self.directory else {
            return News::default();
        };
        let version = directory.version();
        let now = (0..).zip(&self.known).map(|(peer, known)| {
            let now = directory.incarnation(peer);
            // Incarnations grow; a smaller one is nonsense.
            (now > *known).then_some((peer, now))
        });
        News {
            version,
            successors: now.flatten().collect(),
        }
    }

    /// This is known from now on.
    pub fn learn(&mut self, news: &News) {
        self.version = news.version;
        for (peer, incarnation) in &news.successors {
            self.known[*peer as usize] = *incarnation;
        }
    }

    /// How the process of a member was lost, as the directory knows it: the process that is known here.
    pub fn loss(&self, peer: u32) -> Option<String> {
        let directory = self.directory.as_ref()?;
        let loss = directory.loss(peer, self.of(peer))?;
        (directory.incarnation(peer) == self.of(peer)).then_some(loss)
    }

    /// Whether a member has ended in order, as the directory knows it: the process that is known here, and none that came after it.
    pub fn has_left(&self, peer: u32) -> bool {
        let directory = self.directory.as_ref();
        directory.is_some_and(|directory| {
            directory.has_left(peer, self.of(peer)) && directory.incarnation(peer) == self.of(peer)
        })
    }

    /// Whether the directory tells how each process has ended that is lost.
    pub fn are_ends_told(&self) -> bool {
        let directory = self.directory.as_ref();
        directory.is_some_and(|directory| directory.tells_ends())
    }

    /// Whether a member is on this host, as the directory knows it.
    pub fn is_here(&self, peer: u32) -> bool {
        let directory = self.directory.as_ref();
        directory.is_some_and(|directory| directory.is_here(peer))
    }

    /// The card of a member that was started later.
    pub fn card(&self, peer: u32) -> Option<Card> {
        match self.of(peer) {
            0 => None,
            _ => self.directory.as_ref()?.card(peer),
        }
    }
}
