//! Asked: transfers of this endpoint that their owners carry out.
//!
//! Over a provider without remote access to memory the owner asks for pieces of a put, which are copied out of the memory when
//! there is room to send them.
//!
//! The memory is registered until the owner has said the end, or is lost: from then on the network card refuses whoever would
//! still reach for it.

use std::collections::{HashMap, VecDeque};

use weft_fabric::{FabricError, Operation, Peer, Posted, Region, Result};

use crate::libfabric::registration::Registration;
use crate::mail::Mail;
use crate::wire::{Kind, Outcome, Piece};

/// Transfers that one peer was asked for, at most.
pub const MOST: usize = 64;

/// Pieces of one put that its owner has asked for and that have not left, at most.
pub const FETCHES: usize = 8;

/// One of them.
pub struct Transfer {
    pub peer: u32,
    pub region: Region,
    pub operation: Operation,
    pub offset: u64,
    pub put: bool,
    pub registration: Option<Registration>,
    /// Pieces that its owner waits for.
    pub fetches: usize,
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
    /// Pieces to be sent, and to whom.
    fetches: VecDeque<(u32, Piece)>,
    /// For the bytes of one.
    scratch: Vec<u8>,
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

    /// The owner of a put asks for a piece of at most `most` bytes. `None` if it may not.
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

    /// Sends pieces that were asked for, as far as there is room. Answers how many.
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
            // A transfer that has ended meanwhile lends its memory no more.
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
                posted = mail.post(Peer(peer), Kind::Fetched, &parts);
            }
            match posted {
                Ok(Posted::Done) => {
                    transfer.fetches -= 1;
                    sent += 1;
                }
                Ok(_) => self.fetches.push_back((peer, piece)),
                // It is lost, which is reported.
                Err(_) => {}
            }
        }
        sent
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
