//! Options of an endpoint, for tests and measurements. Users need none of them.

use std::sync::Arc;
use std::time::Duration;

/// Use of something that may not work everywhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Use {
    /// Where it works and is worth it.
    #[default]
    Auto,
    /// Wherever it works, also where it is not worth it.
    On,
    /// Nowhere.
    Off,
}

/// Options of an endpoint: what is forced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Copying straight between the memories of two processes, and within one. Off: chunks.
    pub cross_memory: Use,
    /// Having the kernel fence other cores, so that senders need not. Off: all fence.
    pub kernel_fences: Use,
    /// Having the owner of a grant take part in a large transfer: for a put it moves blocks of it, for a get it sends what the origin asks for.
    /// Off: the origin moves all.
    pub assist: Use,
    /// Grants at a time by which peers may move bytes themselves; further ones go through chunks. There are no
    /// more of them than records in the segment.
    pub direct_grants: u32,
    /// How long [`revoke`](weft_fabric::Fabric::revoke) waits for a peer that reads and lives. After it the peer's
    /// transfer is void. One that writes is waited for as long as it lives.
    pub patience: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cross_memory: Use::Auto,
            kernel_fences: Use::Auto,
            assist: Use::Auto,
            direct_grants: u32::MAX,
            patience: Duration::from_secs(10),
        }
    }
}

impl Options {
    pub(crate) fn refuses_attach(&self) -> Option<Arc<str>> {
        (self.cross_memory == Use::Off).then(|| "it was switched off".into())
    }
}
