//! Sync calls of a node.

use super::Node;
use crate::awaited::On;
use crate::counters::Request;
use crate::error::Result;
use crate::sync::SyncKind;

impl Node {
    /// Makes the end of a sync that waits. `nodes` begins with the "one" of "one to all" or "all to one"; all
    /// participants give the same list. The same list again gives the same id, which must be unlinked as often.
    ///
    /// # Errors
    /// `Invalid` list or role, `Again`.
    pub fn sync_create(&self, nodes: &[i32], kind: SyncKind) -> Result<i32> {
        self.with(|core, _| {
            let (syncs, common) = core.syncs();
            syncs.make(common, nodes, kind, true)
        })
    }

    /// Makes the end of a sync that signals.
    ///
    /// # Errors
    /// As for [`Self::sync_create`].
    pub fn sync_open(&self, nodes: &[i32], kind: SyncKind) -> Result<i32> {
        self.with(|core, _| {
            let (syncs, common) = core.syncs();
            syncs.make(common, nodes, kind, false)
        })
    }

    /// Signals. Returns when the signals are on their way; they are counted and kept until they are
    /// waited for.
    ///
    /// # Errors
    /// `BadId`, `Busy`; `NodeLost` if a node could not be reached; the others were.
    pub fn sync_signal(&self, id: i32) -> Result<()> {
        self.block(
            On::Sync(id),
            |core, fabric, _| {
                let (syncs, common) = core.syncs();
                syncs.begin_signal(common, fabric, id)
            },
            |core, fabric, start| {
                let (syncs, common) = core.syncs();
                syncs.poll_signal(common, fabric, id, start)
            },
            |core, _| core.syncs().0.abandon(id),
            |core| core.syncs().0.awaited(id),
        )
    }

    /// Waits for one signal of each node that signals, and takes them.
    ///
    /// # Errors
    /// `BadId`, `Busy`, `NodeLost` if a node is gone that has not signalled.
    pub fn sync_wait(&self, id: i32) -> Result<()> {
        self.block(
            On::Sync(id),
            |core, _, _| core.syncs().0.begin_wait(id),
            |core, fabric, start| {
                let (syncs, common) = core.syncs();
                syncs.poll_wait(common, fabric, id, start)
            },
            |core, _| core.syncs().0.abandon(id),
            |core| core.syncs().0.awaited(id),
        )
    }

    /// Releases an end that waits.
    ///
    /// # Errors
    /// `BadId`, `Busy`.
    pub fn sync_unlink(&self, id: i32) -> Result<()> {
        self.with(|core, _| core.syncs().0.remove(id, true))
    }

    /// Releases an end that signals.
    ///
    /// # Errors
    /// `BadId`, `Busy`.
    pub fn sync_close(&self, id: i32) -> Result<()> {
        self.with(|core, _| core.syncs().0.remove(id, false))
    }

    /// Returns a counter.
    ///
    /// # Errors
    /// As for [`Self::mailbox_ioctl`].
    pub fn sync_ioctl(&self, id: i32, request: u32) -> Result<u64> {
        self.with(|core, _| {
            let (meter, counts) = core.syncs().0.counters(id)?;
            Ok(Request::of(request, true)?.answer(&meter, &counts, &core.common().clock))
        })
    }
}
