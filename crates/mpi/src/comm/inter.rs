//! Intercommunicators: communicators of two groups (MPI 5.0, section 7.6).
//!
//! ```text
//!   local group ── local leader ◄── peer communicator ──► remote leader ── remote group
//! ```
//!
//! The two leaders exchange their groups and a context, and each tells its group. From then on ranks of messages are
//! ranks of the remote group. Collectives number all processes: the local group first, then the remote group, so each
//! side has numbers of its own (see [`crate::coll::inter`]).

use std::sync::Arc;

use weft_fabric::Peer;

use super::create::GROUP_TAG;
use super::other_jobs::{MEETING_CONTEXTS, OTHER_JOB};
use super::{Comm, Line, Meeting, Remote, Shape, Terms};
use crate::Buffer;
use crate::buffer;
use crate::error::{Error, ErrorClass, Result};
use crate::group::Group;
use crate::p2p::SendMode;

const CREATE: &str = "MPI_Intercomm_create";
const MERGE: &str = "MPI_Intercomm_merge";

/// How a leader reaches the other leader.
#[derive(Clone, Copy, Debug)]
pub struct Bridge<'a> {
    /// A communicator that has both leaders.
    pub comm: &'a Comm,
    /// Rank of the other leader there.
    pub remote_leader: u32,
    /// Tells simultaneous creations apart.
    pub tag: i32,
}

/// What the leaders tell each other first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Greeting {
    /// A context, if this leader draws it; of one that has failed, the length of the text that says why.
    pub context: u32,
    /// Processes of the group; 0 says that this leader has failed, or to one's own group that the meeting has.
    pub size: u32,
}

/// The remote leader that a leader has reached.
pub(super) enum RemoteLeader {
    /// A group of this job, as bytes.
    ThisJob(Greeting, Vec<u8>),
    /// The root of a group of another job.
    OtherJob {
        /// What the two jobs need.
        terms: Terms,
        /// The way to it.
        way: Box<dyn Line>,
    },
}

impl Greeting {
    pub const BYTES: usize = 8;

    /// Of a leader that has failed: the length of the text that follows, which says why.
    fn of_failure(error: &Error) -> Self {
        Self {
            context: error.text().len() as u32,
            size: 0,
        }
    }

    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.context.to_le_bytes());
        bytes[4..].copy_from_slice(&self.size.to_le_bytes());
        bytes
    }

    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let [a, b, c, d, e, f, g, h] = bytes;
        Self {
            context: u32::from_le_bytes([a, b, c, d]),
            size: u32::from_le_bytes([e, f, g, h]),
        }
    }
}

impl Comm {
    /// `MPI_Intercomm_create`: this communicator's group on one side, that of the remote leader on the
    /// other. `bridge` matters at the local leader only.
    ///
    /// # Errors
    /// `Comm` if the groups have a process in common, if this is an intercommunicator, or if the
    /// leaders did not meet; `Rank` for a leader that is no rank.
    pub fn connect(&self, local_leader: u32, bridge: Option<Bridge<'_>>) -> Result<Arc<Self>> {
        self.check_intra(CREATE)?;
        self.target(local_leader)?;
        let met = (self.rank() == local_leader).then(|| self.meet_leader(bridge));
        self.join_group(CREATE, ErrorClass::Comm, local_leader, met, false)
    }

    /// Each member: an intercommunicator with the group that the local leader has met, if it has. `class`: of the
    /// error of the others if it has not.
    pub(super) fn join_group(
        &self,
        name: &'static str,
        class: ErrorClass,
        local_leader: u32,
        met: Option<Result<RemoteLeader>>,
        accepts: bool,
    ) -> Result<Arc<Self>> {
        let mut failure = None;
        let (mut greeting, mut list, mut line) = ([0; Greeting::BYTES], Vec::new(), None);
        match met {
            Some(Ok(RemoteLeader::ThisJob(met, peers))) => {
                (greeting, list) = (met.to_bytes(), peers)
            }
            Some(Ok(RemoteLeader::OtherJob { terms, way })) => {
                line = Some(way);
                let (context, size) = (u32::from(terms.to_bits()), OTHER_JOB);
                greeting = Greeting { context, size }.to_bytes();
            }
            Some(Err(error)) => {
                greeting = Greeting::of_failure(&error).to_bytes();
                failure = Some(error);
            }
            None => {}
        }
        self.spread(name, &mut greeting, local_leader)?;
        let Greeting { context, size } = Greeting::from_bytes(greeting);
        if size == 0 {
            let what = "the local leader has not met the remote one";
            let heard = self.spread_failure(name, local_leader, failure, context)?;
            return Err(heard.unwrap_or_else(|reason| {
                let text = format!("{name}: {what}: rank {local_leader} got: {reason}");
                Error::new(class, text)
            }));
        }
        if size == OTHER_JOB {
            let terms = Terms::from_bits(context as u8);
            return self.meet_other_job(name, local_leader, (accepts, terms), line);
        }
        list.resize(size as usize * 4, 0);
        self.spread(name, &mut list, local_leader)?;
        let meeting = self.process().meetings.of(context);
        let remote = match &meeting {
            _ if context < MEETING_CONTEXTS => {
                Some(Group::of(numbers_of(&list).map(Peer).collect()))
            }
            Some(meeting) => numbers_of(&list)
                .map(|number| meeting.peer(number))
                .collect::<Option<Vec<Peer>>>()
                .map(Group::of),
            None => None,
        };
        let remote = remote.ok_or_else(|| not_of_meeting(name))?;
        if remote.intersection(self.group()).size() > 0 {
            return Err(Error::new(
                ErrorClass::Comm,
                format!(
                    "{name}: the two groups have a process in common; make them from a split with different colors"
                ),
            ));
        }
        if self.process().is_foreign(&remote) {
            self.process().connections().make_possible();
            // A process that was started later has a place that another may have had.
            self.process().hear_of_members();
        }
        let remote = Remote::of(self.group(), Arc::new(remote), meeting.as_ref());
        let shape = Shape::Between(remote);
        let group = Arc::clone(self.group());
        Ok(Self::assemble(self.process(), context, group, shape)
            .expect("a member of its own group"))
    }

    /// Tells all members why the root has failed, whose text has so many bytes: the root has its error, the others get the text. They
    /// may end before the root has said it.
    pub(super) fn spread_failure(
        &self,
        name: &'static str,
        root: u32,
        failure: Option<Error>,
        length: u32,
    ) -> Result<std::result::Result<Error, String>> {
        let text = failure.as_ref().map(|error| error.text().as_bytes());
        let mut text = text.unwrap_or_default().to_vec();
        text.resize(length as usize, 0);
        self.spread(name, &mut text, root)?;
        Ok(failure.ok_or_else(|| String::from_utf8_lossy(&text).into_owned()))
    }

    /// The leaders' part: context, and the other group as bytes.
    fn meet_leader(&self, bridge: Option<Bridge<'_>>) -> Result<RemoteLeader> {
        let Some(bridge) = bridge else {
            return Err(Error::new(
                ErrorClass::Comm,
                format!("{CREATE}: the local leader needs a peer communicator"),
            ));
        };
        let (me, other) = (
            self.process().me(),
            bridge.comm.target(bridge.remote_leader)?,
        );
        if me == other {
            return Err(Error::new(
                ErrorClass::Comm,
                format!(
                    "{CREATE}: the local and the remote leader are the same process, rank {} of the peer communicator; the two groups must have no process in common",
                    bridge.remote_leader
                ),
            ));
        }
        // Two jobs have numbers in common for what they have met for alone.
        let meeting = bridge.comm.meeting();
        let number = |peer: Peer| meeting.map_or(peer.0, |meeting| meeting.number_of(peer));
        let draws = number(me) < number(other);
        let mut own = self.list_of(self.group(), meeting);
        let strange = match &own {
            None => Err(not_of_meeting(CREATE)),
            Some(_) => Ok(0),
        };
        let drawn = match draws {
            true => strange.and_then(|_| bridge.comm.draw_context(0)),
            false => strange,
        };
        let ours = match &drawn {
            Ok(context) => Greeting {
                context: *context,
                size: self.size(),
            },
            Err(error) => Greeting::of_failure(error),
        };
        let mut theirs = [0; Greeting::BYTES];
        let met = bridge.exchange(&mut ours.to_bytes(), &mut theirs);
        let theirs = Greeting::from_bytes(theirs);
        if let Err(error) = met {
            return Err(drawn.err().unwrap_or(error));
        }
        if ours.size == 0 || theirs.size == 0 {
            return Err(bridge.exchange_failures(drawn.err(), theirs));
        }
        let most = meeting.map_or(self.process().peers(), |meeting| meeting.size());
        if theirs.size > most {
            return Err(Error::new(
                ErrorClass::Comm,
                format!(
                    "{CREATE}: the remote leader names a group of {} processes in a job of {}; check that both leaders make the same call",
                    theirs.size, most
                ),
            ));
        }
        let mut list = vec![0; theirs.size as usize * 4];
        bridge.exchange(own.get_or_insert_default(), &mut list)?;
        let context = if draws { ours.context } else { theirs.context };
        let size = theirs.size;
        Ok(RemoteLeader::ThisJob(Greeting { context, size }, list))
    }

    /// `MPI_Intercomm_merge`: both groups in one, that with `high` behind the other; if both or none
    /// say so, in an order that both sides know. What counts is what rank 0 of each side says.
    ///
    /// # Errors
    /// `Comm` for an intracommunicator; when no context is left, or a member is lost.
    pub fn merge(&self, high: bool) -> Result<Arc<Self>> {
        let Some(remote) = self.remote() else {
            return Err(Error::new(
                ErrorClass::Comm,
                format!("{MERGE}: the communicator has one group only; it is there already"),
            ));
        };
        let mut highs = [u8::from(high), 0];
        self.meet(MERGE, &mut highs, 1)?;
        let context = self.agree_on_context(MERGE)?;
        let local_first = match (highs[0] != 0, highs[1] != 0) {
            (one, two) if one == two => remote.local_is_first,
            (high, _) => !high,
        };
        let group = if local_first {
            self.group().union(&remote.group)
        } else {
            remote.group.union(self.group())
        };
        Ok(self
            .relative(context, Arc::new(group))
            .expect("a member of one of the two"))
    }

    /// The members of the (local) group, as they are told within a job.
    pub(super) fn list_of_group(&self) -> Vec<u8> {
        let members = self.group().members();
        members.flat_map(|peer| peer.0.to_le_bytes()).collect()
    }

    /// The members of a group, as they are told where a meeting's numbers are meant; `None` if one takes no part in it.
    fn list_of(&self, group: &Group, meeting: Option<&Arc<Meeting>>) -> Option<Vec<u8>> {
        let Some(meeting) = meeting else {
            // Of other jobs nobody else knows who is meant.
            return (self.meeting().is_none()).then(|| self.list_of_group());
        };
        let numbers = group.members().map(|peer| meeting.number_of(peer));
        let numbers: Vec<u32> = numbers.collect();
        let all_take_part = !numbers.contains(&u32::MAX);
        all_take_part.then(|| {
            numbers
                .iter()
                .flat_map(|number| number.to_le_bytes())
                .collect()
        })
    }

    pub(crate) fn check_intra(&self, name: &str) -> Result<()> {
        if self.remote().is_none() {
            return Ok(());
        }
        Err(Error::new(
            ErrorClass::Comm,
            format!(
                "{name} needs a communicator of one group, and this is an intercommunicator; merge its two groups with {MERGE} first"
            ),
        ))
    }
}

impl Bridge<'_> {
    /// Bytes to the other leader, bytes from it; apart from what the program sends, as is what
    /// `MPI_Comm_create_group` sends. The tag tells creations apart.
    fn exchange(&self, out: &mut [u8], into: &mut [u8]) -> Result<()> {
        let (context, tag) = (self.comm.context() | 1, GROUP_TAG | self.tag);
        let other = self.comm.target(self.remote_leader)?;
        let mut engine = self.comm.lock();
        let receive = Buffer::untyped(buffer::region_of(into));
        let receive = engine.start_receive(receive, context, Some(other), Some(tag), None)?;
        let send = Buffer::untyped(buffer::region_of(out));
        let sent = match engine.start_send(SendMode::Standard, send, context, other, tag) {
            Ok(None) => Ok(()),
            Ok(Some(send)) => engine.finish(send).map(drop),
            Err(error) => {
                engine.cancel(receive)?;
                Err(error)
            }
        };
        // Even then: the receive must not outlive its buffer.
        let received = engine.finish(receive).map(drop);
        sent.and(received)
    }
}

impl Bridge<'_> {
    /// One of the leaders has failed, or both have: each hears why the other one has. The error of this one: its own, if it has one.
    fn exchange_failures(&self, own: Option<Error>, theirs: Greeting) -> Error {
        let ours = own.as_ref().map(|error| error.text().as_bytes().to_vec());
        let most = if theirs.size == 0 { theirs.context } else { 0 };
        let mut text = vec![0; most as usize];
        let met = self.exchange(&mut ours.unwrap_or_default(), &mut text);
        own.or(met.err()).unwrap_or_else(|| {
            let reason = String::from_utf8_lossy(&text);
            Error::new(
                ErrorClass::Comm,
                format!(
                    "{CREATE}: the remote leader, rank {} of the peer communicator, got: {reason}",
                    self.remote_leader
                ),
            )
        })
    }
}

fn numbers_of(list: &[u8]) -> impl Iterator<Item = u32> {
    list.chunks_exact(4)
        .map(|word| u32::from_le_bytes(word.try_into().expect("four bytes")))
}

/// Processes of two jobs are to be in one communicator that have not been connected.
#[cold]
fn not_of_meeting(name: &str) -> Error {
    Error::new(
        ErrorClass::Comm,
        format!(
            "{name}: the groups have processes of two jobs that have not been connected to each other; let all of them take part in \
             MPI_Comm_accept and MPI_Comm_connect, and use a communicator that comes of it as the peer communicator"
        ),
    )
}
