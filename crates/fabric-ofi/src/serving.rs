//! Serving: transfers that peers have asked this endpoint for, which it carries out itself.
//!
//! ```text
//!   get   asker registers its memory ── Ask ──►  owner looks at its grant, writes into that memory ── End ──►
//!   put   asker registers its memory ── Ask ──►  owner looks at its grant, reads that memory into a bounce buffer,
//!                                                copies piece by piece while the grant is live ── End ──►
//! ```
//!
//! Over a provider without remote access to memory [`messages`] replace reads and writes.
//!
//! No peer ever accesses memory of the owner: a grant exists only in its table, and ends with
//! [`Serving::withdraw`], which waits for what is being written to an asker.

mod messages;

use weft_fabric::{Region, Token};

use crate::libfabric::bounce::Bounce;
use crate::libfabric::device::Outcome as Posted;
use crate::libfabric::registration::{Access, Registration, RemoteMemory};
use crate::links::Answer;
use crate::mail::Mail;
use crate::wire::{End, Outcome, Piece as Part};

/// Most bytes of one write into an asker's memory.
const PIECE: usize = 1 << 20;

/// Bytes of one read into a bounce buffer.
const BOUNCE: usize = 256 << 10;

/// Pieces of one transfer under way at a time.
const PIECES: usize = 2;

/// Slots for pieces under way, of all transfers together.
pub const SLOTS: usize = 64;

/// How the bytes travel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransferMethod {
    /// By reads and writes of the asker's memory.
    RemoteAccess(RemoteMemory),
    /// In messages that carry at most this many bytes.
    Messages(usize),
}

/// One transfer that a peer has asked for.
struct Transfer {
    peer: u32,
    number: u32,
    token: Token,
    put: bool,
    window: Region,
    method: TransferMethod,
    /// Pieces that the asker was asked for by messages, and that have not arrived.
    awaited: Vec<Part>,
    /// Own memory of a get, where the provider wants it registered.
    registration: Option<Registration>,
    posted: usize,
    under_way: usize,
    /// The outcome so far: not done if the grant was revoked, or the peer is gone.
    outcome: Outcome,
    is_answered: bool,
    /// The peer is gone: results of pieces under way say nothing about the new process with its number.
    is_forgotten: bool,
}

impl Transfer {
    fn has_posted_all(&self) -> bool {
        self.posted == self.window.len() || self.outcome != Outcome::Done
    }
}

/// One piece under way.
struct Piece {
    transfer: u64,
    offset: usize,
    length: usize,
    bounce: Option<Bounce>,
}

/// All transfers that peers have asked for.
pub struct Serving {
    transfers: Vec<(u64, Transfer)>,
    pieces: Vec<Option<Piece>>,
    bounces: Vec<Bounce>,
    /// Buffer for the bytes of a piece that travels in a message.
    scratch: Vec<u8>,
    next: u64,
}

impl Default for Serving {
    fn default() -> Self {
        Self {
            transfers: Vec::new(),
            pieces: std::iter::repeat_with(|| None).take(SLOTS).collect(),
            bounces: Vec::new(),
            scratch: Vec::new(),
            next: 0,
        }
    }
}

impl Serving {
    /// Whether no transfer is being served.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.transfers.is_empty()
    }

    /// Begins a transfer between granted memory and registered memory of the asker.
    pub fn begin(
        &mut self,
        mail: &mut Mail,
        (peer, number): (u32, u32),
        (token, put): (Token, bool),
        window: Region,
        method: TransferMethod,
    ) {
        let mut registration = None;
        let writes = !put && matches!(method, TransferMethod::RemoteAccess(_));
        if writes && mail.device.registers_own_memory() {
            match mail.device.register(&window, Access::Local) {
                Ok(registered) => registration = Some(registered),
                Err(reason) => return mail.lose(peer, reason),
            }
        }
        let transfer = Transfer {
            peer,
            number,
            token,
            put,
            window,
            method,
            awaited: Vec::new(),
            registration,
            posted: 0,
            under_way: 0,
            outcome: Outcome::Done,
            is_answered: false,
            is_forgotten: false,
        };
        self.transfers.push((self.next, transfer));
        self.next += 1;
        self.advance(mail);
    }

    /// Posts as much as there is room for, and ends what is done. Returns how many have ended.
    #[inline]
    pub fn advance(&mut self, mail: &mut Mail) -> usize {
        match self.transfers.is_empty() {
            true => 0,
            false => self.advance_all(mail),
        }
    }

    fn advance_all(&mut self, mail: &mut Mail) -> usize {
        let before = self.transfers.len();
        for index in 0..before {
            self.advance_one(index, mail);
        }
        let ordered = mail.device.has_ordered_writes();
        self.transfers.retain_mut(|(_, transfer)| {
            let all = transfer.has_posted_all();
            let done = transfer.under_way == 0;
            // A message sent after the last write arrives after its bytes.
            let early = ordered && !transfer.put && transfer.outcome == Outcome::Done;
            if all && (done || early) && !transfer.is_answered {
                transfer.is_answered = true;
                let end = End {
                    number: transfer.number,
                    outcome: transfer.outcome,
                };
                mail.answer(transfer.peer, Answer::End(end));
            }
            !(all && done)
        });
        before - self.transfers.len()
    }

    fn advance_one(&mut self, index: usize, mail: &mut Mail) {
        let (id, transfer) = &mut self.transfers[index];
        let remote_memory = match transfer.method {
            TransferMethod::RemoteAccess(remote) => remote,
            TransferMethod::Messages(most) => {
                return transfer.advance_by_messages(most, mail, &mut self.scratch);
            }
        };
        let Some(address) = mail.link(transfer.peer).map(|link| link.address()) else {
            return;
        };
        let most = if transfer.put { BOUNCE } else { PIECE };
        let most = most.min(mail.device.largest_transfer());
        while !transfer.has_posted_all() && transfer.under_way < PIECES {
            let Some(slot) = self.pieces.iter().position(Option::is_none) else {
                return;
            };
            let offset = transfer.posted;
            let length = most.min(transfer.window.len() - offset);
            let remote = RemoteMemory {
                address: remote_memory.address.wrapping_add(offset as u64),
                ..remote_memory
            };
            let mut bounce = None;
            let posted = if transfer.put {
                let free = self
                    .bounces
                    .pop()
                    .map_or_else(|| Bounce::new(&mail.device, BOUNCE), Ok);
                match free {
                    Ok(free) => {
                        let region = free.region(length);
                        let registered = free.registration();
                        let posted = mail
                            .device
                            .read((address, slot), &region, registered, remote);
                        bounce = Some(free);
                        posted
                    }
                    Err(reason) => Posted::Refused(reason),
                }
            } else if let Some(region) = transfer.window.part(offset, length) {
                let registered = transfer.registration.as_ref();
                mail.device
                    .write((address, slot), &region, registered, remote)
            } else {
                return;
            };
            match posted {
                Posted::Begun => {
                    self.pieces[slot] = Some(Piece {
                        transfer: *id,
                        offset,
                        length,
                        bounce,
                    });
                    transfer.posted += length;
                    transfer.under_way += 1;
                }
                Posted::Full => {
                    self.bounces.extend(bounce);
                    mail.note_full();
                    return;
                }
                Posted::Refused(reason) => {
                    transfer.outcome = Outcome::NotGranted;
                    let reason = format!("libfabric cannot reach its memory: {reason}");
                    mail.lose(transfer.peer, reason);
                    return;
                }
            }
        }
    }

    /// A piece is complete.
    pub fn completed(&mut self, slot: usize, failure: Option<&str>, mail: &mut Mail) {
        let Some(piece) = self.pieces.get_mut(slot).and_then(Option::take) else {
            return;
        };
        let found = self.transfers.iter_mut();
        if let Some((_, transfer)) = found.into_iter().find(|(id, _)| *id == piece.transfer) {
            transfer.under_way -= 1;
            match failure {
                Some(_) if transfer.is_forgotten => {}
                Some(reason) => {
                    transfer.outcome = Outcome::NotGranted;
                    let reason = format!("a transfer with it failed: {reason}");
                    mail.lose(transfer.peer, reason);
                }
                // A grant that was revoked in between permits nothing any more.
                None if transfer.outcome == Outcome::Done => {
                    if let Some(bounce) = &piece.bounce
                        && let Some(place) = transfer.window.part(piece.offset, piece.length)
                    {
                        place.copy_from(&bounce.region(piece.length));
                    }
                }
                None => {}
            }
        }
        if self.bounces.len() < PIECES {
            self.bounces.extend(piece.bounce);
        }
    }

    /// Ends the grant's transfers. Returns whether bytes of its memory are still being sent.
    pub fn withdraw(&mut self, token: Token) -> bool {
        let mut sending = false;
        for (_, transfer) in &mut self.transfers {
            if transfer.token == token {
                if !transfer.is_answered {
                    transfer.outcome = Outcome::NotGranted;
                }
                sending |= !transfer.put && transfer.under_way > 0;
            }
        }
        sending
    }

    /// A peer is gone: its transfers end when none of their pieces is under way.
    pub fn forget(&mut self, peer: u32) {
        for (_, transfer) in &mut self.transfers {
            if transfer.peer == peer {
                transfer.outcome = Outcome::NotGranted;
                transfer.is_answered = true;
                transfer.is_forgotten = true;
                transfer.await_nothing();
            }
        }
    }

    /// Peers to which memory of this grant is being sent.
    pub fn receivers(&self, token: Token) -> Vec<u32> {
        let of = |transfer: &Transfer| {
            transfer.token == token && transfer.under_way > 0 && !transfer.is_forgotten
        };
        let receiving = self.transfers.iter().filter(|(_, transfer)| of(transfer));
        receiving.map(|(_, transfer)| transfer.peer).collect()
    }
}
