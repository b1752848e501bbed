//! Ports: numbers that name inputs of a node, and source ports of its outputs, of which the lowest free one is assigned.

use std::collections::HashMap;

use crate::error::{Code, Error, Result};

/// Ports of a node, per service.
pub const PORTS: usize = 256;

/// A port of a number as programs give it.
///
/// # Errors
/// `Invalid` for a port out of range.
pub(crate) fn port(port: i32) -> Result<u8> {
    u8::try_from(port).map_err(|_| {
        Error::new(
            Code::Invalid,
            format!("{port} is no port: ports lie between 0 and {}", PORTS - 1),
        )
    })
}

/// The source ports in use of one service, per remote node.
#[derive(Debug, Default)]
pub(crate) struct SourcePorts(HashMap<u32, [u64; PORTS / 64]>);

impl SourcePorts {
    /// The lowest free one of so many.
    pub(crate) fn take(&mut self, node: u32, of: usize) -> Result<u8> {
        let used = self.0.entry(node).or_default();
        for (place, word) in used.iter_mut().enumerate() {
            let bit = word.trailing_ones();
            let port = place * 64 + bit as usize;
            if bit < 64 && port < of {
                *word |= 1 << bit;
                return Ok(port as u8);
            }
        }
        Err(Error::new(
            Code::Again,
            format!(
                "all {of} source ports from here to node {node} are in use; close some outputs first"
            ),
        ))
    }

    pub(crate) fn give_back(&mut self, node: u32, port: u8) {
        if let Some(used) = self.0.get_mut(&node) {
            used[usize::from(port) / 64] &= !(1 << (port % 64));
        }
    }
}
