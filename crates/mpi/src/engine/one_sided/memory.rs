//! Memory of windows: the engine's requests to the fabric for it.

use weft_fabric::{Peer, Region, Rights, SharedBlock, SharedKey, Token, Uses};
use weft_sys::SharedMemory;

use super::WindowMemory;
use crate::engine::Engine;
use crate::engine::request_id::RequestId;
use crate::error::{Error, Result};

impl Engine {
    /// Whether this rank and a peer can load and store the same memory.
    pub(crate) fn shares_memory(&self, peer: Peer) -> bool {
        self.fabric.shares_memory(peer)
    }

    /// Memory that peers can attach.
    pub(crate) fn allocate_shared(&mut self, bytes: usize) -> Result<SharedBlock> {
        Ok(self.fabric.allocate_shared(bytes)?)
    }

    /// The first bytes of a block of a peer.
    pub(crate) fn attach_shared(
        &mut self,
        peer: Peer,
        key: SharedKey,
        bytes: usize,
    ) -> Result<SharedMemory> {
        Ok(self.fabric.attach_shared(peer, key, bytes)?)
    }

    /// Lets all peers read and write the memory of a window.
    pub(crate) fn grant_window(&mut self, region: Region) -> Result<Token> {
        let granted = self
            .fabric
            .grant(region, None, Rights::ReadWrite, Uses::Many);
        granted.map_err(Error::from)
    }

    /// Gives back what a window had.
    pub(crate) fn release_window_memory(&mut self, grant: Option<Token>, block: Option<SharedKey>) {
        if let Some(token) = grant {
            self.fabric.revoke(token);
        }
        if let Some(key) = block {
            self.fabric.release_shared(key);
        }
    }

    /// The memory that is attached to a dynamic window.
    pub(crate) fn window_memory(&mut self, context: u32) -> &mut WindowMemory {
        self.window(context).memory_mut()
    }

    /// Waiters for windows look again.
    pub(crate) fn wake_for_windows(&mut self) {
        self.core.wake_for_windows();
    }

    /// A request whose operation has not begun.
    pub(crate) fn forget_one_sided_request(&mut self, request: RequestId) {
        self.core.requests.release(request);
    }
}
