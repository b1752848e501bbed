//! Held buffers: which send slots are free, and for which peer each other one holds a message.

/// Marks a slot whose receiver is gone: its number belongs to another process.
pub const NOBODY: u32 = u32::MAX;

/// Messages that were taken for sending and have not left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Remains {
    /// Nothing.
    Nothing,
    /// Messages to peers that have said goodbye: they may be gone, and need nothing more.
    AfterGoodbye,
    /// Messages to others, too.
    ForOthers,
}

/// The send slots of one endpoint.
///
/// *Invariant:* a slot is free exactly if it is held for nobody.
pub struct Held {
    free: Vec<usize>,
    holders: Vec<Option<u32>>,
}

impl Held {
    /// `slots` slots, all free.
    pub fn new(slots: usize) -> Self {
        Self {
            free: (0..slots).rev().collect(),
            holders: vec![None; slots],
        }
    }

    /// Takes a free slot for a message to this peer, if there is one.
    #[inline]
    pub fn take(&mut self, peer: u32) -> Option<usize> {
        let slot = self.free.pop()?;
        self.holders[slot] = Some(peer);
        Some(slot)
    }

    /// Frees the slot. Returns the peer that something was held for.
    #[inline]
    pub fn release(&mut self, slot: usize) -> Option<u32> {
        let peer = self.holders[slot].take()?;
        self.free.push(slot);
        Some(peer)
    }

    /// Marks what is held for this peer as being for nobody.
    pub fn give_up(&mut self, peer: u32) {
        let holders = self.holders.iter_mut().flatten();
        holders
            .filter(|holder| **holder == peer)
            .for_each(|holder| *holder = NOBODY);
    }

    /// Whether at least half of the slots are free.
    pub fn is_half_free(&self) -> bool {
        self.free.len() * 2 >= self.holders.len()
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.free.len() == self.holders.len()
    }

    /// The peers for which something is held.
    pub fn peers(&self) -> impl Iterator<Item = u32> + '_ {
        self.holders.iter().copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_held_for_one_and_released_once() {
        let mut held = Held::new(2);
        assert!(held.is_empty());
        let slots = [held.take(7), held.take(9)].map(|slot| slot.expect("free"));
        assert_eq!(held.take(7), None);
        assert!(held.peers().eq([7, 9]) && !held.is_half_free());
        assert_eq!(held.release(slots[0]), Some(7));
        assert!(held.is_half_free());
        assert_eq!(held.release(slots[0]), None, "once");
        assert!(held.peers().eq([9]) && !held.is_empty());
        assert_eq!(held.take(9), Some(slots[0]));
        assert_eq!(held.take(9), None);
        held.give_up(9);
        assert!(held.peers().eq([NOBODY; 2]));
        for slot in slots {
            assert_eq!(held.release(slot), Some(NOBODY));
        }
        assert!(held.is_empty());
    }
}
