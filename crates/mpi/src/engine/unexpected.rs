//! Unexpected store: messages that arrived before their receives, by the names that the matching engine uses for them.
//!
//! A name is assigned by [`keep`](UnexpectedStore::keep) and ends with [`take`](UnexpectedStore::take); the matching
//! engine holds each name once in between. Memory of data is reused, so that unexpected messages do not allocate for
//! ever.
//!
//! It counts what it holds from each peer, for [`flow`](super::flow) control.

use weft_fabric::{Peer, SharedBytes};

use super::envelope::Envelope;
use super::windows::cost;

/// Slots that keep the memory of their data for the next message, and bytes that each of them may keep.
const SPARE: (usize, usize) = (64, 64 * 1024);

/// Name of an unexpected message in the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct UnexpectedId(u32);

/// A message that came before its receive.
#[derive(Debug)]
pub(crate) struct Unexpected {
    pub from: Peer,
    pub envelope: Envelope,
    /// The data, unless they wait at the sender.
    pub data: Vec<u8>,
}

impl Unexpected {
    /// Gives the memory of the data back.
    #[cold]
    fn forget_data(&mut self) {
        self.data = Vec::new();
    }
}

/// One slot: what is in it once its message is gone is memory for the data of the next one.
#[derive(Debug)]
struct Slot {
    is_taken: bool,
    message: Unexpected,
}

/// What is kept of one peer.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    /// Bytes, with what a message takes besides.
    held: u64,
    /// The peer is answered once it is less than this; 0 if it has not asked.
    answered_below: u64,
}

/// All such messages.
#[derive(Debug)]
pub(super) struct UnexpectedStore {
    slots: Vec<Slot>,
    free: Vec<u32>,
    accounts: Box<[Account]>,
    window: u32,
}

/// Accounts.
impl UnexpectedStore {
    /// The window that is given to each peer.
    pub(super) fn window(&self) -> u32 {
        self.window
    }

    pub(super) fn set_window(&mut self, window: u32) {
        self.window = window;
    }

    /// A peer asks for more. True if it is to be answered now, else once enough of it was received.
    #[must_use]
    pub(super) fn owe(&mut self, peer: Peer) -> bool {
        let most = 2 * u64::from(self.window);
        let Some(account) = self.accounts.get_mut(peer.index()) else {
            return false;
        };
        let is_due = account.held < most;
        account.answered_below = if is_due { 0 } else { most };
        is_due
    }
}

/// A message of a peer is kept no more. True if the peer is to be answered now.
#[inline(always)]
#[must_use]
fn settle(accounts: &mut [Account], from: Peer, bytes: usize) -> bool {
    let Some(account) = accounts.get_mut(from.index()) else {
        return false;
    };
    account.held = account.held.wrapping_sub(u64::from(cost(bytes)));
    let is_due = account.held < account.answered_below;
    if is_due {
        account.answered_below = 0;
    }
    is_due
}

/// A message that waits, found once to be looked at and then perhaps to end.
#[derive(Debug)]
pub(super) struct Kept<'a> {
    id: UnexpectedId,
    slot: &'a mut Slot,
    free: &'a mut Vec<u32>,
    accounts: &'a mut Box<[Account]>,
}

impl Kept<'_> {
    #[inline(always)]
    pub(super) fn message(&self) -> &Unexpected {
        &self.slot.message
    }

    /// It is kept no more. True if its sender is to be answered now.
    #[inline(always)]
    #[must_use]
    pub(super) fn end(self) -> bool {
        let (most, bytes) = SPARE;
        let message = &mut self.slot.message;
        self.slot.is_taken = false;
        let (from, held) = (message.from, message.data.len());
        if self.id.0 as usize >= most || message.data.capacity() > bytes {
            message.forget_data();
        }
        self.free.push(self.id.0);
        settle(self.accounts, from, held)
    }
}

impl UnexpectedStore {
    /// An empty one, which gives so many peers such a window.
    pub(super) fn new(peers: usize, window: u32) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            accounts: vec![Account::default(); peers].into_boxed_slice(),
            window,
        }
    }

    /// There are so many peers from now on.
    pub(super) fn make_room(&mut self, peers: usize) {
        let mut accounts = std::mem::take(&mut self.accounts).into_vec();
        accounts.resize(peers.max(accounts.len()), Account::default());
        self.accounts = accounts.into();
    }

    /// Keeps a message, with a copy of its data.
    #[inline]
    pub(super) fn keep(
        &mut self,
        from: Peer,
        envelope: Envelope,
        data: SharedBytes<'_>,
    ) -> UnexpectedId {
        let index = match self.free.pop() {
            Some(index) => index,
            None => self.grow(from, envelope),
        };
        let slot = &mut self.slots[index as usize];
        slot.is_taken = true;
        slot.message.from = from;
        slot.message.envelope = envelope;
        data.copy_to_vec(&mut slot.message.data);
        if let Some(account) = self.accounts.get_mut(from.index()) {
            account.held += u64::from(cost(data.len()));
        }
        UnexpectedId(index)
    }

    #[cold]
    fn grow(&mut self, from: Peer, envelope: Envelope) -> u32 {
        self.slots.push(Slot {
            is_taken: false,
            message: Unexpected {
                from,
                envelope,
                data: Vec::new(),
            },
        });
        (self.slots.len() - 1) as u32
    }

    /// A message that is perhaps to [end](Kept::end) here.
    #[inline(always)]
    pub(super) fn kept(&mut self, id: UnexpectedId) -> Option<Kept<'_>> {
        let slot = self.slots.get_mut(id.0 as usize)?;
        slot.is_taken.then_some(Kept {
            id,
            slot,
            free: &mut self.free,
            accounts: &mut self.accounts,
        })
    }

    /// A message that stays.
    #[inline(always)]
    pub(super) fn get(&self, id: UnexpectedId) -> Option<&Unexpected> {
        let slot = self.slots.get(id.0 as usize)?;
        slot.is_taken.then_some(&slot.message)
    }

    /// Takes a message out. True if its sender is to be answered now.
    pub(super) fn take(&mut self, id: UnexpectedId) -> (Unexpected, bool) {
        let slot = &mut self.slots[id.0 as usize];
        assert!(
            std::mem::take(&mut slot.is_taken),
            "the matching engine names each message once"
        );
        self.free.push(id.0);
        let message = Unexpected {
            from: slot.message.from,
            envelope: slot.message.envelope,
            data: std::mem::take(&mut slot.message.data),
        };
        let is_due = settle(&mut self.accounts, message.from, message.data.len());
        (message, is_due)
    }

    /// Takes back the memory of a message that was taken out: the next message gets it.
    pub(super) fn recycle(&mut self, data: Vec<u8>) {
        let (most, bytes) = SPARE;
        let next = self.free.last().map(|index| *index as usize);
        if let Some(next) = next.filter(|next| *next < most && data.capacity() <= bytes)
            && self.slots[next].message.data.capacity() < data.capacity()
        {
            self.slots[next].message.data = data;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(store: &mut UnexpectedStore, bytes: &[u8]) -> UnexpectedId {
        let envelope = Envelope::eager(0, 0, bytes.len() as u64);
        store.keep(Peer(1), envelope, SharedBytes::of(bytes))
    }

    #[test]
    fn names_and_memory_are_used_again() {
        let mut store = UnexpectedStore::new(2, 1000);
        let [one, two] = [keep(&mut store, b"one"), keep(&mut store, b"two")];
        assert_ne!(one, two);
        let (message, _) = store.take(one);
        assert_eq!(message.data, b"one");
        assert!(store.get(one).is_none());
        let memory = message.data.as_ptr();
        store.recycle(message.data);
        assert_eq!(keep(&mut store, b"3"), one);
        let again = store.get(one).expect("kept");
        assert_eq!((&again.data[..], again.data.as_ptr()), (&b"3"[..], memory));
        assert_eq!(store.take(two).0.data, b"two");
    }

    #[test]
    fn a_peer_that_asks_is_answered_once_enough_of_it_was_received() {
        let mut store = UnexpectedStore::new(2, 2 * cost(8));
        let messages: Vec<_> = (0..6).map(|_| keep(&mut store, b"8 bytes.")).collect();
        assert!(store.owe(Peer(0)), "it has sent nothing");
        assert!(!store.owe(Peer(1)) && !store.owe(Peer(9)));
        for id in &messages[..2] {
            assert!(!store.kept(*id).expect("it is here").end());
            assert!(store.get(*id).is_none(), "it is gone");
        }
        assert!(store.take(messages[2]).1);
        assert!(
            !store.kept(messages[3]).expect("it is here").end(),
            "it is answered once"
        );
        assert!(store.owe(Peer(1)));
        for id in &messages[4..] {
            assert!(!store.kept(*id).expect("it is here").end());
        }
        assert_eq!(store.accounts[1].held, 0);
    }
}
