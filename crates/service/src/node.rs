//! One node as a value: the calls of the services by id, blocking and not.
//!
//! Ids, nodes and ports are plain numbers here, as C programs give them, so that each is checked in one
//! place; [`inbox`](Node::inbox) and its like make ends with types for Rust programs.

use std::sync::Arc;
use std::time::Duration;

use weft_fabric::{Fabric, Guest, Region};

use crate::counters::Request;
use crate::error::Result;
use crate::host::{Alone, Host};
use crate::memory;
use crate::state::Core;
use crate::sync::Kind;

/// The services of one node. Cheap to clone; may be used by any thread.
#[derive(Clone)]
pub struct Node {
    host: Arc<dyn Host>,
    me: u32,
    nodes: u32,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Node({} of {})", self.me, self.nodes)
    }
}

/// Undoes what a call has begun if it is unwound, so that nothing reaches memory of a caller that is
/// gone.
struct Unwound<'a, F: Fn(&mut Core, &mut dyn Fabric)> {
    host: &'a dyn Host,
    undo: F,
}

impl<F: Fn(&mut Core, &mut dyn Fabric)> Drop for Unwound<'_, F> {
    fn drop(&mut self) {
        self.host
            .with(&mut |core, fabric| (self.undo)(core, fabric));
    }
}

impl Node {
    /// The node at an endpoint that nobody else uses.
    #[must_use]
    pub fn alone(fabric: Box<dyn Fabric>) -> Self {
        let (me, nodes) = (fabric.me().0, fabric.peers());
        Self {
            host: Arc::new(Alone::new(fabric)),
            me,
            nodes,
        }
    }

    /// The node whose [`Core`] a host drives.
    #[must_use]
    pub fn hosted(host: Arc<dyn Host>) -> Self {
        let (mut me, mut nodes) = (0, 0);
        host.with(&mut |core, _| {
            (me, nodes) = (core.common().nodes.me(), core.common().nodes.count())
        });
        Self { host, me, nodes }
    }

    /// Number of this node.
    #[must_use]
    pub fn me(&self) -> u32 {
        self.me
    }

    /// How many nodes there are.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Leaves the job in order: returns when everything that was written is on its way and the others
    /// know. To be called once, last.
    pub fn leave(&self) {
        self.with(|core, fabric| core.leave(fabric));
        self.host
            .wait(&mut |core, _| core.common().outbox.is_empty());
    }

    /// Time since some fixed moment of the fabric: real, or virtual under simulation.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.with(|_, fabric| fabric.now())
    }

    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Core, &mut dyn Fabric) -> T) -> T {
        let (mut work, mut answer) = (Some(work), None);
        self.host.with(&mut |core, fabric| {
            if let Some(work) = work.take() {
                answer = Some(work(core, fabric));
            }
        });
        answer.expect("a host runs what it is given")
    }

    /// Begins an operation and waits until it has ended.
    #[inline]
    fn block<T>(
        &self,
        begin: impl FnOnce(&mut Core, &mut dyn Fabric, u64) -> Result<()>,
        poll: impl Fn(&mut Core, &mut dyn Fabric, u64) -> Option<Result<T>>,
        undo: impl Fn(&mut Core, &mut dyn Fabric),
    ) -> Result<T> {
        let (mut begin, mut answer, mut start) = (Some(begin), None, 0);
        let unwound = Unwound {
            host: &*self.host,
            undo,
        };
        self.host.wait(&mut |core, fabric| {
            if let Some(begin) = begin.take() {
                start = core.common().clock.read(fabric);
                if let Err(error) = begin(core, fabric, start) {
                    answer = Some(Err(error));
                    return true;
                }
            }
            answer = poll(core, fabric, start);
            answer.is_some()
        });
        std::mem::forget(unwound);
        answer.expect("a host waits until there is an answer")
    }

    // ---- mailbox

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

    /// Opens an output to `port` of `node`, which need not be there yet.
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
            |core, fabric, start| {
                let (mail, common) = core.mailboxes();
                mail.begin_write(common, fabric, id, body, true, start)
            },
            |core, fabric, start| {
                let (mail, common) = core.mailboxes();
                mail.poll_write(common, fabric, id, start)
            },
            |_, _| {},
        )
    }

    /// Begins to write a message, which is copied: the caller's memory is free.
    ///
    /// # Errors
    /// As [`Self::mailbox_write`].
    pub fn mailbox_awrite(&self, id: i32, body: &[u8]) -> Result<()> {
        self.with(|core, fabric| {
            let start = core.common().clock.read(fabric);
            {
                let (mail, common) = core.mailboxes();
                mail.begin_write(common, fabric, id, body, false, start)
            }
        })
    }

    /// Reads the next message; answers its length.
    ///
    /// # Errors
    /// `BadId`, `Invalid` size, `Busy`; `TooLong` if the message does not fit, which then stays the next
    /// one; `NodeLost`: of a death each input is told once, by a read that would wait.
    #[inline]
    pub fn mailbox_read(&self, id: i32, into: &mut [u8]) -> Result<usize> {
        let region = memory::lent_mut(into);
        self.block(
            |core, fabric, start| {
                let (mail, common) = core.mailboxes();
                mail.begin_read(common, fabric, id, region, true, start)
            },
            |core, fabric, start| {
                let (mail, common) = core.mailboxes();
                mail.poll_read(common, fabric, id, start)
            },
            |core, _| core.mailboxes().0.abandon(id),
        )
    }

    /// Begins to read into a region. Whoever made the region promises that it stays valid, and is
    /// looked at by nobody, until [`mailbox_wait`](Self::mailbox_wait) has answered.
    ///
    /// # Errors
    /// As [`Self::mailbox_read`].
    pub fn mailbox_aread(&self, id: i32, into: Region) -> Result<()> {
        self.with(|core, fabric| {
            let start = core.common().clock.read(fabric);
            {
                let (mail, common) = core.mailboxes();
                mail.begin_read(common, fabric, id, into, false, start)
            }
        })
    }

    /// Waits for the operation that was begun; answers the bytes it moved.
    ///
    /// # Errors
    /// `BadId` if there is none, and as reads and writes.
    pub fn mailbox_wait(&self, id: i32) -> Result<usize> {
        let reads = std::cell::Cell::new(false);
        self.block(
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
        )
    }

    /// Restricts the next read to messages of a node and source port; [`ANY`](crate::mailbox::ANY)
    /// for either means any.
    ///
    /// # Errors
    /// `BadId`, `Invalid`, `Busy`, `Fault` on an output or when it is set already.
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

    /// Asks a counter.
    ///
    /// # Errors
    /// `BadId`, `NotSupported`, `Busy` while an operation of the id is under way.
    pub fn mailbox_ioctl(&self, id: i32, request: u32) -> Result<u64> {
        self.with(|core, _| {
            let (meter, counts) = core.mailboxes().0.counters(id)?;
            Ok(Request::of(request, false)?.answer(&meter, &counts, &core.common().clock))
        })
    }

    // ---- portal

    /// Makes the input at `port` of this node, which must be `node`.
    ///
    /// # Errors
    /// As [`Self::mailbox_create`].
    pub fn portal_create(&self, node: i32, port: i32) -> Result<i32> {
        self.with(|core, _| {
            let (portals, common) = core.portals();
            portals.create(common, node, port)
        })
    }

    /// Opens an output from this node, which must be `local`, to `port` of `node`.
    ///
    /// # Errors
    /// As [`Self::mailbox_open`].
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

    /// Writes; returns when the data have left, which is when the reader permits.
    ///
    /// # Errors
    /// `BadId`, `Invalid` size, `Busy`, `TooLong` if the reader has less room, `NodeLost`.
    #[inline]
    pub fn portal_write(&self, id: i32, data: &[u8]) -> Result<usize> {
        self.portal_block(id, false, memory::lent(data))
    }

    /// Reads what the node that is allowed writes; answers its length.
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
            |core, fabric, start| {
                let (portals, common) = core.portals();
                portals.begin(common, fabric, id, input, region, true, start)
            },
            |core, fabric, start| {
                let (portals, common) = core.portals();
                portals.poll(common, fabric, id, start)
            },
            // A world that unwinds its ranks moves nothing any more.
            |core, fabric| {
                let _ = core.portals().0.abandon(fabric, id);
            },
        )
    }

    /// Begins to write what a region holds. Whoever made the region promises that it stays valid and
    /// unchanged until [`portal_wait`](Self::portal_wait) has answered.
    ///
    /// # Errors
    /// As [`Self::portal_write`].
    pub fn portal_awrite(&self, id: i32, data: Region) -> Result<()> {
        self.portal_begin(id, false, data)
    }

    /// Begins to read into a region. Whoever made the region promises that it stays valid, and is
    /// looked at by nobody, until [`portal_wait`](Self::portal_wait) has answered.
    ///
    /// # Errors
    /// As [`Self::portal_read`].
    pub fn portal_aread(&self, id: i32, into: Region) -> Result<()> {
        self.portal_begin(id, true, into)
    }

    fn portal_begin(&self, id: i32, input: bool, region: Region) -> Result<()> {
        self.with(|core, fabric| {
            let start = core.common().clock.read(fabric);
            {
                let (portals, common) = core.portals();
                portals.begin(common, fabric, id, input, region, false, start)
            }
        })
    }

    /// Waits for the transfer that was begun; answers the bytes it moved.
    ///
    /// # Errors
    /// `BadId` if there is none, and as reads and writes.
    pub fn portal_wait(&self, id: i32) -> Result<usize> {
        self.block(
            |core, _, _| core.portals().0.begin_wait(id),
            |core, fabric, start| {
                let (portals, common) = core.portals();
                portals.poll(common, fabric, id, start)
            },
            // A world that unwinds its ranks moves nothing any more.
            |core, fabric| {
                let _ = core.portals().0.abandon(fabric, id);
            },
        )
    }

    /// The port of an input, the source port of an output.
    ///
    /// # Errors
    /// `BadId`.
    pub fn portal_port(&self, id: i32) -> Result<u8> {
        self.with(|core, _| core.portals().0.port_of(id))
    }

    /// Asks a counter.
    ///
    /// # Errors
    /// As [`Self::mailbox_ioctl`].
    pub fn portal_ioctl(&self, id: i32, request: u32) -> Result<u64> {
        self.with(|core, _| {
            let (meter, counts) = core.portals().0.counters(id)?;
            Ok(Request::of(request, false)?.answer(&meter, &counts, &core.common().clock))
        })
    }

    // ---- sync

    /// Makes the end of a sync that waits. `nodes` begins with the one; all who take part give the same
    /// list. Again with the same list: the same id, to be unlinked as often.
    ///
    /// # Errors
    /// `Invalid` list or role, `Again`.
    pub fn sync_create(&self, nodes: &[i32], kind: Kind) -> Result<i32> {
        self.with(|core, _| {
            let (syncs, common) = core.syncs();
            syncs.make(common, nodes, kind, true)
        })
    }

    /// Makes the end of a sync that signals.
    ///
    /// # Errors
    /// As [`Self::sync_create`].
    pub fn sync_open(&self, nodes: &[i32], kind: Kind) -> Result<i32> {
        self.with(|core, _| {
            let (syncs, common) = core.syncs();
            syncs.make(common, nodes, kind, false)
        })
    }

    /// Signals. Returns when the signals are on their way; they are counted and kept until they are
    /// waited for.
    ///
    /// # Errors
    /// `BadId`, `Busy`; `NodeLost` if one could not be reached, the others were.
    pub fn sync_signal(&self, id: i32) -> Result<()> {
        self.block(
            |core, fabric, _| {
                let (syncs, common) = core.syncs();
                syncs.begin_signal(common, fabric, id)
            },
            |core, fabric, start| {
                let (syncs, common) = core.syncs();
                syncs.poll_signal(common, fabric, id, start)
            },
            |core, _| core.syncs().0.abandon(id),
        )
    }

    /// Waits for one signal of each who signals, and takes them.
    ///
    /// # Errors
    /// `BadId`, `Busy`, `NodeLost` if one is gone that has not signalled.
    pub fn sync_wait(&self, id: i32) -> Result<()> {
        self.block(
            |core, _, _| core.syncs().0.begin_wait(id),
            |core, fabric, start| {
                let (syncs, common) = core.syncs();
                syncs.poll_wait(common, fabric, id, start)
            },
            |core, _| core.syncs().0.abandon(id),
        )
    }

    /// Gives an end that waits back.
    ///
    /// # Errors
    /// `BadId`, `Busy`.
    pub fn sync_unlink(&self, id: i32) -> Result<()> {
        self.with(|core, _| core.syncs().0.remove(id, true))
    }

    /// Gives an end that signals back.
    ///
    /// # Errors
    /// `BadId`, `Busy`.
    pub fn sync_close(&self, id: i32) -> Result<()> {
        self.with(|core, _| core.syncs().0.remove(id, false))
    }

    /// Asks a counter.
    ///
    /// # Errors
    /// As [`Self::mailbox_ioctl`].
    pub fn sync_ioctl(&self, id: i32, request: u32) -> Result<u64> {
        self.with(|core, _| {
            let (meter, counts) = core.syncs().0.counters(id)?;
            Ok(Request::of(request, true)?.answer(&meter, &counts, &core.common().clock))
        })
    }

    // ---- names

    /// Gives a name to a port of this node, and tells everybody.
    ///
    /// # Errors
    /// `Invalid`, or `Busy` if somebody is known to have the name.
    pub fn name_link(&self, name: &str, port: i32) -> Result<()> {
        self.with(|core, fabric| {
            let (names, common) = core.names();
            names.link(common, fabric, name, port)
        })
    }

    /// Takes a name of this node back.
    ///
    /// # Errors
    /// `NoEntry`, or `Busy` if it is another node's.
    pub fn name_unlink(&self, name: &str) -> Result<()> {
        self.with(|core, fabric| {
            let (names, common) = core.names();
            names.unlink(common, fabric, name)
        })
    }

    /// Node and port of a name, as far as this node has heard. Looks once at what has arrived.
    ///
    /// # Errors
    /// `Invalid`, `NoEntry`.
    pub fn name_lookup(&self, name: &str) -> Result<(u32, u8)> {
        self.with(|core, fabric| {
            // What was said before this call is to be heard.
            fabric.poll(core, usize::MAX);
            core.settle(fabric);
            core.names().0.lookup(name)
        })
    }

    /// Node and port of a name; waits until somebody has it.
    ///
    /// # Errors
    /// `Invalid`, or `NodeLost` when nobody is left who could take it.
    pub fn name_find(&self, name: &str) -> Result<(u32, u8)> {
        self.block(
            |core, fabric, _| match core.names().0.lookup(name) {
                Err(error) if error.code() == crate::Code::NoEntry => {
                    {
                        let (names, common) = core.names();
                        names.ask(common, fabric, name)
                    };
                    Ok(())
                }
                Err(error) => Err(error),
                Ok(_) => Ok(()),
            },
            |core, _, _| match core.names().0.lookup(name) {
                Ok(found) => Some(Ok(found)),
                Err(_) if core.common().nodes.is_last() => Some(Err(crate::Error::new(
                    crate::Code::NodeLost,
                    format!(
                        "all other nodes are gone, so nobody can take the name '{name}' any more"
                    ),
                ))),
                Err(_) => None,
            },
            |_, _| {},
        )
    }
}
