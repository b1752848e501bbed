//! Memory that members of one host share: blocks that one member allocates and others attach, by keys.
//!
//! ```text
//!   owner   allocate_shared ──► SharedBlock { key, memory }          zeros, aligned to a page
//!                │ key travels in a message                          │
//!   peer         └─► attach_shared ──► SharedMemory ◄── the same bytes ──► loads, stores, atomics
//!   owner   release_shared: the key names nothing any more; the memory is given back
//! ```
//!
//! # What is guaranteed
//! * A store of one member is seen by the loads of the others: a block is the same bytes for all who have it, with the
//!   memory model of the machine. Nobody is told of stores: a member that waits for one is woken by
//!   [`Fabric::wake`](crate::Fabric::wake), a signal or a message.
//! * A key that was released, that is another peer's, or that was made up is refused. So is a length beyond the block.
//! * A handle stays usable (no fault, whatever others do) as long as it is held. After the owner has released the block,
//!   or left, its contents are undefined: the same memory may be part of another block.
//! * When the owner dies, members that have attached the block keep it; it cannot be attached any more once the loss was
//!   reported.

use weft_sys::SharedMemory;

use crate::grants::GrantTable;
use crate::{FabricError, Peer, Result, Token};

/// The name of a block of shared memory, to be carried to a peer in a message. Valid only together with the peer that has
/// allocated the block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SharedKey(pub u64);

/// A block of shared memory, for its owner.
#[derive(Clone, Debug)]
pub struct SharedBlock {
    /// Its name for peers.
    pub key: SharedKey,
    /// Its bytes.
    pub memory: SharedMemory,
}

/// The methods of a fabric whose members have no memory in common. For use within an `impl Fabric`; `$check` returns the
/// error for a peer that does not exist or is lost.
#[macro_export]
macro_rules! without_shared_memory {
    ($this:ident, $peer:ident => $check:expr) => {
        fn shares_memory(&$this, _: $crate::Peer) -> bool {
            false
        }

        fn allocate_shared(&mut $this, _: usize) -> $crate::Result<$crate::SharedBlock> {
            Err($crate::FabricError::NotShared { peer: $crate::Fabric::me($this) })
        }

        fn release_shared(&mut $this, _: $crate::SharedKey) -> bool {
            false
        }

        fn attach_shared(
            &mut $this,
            $peer: $crate::Peer,
            _: $crate::SharedKey,
            _: usize,
        ) -> $crate::Result<$crate::SharedMemory> {
            $check?;
            Err($crate::FabricError::NotShared { peer: $peer })
        }

        /// No peer waits for what is stored here.
        fn is_asleep(&mut $this, _: $crate::Peer) -> bool {
            false
        }

        fn wake(&mut $this, _: $crate::Peer) {}

        fn is_any_beside(
            &mut $this,
            _: &mut dyn Iterator<Item = $crate::Peer>,
        ) -> Option<bool> {
            None
        }
    };
}

/// Checks the requested length against a block.
///
/// # Errors
/// [`FabricError::OutsideGrant`] if the block has less.
pub fn check_length(peer: Peer, asked: usize, has: usize) -> Result<()> {
    if asked <= has {
        return Ok(());
    }
    Err(FabricError::OutsideGrant {
        peer,
        offset: 0,
        length: asked as u64,
    })
}

/// Blocks of the members of one process, for fabrics between them. Takes no lock.
#[derive(Debug, Default)]
pub struct BlocksOfProcess {
    table: GrantTable<(Peer, SharedMemory)>,
}

impl BlocksOfProcess {
    /// See [`Fabric::allocate_shared`](crate::Fabric::allocate_shared).
    ///
    /// # Errors
    /// [`FabricError::NoMemory`].
    pub fn allocate(&mut self, owner: Peer, length: usize) -> Result<SharedBlock> {
        let memory =
            SharedMemory::of_this_process(length).map_err(|error| no_memory(length, &error));
        let memory = memory?;
        let key = self.table.insert((owner, memory.clone()));
        let key = key.ok_or_else(|| no_memory(length, &"there are too many blocks"))?;
        let key = SharedKey(key.0);
        Ok(SharedBlock { key, memory })
    }

    /// See [`Fabric::release_shared`](crate::Fabric::release_shared).
    pub fn release(&mut self, owner: Peer, key: SharedKey) -> bool {
        let token = Token(key.0);
        let own = self.table.get(token).is_some_and(|(it, _)| *it == owner);
        own && self.table.remove(token).is_some()
    }

    /// See [`Fabric::attach_shared`](crate::Fabric::attach_shared). Whether the owner lives is checked before.
    ///
    /// # Errors
    /// [`FabricError::NotAllocated`], [`FabricError::OutsideGrant`].
    pub fn attach(&self, peer: Peer, key: SharedKey, length: usize) -> Result<SharedMemory> {
        let found = self.table.get(Token(key.0));
        let (_, memory) = found
            .filter(|(owner, _)| *owner == peer)
            .ok_or(FabricError::NotAllocated { peer })?;
        check_length(peer, length, memory.len())?;
        memory
            .part(0, length)
            .ok_or(FabricError::NotAllocated { peer })
    }

    /// Releases all blocks of a member that leaves.
    pub fn release_all_of(&mut self, owner: Peer) {
        self.table.remove_if(|(it, _)| *it == owner);
    }
}

/// The error of an allocation that failed for this reason.
#[must_use]
pub fn no_memory(length: usize, reason: &dyn std::fmt::Display) -> FabricError {
    FabricError::NoMemory {
        what: format!(
            "{length} bytes of shared memory cannot be had: {reason}; ask for less, free other windows, or raise the \
             limits of memory (control group, ulimit -v)"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_leave_with_their_blocks_alone() {
        let mut blocks = BlocksOfProcess::default();
        let mut allocate = |owner| blocks.allocate(Peer(owner), 10).expect("fits").key;
        let (one, two) = (allocate(1), allocate(2));
        blocks.release_all_of(Peer(1));
        let gone = blocks.attach(Peer(1), one, 1).expect_err("it has left");
        assert_eq!(gone, FabricError::NotAllocated { peer: Peer(1) });
        assert_eq!(blocks.attach(Peer(2), two, 10).expect("lives").len(), 10);
        assert!(!blocks.release(Peer(1), two) && blocks.release(Peer(2), two));
    }
}
