//! Portal calls of a node.

use weft_fabric::Region;

use super::Node;
use crate::awaited::On;
use crate::counters::Request;
use crate::error::Result;
use crate::memory;

impl Node {
    /// Makes the input at `port` of this node, which must be `node`.
    ///
    /// # Errors
    /// As for [`Self::mailbox_create`].
    pub fn portal_create(&self, node: i32, port: i32) -> Result<i32> {
        self.with(|core, _| {
            let (portals, common) = core.portals();
            portals.create(common, node, port)
        })
    }

    /// Opens an output from this node, which must be `local`, to `port` of `node`.
    ///
    /// # Errors
    /// As for [`Self::mailbox_open`].
    pub fn portal_open(&self, local: i32, node: i32, port: i32) -> Result<i32> {
        self.with(|core, _| {
            let (portals, common) = core.portals();
            portals.open(common, local, node, port)
        })
    }

    /// Permits one transfer from `node` and its source port.
    ///
    /// # Errors
    /// `BadId`, `Invalid`, `Busy` if one is permitted already.
    pub fn portal_allow(&self, id: i32, node: i32, source: i32) -> Result<()> {
        self.with(|core, _| {
            let (portals, common) = core.portals();
            portals.allow(common, id, node, source)
        })
    }

    /// Ends an input.
    ///
    /// # Errors
    /// `BadId`, `Busy`.
    pub fn portal_unlink(&self, id: i32) -> Result<()> {
        self.with(|core, _| core.portals().0.remove(id, true))
    }

    /// Ends an output.
    ///
    /// # Errors
    /// `BadId`, `Busy`.
    pub fn portal_close(&self, id: i32) -> Result<()> {
        self.with(|core, _| core.portals().0.remove(id, false))
    }

    /// Writes; returns when the data have left, which is once the reader permits it.
    ///
    /// # Errors
    /// `BadId`, `Invalid` size, `Busy`, `TooLong` if the reader has less room, `NodeLost`.
    #[inline]
    pub fn portal_write(&self, id: i32, data: &[u8]) -> Result<usize> {
        self.portal_block(id, false, memory::lent(data))
    }

    /// Reads the data of the permitted node; returns their length.
    ///
    /// # Errors
    /// `BadId`, `Invalid` size, `Busy`, `Access` without [`portal_allow`](Self::portal_allow), `TooLong`
    /// if more is written, `NodeLost`.
    #[inline]
    pub fn portal_read(&self, id: i32, into: &mut [u8]) -> Result<usize> {
        self.portal_block(id, true, memory::lent_mut(into))
    }

    #[inline]
    fn portal_block(&self, id: i32, input: bool, region: Region) -> Result<usize> {
        self.block(
            On::Portal(id),
            |core, fabric, _| {
                let (portals, common) = core.portals();
                portals.begin(common, fabric, id, input, region, None)
            },
            |core, fabric, start| {
                let (portals, common) = core.portals();
                portals.poll(common, fabric, id, start)
            },
            // A world that unwinds its ranks moves nothing any more.
            |core, fabric| {
                let _ = core.portals().0.abandon(fabric, id);
            },
            |core| core.portals().0.awaited(id),
        )
    }

    /// Begins to write the bytes of a region. The maker of the region promises that it stays valid and unchanged until
    /// [`portal_wait`](Self::portal_wait) has returned.
    ///
    /// # Errors
    /// As for [`Self::portal_write`].
    pub fn portal_awrite(&self, id: i32, data: Region) -> Result<()> {
        self.portal_begin(id, false, data)
    }

    /// Begins to read into a region. The maker of the region promises that it stays valid, and is not accessed, until
    /// [`portal_wait`](Self::portal_wait) has returned.
    ///
    /// # Errors
    /// As for [`Self::portal_read`].
    pub fn portal_aread(&self, id: i32, into: Region) -> Result<()> {
        self.portal_begin(id, true, into)
    }

    fn portal_begin(&self, id: i32, input: bool, region: Region) -> Result<()> {
        self.with(|core, fabric| {
            let start = core.common().clock.read(fabric);
            {
                let (portals, common) = core.portals();
                portals.begin(common, fabric, id, input, region, Some(start))
            }
        })
    }

    /// Waits for the transfer that was begun; returns the number of bytes it moved.
    ///
    /// # Errors
    /// `BadId` if there is none, and as for reads and writes.
    pub fn portal_wait(&self, id: i32) -> Result<usize> {
        self.block(
            On::Portal(id),
            |core, _, _| core.portals().0.begin_wait(id),
            |core, fabric, start| {
                let (portals, common) = core.portals();
                portals.poll(common, fabric, id, start)
            },
            // A world that unwinds its ranks moves nothing any more.
            |core, fabric| {
                let _ = core.portals().0.abandon(fabric, id);
            },
            |core| core.portals().0.awaited(id),
        )
    }

    /// The port of an input, the source port of an output.
    ///
    /// # Errors
    /// `BadId`.
    pub fn portal_port(&self, id: i32) -> Result<u8> {
        self.with(|core, _| core.portals().0.port_of(id))
    }

    /// Returns a counter.
    ///
    /// # Errors
    /// As for [`Self::mailbox_ioctl`].
    pub fn portal_ioctl(&self, id: i32, request: u32) -> Result<u64> {
        self.with(|core, _| {
            let (meter, counts) = core.portals().0.counters(id)?;
            Ok(Request::of(request, false)?.answer(&meter, &counts, &core.common().clock))
        })
    }
}
