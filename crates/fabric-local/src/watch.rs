//! Watch over the ranks of a group: it asks them what they wait for, and ends their waits.

use std::iter;
use std::sync::Arc;

use weft_fabric::{Bell as _, Peer};

use super::{Group, Member};

/// Watches the ranks of a group, by an endpoint of [channel 0](super::Local::watch).
#[derive(Clone)]
pub struct Watch {
    group: Arc<Group>,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Watch({} ranks)", self.group.members.len())
    }
}

impl Watch {
    pub(crate) fn over(group: Arc<Group>) -> Self {
        Self { group }
    }

    /// The group in all channels.
    fn channels(&self) -> impl Iterator<Item = &Group> {
        let others = self.group.channels.iter();
        iter::once(&*self.group).chain(others.map(|channel| &*channel.group))
    }

    fn members(&self) -> impl Iterator<Item = &Member> {
        self.channels().flat_map(|group| &group.members)
    }

    /// Asks all ranks that sleep what they wait for; the others are asked when they are about to sleep. Returns the number of
    /// this inquiry, which is never 0; its lowest bit says whether it is `full`. One thread watches.
    pub fn inquire(&self, full: bool) -> u32 {
        let number = self.group.awake.next_inquiry(full);
        self.members().for_each(|one| one.bell.wake_regardless());
        number
    }

    /// `Some` if all ranks appear to sleep: a number that changes whenever one of them is woken. This is advice: a rank may sleep
    /// in one thread and compute in another.
    #[must_use]
    pub fn rest(&self) -> Option<u64> {
        let rings = || self.members().map(|one| u64::from(one.bell.rings())).sum();
        (self.group.awake.count() == 0).then(rings)
    }

    /// Tells each rank, including the lost one, that this one is lost: what waits for it ends.
    pub fn lose(&self, rank: Peer, reason: &str) {
        for member in self.members() {
            member.mailbox.tell_lost(rank, reason);
            member.bell.ring();
        }
    }

    /// Tells each rank that all are lost, including itself: whatever they wait for ends.
    pub fn lose_all(&self, reason: &str) {
        for rank in (0..).take(self.group.members.len()) {
            self.lose(Peer(rank), reason);
        }
    }
}
