//! Asked: transfers of this endpoint that their owners carry out.
//!
//! The memory is registered until the owner has said the end, or is lost: from then on the network card refuses whoever would
//! still reach for it.

use std::collections::HashMap;

use weft_fabric::{FabricError, Operation, Peer, Region, Result};

use crate::libfabric::registration::Registration;
use crate::wire::Outcome;

/// Transfers that one peer was asked for, at most.
pub const MOST: usize = 64;

/// One of them.
pub struct Transfer {
    pub peer: u32,
    pub region: Region,
    pub operation: Operation,
    pub offset: u64,
    pub put: bool,
    pub registration: Option<Registration>,
}

impl Transfer {
    /// How it has ended, as its owner says.
    pub fn result(&self, outcome: Outcome) -> Result<()> {
        let peer = Peer(self.peer);
        match outcome {
            Outcome::Done => Ok(()),
            Outcome::NotGranted => Err(FabricError::NotGranted { peer }),
            Outcome::Outside => Err(FabricError::OutsideGrant {
                peer,
                offset: self.offset,
                length: self.region.len() as u64,
            }),
        }
    }
}

/// All of them, by number.
#[derive(Default)]
pub struct Asked {
    transfers: HashMap<u32, Transfer>,
    next: u32,
}

impl Asked {
    /// A number for the next one.
    pub fn number(&mut self) -> u32 {
        loop {
            self.next = self.next.wrapping_add(1);
            if !self.transfers.contains_key(&self.next) {
                return self.next;
            }
        }
    }

    /// Keeps one whose owner was asked.
    pub fn keep(&mut self, number: u32, transfer: Transfer) {
        self.transfers.insert(number, transfer);
    }

    /// The one that `peer` speaks of.
    pub fn get(&self, number: u32, peer: u32) -> Option<&Transfer> {
        let found = self.transfers.get(&number);
        found.filter(|transfer| transfer.peer == peer)
    }

    /// It has ended.
    pub fn remove(&mut self, number: u32) -> Option<Transfer> {
        self.transfers.remove(&number)
    }

    /// Ends those of a peer that is lost.
    pub fn remove_of(&mut self, peer: u32) -> Vec<Operation> {
        let lost = self
            .transfers
            .extract_if(|_, transfer| transfer.peer == peer);
        let mut lost: Vec<(u32, Operation)> = lost
            .map(|(number, transfer)| (number, transfer.operation))
            .collect();
        lost.sort_unstable();
        lost.into_iter().map(|(_, operation)| operation).collect()
    }
}
