//! Supervisor of a job: the process that has its ranks started, reads their output, notices failures and ends them all.
//! It decides: events come to it from the [hosts of the ranks](super::rank_hosts).

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use weft_sys::poll::{self, Interest, PollFd};
use weft_sys::process::{self, SIGCHLD, SIGQUIT, SIGSTOP, SIGTERM};
use weft_sys::signal::Signals;

use super::inspection::Inspection;
use super::local::LocalHost;
use super::outcome::{Failure, Outcome};
use super::output::Output;
use super::rank_hosts::{Event, RankHosts, Token, WorldRank};
use super::rank_table::RankTable;
use super::remote::RemoteHosts;
use super::standard_stream::StandardStream;
use crate::adoption::Takeover;
use crate::bootstrap::name_of_this_host;
use crate::exit_status;
use crate::mapping::Allocation;
use crate::options::OnDeath;
use crate::plan::Plan;
use crate::signals::{HANDLED, ends_programs};

/// How long other hosts have to end what they have. They are told, and end it at once; what takes longer
/// are lost ones.
const END: Duration = Duration::from_secs(3);
/// … if they have timelines to send.
const END_WITH_PROFILE: Duration = Duration::from_secs(20);
/// How long ranks may tidy up after a signal before they are killed.
const GRACE: Duration = Duration::from_secs(1);
/// … after SIGTERM, by which batch systems announce the end.
const GRACE_TERM: Duration = Duration::from_secs(3);
/// How long the loss of a rank may come after what follows from it. On this host it is a matter of microseconds, unless
/// the machine is crowded.
const CAUSE: Duration = Duration::from_secs(1);
/// A process that was started from within a program and has not begun with MPI after so long is mentioned: whoever has started it
/// waits, and sees nothing.
const SLOW: Duration = Duration::from_secs(10);
/// The same signal again after so long means: now.
const AGAIN: Duration = Duration::from_millis(300);

/// The job, while it runs.
struct Job<'a> {
    plan: &'a Plan,
    hosts: Box<dyn RankHosts + 'a>,
    ranks: RankTable,
    output: Output,
    signals: Signals,
    /// The liveness pipe of the frontend.
    frontend: OwnedFd,
    outcome: Outcome,
    inspection: Inspection,
    /// A signal was passed on: when it came, and when patience ends.
    leaving: Option<(Instant, Instant)>,
    /// A rank has failed because another one is lost: how long that one is waited for, and the failure.
    consequence: Option<(Instant, u32, Failure)>,
    /// Worlds that may not have begun with MPI, with when to mention that.
    beginning: VecDeque<(Instant, u32)>,
    deadline: Option<Instant>,
}

/// What a wait has found.
struct Found {
    signals: bool,
    orphaned: bool,
    /// The outputs of ranks that can be read, by the number that [`Output`] gives them.
    streams: Vec<usize>,
    hosts: Vec<(Token, bool)>,
    /// Somebody looks at the job.
    inspection: bool,
}

/// Runs the job to its end and answers the exit code. `frontend` closes when the frontend is gone; `input`
/// is what rank 0 reads instead of our standard input; or rank 0 is there already. `launcher` is the process that the
/// user has started.
pub fn run(
    plan: &Plan,
    launcher: u32,
    adopted: Option<Takeover>,
    frontend: OwnedFd,
    input: Option<OwnedFd>,
) -> u8 {
    let mut job = match Job::prepare(plan, launcher, adopted, frontend) {
        Ok(job) => job,
        Err(error) => {
            crate::user_output::tell(format_args!("weft: the job could not be prepared: {error}"));
            return 1;
        }
    };
    let events = job.hosts.start(input);
    job.handle_all(events);
    let orphaned = job.attend();
    // Those that we have to end.
    let running = job.ranks.running();
    if !orphaned {
        job.end_other_hosts();
    }
    let gone = job.kill();
    if orphaned {
        // Nobody is there who could be told.
        let _ = job.write_profile();
        return 128 + 9;
    }
    let code = job.finish(&running, gone);
    job.hosts.part(code);
    code
}

impl<'a> Job<'a> {
    fn prepare(
        plan: &'a Plan,
        launcher: u32,
        adopted: Option<Takeover>,
        frontend: OwnedFd,
    ) -> io::Result<Self> {
        // Out of the frontend's process group and away from its terminal. Fails only if we are that far.
        let _ = rustix::process::setsid();
        process::adopt_orphans()?;
        let signals = Signals::new(&HANDLED)?;
        let (out, error) = (io::stdout(), io::stderr());
        let mut streams = vec![StandardStream::new(out.as_fd())?];
        if !StandardStream::same(out.as_fd(), error.as_fd()) {
            streams.push(StandardStream::new(error.as_fd())?);
        }
        let mut output = Output::new(streams, plan.tags);
        let here = name_of_this_host();
        output.redirect(&plan.output, &plan.rank_places(&here))?;
        let ranks = match adopted {
            Some(_) => RankTable::adopted(plan.ranks()),
            None => RankTable::new(plan.ranks()),
        };
        let hosts: Box<dyn RankHosts + 'a> = match (&plan.allocation, adopted) {
            // Their own launcher has the outputs of those that were there before.
            (_, Some(Takeover::SeveralHosts(hosts))) => Box::new(RemoteHosts::adopt(plan, hosts)?),
            (_, Some(Takeover::ThisHost(job))) => Box::new(LocalHost::adopt(plan, *job)?),
            (Allocation::ThisHost, None) => Box::new(LocalHost::prepare(plan)?),
            (
                Allocation::Started { .. } | Allocation::Joined { .. } | Allocation::Adopted,
                None,
            ) => {
                output.add_remote(plan.ranks());
                Box::new(RemoteHosts::new(plan)?)
            }
        };
        Ok(Self {
            hosts,
            ranks,
            output,
            signals,
            frontend,
            outcome: Outcome::default(),
            inspection: Inspection::new(plan, launcher),
            leaving: None,
            consequence: None,
            beginning: VecDeque::new(),
            deadline: plan
                .timeout
                .and_then(|limit| Instant::now().checked_add(limit)),
            plan,
        })
    }

    /// Puts a line of our own on standard error.
    fn say(&mut self, text: &str) {
        self.output.say(&format!("weft: {text}"));
    }

    /// Attends to the job until all ranks have ended, or all must. True if the frontend is gone.
    fn attend(&mut self) -> bool {
        let mut next = None;
        while !self.outcome.has_failed() || self.leaving.is_some() {
            let now = Instant::now();
            let cause = self.consequence.as_ref().map(|(until, ..)| *until);
            if self.ranks.has_ended() || cause.is_some_and(|until| now >= until) {
                self.stop_looking_for_the_cause();
                if !self.ranks.has_ended() {
                    continue;
                }
                return false;
            }
            if let Some((_, patience)) = self.leaving {
                if now >= patience {
                    return false;
                }
            } else if self.deadline.is_some_and(|deadline| now >= deadline) {
                self.outcome.fail(Failure::Timeout {
                    limit: self.plan.timeout.unwrap_or_default(),
                    running: self.ranks.running(),
                });
                return false;
            }
            let patience = self.leaving.map(|(_, patience)| patience);
            let beginning = self.beginning.front().map(|(when, _)| *when);
            let looks = [
                cause,
                beginning,
                self.hosts.next_look(),
                self.inspection.next_look(),
            ];
            let wake = [next, patience.or(self.deadline)].into_iter().chain(looks);
            let wake = wake.flatten().min();
            let Ok(found) = self.wait(wake) else {
                // Nothing can be waited for: nobody can be attended to.
                self.outcome.fail(Failure::NotStarted {
                    rank: 0,
                    reason: "the system refuses to wait".into(),
                });
                return false;
            };
            if found.orphaned {
                return true;
            }
            for index in found.streams {
                self.output.read(index);
            }
            self.proceed(&found.hosts);
            if found.signals && self.handle_signals() {
                return false;
            }
            let look = self.inspection.next_look();
            if found.inspection || look.is_some_and(|look| look <= Instant::now()) {
                for line in self.inspection.proceed(&mut *self.hosts) {
                    self.say(&line);
                }
            }
            self.report_slow_starts(Instant::now());
            next = self.output.forward(Instant::now());
        }
        false
    }

    /// Mentions worlds that have been started for long and have not begun with MPI, once each.
    fn report_slow_starts(&mut self, now: Instant) {
        while let Some((when, world)) = self.beginning.front().copied()
            && when <= now
        {
            self.beginning.pop_front();
            if let Some(rank) = self.ranks.first_before(world) {
                let (name, seconds) = (self.name(rank), SLOW.as_secs());
                self.say(&format!(
                    "{name} was started {seconds} s ago and has not begun with MPI: MPI_Comm_spawn waits until it calls MPI_Init, begins a \
                     session, or ends; start programs that do not use MPI by posix_spawn or system"
                ));
            }
        }
    }

    /// Waits for something to happen.
    fn wait(&self, until: Option<Instant>) -> io::Result<Found> {
        let mut entries = vec![
            PollFd::new(&self.signals, Interest::Read),
            PollFd::new(&self.frontend, Interest::Nothing),
        ];
        entries.extend(
            self.output
                .writable()
                .map(|stream| PollFd::new(stream, Interest::Write)),
        );
        let streams_at = entries.len();
        let mut streams = Vec::new();
        for (index, pipe) in self.output.readable() {
            streams.push(index);
            entries.push(PollFd::new(pipe, Interest::Read));
        }
        let hosts_at = entries.len();
        let mut tokens = Vec::new();
        for (token, entry) in self.hosts.entries(self.output.is_held_up()) {
            tokens.push(token);
            entries.push(entry);
        }
        let inspection_at = entries.len();
        entries.extend(self.inspection.entries());
        let limit = until.map(|until| until.saturating_duration_since(Instant::now()));
        poll::wait(&mut entries, limit)?;
        let hosts = tokens.into_iter().zip(&entries[hosts_at..inspection_at]);
        let readable = entries[streams_at..hosts_at].iter().zip(streams);
        Ok(Found {
            signals: entries[0].readable(),
            orphaned: entries[1].ended(),
            streams: readable
                .filter(|(entry, _)| entry.readable())
                .map(|(_, index)| index)
                .collect(),
            hosts: hosts
                .map(|(token, entry)| (token, entry.is_ready()))
                .collect(),
            inspection: entries[inspection_at..].iter().any(PollFd::is_ready),
        })
    }

    /// Goes on with the hosts: `ready` is what a wait has found.
    fn proceed(&mut self, ready: &[(Token, bool)]) {
        let events = self.hosts.proceed(ready, self.output.is_held_up());
        self.handle_all(events);
    }

    /// Handles the signals that have come. True if everything must end now.
    fn handle_signals(&mut self) -> bool {
        let mut children = false;
        while let Ok(Some(signal)) = self.signals.next() {
            match signal {
                SIGCHLD => children = true,
                SIGQUIT => self.inspection.print_soon(&mut *self.hosts),
                signal if ends_programs(signal) => {
                    let now = Instant::now();
                    match self.leaving {
                        Some((since, _)) if now < since + AGAIN => {}
                        Some(_) => return true,
                        None => {
                            let grace = if signal == SIGTERM { GRACE_TERM } else { GRACE };
                            self.leaving = Some((now, now + grace));
                            self.outcome.fail(Failure::Signal { signal });
                            // While hosts are being reached: what they would start could no longer be told.
                            if self.ranks.running().is_empty() {
                                return true;
                            }
                            self.hosts.signal(signal);
                        }
                    }
                }
                libc::SIGTSTP => self.hosts.signal(SIGSTOP),
                libc::SIGXFSZ => {}
                other => self.hosts.signal(other),
            }
        }
        if children {
            let events = self.hosts.reap();
            self.handle_all(events);
        }
        false
    }

    fn handle_all(&mut self, events: Vec<Event>) {
        for event in events {
            self.handle(event);
        }
    }

    fn handle(&mut self, event: Event) {
        self.inspection.note(&event);
        match event {
            Event::Note(text) => self.say(&text),
            Event::Assigned => self.ranks.start_all(),
            Event::Started {
                rank,
                process,
                detail,
                outputs,
            } => {
                if self.plan.verbose {
                    self.say(&format!("rank {rank} is process {process}{detail}"));
                }
                self.start(rank, outputs);
            }
            Event::Spawned {
                rank,
                world,
                process,
                detail,
                outputs,
            } => {
                self.ranks.start_later(rank, world);
                if self
                    .beginning
                    .back()
                    .is_none_or(|(_, last)| *last != world.world)
                {
                    let when = Instant::now() + SLOW;
                    self.beginning.push_back((when, world.world));
                }
                if self.plan.verbose {
                    let name = self.name(rank);
                    self.say(&format!("{name} is process {process}{detail}"));
                }
                let label = format!("{}.{}", world.world, world.rank);
                match outputs {
                    Some(outputs) => self.output.add(rank, &label, outputs),
                    None => self.output.add_fed(rank, &label),
                }
            }
            Event::GivenUp { world } => self.ranks.give_up(world),
            Event::Abandoned { world } => self.end_abandoned(world),
            Event::Output { rank, kind, bytes } => {
                if !self.output.feed(rank, kind, &bytes) {
                    self.hosts.close_output(rank, kind);
                }
            }
            Event::Notice { rank, told } => {
                if told == crate::control::Notice::Absent {
                    let world = self.ranks.world(rank).map_or(0, |own| own.world);
                    self.hosts.announce_absence(world);
                }
                if let Some(failure) = self.ranks.tell(rank, told) {
                    self.fail(rank, failure);
                }
            }
            Event::Exited { ended } => self.judge(ended),
            Event::HostLost {
                host,
                mut ranks,
                reason,
            } => {
                // The wait status of a process that was killed.
                let killed = ExitStatus::from_raw(libc::SIGKILL);
                ranks.retain(|rank| self.ranks.end(*rank, killed));
                let may_go_on = !self.outcome.has_failed() && self.leaving.is_none();
                // Without the ranks that it was to have, the job does not begin.
                if may_go_on
                    && !ranks.is_empty()
                    && ranks.iter().all(|rank| self.ranks.is_loss_handled(*rank))
                {
                    self.say(&format!("host {host} is lost with its ranks: {reason}"));
                    for rank in ranks {
                        self.handle_loss(rank, killed);
                    }
                    return;
                }
                self.outcome.fail(Failure::HostLost {
                    host,
                    ranks,
                    reason,
                });
            }
            // For who looks at the job.
            Event::Waits { .. } => {}
            Event::Failed(failure) => self.outcome.fail(failure),
        }
    }

    fn start(&mut self, rank: u32, outputs: Option<[File; 2]>) {
        if let Some(outputs) = outputs {
            self.output.add(rank, &rank.to_string(), outputs);
        }
        self.ranks.start(rank);
    }

    /// Ranks have ended: is that a failure?
    fn judge(&mut self, mut ended: Vec<(u32, ExitStatus)>) {
        ended.retain(|(rank, status)| self.ranks.end(*rank, *status));
        self.ranks.sort_by_cause(&mut ended);
        if self.plan.exit_codes {
            for (rank, status) in &ended {
                let (name, how) = (self.name(*rank), exit_status::describe(*status));
                self.say(&format!("{name} {how}"));
            }
        }
        for (rank, _) in &ended {
            if self.ranks.judge(*rank).is_none() && self.ranks.has_finalised(*rank) {
                self.outcome.end_well();
            }
        }
        let may_go_on = !self.outcome.has_failed() && self.leaving.is_none();
        let survives = may_go_on && self.plan.on_death != OnDeath::End;
        if may_go_on {
            ended.retain(|(rank, status)| !self.lose_unmet(*rank, *status, survives));
        }
        if may_go_on && !survives {
            // Those that the others are prepared for.
            ended.retain(|(rank, status)| !self.handle_loss(*rank, *status));
        }
        if survives {
            for (rank, status) in ended {
                let failure = self.ranks.judge(rank);
                let in_order = failure.is_none() && self.ranks.world(rank).is_some();
                self.hosts.announce_end(rank, in_order);
                // Of one that has ended well, only those that are started later are to know.
                if let Some(failure) = failure.filter(|_| !self.ranks.is_given_up(rank)) {
                    self.survive(rank, status, failure);
                }
            }
            return;
        }
        let failures = ended
            .iter()
            .filter_map(|(rank, _)| Some((*rank, self.ranks.judge(*rank)?)));
        let failures: Vec<_> = failures.collect();
        for (rank, _) in &ended {
            let failed = failures.iter().any(|(other, _)| other == rank);
            let given_up = self.ranks.is_given_up(*rank);
            let is_missed = !failed && self.ranks.is_left_early(*rank);
            if self.ranks.world(*rank).is_some() && (!failed || given_up) || is_missed {
                // Its process slot may be taken by another one later; of those that go on, none waits for it unseen.
                self.hosts.announce_end(*rank, !failed);
            }
        }
        for (rank, failure) in failures {
            self.fail(rank, failure);
        }
    }

    /// A process has ended, perhaps before it had met those who have had it started, and the job goes on: then its world ends, and
    /// these hear of it. `survives`: the job goes on whatever its ranks are prepared for.
    fn lose_unmet(&mut self, rank: u32, status: ExitStatus, survives: bool) -> bool {
        let (Some(world), Some(failure)) = (self.ranks.unmet_world(rank), self.ranks.judge(rank))
        else {
            return false;
        };
        if !survives && !self.ranks.is_handled_without(world) {
            return false;
        }
        let (name, how) = (self.name(rank), exit_status::describe(status));
        let lost = format!("{name} {how} before it had met those who have had it started");
        self.say(&format!("{lost}; the job goes on without its world"));
        match survives {
            true => self.outcome.survive(failure),
            false => self.outcome.handle(failure),
        }
        let running = self.ranks.running_of(world);
        self.ranks.give_up(world);
        self.hosts.lose_world(
            world,
            &format!(
                "{lost}, and its world was ended; start programs that call MPI_Init, and look at the last output of that one"
            ),
        );
        // Those that are left of it have nothing to say of the loss.
        self.hosts.end_ranks(&running);
        self.hosts.announce_end(rank, false);
        true
    }

    /// A rank has ended: whether the job goes on, as its other ranks handle the loss.
    fn handle_loss(&mut self, rank: u32, status: ExitStatus) -> bool {
        let failure = self.ranks.judge(rank);
        let is_handled = self.ranks.is_loss_handled(rank) && !self.ranks.is_given_up(rank);
        let Some(failure) = failure.filter(|_| is_handled) else {
            return false;
        };
        self.hosts.announce_end(rank, false);
        let (name, how) = (self.name(rank), exit_status::describe(status));
        self.say(&format!(
            "{name} {how}; the job goes on: the other ranks handle losses (MPIX_Comm_shrink and the like)"
        ));
        self.outcome.handle(failure);
        true
    }

    /// A process has failed: the end of the job, unless it belongs to a world that has nothing to do with others. Where
    /// it goes no further because another one is lost, that one is waited for a moment: ranks may hear of a death over
    /// their connections sooner than its parent does.
    fn fail(&mut self, rank: u32, failure: Failure) {
        if self.ranks.is_ended_by_loss(rank) && !self.ranks.is_given_up(rank) {
            let until = Instant::now() + CAUSE;
            self.consequence.get_or_insert((until, rank, failure));
            return;
        }
        self.fail_now(rank, failure);
    }

    /// The loss from which a failure follows does not show itself: the failure counts.
    fn stop_looking_for_the_cause(&mut self) {
        if let Some((_, rank, failure)) = self.consequence.take() {
            self.fail_now(rank, failure);
        }
    }

    fn fail_now(&mut self, rank: u32, failure: Failure) {
        if self.ranks.is_given_up(rank) {
            return;
        }
        let world = self.ranks.world(rank);
        let Some(WorldRank { world, .. }) = world.filter(|_| self.ranks.is_independent(rank))
        else {
            return self.outcome.fail(failure);
        };
        let others = self.ranks.running_of(world);
        self.ranks.give_up(world);
        let what = match &failure {
            Failure::Aborted { code, .. } => format!("called MPI_Abort with code {code}"),
            Failure::Ended { status, .. } => exit_status::describe(*status),
            _ => "ended without MPI_Finalize".into(),
        };
        let name = self.name(rank);
        self.say(&format!(
            "{name} {what}; the job goes on without its world, which is connected to no other"
        ));
        self.outcome.survive(failure);
        self.hosts.announce_end(rank, false);
        self.hosts.end_ranks(&others);
    }

    /// Nobody waits for a world any more: it ends, and the job goes on.
    fn end_abandoned(&mut self, world: u32) {
        let mut running = self.ranks.running_of(world);
        // Those of which not all could be started are being ended already.
        running.retain(|rank| !self.ranks.is_given_up(*rank));
        self.ranks.give_up(world);
        if !running.is_empty() && !self.outcome.has_failed() {
            self.say(&format!(
                "spawned world {world} is ended: MPI_Comm_spawn has failed at those who have started it; the job goes on without it"
            ));
            self.hosts.end_ranks(&running);
        }
    }

    /// A rank, for people.
    fn name(&self, rank: u32) -> String {
        match self.ranks.world(rank) {
            None => format!("rank {rank}"),
            Some(WorldRank { world, rank }) => format!("rank {rank} of spawned world {world}"),
        }
    }

    /// A rank has died, and the job goes on without it, or with another process of it.
    fn survive(&mut self, rank: u32, status: ExitStatus, failure: Failure) {
        let anew = !status.success() && self.plan.on_death == OnDeath::Restart;
        let then = match anew.then(|| self.hosts.restart(rank)) {
            Some(Ok((process, outputs))) => {
                self.inspection.note_start(rank, None, process);
                self.start(rank, outputs);
                format!("started anew as process {process}")
            }
            other => {
                self.outcome.survive(failure);
                match other {
                    Some(Err(reason)) => format!("not started anew: {reason}"),
                    _ => "the others were told (--on-death)".into(),
                }
            }
        };
        let how = exit_status::describe(status);
        self.say(&format!("rank {rank} {how}; {then}"));
    }

    /// Has other hosts end what they have, and hears what they have to say about it. Those that do not do
    /// so in time are named.
    fn end_other_hosts(&mut self) {
        self.hosts.begin_end();
        let patience = match self.plan.profile.is_any() {
            true => END_WITH_PROFILE,
            false => END,
        };
        let deadline = Instant::now() + patience;
        while !self.hosts.unfinished().is_empty() {
            let look = self.hosts.next_look();
            let wake = look.map_or(deadline, |look| look.min(deadline));
            match self.wait(Some(wake)) {
                Ok(found) if !found.orphaned && Instant::now() < deadline => {
                    self.proceed(&found.hosts);
                    self.output.forward(Instant::now());
                }
                _ => break,
            }
        }
        for name in self.hosts.unfinished() {
            let seconds = patience.as_secs();
            self.say(&format!(
                "host {name} was told to end its ranks and has not said within {seconds} s that it did; \
                 if it lives, look there for processes of this job"
            ));
        }
    }

    /// Ends everything below us. False if something is left.
    fn kill(&mut self) -> bool {
        let (events, gone) = self.hosts.kill();
        for event in events {
            match event {
                // We have ended them: no failure of theirs.
                Event::Exited { ended } => {
                    for (rank, status) in ended {
                        self.ranks.end(rank, status);
                    }
                }
                event => self.handle(event),
            }
        }
        gone
    }

    /// Hands out what is left of the output and says the last line. `ended` ranks had to be ended.
    fn finish(&mut self, ended: &[u32], gone: bool) -> u8 {
        let events = self.hosts.read_rest();
        self.handle_all(events);
        let at_fault = self.outcome.rank_at_fault();
        if !self.flush(at_fault) {
            return 128 + 9;
        }
        let (lines, lost) = self.write_profile();
        for line in lines {
            self.say(&line);
        }
        // Whether that can be written is known then.
        if !self.flush(None) {
            return 128 + 9;
        }
        for (what, reason) in lost {
            let failure = Failure::ReportLost { what, reason };
            if self.outcome.has_failed() {
                self.output.say(&failure.line("", 0));
            }
            self.outcome.fail(failure);
        }
        if let Some((stream, reason)) = self.output.loss() {
            let stream = stream.to_owned();
            let failure = Failure::OutputLost { stream, reason };
            if self.outcome.has_failed() {
                // Perhaps because of it.
                self.output.say(&failure.line("", 0));
            }
            self.outcome.fail(failure);
        }
        if !gone {
            self.say("processes of the job that run as another user could not be ended");
        }
        let others = ended.iter().filter(|rank| Some(**rank) != at_fault).count();
        let mut place = String::new();
        if let Some(rank) = at_fault {
            if self.ranks.world(rank).is_some() {
                place += &format!(" of the job ({})", self.name(rank));
            }
            if let Some(host) = self.hosts.host(rank) {
                place += &format!(" on {host}");
            }
        }
        if let Some(line) = self.outcome.line(&place, others) {
            self.output.say(&line);
        }
        let code = self.outcome.code();
        self.flush(None);
        code
    }

    /// Writes the profile of the ranks, if it was asked for; answers what to tell the user, and what could not be written.
    fn write_profile(&mut self) -> (Vec<String>, Vec<(String, String)>) {
        if !self.plan.profile.is_any() {
            return Default::default();
        }
        self.plan.profile.write(self.hosts.take_profiles())
    }

    /// Writes everything. False if the frontend is gone, or somebody insists on the end.
    fn flush(&mut self, last: Option<u32>) -> bool {
        while !self.output.finish(last) {
            let mut entries = vec![
                PollFd::new(&self.signals, Interest::Read),
                PollFd::new(&self.frontend, Interest::Nothing),
            ];
            entries.extend(
                self.output
                    .writable()
                    .map(|stream| PollFd::new(stream, Interest::Write)),
            );
            if poll::wait(&mut entries, None).is_err() || entries[1].ended() {
                return false;
            }
            while let Ok(Some(signal)) = self.signals.next() {
                if ends_programs(signal) {
                    self.outcome.fail(Failure::Signal { signal });
                    return false;
                }
            }
        }
        true
    }
}
