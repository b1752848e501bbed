//! Ports: groups that share no communicator connect (MPI 5.0, section 11.9). A port is the number of a process in the job
//! and a number of its own; only the engine listens.
//!
//! ```text
//!   connecting root                              accepting root
//!   call: size, serial, who   ── number ──►      receives from anybody under that number
//!   receives                  ◄── serial ──      greeting: context, size; or a refusal
//!   its group, or nothing     ── serial ──►      receives from that one
//!   receives                  ◄── serial ──      its group
//! ```
//!
//! A caller whose call cannot come to its end, as a member of its group is lost, withdraws it: the message with its group is empty,
//! sent whether it was greeted or not. Who accepts waits for the next caller then.
//!
//! Otherwise each root tells its group, as in `MPI_Intercomm_create`. The caller draws the serial, so that simultaneous calls
//! of one process are told apart. [`other_jobs`](super::other_jobs) connects groups of two jobs.

use std::sync::Arc;
use std::time::Duration;

use weft_atomic::Ordering;
use weft_fabric::Peer;

use super::inter::{Greeting, RemoteLeader};
use super::other_jobs::Caller;
use super::{Comm, Line, PORTS};
use crate::Buffer;
use crate::buffer;
use crate::engine::{Engine, Guard, RequestId, WaitFor};
use crate::error::{Error, ErrorClass, Result};
use crate::group::Group;
use crate::p2p::SendMode;
use crate::process::Process;

const ACCEPT: &str = "MPI_Comm_accept";
const CONNECT: &str = "MPI_Comm_connect";
const SPAWN: &str = "MPI_Comm_spawn";

/// A port, as its name says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Port {
    /// The process that accepts there.
    pub owner: Peer,
    /// Its number: below 2^30, and not given again.
    pub number: u32,
}

/// A world that was started, and is to come by a port.
pub struct AwaitedWorld<'a> {
    /// By which it comes.
    pub port: Port,
    /// Its number.
    pub number: u32,
    /// Asks the launcher why the other side does not come, if it does not. Called when an
    /// [absence](weft_fabric::Absences) is reported that may be of this world.
    pub missing: &'a dyn Fn() -> Option<String>,
}

impl AwaitedWorld<'_> {
    /// What it means that the one who has called for that world cannot be answered: if it is lost, the world is not there, as if it
    /// had not called.
    fn lost_in_the_middle(&self, error: Error) -> Error {
        match error.class() {
            ErrorClass::ProcFailed => {
                let reason = (self.missing)().unwrap_or_else(|| error.text().to_owned());
                Error::new(ErrorClass::Spawn, format!("{SPAWN}: {reason}"))
            }
            _ => error,
        }
    }
}

impl std::fmt::Debug for AwaitedWorld<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "AwaitedWorld({} at {:?})", self.number, self.port)
    }
}

/// How long a world is waited for until it is asked for again, where the absence that is told may be that of another one.
const AGAIN: Duration = Duration::from_millis(100);

/// First message of who connects.
#[derive(Clone, Copy, Debug)]
struct Call {
    /// Processes of its group.
    size: u32,
    /// Names what follows.
    serial: u32,
    /// The caller.
    caller: Peer,
}

impl Call {
    const BYTES: usize = 12;

    fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let words = [self.size, self.serial, self.caller.0];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        Self {
            size: word(0),
            serial: word(4),
            caller: Peer(word(8)),
        }
    }
}

/// Serials of calls are below this.
const SERIALS: u32 = 1 << 29;

/// The serial of a process's first call. Processes of later worlds may have the number in the job that another one had before, of which a
/// call may lie there that nobody takes: they begin elsewhere.
pub(crate) fn first_call(world: u32) -> u32 {
    /// So many worlds, one after the other, begin at different serials.
    const STARTS: u32 = 1024;
    world % STARTS * (SERIALS / STARTS)
}

impl Comm {
    /// `MPI_Comm_accept`: an intercommunicator with a group that connects to a port of the root. `port` matters only
    /// there; its error is returned at all ranks.
    ///
    /// # Errors
    /// `Port` if the root has none; `Comm` for an intercommunicator, or if the groups have a process in common.
    pub fn accept(&self, root: u32, port: Option<Result<Port>>) -> Result<Arc<Self>> {
        self.check_intra(ACCEPT)?;
        self.target(root)?;
        let met = (self.rank() == root).then(|| {
            let port = named(ACCEPT, port)?;
            loop {
                let mut call = [0; Call::BYTES];
                let caller = self.next_caller(ACCEPT, (PORTS, port.number), &mut call)?;
                let Caller::OtherJob(way) = caller else {
                    match self.accept_call(call)? {
                        Some(met) => return Ok(met),
                        None => continue,
                    }
                };
                // One that has given up before it was accepted is no caller.
                if let Some(met) = self.greet_other_job(ACCEPT, way)? {
                    return Ok(met);
                }
            }
        });
        self.join_group(ACCEPT, ErrorClass::Port, root, met, true)
    }

    /// `MPI_Comm_connect`: an intercommunicator with the group whose root accepts at a port. `port` matters only at the
    /// root; its error is returned at all ranks.
    ///
    /// # Errors
    /// `Port` if the root has none, or the port is closed; `Comm` as for [`Self::accept`].
    pub fn connect_to(&self, root: u32, port: Option<Result<Port>>) -> Result<Arc<Self>> {
        self.check_intra(CONNECT)?;
        self.target(root)?;
        let met = (self.rank() == root).then(|| {
            let port = named(CONNECT, port)?;
            self.call(port)
        });
        self.join_group(CONNECT, ErrorClass::Port, root, met, false)
    }

    /// The same at the root, if the port is one of another job, to which this is the way.
    ///
    /// # Errors
    /// `Port` if the other job does not accept, or cannot be reached by all. When a member of this communicator is lost, or it is
    /// revoked: the call is withdrawn then.
    pub fn connect_to_other_job(&self, root: u32, way: Box<dyn Line>) -> Result<Arc<Self>> {
        self.check_intra(CONNECT)?;
        self.target(root)?;
        let met = self.greet_other_job(CONNECT, way);
        let met = met.and_then(|met| met.ok_or_else(not_accepted));
        self.join_group(CONNECT, ErrorClass::Port, root, Some(met), false)
    }

    /// The root of another job; `None` if it is gone.
    fn greet_other_job(&self, name: &str, mut way: Box<dyn Line>) -> Result<Option<RemoteLeader>> {
        if self.meeting().is_some() {
            return Err(Error::new(
                ErrorClass::Comm,
                format!(
                    "{name}: the communicator has come of a connection with another job, and only processes of one job can be \
                     connected to a further one; use a communicator of this job's own"
                ),
            ));
        }
        let terms = self.exchange_terms(name, &mut *way)?;
        Ok(terms.map(|terms| RemoteLeader::OtherJob { terms, way }))
    }

    /// `MPI_Comm_spawn`, after the root has had processes started: an intercommunicator with them. `asked` matters at
    /// the root only: how they come, or why none were started, and a number for each process that was wanted, which all
    /// members get.
    ///
    /// # Errors
    /// `Spawn` if none were started, or not all of them have begun with MPI; as for [`Self::accept`].
    pub fn spawned(
        &self,
        root: u32,
        asked: Option<(Result<AwaitedWorld<'_>>, Vec<u32>)>,
    ) -> Result<(Vec<u32>, Result<Arc<Self>>)> {
        self.check_intra(SPAWN)?;
        self.target(root)?;
        let (awaited, mut numbers) = match asked {
            Some((awaited, numbers)) => (Some(awaited), numbers),
            None => (None, Vec::new()),
        };
        let mut head = [0; 12];
        let reason = match &awaited {
            Some(Err(error)) => error.text().len(),
            _ => 0,
        };
        let started = matches!(awaited, Some(Ok(_)));
        let words = [u32::from(started), numbers.len() as u32, reason as u32];
        for (place, word) in head.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        self.spread(SPAWN, &mut head, root)?;
        let word = |at: usize| u32::from_le_bytes(head.as_chunks::<4>().0[at]);
        let (started, count, reason) = (word(0) != 0, word(1) as usize, word(2));
        let mut list: Vec<u8> = numbers
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect();
        list.resize(count * 4, 0);
        self.spread(SPAWN, &mut list, root)?;
        numbers = list
            .as_chunks::<4>()
            .0
            .iter()
            .map(|word| u32::from_le_bytes(*word))
            .collect();
        if started {
            let met = awaited.map(|awaited| {
                let world = awaited?;
                let call = self.call_of_world(&world)?;
                let met = self.accept_call(call);
                let met = met.and_then(|met| met.ok_or_else(withdrawn));
                met.map_err(|error| world.lost_in_the_middle(error))
            });
            let made = self.join_group(SPAWN, ErrorClass::Spawn, root, met, true);
            return Ok((numbers, made));
        }
        let failure = awaited.and_then(Result::err);
        let heard = self.spread_failure(SPAWN, root, failure, reason)?;
        let error = heard.unwrap_or_else(|reason| {
            let text = format!(
                "{SPAWN}: the root, rank {root}, could not start the processes: it got: {reason}"
            );
            Error::new(ErrorClass::Spawn, text)
        });
        Ok((numbers, Err(error)))
    }

    /// The call of a world that was started; `Spawn` if it does not come, and an error as soon as a member of this communicator is
    /// lost: the call could only fail.
    fn call_of_world(&self, world: &AwaitedWorld<'_>) -> Result<[u8; Call::BYTES]> {
        let process = self.process();
        let mut call = [0; Call::BYTES];
        let mut engine = self.lock();
        let request = process.begin_at(&mut engine, PORTS, None, world.port.number, &mut call)?;
        let may_be_missing = || process.bell.absences().include(world.number);
        let mut refusal = engine.wait_for(WaitFor::Requests(&[request]), |engine| {
            if engine.is_over(request) || may_be_missing() {
                return Some(None);
            }
            self.refusal(engine, SPAWN).map(Some)
        });
        while !engine.is_over(request) {
            if refusal.is_none() {
                drop(engine);
                let missing = (world.missing)();
                refusal = missing
                    .map(|reason| Error::new(ErrorClass::Spawn, format!("{SPAWN}: {reason}")));
                engine = self.lock();
            }
            if let Some(error) = refusal {
                return match engine.withdraw(request)? {
                    true => Err(error),
                    false => Ok(call),
                };
            }
            // The absence was that of another world, which has the same bit.
            drop(engine);
            process.look_until(AGAIN, || {
                let engine = self.lock();
                engine.is_over(request) || self.refusal(&engine, SPAWN).is_some()
            });
            engine = self.lock();
            refusal = self.refusal(&engine, SPAWN);
        }
        engine.finish(request)?;
        Ok(call)
    }

    /// Why a collective call cannot come to its end, if a member is lost or the communicator is revoked.
    pub(super) fn refusal(&self, engine: &Engine, name: &str) -> Option<Error> {
        engine.refusal_of(name, self.context(), self.group())
    }

    /// The root of those who accept, when it was called; `None` if the call is withdrawn.
    fn accept_call(&self, call: [u8; Call::BYTES]) -> Result<Option<RemoteLeader>> {
        let process = self.process();
        let Call {
            size,
            serial,
            caller,
        } = Call::from_bytes(call);
        if size == 0 || size > process.peers() || caller.0 >= process.peers() {
            return Err(Error::new(
                ErrorClass::Port,
                format!(
                    "{ACCEPT}: who connects names a group of {size} processes, in a job of at most {}; both sides must \
                     use the same release of Weft",
                    process.peers()
                ),
            ));
        }
        let drawn = process.new_context();
        let ours = Greeting {
            context: *drawn.as_ref().unwrap_or(&0),
            size: if drawn.is_ok() { self.size() } else { 0 },
        };
        process.send_at(PORTS | 1, caller, serial, &mut ours.to_bytes())?;
        let context = drawn?;
        let mut theirs = vec![0; size as usize * 4];
        let mut engine = self.lock();
        let request =
            process.begin_at(&mut engine, PORTS | 1, Some(caller), serial, &mut theirs)?;
        let is_withdrawn = engine.finish(request)?.bytes == 0;
        drop(engine);
        if is_withdrawn {
            return Ok(None);
        }
        process.send_at(PORTS | 1, caller, serial, &mut self.list_of_group())?;
        Ok(Some(RemoteLeader::ThisJob(
            Greeting { context, size },
            theirs,
        )))
    }

    /// The root of those who connect.
    fn call(&self, port: Port) -> Result<RemoteLeader> {
        let process = self.process();
        if port.owner == process.me() {
            return Err(Error::new(
                ErrorClass::Comm,
                format!(
                    "{CONNECT}: the port is one of this process itself, and the two groups must have no process in common; \
                     connect from another process"
                ),
            ));
        }
        if process.first() <= port.owner.0 {
            // Its place may have been another's.
            process.hear_of_members();
        }
        let serial = process.port_calls.fetch_add(1, Ordering::Relaxed) % SERIALS;
        let call = Call {
            size: self.size(),
            serial,
            caller: process.me(),
        };
        process.send_at(PORTS, port.owner, port.number, &mut call.to_bytes())?;
        let greeting = self.greeting_at(port.owner, serial)?;
        if greeting.size == 0 || greeting.size > process.peers() {
            return Err(Error::new(
                ErrorClass::Port,
                format!(
                    "{CONNECT}: the port was closed before its process had accepted, or no context was left there; open a \
                     port and accept before it is closed"
                ),
            ));
        }
        process.send_at(PORTS | 1, port.owner, serial, &mut self.list_of_group())?;
        let mut theirs = vec![0; greeting.size as usize * 4];
        process.receive_at(PORTS | 1, port.owner, serial, &mut theirs)?;
        Ok(RemoteLeader::ThisJob(greeting, theirs))
    }

    /// The greeting of the owner of a port that was called.
    ///
    /// # Errors
    /// When a member of this communicator is lost, or it is revoked: the call is withdrawn then.
    fn greeting_at(&self, owner: Peer, serial: u32) -> Result<Greeting> {
        let process = self.process();
        let mut greeting = [0; Greeting::BYTES];
        let mut engine = self.lock();
        let request =
            process.begin_at(&mut engine, PORTS | 1, Some(owner), serial, &mut greeting)?;
        let refusal = engine.wait_for(WaitFor::Requests(&[request]), |engine| {
            if engine.is_over(request) {
                return Some(None);
            }
            self.refusal(engine, CONNECT).map(Some)
        });
        match refusal {
            None => drop(engine.finish(request)?),
            Some(error) => {
                if engine.withdraw(request)? {
                    drop(engine);
                    // An owner that is lost by now needs no word.
                    _ = process.send_at(PORTS | 1, owner, serial, &mut []);
                    return Err(error);
                }
            }
        }
        Ok(Greeting::from_bytes(greeting))
    }
}

/// The other job does not answer a call.
fn not_accepted() -> Error {
    let text = "the other job has closed the port, has given up, or has ended; look at its own last output";
    Error::new(ErrorClass::Port, text)
}

/// Those who were started have called, and cannot be met.
fn withdrawn() -> Error {
    let text = "the started processes have withdrawn their call, as one of them is lost";
    Error::new(ErrorClass::ProcFailed, text)
}

fn named(name: &str, port: Option<Result<Port>>) -> Result<Port> {
    port.unwrap_or_else(|| {
        Err(Error::new(
            ErrorClass::Port,
            format!("{name}: the root has named no port; pass what MPI_Open_port gave"),
        ))
    })
}

impl Process {
    /// Closes a port of this process: callers that were not accepted are told.
    pub fn close_port(&self, number: u32) {
        let mut engine = self.lock();
        engine.look();
        while let Some(call) = engine.take_small(PORTS, number.cast_signed()) {
            let Ok(call) = <[u8; Call::BYTES]>::try_from(&call[..]) else {
                continue;
            };
            let Call { serial, caller, .. } = Call::from_bytes(call);
            if caller.0 >= self.peers() {
                continue;
            }
            let mut none = Greeting {
                context: 0,
                size: 0,
            }
            .to_bytes();
            let none = Buffer::untyped(buffer::region_of(&mut none));
            // A caller that is lost by now needs no answer.
            let sent = engine.start_send(
                SendMode::Standard,
                none,
                PORTS | 1,
                caller,
                serial.cast_signed(),
            );
            if let Ok(Some(request)) = sent {
                let _ = engine.finish(request);
            }
        }
    }

    /// Sends bytes that belong to no communicator.
    fn send_at(&self, context: u32, to: Peer, number: u32, bytes: &mut [u8]) -> Result<()> {
        let mut engine = self.lock();
        let send = Buffer::untyped(buffer::region_of(bytes));
        let tag = number.cast_signed();
        match engine.start_send(SendMode::Standard, send, context, to, tag)? {
            Some(request) => engine.finish(request).map(drop),
            None => Ok(()),
        }
    }

    /// Receives them.
    fn receive_at(&self, context: u32, from: Peer, number: u32, bytes: &mut [u8]) -> Result<()> {
        let mut engine = self.lock();
        let request = self.begin_at(&mut engine, context, Some(from), number, bytes)?;
        engine.finish(request).map(drop)
    }

    /// Begins to, from anybody if nobody is named, whoever else is lost meanwhile; `bytes` are to stay until the request has ended.
    pub(super) fn begin_at(
        &self,
        engine: &mut Guard<'_>,
        context: u32,
        from: Option<Peer>,
        number: u32,
        bytes: &mut [u8],
    ) -> Result<RequestId> {
        let receive = Buffer::untyped(buffer::region_of(bytes));
        let nobody = Arc::new(Group::of(vec![self.me()]));
        let tag = Some(number.cast_signed());
        engine.start_receive(receive, context, from, tag, Some(nobody))
    }
}
