//! Mailbox calls of a node.

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
    /// [`Code::Invalid`](crate::Code::Invalid), `Busy` if the port has one, `Again` if no id is free.
    pub fn mailbox_create(&self, node: i32, port: i32) -> Result<i32> {
        self.with(|core, _| {
            let (mail, common) = core.mailboxes();
            mail.create(common, node, port)
        })
    }

    /// Opens an output to `port` of `node`, which need not exist yet.
    ///
    /// # Errors
    /// `Invalid`, or `Again` if no id or source port is free.
    pub fn mailbox_open(&self, node: i32, port: i32) -> Result<i32> {
        self.with(|core, _| {
            let (mail, common) = core.mailboxes();
            mail.open(common, node, port)
        })
    }

    /// Ends an input.
    ///
    /// # Errors
    /// `BadId`, or `Busy` while an operation is under way or messages are unread.
    pub fn mailbox_unlink(&self, id: i32) -> Result<()> {
        self.with(|core, _| core.mailboxes().0.unlink(id))
    }

    /// Ends an output.
    ///
    /// # Errors
    /// `BadId`, or `Busy` while an operation is under way.
    pub fn mailbox_close(&self, id: i32) -> Result<()> {
        self.with(|core, _| core.mailboxes().0.close(id))
    }

    /// Writes a message; returns when it is on its way.
    ///
    /// # Errors
    /// `BadId`, `Invalid` size, `Busy`, `NodeLost`.
    #[inline]
    pub fn mailbox_write(&self, id: i32, body: &[u8]) -> Result<usize> {
        self.block(
            On::Mailbox(id),
            |core, fabric, start| {
                let (mail, common) = core.mailboxes();
                mail.begin_write(common, fabric, id, body, true, start)
            },
            |core, fabric, start| {
                let (mail, common) = core.mailboxes();
                mail.poll_write(common, fabric, id, start)
            },
            |_, _| {},
            |core| core.mailboxes().0.awaited(id),
        )
    }

    /// Begins to write a message, which is copied: the caller's memory is free.
    ///
    /// # Errors
    /// As for [`Self::mailbox_write`].
    pub fn mailbox_awrite(&self, id: i32, body: &[u8]) -> Result<()> {
        self.with(|core, fabric| {
            let start = core.common().clock.read(fabric);
            {
                let (mail, common) = core.mailboxes();
                mail.begin_write(common, fabric, id, body, false, start)
            }
        })
    }

    /// Reads the next message; returns its length.
    ///
    /// # Errors
    /// `BadId`, `Invalid` size, `Busy`; `TooLong` if the message does not fit, which then stays the next one; `NodeLost`:
    /// each input gets it once for each death, from a read that would wait.
    #[inline]
    pub fn mailbox_read(&self, id: i32, into: &mut [u8]) -> Result<usize> {
        let region = memory::lent_mut(into);
        self.block(
            On::Mailbox(id),
            |core, fabric, start| {
                let (mail, common) = core.mailboxes();
                mail.begin_read(common, fabric, id, region, true, start)
            },
            |core, fabric, start| {
                let (mail, common) = core.mailboxes();
                mail.poll_read(common, fabric, id, start)
            },
            |core, _| core.mailboxes().0.abandon(id),
            |core| core.mailboxes().0.awaited(id),
        )
    }

    /// Begins to read into a region. The maker of the region promises that it stays valid, and is not accessed, until
    /// [`mailbox_wait`](Self::mailbox_wait) has returned.
    ///
    /// # Errors
    /// As for [`Self::mailbox_read`].
    pub fn mailbox_aread(&self, id: i32, into: Region) -> Result<()> {
        self.with(|core, fabric| {
            let start = core.common().clock.read(fabric);
            {
                let (mail, common) = core.mailboxes();
                mail.begin_read(common, fabric, id, into, false, start)
            }
        })
    }

    /// Waits for the operation that was begun; returns the number of bytes it moved.
    ///
    /// # Errors
    /// `BadId` if there is none, and as for reads and writes.
    pub fn mailbox_wait(&self, id: i32) -> Result<usize> {
        let reads = std::cell::Cell::new(false);
        self.block(
            On::Mailbox(id),
            |core, _, _| {
                reads.set(core.mailboxes().0.begin_wait(id)?);
                Ok(())
            },
            |core, fabric, start| {
                if reads.get() {
                    {
                        let (mail, common) = core.mailboxes();
                        mail.poll_read(common, fabric, id, start)
                    }
                } else {
                    {
                        let (mail, common) = core.mailboxes();
                        mail.poll_write(common, fabric, id, start)
                    }
                }
            },
            |core, _| core.mailboxes().0.abandon(id),
            |core| core.mailboxes().0.awaited(id),
        )
    }

    /// Restricts the next read to messages of a node and source port; [`ANY`](crate::mailbox::ANY) for either means any.
    ///
    /// # Errors
    /// `BadId`, `Invalid`, `Busy`, `Fault` on an output or if it is set already.
    pub fn mailbox_set_remote(&self, id: i32, node: i32, source: i32) -> Result<()> {
        self.with(|core, _| {
            let (mail, common) = core.mailboxes();
            mail.set_remote(common, id, node, source)
        })
    }

    /// Node and source port of the message that was read last.
    ///
    /// # Errors
    /// `BadId`, `Access` if none was read.
    pub fn mailbox_source(&self, id: i32) -> Result<(u32, u8)> {
        self.with(|core, _| core.mailboxes().0.source(id))
    }

    /// The port of an input, the source port of an output.
    ///
    /// # Errors
    /// `BadId`.
    pub fn mailbox_port(&self, id: i32) -> Result<u8> {
        self.with(|core, _| core.mailboxes().0.port_of(id))
    }

    /// Returns a counter.
    ///
    /// # Errors
    /// `BadId`, `NotSupported`, `Busy` while an operation of the id is under way.
    pub fn mailbox_ioctl(&self, id: i32, request: u32) -> Result<u64> {
        self.with(|core, _| {
            let (meter, counts) = core.mailboxes().0.counters(id)?;
            Ok(Request::of(request, false)?.answer(&meter, &counts, &core.common().clock))
        })
    }
}
