//! Supervisor of a job: the process that has its ranks started, reads their output, notices failures and ends them all.
//!
//! ```text
//!   hosts of the ranks ── events ──▶ supervisor ── ends, notices ──▶ judge
//!   signals, output, inspection ──▶                ◀── consequences ──
//! ```
//!
//! What follows from the ends of ranks, the [judge](super::judge) decides; it is carried out by [`Means`].

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use weft_sys::process::{self, SIGCHLD, SIGQUIT, SIGSTOP};

use super::departure::{Departure, Request};
use super::inspection::Inspection;
use super::judge::{Consequences, Judge};
use super::local::LocalHost;
use super::outcome::Failure;
use super::output::Output;
use super::rank_hosts::{Event, RankHosts, Token};
use super::rank_table::RankTable;
use super::remote::RemoteHosts;
use super::slow_starts::{SLOW, SlowStarts};
use super::standard_stream::StandardStream;
use super::wakeups::{Found, Wakeups};
use crate::adoption::Takeover;
use crate::bootstrap::name_of_this_host;
use crate::mapping::Allocation;
use crate::plan::Plan;
use crate::signals::ends_programs;

/// How long other hosts have to end what they have. They are told, and end it at once; what takes longer
/// are lost ones.
const END: Duration = Duration::from_secs(3);
/// … if they have timelines to send.
const END_WITH_PROFILE: Duration = Duration::from_secs(20);
/// The exit code of a job whose frontend is gone, as if it had been killed.
const ORPHANED: u8 = 128 + 9;

/// The means by which a job is carried on: the hosts of its ranks, their output, and what the user is shown.
struct Means<'a> {
    hosts: Box<dyn RankHosts + 'a>,
    output: Output,
    inspection: Inspection,
}

impl Consequences for Means<'_> {
    fn say(&mut self, text: &str) {
        self.output.say(&format!("weft: {text}"));
    }

    fn announce_end(&mut self, rank: u32, in_order: bool) {
        self.hosts.announce_end(rank, in_order);
    }

    fn announce_absence(&mut self, world: u32) {
        self.hosts.announce_absence(world);
    }

    fn lose_world(&mut self, world: u32, reason: &str) {
        self.hosts.lose_world(world, reason);
    }

    fn end_ranks(&mut self, ranks: &[u32]) {
        self.hosts.end_ranks(ranks);
    }

    fn restart(&mut self, rank: u32) -> Result<u32, String> {
        let (process, outputs) = self.hosts.restart(rank)?;
        self.inspection.note_start(rank, None, process);
        self.add_outputs(rank, outputs);
        Ok(process)
    }
}

impl Means<'_> {
    /// Reads the outputs of a rank from now on, if they are to be read here.
    fn add_outputs(&mut self, rank: u32, outputs: Option<[File; 2]>) {
        if let Some(outputs) = outputs {
            self.output.add(rank, &rank.to_string(), outputs);
        }
    }
}

/// The job, while it runs.
struct Job<'a> {
    plan: &'a Plan,
    judge: Judge,
    means: Means<'a>,
    wakeups: Wakeups,
    departure: Departure,
    slow_starts: SlowStarts,
    deadline: Option<Instant>,
}

/// Why a job is attended to no longer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Over {
    /// All ranks have ended, or all must.
    Ended,
    /// The frontend is gone: nobody is there who could be told.
    Orphaned,
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
    let events = job.means.hosts.start(input);
    job.handle_all(events);
    let over = job.attend();
    // Those that we have to end.
    let running = job.judge.ranks().running();
    if over == Over::Ended {
        job.end_other_hosts();
    }
    let gone = job.kill();
    if over == Over::Orphaned {
        let _ = job.write_profile();
        return ORPHANED;
    }
    let code = job.finish(&running, gone);
    job.means.hosts.part(code);
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
        let wakeups = Wakeups::new(frontend)?;
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
            judge: Judge::new(plan, ranks),
            means: Means {
                hosts,
                output,
                inspection: Inspection::new(plan, launcher),
            },
            wakeups,
            departure: Departure::default(),
            slow_starts: SlowStarts::default(),
            deadline: plan
                .timeout
                .and_then(|limit| Instant::now().checked_add(limit)),
            plan,
        })
    }

    /// Puts a line of our own on standard error.
    fn say(&mut self, text: &str) {
        self.means.say(text);
    }

    /// Attends to the job until all ranks have ended, or all must.
    fn attend(&mut self) -> Over {
        let mut next_output = None;
        while !self.judge.outcome().has_failed() || self.departure.until().is_some() {
            let now = Instant::now();
            let cause = self.judge.explained_until();
            if self.judge.ranks().has_ended() || cause.is_some_and(|until| now >= until) {
                self.judge.stop_waiting_for_cause(&mut self.means);
                if self.judge.ranks().has_ended() {
                    return Over::Ended;
                }
                continue;
            }
            if self.is_time_up(now) {
                return Over::Ended;
            }
            let Ok(found) = self.wait(self.next_look(next_output)) else {
                // Nothing can be waited for: nobody can be attended to.
                self.judge.fail(Failure::NotStarted {
                    rank: 0,
                    reason: "the system refuses to wait".into(),
                });
                return Over::Ended;
            };
            if found.orphaned {
                return Over::Orphaned;
            }
            for index in found.streams {
                self.means.output.read(index);
            }
            self.proceed(&found.hosts);
            if found.signals && self.handle_signals() {
                return Over::Ended;
            }
            self.proceed_with_inspection(found.inspection);
            self.report_slow_starts(Instant::now());
            next_output = self.means.output.forward(Instant::now());
        }
        Over::Ended
    }

    /// Whether ranks have had the time to tidy up after a signal, or, without one, the time that the user has given the job.
    fn is_time_up(&mut self, now: Instant) -> bool {
        if let Some(until) = self.departure.until() {
            return now >= until;
        }
        let late = self.deadline.is_some_and(|deadline| now >= deadline);
        if late {
            self.judge.fail(Failure::Timeout {
                limit: self.plan.timeout.unwrap_or_default(),
                running: self.judge.ranks().running(),
            });
        }
        late
    }

    /// When to look at the latest, also if nothing happens.
    fn next_look(&self, output: Option<Instant>) -> Option<Instant> {
        let looks = [
            output,
            self.departure.until().or(self.deadline),
            self.judge.explained_until(),
            self.slow_starts.next_look(),
            self.means.hosts.next_look(),
            self.means.inspection.next_look(),
        ];
        looks.into_iter().flatten().min()
    }

    /// Goes on with who looks at the job: somebody may be `ready`, or something due.
    fn proceed_with_inspection(&mut self, ready: bool) {
        let Means {
            hosts, inspection, ..
        } = &mut self.means;
        let is_due = |look: Instant| look <= Instant::now();
        if ready || inspection.next_look().is_some_and(is_due) {
            for line in inspection.proceed(&mut **hosts) {
                self.say(&line);
            }
        }
    }

    /// Mentions worlds that have been started for long and have not begun with MPI.
    fn report_slow_starts(&mut self, now: Instant) {
        while let Some(world) = self.slow_starts.take_due(now) {
            if let Some(rank) = self.judge.ranks().first_before(world) {
                let (name, seconds) = (self.judge.ranks().name(rank), SLOW.as_secs());
                self.say(&format!(
                    "{name} was started {seconds} s ago and has not begun with MPI: MPI_Comm_spawn waits until it calls MPI_Init, begins a \
                     session, or ends; start programs that do not use MPI by posix_spawn or system"
                ));
            }
        }
    }

    /// Waits for something to happen.
    fn wait(&self, until: Option<Instant>) -> io::Result<Found> {
        let Means {
            hosts,
            output,
            inspection,
        } = &self.means;
        self.wakeups.wait(&**hosts, output, inspection, until)
    }

    /// Goes on with the hosts: `ready` is what a wait has found.
    fn proceed(&mut self, ready: &[(Token, bool)]) {
        let held_up = self.means.output.is_held_up();
        let events = self.means.hosts.proceed(ready, held_up);
        self.handle_all(events);
    }

    /// Handles the signals that have come. True if everything must end now.
    fn handle_signals(&mut self) -> bool {
        let mut children = false;
        while let Some(signal) = self.wakeups.next_signal() {
            match signal {
                SIGCHLD => children = true,
                SIGQUIT => {
                    let Means {
                        hosts, inspection, ..
                    } = &mut self.means;
                    inspection.print_soon(&mut **hosts);
                }
                signal if ends_programs(signal) => {
                    match self.departure.ask(signal, Instant::now()) {
                        Request::Repeated => {}
                        Request::Insists => return true,
                        Request::Begins => {
                            self.judge.fail(Failure::Signal { signal });
                            // While hosts are being reached: what they would start could no longer be told.
                            if self.judge.ranks().running().is_empty() {
                                return true;
                            }
                            self.means.hosts.signal(signal);
                        }
                    }
                }
                libc::SIGTSTP => self.means.hosts.signal(SIGSTOP),
                libc::SIGXFSZ => {}
                other => self.means.hosts.signal(other),
            }
        }
        if children {
            let events = self.means.hosts.reap();
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
        self.means.inspection.note(&event);
        match event {
            Event::Note(text) => self.say(&text),
            Event::Assigned => self.judge.ranks_mut().start_all(),
            Event::Started {
                rank,
                process,
                detail,
                outputs,
            } => {
                if self.plan.verbose {
                    self.say(&format!("rank {rank} is process {process}{detail}"));
                }
                self.means.add_outputs(rank, outputs);
                self.judge.ranks_mut().start(rank);
            }
            Event::Spawned {
                rank,
                world,
                process,
                detail,
                outputs,
            } => {
                self.judge.ranks_mut().start_later(rank, world);
                self.slow_starts.note(world.world, Instant::now());
                if self.plan.verbose {
                    let name = self.judge.ranks().name(rank);
                    self.say(&format!("{name} is process {process}{detail}"));
                }
                let label = format!("{}.{}", world.world, world.rank);
                match outputs {
                    Some(outputs) => self.means.output.add(rank, &label, outputs),
                    None => self.means.output.add_fed(rank, &label),
                }
            }
            Event::GivenUp { world } => self.judge.ranks_mut().give_up(world),
            Event::Abandoned { world } => self.judge.end_abandoned_world(world, &mut self.means),
            Event::Output { rank, kind, bytes } => {
                if !self.means.output.feed(rank, kind, &bytes) {
                    self.means.hosts.close_output(rank, kind);
                }
            }
            Event::Notice { rank, told } => self.judge.hear(rank, told, &mut self.means),
            Event::Exited { ended } => self.judge.exited(ended, &mut self.means),
            Event::HostLost {
                host,
                ranks,
                reason,
            } => self.judge.lose_host(host, ranks, reason, &mut self.means),
            // For who looks at the job.
            Event::Waits { .. } => {}
            Event::Failed(failure) => self.judge.fail(failure),
        }
    }

    /// Has other hosts end what they have, and hears what they have to say about it. Those that do not do
    /// so in time are named.
    fn end_other_hosts(&mut self) {
        self.means.hosts.begin_end();
        let patience = match self.plan.profile.is_any() {
            true => END_WITH_PROFILE,
            false => END,
        };
        let deadline = Instant::now() + patience;
        while !self.means.hosts.unfinished().is_empty() {
            let look = self.means.hosts.next_look();
            let wake = look.map_or(deadline, |look| look.min(deadline));
            match self.wait(Some(wake)) {
                Ok(found) if !found.orphaned && Instant::now() < deadline => {
                    self.proceed(&found.hosts);
                    self.means.output.forward(Instant::now());
                }
                _ => break,
            }
        }
        for name in self.means.hosts.unfinished() {
            let seconds = patience.as_secs();
            self.say(&format!(
                "host {name} was told to end its ranks and has not said within {seconds} s that it did; \
                 if it lives, look there for processes of this job"
            ));
        }
    }

    /// Ends everything below us. False if something is left.
    fn kill(&mut self) -> bool {
        let (events, gone) = self.means.hosts.kill();
        for event in events {
            match event {
                // We have ended them: no failure of theirs.
                Event::Exited { ended } => {
                    for (rank, status) in ended {
                        self.judge.ranks_mut().end(rank, status);
                    }
                }
                event => self.handle(event),
            }
        }
        gone
    }

    /// Hands out what is left of the output and says the last line. `ended` ranks had to be ended.
    fn finish(&mut self, ended: &[u32], gone: bool) -> u8 {
        let events = self.means.hosts.read_rest();
        self.handle_all(events);
        let at_fault = self.judge.outcome().rank_at_fault();
        if !self.flush(at_fault) {
            return ORPHANED;
        }
        let (lines, lost) = self.write_profile();
        for line in lines {
            self.say(&line);
        }
        // Whether that can be written is known then.
        if !self.flush(None) {
            return ORPHANED;
        }
        for (what, reason) in lost {
            self.fail_in_the_end(Failure::ReportLost { what, reason });
        }
        if let Some((stream, reason)) = self.means.output.loss() {
            let stream = stream.to_owned();
            self.fail_in_the_end(Failure::OutputLost { stream, reason });
        }
        if !gone {
            self.say("processes of the job that run as another user could not be ended");
        }
        let others = ended.iter().filter(|rank| Some(**rank) != at_fault).count();
        let place = at_fault.map_or(String::new(), |rank| self.place(rank));
        if let Some(line) = self.judge.outcome().line(&place, others) {
            self.means.output.say(&line);
        }
        let code = self.judge.outcome().code();
        self.flush(None);
        code
    }

    /// What was to be written is lost: that is told even if the job has failed before, perhaps because of it.
    fn fail_in_the_end(&mut self, failure: Failure) {
        if self.judge.outcome().has_failed() {
            self.means.output.say(&failure.line("", 0));
        }
        self.judge.fail(failure);
    }

    /// Where the rank at fault belongs, if that is worth saying.
    fn place(&self, rank: u32) -> String {
        let ranks = self.judge.ranks();
        let mut place = String::new();
        if ranks.world(rank).is_some() {
            place += &format!(" of the job ({})", ranks.name(rank));
        }
        if let Some(host) = self.means.hosts.host(rank) {
            place += &format!(" on {host}");
        }
        place
    }

    /// Writes the profile of the ranks, if it was asked for; answers what to tell the user, and what could not be written.
    fn write_profile(&mut self) -> (Vec<String>, Vec<(String, String)>) {
        if !self.plan.profile.is_any() {
            return Default::default();
        }
        self.plan.profile.write(self.means.hosts.take_profiles())
    }

    /// Writes everything. False if the frontend is gone, or somebody insists on the end.
    fn flush(&mut self, last: Option<u32>) -> bool {
        while !self.means.output.finish(last) {
            if !self.wakeups.wait_for_room(&self.means.output) {
                return false;
            }
            while let Some(signal) = self.wakeups.next_signal() {
                if ends_programs(signal) {
                    self.judge.fail(Failure::Signal { signal });
                    return false;
                }
            }
        }
        true
    }
}
