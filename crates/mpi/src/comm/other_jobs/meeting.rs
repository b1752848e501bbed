//! Meeting: the agreement of two groups of different jobs, and the bridge that it holds open.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use weft_atomic::{AtomicU32, Ordering};
use weft_fabric::Peer;

use super::super::agree::leader_bits;
use super::connector::JobConnector;
use super::{INNER, MEETING_CONTEXTS, NUMBERS};
use crate::error::{Error, ErrorClass, Result};
use crate::process::Process;

/// What a process has to do with other jobs.
#[derive(Default)]
pub(crate) struct Meetings {
    connector: OnceLock<Arc<dyn JobConnector>>,
    is_widened: Mutex<bool>,
    all: Mutex<Vec<Weak<Meeting>>>,
    /// By context of a communicator that was freed while something was under way on it: what that needs.
    freed: Mutex<Vec<(u32, Arc<BridgeEnd>)>>,
    /// Above all numbers that meetings of this process have had.
    next: AtomicU32,
}

impl Meetings {
    /// Says how other jobs are met. Once.
    pub fn set_connector(&self, connector: Arc<dyn JobConnector>) {
        let _ = self.connector.set(connector);
    }

    /// The means to connect to them; `None` if there are none.
    pub fn connector(&self) -> Option<&Arc<dyn JobConnector>> {
        self.connector.get()
    }

    /// A number that no meeting of this process has had.
    pub fn free_number(&self) -> u32 {
        self.next.load(Ordering::Relaxed)
    }

    /// Takes a number; false if another meeting has it, or a higher one, by now.
    pub fn claim(&self, number: u32) -> bool {
        let next = |next: u32| (next <= number).then_some(number + 1);
        let claimed = self
            .next
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        claimed.is_ok()
    }

    /// Whether the fabric has room for processes of other jobs; it does not change while the guard is held.
    pub fn is_widened(&self) -> MutexGuard<'_, bool> {
        let is_widened = &self.is_widened;
        is_widened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes one that this process takes part in.
    pub fn note(&self, meeting: &Arc<Meeting>) {
        let mut all = self.all();
        all.retain(|one| one.strong_count() > 0);
        all.push(Arc::downgrade(meeting));
    }

    fn all(&self) -> MutexGuard<'_, Vec<Weak<Meeting>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// That of a context, if it is one of a meeting that this process takes part in.
    pub fn of(&self, context: u32) -> Option<Arc<Meeting>> {
        if context & (MEETING_CONTEXTS | MEETING_CONTEXTS >> 1) != MEETING_CONTEXTS {
            return None;
        }
        let number = context >> (INNER + 1) & (NUMBERS - 1);
        let all = self.all();
        all.iter()
            .filter_map(Weak::upgrade)
            .find(|meeting| meeting.number == number)
    }

    /// A communicator is freed: operations under way on it go on.
    pub fn leave(&self, process: &Process, context: u32, bridge: Arc<BridgeEnd>) {
        let mut freed = self.freed.lock().unwrap_or_else(PoisonError::into_inner);
        freed.push((context, bridge));
        drop(freed);
        self.end_unused(process);
    }

    /// Ends the bridges of communicators that were freed, on which nothing is under way any more.
    pub fn end_unused(&self, process: &Process) {
        let mut freed = self.freed.lock().unwrap_or_else(PoisonError::into_inner);
        freed.retain(|(context, bridge)| {
            let engine = process.engine_of(*context).lock();
            engine.is_active_in(*context) || bridge.peers.iter().any(|peer| engine.owes(*peer))
        });
    }
}

/// The connection of two jobs at this process: it ends with the last communicator that needs it.
pub(crate) struct BridgeEnd {
    connector: Arc<dyn JobConnector>,
    number: usize,
    /// Those of the other side.
    peers: Vec<Peer>,
}

impl BridgeEnd {
    /// A bridge by its number, with those of the other side.
    pub fn of(connector: Arc<dyn JobConnector>, number: usize, peers: Vec<Peer>) -> Arc<Self> {
        Arc::new(Self {
            connector,
            number,
            peers,
        })
    }
}

impl std::fmt::Debug for BridgeEnd {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "BridgeEnd({})", self.number)
    }
}

impl Drop for BridgeEnd {
    fn drop(&mut self) {
        self.connector.close(self.number);
    }
}

/// What two groups of different jobs have agreed on. It may outlive the connection: objects that were freed still name it.
pub(crate) struct Meeting {
    number: u32,
    me: u32,
    /// By number in the meeting.
    members: Vec<Peer>,
    /// Counts the contexts that this process leads.
    next: AtomicU32,
    bridge: Weak<BridgeEnd>,
}

impl std::fmt::Debug for Meeting {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Meeting({})", self.number)
    }
}

impl Meeting {
    /// One of these members, of which this process is `me`.
    pub fn new(number: u32, me: u32, members: Vec<Peer>, bridge: &Arc<BridgeEnd>) -> Arc<Self> {
        Arc::new(Self {
            number,
            me,
            members,
            next: AtomicU32::new(1),
            bridge: Arc::downgrade(bridge),
        })
    }

    /// The context of the intercommunicator that it ends with.
    pub fn first_context(&self) -> u32 {
        self.context(0)
    }

    /// The connection; `None` if all communicators are freed.
    pub fn bridge(&self) -> Option<Arc<BridgeEnd>> {
        self.bridge.upgrade()
    }

    /// The number of a process in the meeting; the highest number for a process that takes no part.
    pub fn number_of(&self, peer: Peer) -> u32 {
        let place = self.members.iter().position(|member| *member == peer);
        place.map_or(u32::MAX, |place| place as u32)
    }

    /// The process of a number.
    pub fn peer(&self, number: u32) -> Option<Peer> {
        self.members.get(number as usize).copied()
    }

    /// Number of participants.
    pub fn size(&self) -> u32 {
        self.members.len() as u32
    }

    fn context(&self, inner: u32) -> u32 {
        MEETING_CONTEXTS | self.number << (INNER + 1) | inner << 1
    }

    /// A new context, led by this process.
    pub fn new_context(&self) -> Result<u32> {
        let leaders = leader_bits(self.size());
        let most = 1 << (INNER - leaders);
        let count = self
            .next
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
                (count < most).then_some(count + 1)
            });
        match count {
            Ok(count) => Ok(self.context(count << leaders | self.me)),
            Err(_) => Err(Error::new(
                ErrorClass::Other,
                format!(
                    "this process has led the creation of {} communicators with processes of another job, and no context is left; create \
                     communicators once and reuse them, or connect again",
                    most - 1
                ),
            )),
        }
    }
}
