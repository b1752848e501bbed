//! Caller: has launchers started on all hosts of the job, has its own loss watched for, or searches for deadlocks.

use std::time::{Duration, Instant};

use weft_sys::poll;

use super::{Answered, Call, CalledHosts, ListenAddressOf};
use crate::hosts::dial::dial;
use crate::hosts::link::{Link, LinkError};
use crate::hosts::listen_addresses;

/// How long all of it may take once all hosts have answered: longer than the head waits for agents.
const PATIENCE: Duration = Duration::from_secs(40);
/// How long it takes at most to be refused by hosts at which nobody listens.
const REFUSED: Duration = Duration::from_secs(2);
/// How long a call may take to leave.
const LEAVE: Duration = Duration::from_secs(5);

/// A host that was called.
struct Called {
    /// For people.
    name: String,
    link: Link,
}

/// Has launchers started on all hosts. `place` returns the address at which the lowest rank of the given host can be
/// called.
///
/// # Errors
/// The host that cannot be called, or the reason why it has no launcher.
pub fn call_all(hosts: &CalledHosts, place: &dyn Fn(u32) -> Option<Vec<u8>>) -> Result<(), String> {
    // Nothing is begun before all are there.
    let called: Result<Vec<_>, _> = (0..hosts.map.count())
        .map(|host| Called::call(hosts, host, place))
        .collect();
    let mut called = called?;
    let until = Instant::now() + PATIENCE;
    let Some(first) = called.first_mut() else {
        return Err("the job has no hosts".into());
    };
    first.say(&Call::Begin);
    let head = match first.wait(until)? {
        Answered::Begun { head } => head,
        other => return Err(first.refused(other)),
    };
    for host in &mut called {
        let head = head.clone();
        host.say(&Call::Join { head });
    }
    // Whichever refuses first says why.
    while !called.is_empty() {
        let mut entries: Vec<_> = called.iter().map(|host| host.link.reading()).collect();
        let left = until.saturating_duration_since(Instant::now());
        let found = poll::wait(&mut entries, Some(left)).map_err(|error| error.to_string())?;
        let ready = entries.iter().position(poll::PollFd::is_ready);
        drop(entries);
        let Some(ready) = ready.filter(|_| found > 0) else {
            return Err(called[0].lost(&LinkError::Silent(PATIENCE)));
        };
        match called[ready].hear()? {
            None => {}
            Some(Answered::Joined) => drop(called.swap_remove(ready)),
            Some(other) => return Err(called[ready].refused(other)),
        }
    }
    Ok(())
}

/// Calls rank 0 as the lowest rank of a host: each is to miss the other.
///
/// # Errors
/// Why it cannot be called.
pub fn call_to_watch(
    hosts: &CalledHosts,
    rank: u32,
    place: &dyn Fn(u32) -> Option<Vec<u8>>,
) -> Result<Link, String> {
    let mut first = Called::call(hosts, 0, place)?;
    first.say(&Call::Watch { rank });
    Ok(first.link)
}

/// The rank that judges whether a job is in a deadlock.
pub enum Judge {
    /// This rank.
    This,
    /// The rank at the other end.
    Other(Box<Link>),
}

/// Calls, as the rank that searches for deadlocks on its host, the one that judges: the lowest rank of the first host that can be called.
/// That may be this one, if it `may_judge`. `None`: there is none, or it does not answer.
pub fn call_to_search(
    hosts: &CalledHosts,
    rank: u32,
    may_judge: bool,
    place: &ListenAddressOf,
) -> Option<Judge> {
    let begun = Instant::now();
    for host in 0..hosts.map.count() {
        if hosts.called(host) == rank {
            match may_judge {
                true => return Some(Judge::This),
                false => continue,
            }
        }
        if let Ok(mut called) = Called::call(hosts, host, place) {
            called.say(&Call::Search { rank });
            return Some(Judge::Other(Box::new(called.link)));
        }
        // One that has ended with MPI refuses at once; there is no second judge beside one that is slow.
        if begun.elapsed() > REFUSED {
            return None;
        }
    }
    None
}

impl Called {
    fn call(
        hosts: &CalledHosts,
        host: u32,
        place: &dyn Fn(u32) -> Option<Vec<u8>>,
    ) -> Result<Self, String> {
        let rank = hosts.called(host);
        let name = format!("host {} (rank {rank})", hosts.map.name(host));
        let place = place(rank).and_then(|place| String::from_utf8(place).ok());
        let Some(addresses) = place.as_deref().and_then(listen_addresses::parse) else {
            return Err(format!(
                "{name} has not said where it can be called: it has no network that other hosts reach, or no thread could be started there"
            ));
        };
        match dial(&hosts.key, &addresses) {
            Ok(link) => Ok(Self { name, link }),
            Err(tried) => Err(format!(
                "{name} cannot be called ({tried}): it has finalised MPI, or the network between the hosts does not let connections \
                 through"
            )),
        }
    }

    /// One that is gone does not hear it, which shows when its answer is waited for.
    fn say(&mut self, call: &Call) {
        self.link.say(call);
        self.link.drain(LEAVE);
    }

    /// What it has answered, if it has.
    fn hear(&mut self) -> Result<Option<Answered>, String> {
        let filled = self.link.fill();
        let next = self.link.next();
        match (next, filled) {
            (Ok(Some(answered)), _) => Ok(Some(answered)),
            (Ok(None), Ok(())) => Ok(None),
            (Err(error), _) | (Ok(None), Err(error)) => Err(self.lost(&error)),
        }
    }

    fn wait(&mut self, until: Instant) -> Result<Answered, String> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let waited = poll::wait(&mut [self.link.reading()], Some(left));
            if waited.map_err(|error| error.to_string())? == 0 {
                return Err(self.lost(&LinkError::Silent(PATIENCE)));
            }
            if let Some(answered) = self.hear()? {
                return Ok(answered);
            }
        }
    }

    fn lost(&self, error: &LinkError) -> String {
        let name = &self.name;
        match error {
            LinkError::Silent(patience) => {
                let seconds = patience.as_secs();
                format!("{name} has started no launcher within {seconds} s")
            }
            error => format!("{name} has started no launcher: {error}"),
        }
    }

    fn refused(&self, answered: Answered) -> String {
        let name = &self.name;
        match answered {
            Answered::Refused { reason } => format!("{name} has started no launcher: {reason}"),
            other => format!("{name} has started no launcher, and answers {other:?}"),
        }
    }
}
