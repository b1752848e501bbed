//! Typed ends for Rust programs: an [`Inbox`] cannot be written to, and is unlinked when dropped.

use crate::error::Result;
use crate::node::Node;
use crate::sync::SyncKind;

macro_rules! end {
    ($(#[$doc:meta])* $name:ident, $end:ident) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name {
            node: Node,
            id: i32,
        }

        impl $name {
            /// Its id, for the calls of [`Node`].
            #[must_use]
            pub fn id(&self) -> i32 {
                self.id
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                // What keeps it from ending (unread messages) stays for whoever makes it again.
                let _ = self.node.$end(self.id);
            }
        }
    };
}

end! {
    /// A mailbox to read from, at a port of this node.
    Inbox, mailbox_unlink
}
end! {
    /// A mailbox to write to, at a port of any node.
    Outbox, mailbox_close
}
end! {
    /// A portal to read from, at a port of this node.
    Inportal, portal_unlink
}
end! {
    /// A portal to write to, at a port of any node.
    Outportal, portal_close
}
end! {
    /// The end of a sync that waits.
    Waiter, sync_unlink
}
end! {
    /// The end of a sync that signals.
    Signaller, sync_close
}

/// A message that was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mail {
    /// Bytes of the message.
    pub length: usize,
    /// The node that wrote it.
    pub node: u32,
    /// The source port that it was written from.
    pub source: u8,
}

impl Inbox {
    /// Reads the next message. Errors as for [`Node::mailbox_read`].
    ///
    /// # Errors
    /// As for [`Node::mailbox_read`].
    pub fn read(&self, into: &mut [u8]) -> Result<Mail> {
        let length = self.node.mailbox_read(self.id, into)?;
        let (node, source) = self.node.mailbox_source(self.id)?;
        Ok(Mail {
            length,
            node,
            source,
        })
    }

    /// Reads the next message of one node.
    ///
    /// # Errors
    /// As for [`Node::mailbox_read`].
    pub fn read_from(&self, node: u32, into: &mut [u8]) -> Result<Mail> {
        let number = i32::try_from(node).unwrap_or(i32::MAX);
        self.node
            .mailbox_set_remote(self.id, number, crate::mailbox::ANY)?;
        self.read(into)
    }
}

impl Outbox {
    /// Writes a message.
    ///
    /// # Errors
    /// As for [`Node::mailbox_write`].
    pub fn write(&self, body: &[u8]) -> Result<usize> {
        self.node.mailbox_write(self.id, body)
    }

    /// The source port by which the receiver knows this end.
    ///
    /// # Errors
    /// None while the end lives.
    pub fn source(&self) -> Result<u8> {
        self.node.mailbox_port(self.id)
    }
}

impl Inportal {
    /// Permits one transfer, from a node and its source port, and reads it; returns its length.
    ///
    /// # Errors
    /// As for [`Node::portal_allow`] and [`Node::portal_read`].
    pub fn read(&self, node: u32, source: u8, into: &mut [u8]) -> Result<usize> {
        let number = i32::try_from(node).unwrap_or(i32::MAX);
        self.node.portal_allow(self.id, number, i32::from(source))?;
        self.node.portal_read(self.id, into)
    }
}

impl Outportal {
    pub(crate) fn of(node: &Node, id: i32) -> Self {
        let node = node.clone();
        Self { node, id }
    }

    /// Writes; returns when the reader has permitted it and the data have left.
    ///
    /// # Errors
    /// As for [`Node::portal_write`].
    pub fn write(&self, data: &[u8]) -> Result<usize> {
        self.node.portal_write(self.id, data)
    }

    /// The source port that the reader permits.
    ///
    /// # Errors
    /// None while the end lives.
    pub fn source(&self) -> Result<u8> {
        self.node.portal_port(self.id)
    }
}

impl Waiter {
    /// Waits for one signal of each node that signals.
    ///
    /// # Errors
    /// As for [`Node::sync_wait`].
    pub fn wait(&self) -> Result<()> {
        self.node.sync_wait(self.id)
    }
}

impl Signaller {
    /// Signals each node that waits.
    ///
    /// # Errors
    /// As for [`Node::sync_signal`].
    pub fn signal(&self) -> Result<()> {
        self.node.sync_signal(self.id)
    }
}

fn numbers(nodes: &[u32]) -> Vec<i32> {
    nodes
        .iter()
        .map(|node| i32::try_from(*node).unwrap_or(i32::MAX))
        .collect()
}

impl Node {
    /// A mailbox to read from.
    ///
    /// # Errors
    /// As for [`Self::mailbox_create`].
    pub fn inbox(&self, port: u8) -> Result<Inbox> {
        let id = self.mailbox_create(self.me() as i32, i32::from(port))?;
        let node = self.clone();
        Ok(Inbox { node, id })
    }

    /// A mailbox to write to.
    ///
    /// # Errors
    /// As for [`Self::mailbox_open`].
    pub fn outbox(&self, node: u32, port: u8) -> Result<Outbox> {
        let id = self.mailbox_open(i32::try_from(node).unwrap_or(i32::MAX), i32::from(port))?;
        let node = self.clone();
        Ok(Outbox { node, id })
    }

    /// A portal to read from.
    ///
    /// # Errors
    /// As for [`Self::portal_create`].
    pub fn inportal(&self, port: u8) -> Result<Inportal> {
        let id = self.portal_create(self.me() as i32, i32::from(port))?;
        let node = self.clone();
        Ok(Inportal { node, id })
    }

    /// A portal to write to.
    ///
    /// # Errors
    /// As for [`Self::portal_open`].
    pub fn outportal(&self, node: u32, port: u8) -> Result<Outportal> {
        let number = i32::try_from(node).unwrap_or(i32::MAX);
        let id = self.portal_open(self.me() as i32, number, i32::from(port))?;
        let node = self.clone();
        Ok(Outportal { node, id })
    }

    /// The end of a sync that waits; `nodes` begins with the "one" of "one to all" or "all to one".
    ///
    /// # Errors
    /// As for [`Self::sync_create`].
    pub fn waiter(&self, kind: SyncKind, nodes: &[u32]) -> Result<Waiter> {
        let id = self.sync_create(&numbers(nodes), kind)?;
        let node = self.clone();
        Ok(Waiter { node, id })
    }

    /// The end of a sync that signals; `nodes` begins with the "one" of "one to all" or "all to one".
    ///
    /// # Errors
    /// As for [`Self::sync_open`].
    pub fn signaller(&self, kind: SyncKind, nodes: &[u32]) -> Result<Signaller> {
        let id = self.sync_open(&numbers(nodes), kind)?;
        let node = self.clone();
        Ok(Signaller { node, id })
    }
}
