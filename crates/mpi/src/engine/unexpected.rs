//! Unexpected store: messages that came before their receives, by the names that the matching engine knows them by.
//!
//! A name is given out by [`keep`](UnexpectedStore::keep) and ends with [`take`](UnexpectedStore::take); the
//! matching engine holds each name once in between. Memory of data is used again, so that unexpected messages do
//! not allocate for ever.

use weft_fabric::{Peer, SharedBytes};

use super::envelope::Envelope;

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

/// One slot: what is in it once its message is gone is memory for the data of the next one.
#[derive(Debug)]
struct Slot {
    is_taken: bool,
    message: Unexpected,
}

/// All such messages.
#[derive(Debug, Default)]
pub(super) struct UnexpectedStore {
    slots: Vec<Slot>,
    free: Vec<u32>,
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
        let index = match self.free.pop() {
            Some(index) => index,
            None => self.grow(from, envelope),
        };
        let slot = &mut self.slots[index as usize];
        slot.is_taken = true;
        slot.message.from = from;
        slot.message.envelope = envelope;
        data.copy_to_vec(&mut slot.message.data);
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

    /// A message that stays.
    #[inline]
    pub(super) fn get(&self, id: UnexpectedId) -> Option<&Unexpected> {
        let slot = self.slots.get(id.0 as usize)?;
        slot.is_taken.then_some(&slot.message)
    }

    /// Takes a message out.
    pub(super) fn take(&mut self, id: UnexpectedId) -> Unexpected {
        let slot = &mut self.slots[id.0 as usize];
        assert!(
            std::mem::take(&mut slot.is_taken),
            "the matching engine names each message once"
        );
        self.free.push(id.0);
        Unexpected {
            from: slot.message.from,
            envelope: slot.message.envelope,
            data: std::mem::take(&mut slot.message.data),
        }
    }

    /// Ends a message that is still here.
    #[inline]
    pub(super) fn end(&mut self, id: UnexpectedId) {
        let (most, bytes) = SPARE;
        let slot = &mut self.slots[id.0 as usize];
        slot.is_taken = false;
        if id.0 as usize >= most || slot.message.data.capacity() > bytes {
            slot.message.data = Vec::new();
        }
        self.free.push(id.0);
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
