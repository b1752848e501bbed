//! One rank as the network sees it, and what arrives at it.

use std::collections::BTreeMap;

use weft_fabric::{FabricError, Head, Membership, Operation, Peer, Result, SyncKey};

use crate::grants::Grants;
use crate::transfer::Transfer;

/// What arrives at a rank.
#[derive(Debug)]
pub(crate) enum News {
    Message {
        from: Peer,
        head: Head,
        data: Vec<u8>,
    },
    Signal {
        from: Peer,
        key: SyncKey,
    },
    /// There is room for what was refused.
    Room,
    /// A transfer of the rank ends, if it still may.
    Arrived(Transfer),
    /// A transfer of the rank has failed.
    Failed {
        operation: Operation,
        error: FabricError,
    },
    Lost {
        peer: Peer,
        reason: &'static str,
    },
}

/// What a look hands out.
#[derive(Debug)]
pub(crate) enum Found {
    Message {
        from: Peer,
        head: Head,
        data: Vec<u8>,
    },
    Signal {
        from: Peer,
        key: SyncKey,
    },
    Room,
    TransferCompleted(Operation, Result<()>),
    Lost(Peer, &'static str),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// Holds the baton or wants it.
    Awake,
    /// On its bell, at most until then.
    Asleep { deadline: Option<u64> },
    /// Its endpoint is closed or its part has ended.
    Left,
    /// Died by a fault.
    Dead,
}

/// One rank, as the network sees it.
pub(crate) struct Rank {
    pub clock: u64,
    pub standing: Standing,
    /// When its present sleep, or looking in vain, began.
    pub since: u64,
    pub rung: bool,
    /// Looks in vain since it last found something or slept.
    pub vain: u32,
    pub death: Option<u64>,
    /// Deeds so far: see `Fault::DeathAfter`; and the last one that it does, if it dies of it.
    pub deeds: u64,
    pub last_deed: Option<u64>,
    pub note: String,
    pub grants: Grants,
    /// Its endpoint is gone: nothing reaches it any more.
    pub closed: bool,
    pub inbox: BTreeMap<(u64, u64, u64), News>,
    /// Whom it knows to be lost, and why.
    pub members: Membership,
    /// When its next message may leave.
    pub injection: u64,
    /// Senders that its full lanes refused.
    pub refused: Vec<u32>,
}

impl Rank {
    /// A rank at the beginning, that will die at this time if at any, or of this deed.
    pub(crate) fn new(members: Membership, death: Option<u64>, last_deed: Option<u64>) -> Self {
        Self {
            clock: 0,
            standing: Standing::Awake,
            since: 0,
            rung: false,
            vain: 0,
            death,
            deeds: 0,
            last_deed,
            note: String::new(),
            grants: Grants::default(),
            closed: false,
            inbox: BTreeMap::new(),
            members,
            injection: 0,
            refused: Vec::new(),
        }
    }
}

/// What is known of one sender's messages to one receiver.
#[derive(Default)]
pub(crate) struct Lane {
    pub under_way: u32,
    pub refused: bool,
    /// When the last message so far arrives.
    pub last: u64,
}
