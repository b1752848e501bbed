//! Grants: permissions of a rank to read or write its memory, as records in the segment that peers check themselves.
//!
//! # A record
//! An [`Admission`](weft_atomic::admission::Admission) with start, length and peer beside it. A user that finds its
//! token's generation live, itself admitted and its span within, counts itself in; if the grant is for one use, the same
//! swap ends it. So a grant for one use is used once even if peers race, and start and length belong to the generation
//! that was compared. Before it enters, a user publishes in its own control block which grant it enters, and whether it
//! writes: so the owner sees *who* is inside.
//!
//! ```text
//!   token     63  62       61 … 24      23 … 0
//!             0   unseen   generation   index in the owner's table
//! ```
//!
//! # What is guaranteed when `revoke` returns
//! | who is inside | effect |
//! |---|---|
//! | a peer that writes into the owner's memory | has left: it is waited for as long as it lives, even if it is stopped |
//! | a peer that reads, in another process | has left, or has not left within [`Options::patience`](crate::Options): then its transfer is void, and ends for it with [`FabricError::NotGranted`] whatever it has read |
//! | a peer that reads, in the same process | has left |
//! | a peer that has died | moves nothing any more. The launcher reports its death, after it has reaped the process |
//! | a peer that is lost for another reason, or has aborted | counts as one that lives |
//! | a peer whose bytes go through chunks | nothing is read or written for it afterwards |
//!
//! A stopped writer cannot be told anything: only it will know whether it was stopped before or after the one system call
//! that moves its bytes. So there is no limit to the wait for it, unlike that for a reader, which checks once more when
//! it has read.
//!
//! A record is reused when no user is counted in, or no living one is present; until then it is kept aside. Each of its
//! generations is used once: a record that has had all of them is retired.
//!
//! # More grants than records
//! A grant for which there is no record has a token with the bit *unseen*. Only the owner has its state, and its bytes go
//! through chunks (`chunks.rs`). So the number of grants is limited only by memory, and a send never waits for a grant:
//! it would have to wait for what the receivers do with those before it, about which MPI promises nothing.
//!
//! # Who may touch what
//! The owner writes start, length and peer while nobody can enter and nobody is inside, then opens the admission.
//! Users change only the admission.
//!
//! # Safety
//! The owner never takes an address from the shared record: for bytes that it moves itself it keeps each region
//! privately. A user passes addresses to the kernel, which checks them, and not to a pointer, except within one process,
//! see `portal.rs`.

mod table;

use weft_atomic::Ordering;
use weft_atomic::admission::{Left, Presence, Refused, Visit};
use weft_fabric::{FabricError, Peer, Token};
use weft_sys::error::errno;

use crate::layout::GrantRecord;

pub(crate) use table::{GrantTable, Inside};

const READ: u8 = 1;
const WRITE: u8 = 2;

/// Access to a grant: what a user wants to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    Read,
    Write,
}

impl Access {
    fn tag(self) -> u8 {
        match self {
            Self::Read => READ,
            Self::Write => WRITE,
        }
    }
}

/// Refusal: why a grant cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    NotGranted,
    Outside,
}

impl Refusal {
    pub fn error(self, peer: Peer, offset: u64, length: u64) -> FabricError {
        match self {
            Self::NotGranted => FabricError::NotGranted { peer },
            Self::Outside => FabricError::OutsideGrant {
                peer,
                offset,
                length,
            },
        }
    }
}

/// Bits of the index in a token.
const INDEX_BITS: u32 = 24;

/// Bits of the generation in a token.
const GENERATION_BITS: u32 = 38;

/// In a token: there is no record that users can see.
const UNSEEN: u64 = 1 << (INDEX_BITS + GENERATION_BITS);

const _: () = {
    assert!(1 << GENERATION_BITS <= weft_atomic::admission::GENERATIONS);
    // The highest bit is left to whoever makes one fabric of several.
    assert!(UNSEEN < 1 << 63);
};

/// Index and generation in a token, and whether the grant has no record.
fn split_token(token: Token) -> (u32, u64, bool) {
    let index = token.0 & ((1 << INDEX_BITS) - 1);
    let generation = token.0 >> INDEX_BITS & ((1 << GENERATION_BITS) - 1);
    (index as u32, generation, token.0 & UNSEEN != 0)
}

/// The index of the record that a token names; `None` if there is none to be seen.
pub(crate) fn index_of(token: Token) -> Option<u32> {
    let (index, _, unseen) = split_token(token);
    (!unseen).then_some(index)
}

/// In a presence: its user writes.
const WRITING: u64 = 1 << 63;

/// Name of a grant of an owner in a presence.
fn presence_of(owner: u32, index: u32) -> u64 {
    (u64::from(owner) + 1) << 32 | u64::from(index)
}

/// Use of a grant, as its user asks for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrantUse {
    pub owner: Peer,
    pub token: Token,
    pub access: Access,
    pub user: Peer,
    pub offset: u64,
    pub length: u64,
}

/// Counts a user in at a record of a peer; answers the address of the first byte.
pub(crate) fn enter<'a>(
    record: &'a GrantRecord,
    presence: &'a Presence,
    asked: GrantUse,
) -> std::result::Result<(Visit<'a>, u64), Refusal> {
    let (index, generation, _) = split_token(asked.token);
    let mut inside_of = presence_of(asked.owner.0, index);
    if asked.access == Access::Write {
        inside_of |= WRITING;
    }
    let entered = record
        .admission
        .enter(presence, inside_of, generation, |rights| {
            let peer = record.peer.load(Ordering::Relaxed);
            if peer != 0 && peer != asked.user.0.wrapping_add(1) {
                return Err(Refusal::NotGranted);
            }
            let start = record.start.load(Ordering::Relaxed);
            let granted = record.length.load(Ordering::Relaxed);
            let end = asked.offset.checked_add(asked.length);
            if end.is_none_or(|end| end > granted) || rights & asked.access.tag() == 0 {
                return Err(Refusal::Outside);
            }
            Ok(start.wrapping_add(asked.offset))
        });
    entered.map_err(|refused| match refused {
        Refused::NotLive => Refusal::NotGranted,
        Refused::Check(refusal) => refusal,
    })
}

/// Whether anybody is still inside of a grant for one use that its token names.
pub(crate) fn is_occupied(record: &GrantRecord, token: Token) -> bool {
    let (_, generation, _) = split_token(token);
    record.admission.is_occupied(generation)
}

/// Why a transfer that its user carries out did not move the bytes.
#[derive(Debug)]
pub(crate) enum TransferError {
    /// It must not.
    Refused(FabricError),
    /// The kernel does not let us, for this reason: chunks do.
    Unable(String),
}

impl From<FabricError> for TransferError {
    fn from(error: FabricError) -> Self {
        Self::Refused(error)
    }
}

/// Counts a user out, whatever became of its transfer. If the kernel did not let it, the grant is given
/// back, so that it may try another way.
pub(crate) fn settle(
    owner: Peer,
    visit: Visit<'_>,
    result: std::io::Result<()>,
) -> std::result::Result<(), TransferError> {
    let (left, result) = match result {
        Ok(()) => (visit.leave(), Ok(())),
        // The memory there, or here, is not what was promised: another way would not help.
        Err(error) if errno(&error) == Some(EFAULT) => {
            let what = error.to_string();
            let refused = TransferError::Refused(FabricError::System { what });
            (visit.leave(), Err(refused))
        }
        Err(error) => (
            visit.give_back(),
            Err(TransferError::Unable(error.to_string())),
        ),
    };
    match left {
        Left::Valid => result,
        Left::Void => Err(TransferError::Refused(FabricError::NotGranted {
            peer: owner,
        })),
    }
}

/// `EFAULT`, the same on all Linux.
const EFAULT: i32 = 14;
