//! Unexpected store: messages that came before their receives, by the names that the matching engine knows them by.
//!
//! A name is given out by [`keep`](UnexpectedStore::keep) and ends with [`take`](UnexpectedStore::take); the
//! matching engine holds each name once in between. Memory of data is used again, so that unexpected messages do
//! not allocate for ever.

use weft_fabric::{Peer, SharedBytes};

use super::envelope::Envelope;

/// Emptied vectors that are kept at most, and bytes that one may have.
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

/// All such messages.
#[derive(Debug, Default)]
pub(super) struct UnexpectedStore {
    slots: Vec<Option<Unexpected>>,
    free: Vec<u32>,
    /// Emptied data vectors.
    spare: Vec<Vec<u8>>,
}

impl UnexpectedStore {
    /// Keeps a message, with a copy of its data.
    #[inline]
    pub(super) fn keep(
        &mut self,
        from: Peer,
        envelope: Envelope,
        data: SharedBytes<'_>,
    ) -> UnexpectedId {
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.resize(data.len(), 0);
        data.copy_to(&mut copy);
        let message = Some(Unexpected {
            from,
            envelope,
            data: copy,
        });
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as u32
        });
        self.slots[index as usize] = message;
        UnexpectedId(index)
    }

    /// A message that stays.
    pub(super) fn get(&self, id: UnexpectedId) -> Option<&Unexpected> {
        self.slots[id.0 as usize].as_ref()
    }

    /// Takes a message out.
    pub(super) fn take(&mut self, id: UnexpectedId) -> Unexpected {
        self.free.push(id.0);
        self.slots[id.0 as usize]
            .take()
            .expect("the matching engine names each message once")
    }

    /// Takes back the memory of a message.
    pub(super) fn recycle(&mut self, mut data: Vec<u8>) {
        let (most, bytes) = SPARE;
        if self.spare.len() < most && data.capacity() <= bytes {
            data.clear();
            self.spare.push(data);
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
        let mut store = UnexpectedStore::default();
        let [one, two] = [keep(&mut store, b"one"), keep(&mut store, b"two")];
        assert_ne!(one, two);
        let message = store.take(one);
        assert_eq!(message.data, b"one");
        assert!(store.get(one).is_none());
        let memory = message.data.as_ptr();
        store.recycle(message.data);
        assert_eq!(keep(&mut store, b"3"), one);
        let again = store.get(one).expect("kept");
        assert_eq!((&again.data[..], again.data.as_ptr()), (&b"3"[..], memory));
        assert_eq!(store.take(two).data, b"two");
    }
}
