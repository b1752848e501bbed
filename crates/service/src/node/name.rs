//! Name calls of a node.

use weft_fabric::Guest;

use super::Node;
use crate::awaited::{Awaited, On};
use crate::error::Result;

impl Node {
    /// Gives a name to a port of this node, and tells all nodes.
    ///
    /// # Errors
    /// `Invalid`, or `Busy` if another port is known to have the name.
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

    /// Node and port of a name, as far as this node knows. Polls once.
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

    /// Node and port of a name; waits until a port has it.
    ///
    /// # Errors
    /// `Invalid`, or `NodeLost` when no node is left that could take it.
    pub fn name_find(&self, name: &str) -> Result<(u32, u8)> {
        self.block(
            On::Names,
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
            |core, fabric, _| match core.names().0.lookup(name) {
                Ok(found) => Some(Ok(found)),
                Err(_) if core.common().nodes.is_last(fabric) => Some(Err(crate::Error::new(
                    crate::Code::NodeLost,
                    format!(
                        "all other nodes are gone, so nobody can take the name '{name}' any more"
                    ),
                ))),
                Err(_) => None,
            },
            |_, _| {},
            |_| Awaited::of_any(format!("some node to take the name '{name}'")),
        )
    }
}
