//! Weft's launcher, as a rank sees it.

use std::io::ErrorKind;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::{Arc, Mutex};

use weft_mpi::counters::Counters;
use weft_sys::{MemoryFile, cores, descriptor, lifeline, process};

use super::control_socket::ControlSocket;

use super::environment::{Names, RankEnvironment, VARIABLES};
use super::hosts::{HostMap, name_of_this_host};
use super::{BootstrapError, CounterTeller, Launcher, pmi};
use crate::binding::parse_ranges;
use crate::control::{Answer, Message, Notice};
use crate::inspection::counters::CounterPlaces;
use crate::job_request::{JobAnswer, JobRequest, World};
use weft_mpi::waits::RankWaits;
use weft_secure::Key;

/// A rank that our own launcher started.
#[derive(Debug)]
pub struct Builtin {
    environment: RankEnvironment,
    /// Of this process's world.
    hosts: HostMap,
    /// Of the ranks that the job started with.
    job_hosts: HostMap,
    /// `None` if all ranks are on one host.
    key: Option<Key>,
    /// `None` if it is one of those that the job starts with.
    world: Option<World>,
    segment: Mutex<Option<OwnedFd>>,
    control: Arc<ControlSocket>,
    /// Kept open: when its other end closes, the kernel ends us.
    _lifeline: OwnedFd,
}

impl Builtin {
    /// Takes over the descriptors that the launcher has left open.
    pub fn join(environment: RankEnvironment) -> Result<Self, BootstrapError> {
        let take = |number: RawFd| {
            descriptor::inherited(number).map_err(|error| gone(&environment, &error.to_string()))
        };
        let segment = take(environment.job)?;
        // Not just open: the very thing. A program in between may have closed it and opened another.
        let segment = MemoryFile::adopt_of_job(segment)
            .map_err(|error| gone(&environment, &error.to_string()))?
            .into_descriptor();
        let control = take(environment.control)?;
        let lifeline = take(environment.lifeline)?;
        come_to_cores();
        leave_pmi();
        lifeline::tie(&lifeline).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => taken(&environment, &error),
            _ => gone(&environment, &error.to_string()),
        })?;
        let mut rank = Self {
            environment,
            hosts: HostMap::single(environment.size, &name_of_this_host()),
            job_hosts: HostMap::single(environment.size, &name_of_this_host()),
            key: None,
            world: None,
            segment: Mutex::new(Some(segment)),
            control: Arc::new(ControlSocket::new(control)),
            _lifeline: lifeline,
        };
        let several = match environment.place {
            Some(place) => {
                rank.learn_world(place.number)?;
                place.several_hosts
            }
            // Ranks of a job on one host have nothing to ask.
            None => environment.local_size != environment.size,
        };
        if several {
            let first = rank.job_hosts.size();
            let (key, hosts) = ask_hosts(first, |question| rank.ask(question))?;
            (rank.job_hosts, rank.key) = (hosts, Some(key));
            rank.hosts = match &rank.world {
                None => rank.job_hosts.clone(),
                Some(world) => world
                    .hosts(&rank.job_hosts)
                    .ok_or_else(|| not_understood(environment.rank))?,
            };
        }
        Ok(rank)
    }

    /// Learns with whom this process was started, later than others.
    fn learn_world(&mut self, number: u32) -> Result<(), BootstrapError> {
        let rank = self.environment.rank;
        let JobAnswer::World(world) = self.ask_job(&JobRequest::World)? else {
            return Err(not_understood(rank));
        };
        let own = world.members.get(rank as usize);
        if own != Some(&number) || world.members.len() != self.environment.size as usize {
            return Err(not_understood(rank));
        }
        self.job_hosts = HostMap::single(world.first, &name_of_this_host());
        self.world = Some(world);
        Ok(())
    }
}

/// Goes to the cores near which the launcher has started this rank, before memory is taken that peers read. Nothing keeps it there,
/// and what the kernel refuses is left as it is.
fn come_to_cores() {
    let near = std::env::var(Names::CORES).ok();
    if let Some(near) = near.and_then(|near| parse_ranges(&near).ok()) {
        let _ = cores::come_to(&near);
    }
}

/// Keeps the way for libraries that speak PMI from what this rank starts: that is no rank.
fn leave_pmi() {
    let number = std::env::var(pmi::DESCRIPTOR).ok();
    if let Some(number) = number.and_then(|number| number.parse().ok()) {
        let _ = descriptor::inherited(number);
    }
}

impl Builtin {
    /// Asks the launcher, and waits for the answer.
    fn ask(&self, question: &Message) -> Result<Answer, BootstrapError> {
        self.ask_in_pieces(std::slice::from_ref(question))
    }

    /// As [`ask`](Self::ask), with a question of several messages.
    fn ask_in_pieces(&self, question: &[Message]) -> Result<Answer, BootstrapError> {
        let answer = self.control.ask(question);
        let answer = answer.map_err(|error| gone(&self.environment, &error.to_string()))?;
        answer.ok_or_else(|| not_understood(self.environment.rank))
    }
}

fn not_understood(rank: u32) -> BootstrapError {
    BootstrapError::new(format!(
        "the launcher's answer to rank {rank} cannot be understood: mpiexec and the library must be of the same \
         release of Weft"
    ))
}

/// Asks where the ranks of a job are, part by part.
fn ask_hosts(
    ranks: u32,
    ask: impl Fn(&Message) -> Result<Answer, BootstrapError>,
) -> Result<(Key, HostMap), BootstrapError> {
    let mut text = String::new();
    loop {
        let answer = ask(&Message::AskHosts { from: text.len() })?;
        let Answer::Hosts { key, total, part } = answer else {
            return Err(unexpected("where the other ranks are", &answer));
        };
        text += &part;
        if text.len() >= total {
            let hosts = HostMap::decode(&text, ranks).filter(|hosts| hosts.size() == ranks);
            let hosts = hosts.ok_or_else(|| {
                BootstrapError::new(format!(
                    "the launcher's list of where {ranks} ranks are cannot be understood: mpiexec and the \
                     library must be of the same release of Weft"
                ))
            })?;
            return Ok((key, hosts));
        }
        if part.is_empty() {
            return Err(BootstrapError::new(format!(
                "the launcher told {} of {total} bytes of where the ranks are, and no more",
                text.len()
            )));
        }
    }
}

/// The launcher has answered something else.
fn unexpected(asked: &str, answer: &Answer) -> BootstrapError {
    BootstrapError::new(match answer {
        Answer::Refused { reason } => reason.clone(),
        other => format!(
            "the launcher was asked {asked} and answered {other:?}: mpiexec and the library must be of \
             the same release of Weft"
        ),
    })
}

/// The variables are there, the launcher is not.
fn gone(environment: &RankEnvironment, reason: &str) -> BootstrapError {
    BootstrapError::new(format!(
        "the environment says that this process is rank {} of {} of a Weft job, but the way to its \
         launcher is gone: {reason}. A program between mpiexec and this one has closed the \
         descriptors (in Python: subprocess with close_fds=False keeps them), or the variables were \
         kept from an earlier job; remove all variables named WEFT_… to run the program alone",
        environment.rank, environment.size
    ))
}

/// Another process is this rank.
fn taken(environment: &RankEnvironment, reason: &std::io::Error) -> BootstrapError {
    BootstrapError::new(format!(
        "a second process claims to be rank {} of {}: {reason}. One process of each rank may \
         initialise MPI; start further ones with mpiexec -n",
        environment.rank, environment.size
    ))
}

impl Launcher for Builtin {
    fn variables(&self) -> &'static [&'static str] {
        VARIABLES
    }

    fn rank(&self) -> u32 {
        self.environment.rank
    }

    fn appnum(&self) -> u32 {
        self.environment.appnum
    }

    fn hosts(&self) -> &HostMap {
        &self.hosts
    }

    fn job_hosts(&self) -> &HostMap {
        &self.job_hosts
    }

    fn is_singleton(&self) -> bool {
        false
    }

    fn segment(&self) -> Option<OwnedFd> {
        self.segment.lock().ok()?.take()
    }

    fn key(&self) -> Option<Key> {
        self.key.clone()
    }

    fn put(&self, name: &str, value: &[u8]) -> Result<(), BootstrapError> {
        let (name, value) = (name.to_owned(), value.to_vec());
        match self.ask(&Message::Put { name, value })? {
            Answer::Taken => Ok(()),
            other => Err(unexpected("to keep a value", &other)),
        }
    }

    fn fence(&self) -> Result<(), BootstrapError> {
        match self.ask(&Message::Fence)? {
            Answer::Taken => Ok(()),
            other => Err(unexpected("to wait for all ranks", &other)),
        }
    }

    fn get(&self, rank: u32, name: &str) -> Result<Option<Vec<u8>>, BootstrapError> {
        let name = name.to_owned();
        match self.ask(&Message::Get { rank, name })? {
            Answer::Value(value) => Ok(value),
            other => Err(unexpected("for a value", &other)),
        }
    }

    fn universe(&self) -> u32 {
        self.environment.universe.unwrap_or(self.environment.size)
    }

    fn later(&self) -> Option<&World> {
        self.world.as_ref()
    }

    fn process_slot(&self) -> u32 {
        let place = self.environment.place;
        place.map_or_else(|| self.local_rank(), |place| place.slot)
    }

    fn ask_job(&self, request: &JobRequest) -> Result<JobAnswer, BootstrapError> {
        let pieces = Message::pieces(request);
        match self.ask_in_pieces(&pieces)? {
            Answer::Job(answer) => Ok(answer),
            other => Err(unexpected("something of the job", &other)),
        }
    }

    fn connected(&self, connected: bool) {
        self.control.tell_connected(connected);
    }

    fn counters(&self) -> Option<CounterTeller> {
        let control = Arc::clone(&self.control);
        Some(Box::new(move |counters: &Counters| {
            let places = CounterPlaces::new(process::id(), &counters.addresses());
            control.tell(Notice::Counters(places));
        }))
    }

    fn inquires(&self) -> bool {
        true
    }

    fn tells_ends(&self) -> bool {
        true
    }

    fn waits(&self, waits: &RankWaits) {
        self.control.tell_waits(waits);
    }

    fn handles_losses(&self) {
        self.control.tell_and_wait(Notice::HandlesLosses);
    }

    // If the launcher is gone, the lifeline ends us at this very moment: nothing to be done about it.
    fn initialised(&self) {
        self.control.tell(Notice::Initialised);
    }

    fn finalised(&self) {
        self.control.tell(Notice::Finalised);
    }

    fn absent(&self) -> bool {
        self.control.tell(Notice::Absent);
        true
    }

    fn ends_by_loss(&self) {
        self.control.tell(Notice::EndsByLoss);
    }

    fn abort(&self, code: i32, text: &str) {
        let text = text.to_owned();
        self.control.tell(Notice::Abort { code, text });
    }
}

#[cfg(test)]
mod tests {
    use super::super::join_from;

    #[test]
    fn nothing_set_is_a_job_of_one() {
        let launcher = join_from(&|_| None).expect("alone");
        assert!(launcher.is_singleton() && launcher.later().is_none());
        assert!(
            launcher.segment().is_some(),
            "with room for those that it may start"
        );
        assert_eq!((launcher.rank(), launcher.size()), (0, 1));
    }

    /// However many ranks there are: of each answer, as much as a socket takes.
    #[test]
    fn hosts_of_any_number_of_ranks_are_told() {
        use super::*;
        use crate::control::ANSWER;
        use weft_sys::descriptor::{Carries, socket_pair};
        use weft_sys::passing;
        const RANKS: u32 = 9000;
        let name = |rank: u32| format!("{rank}-é{}", "x".repeat(50));
        let hosts = HostMap::group((0..RANKS).map(|rank| (rank, name(rank))));
        let all = hosts.encode();
        assert!(all.len() > 8 * ANSWER, "{}", all.len());
        let key = Key::random().expect("random");
        let (launcher, rank) = socket_pair(Carries::Messages).expect("descriptors are left");
        let ask = |question: &Message| {
            let lost = |error: std::io::Error| BootstrapError::new(error.to_string());
            question.send(&rank).map_err(lost)?;
            let mut bytes = vec![0; ANSWER];
            let (count, _) = passing::receive(&launcher, &mut bytes).map_err(lost)?;
            let Some(Message::AskHosts { from }) = Message::decode(&bytes[..count]) else {
                panic!("another question");
            };
            // As the launcher does: what does not go at once does not go at all.
            let answer = Answer::hosts(&key, &all, from).encode();
            assert!(answer.len() <= ANSWER);
            passing::send(&launcher, &answer, &[]).map_err(lost)?;
            let (count, _) = passing::receive(&rank, &mut bytes).map_err(lost)?;
            Ok(Answer::decode(&bytes[..count]).expect("an answer"))
        };
        let (told, found) = ask_hosts(RANKS, ask).expect("all of it");
        assert!(told == key && found == hosts);
    }

    #[test]
    fn a_closed_or_wrong_descriptor_is_a_clear_error() {
        // Descriptor 0 is open, but no memory file; the other number is open nowhere.
        for number in ["0", "123456"] {
            let error = join_from(&|name| {
                Some(match name {
                    "WEFT_RANK" | "WEFT_LOCAL_RANK" | "WEFT_APPNUM" => "0".to_owned(),
                    name if name.ends_with("_FD") => number.to_owned(),
                    "WEFT_PLACE" | "WEFT_UNIVERSE" | "WEFT_CHECK" => return None,
                    name if name.starts_with("WEFT_") => "2".to_owned(),
                    _ => return None,
                })
            })
            .expect_err("no launcher there")
            .to_string();
            assert!(
                error.contains("rank 0 of 2") && error.contains("WEFT_"),
                "{error}"
            );
        }
    }
}
