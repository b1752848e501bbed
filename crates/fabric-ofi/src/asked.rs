//! Asked: transfers that this endpoint has asked for, and that the owners of the memory carry out.
//!
//! Over a provider without remote access to memory the owner asks for pieces of a put; each is copied out of the memory when
//! there is room to send it.
//!
//! The memory is registered until the owner has reported the end, or is lost: from then on the network card refuses any
//! access to it.

use std::collections::{HashMap, VecDeque};

use weft_fabric::{FabricError, Operation, Peer, Posted, Region, Result};

use crate::libfabric::registration::Registration;
use crate::mail::Mail;
use crate::wire::{FrameKind, Outcome, Piece};

/// Most transfers that one peer is asked for at a time.
pub const MOST: usize = 64;

/// Most pieces of one put that its owner has asked for and that have not left.
pub const FETCHES: usize = 8;

/// One transfer.
pub struct Transfer {
    pub peer: u32,
    pub region: Region,
    pub operation: Operation,
    pub offset: u64,
    pub put: bool,
    pub registration: Option<Registration>,
    /// The number of pieces that its owner waits for.
    pub fetches: usize,
}

impl Transfer {
    /// The result, as its owner reports it.
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

/// All transfers, by number.
#[derive(Default)]
pub struct Asked {
    transfers: HashMap<u32, Transfer>,
    next: u32,
    /// Pieces to be sent, each with its receiver.
    fetches: VecDeque<(u32, Piece)>,
    /// Buffer for the bytes of one piece.
    scratch: Vec<u8>,
}

impl Asked {
    /// The number of the next transfer.
    pub fn number(&mut self) -> u32 {
        loop {
            self.next = self.next.wrapping_add(1);
            if !self.transfers.contains_key(&self.next) {
                return self.next;
            }
        }
    }

    /// Keeps a transfer whose owner was asked.
    pub fn keep(&mut self, number: u32, transfer: Transfer) {
        self.transfers.insert(number, transfer);
    }

    /// The transfer with this number, if `peer` is its owner.
    pub fn get(&self, number: u32, peer: u32) -> Option<&Transfer> {
        let found = self.transfers.get(&number);
        found.filter(|transfer| transfer.peer == peer)
    }

    /// The owner of a put asks for a piece of at most `most` bytes. `None` if it may not ask for that.
    pub fn fetch(&mut self, peer: u32, piece: Piece, most: usize) -> Option<()> {
        let found = self.transfers.get_mut(&piece.number);
        let transfer = found.filter(|transfer| transfer.peer == peer && transfer.put)?;
        piece.within(&transfer.region)?;
        if piece.length as usize > most || transfer.fetches == FETCHES {
            return None;
        }
        transfer.fetches += 1;
        self.fetches.push_back((peer, piece));
        Some(())
    }

    /// Sends pieces that were asked for, as far as there is room. Returns how many.
    #[inline]
    pub fn advance(&mut self, mail: &mut Mail) -> usize {
        match self.fetches.is_empty() {
            true => 0,
            false => self.send_pieces(mail),
        }
    }

    fn send_pieces(&mut self, mail: &mut Mail) -> usize {
        let mut sent = 0;
        for _ in 0..self.fetches.len() {
            let Some((peer, piece)) = self.fetches.pop_front() else {
                break;
            };
            // The memory of a transfer that has ended may no longer be used.
            let found = self.transfers.get_mut(&piece.number);
            let Some(transfer) = found.filter(|transfer| transfer.peer == peer) else {
                continue;
            };
            let Some(place) = piece.within(&transfer.region) else {
                continue;
            };
            let mut posted = Ok(Posted::Retry);
            if mail.has_room_for_pieces(peer) {
                self.scratch.resize(place.len(), 0);
                place.copy_to_slice(&mut self.scratch);
                let parts = [&piece.emit()[..], &self.scratch];
                posted = mail.post(Peer(peer), FrameKind::Fetched, &parts);
            }
            match posted {
                Ok(Posted::Done) => {
                    transfer.fetches -= 1;
                    sent += 1;
                }
                Ok(_) => self.fetches.push_back((peer, piece)),
                // The peer is lost, which is reported elsewhere.
                Err(_) => {}
            }
        }
        sent
    }

    /// Removes a transfer that has ended.
    pub fn remove(&mut self, number: u32) -> Option<Transfer> {
        self.transfers.remove(&number)
    }

    /// Ends the transfers with a peer that is lost; returns their operations.
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
