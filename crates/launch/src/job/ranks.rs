//! The ranks of a job, as the launcher sees them: which processes they are, what they have told, how far
//! they have come, how they ended.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use weft_fabric_shm::{ProcessState, Watch};

use super::verdict::{Failure, Progress};
use crate::control::{Answer, LONGEST, Message};
use crate::exchange::Entry;

/// Messages of one rank that are read before others get their turn.
const AT_ONCE: usize = 64;
/// … of one that has ended: more than its socket holds.
const LAST: usize = 4096;

/// One rank that was started.
struct Rank {
    process: u32,
    /// `None` once it is closed, and of a rank on another host.
    control: Option<File>,
    /// Kept open as long as we live. `None` of a rank on another host.
    _lifeline: Option<OwnedFd>,
    initialised: bool,
    finalised: bool,
    ended: Option<ExitStatus>,
}

/// What a rank asks its launcher.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Question {
    /// To keep a value.
    Put(Entry),
    /// To be told when all have asked this.
    Fence,
    /// For a value.
    Get { rank: u32, name: String },
    /// Where the ranks are, from this byte on.
    Places { from: usize },
}

/// All that were started so far, by number.
pub struct Ranks {
    all: Vec<Rank>,
    /// `None` if the ranks are on other hosts.
    watch: Option<Watch>,
    /// Asked and not yet taken by [`questions`](Self::questions).
    asked: Vec<(usize, Question)>,
}

impl Ranks {
    /// None yet; `watch` is our view of the segment that they will share, if they are on this host.
    pub fn new(watch: Option<Watch>) -> Self {
        Self {
            all: Vec::new(),
            watch,
            asked: Vec::new(),
        }
    }

    /// What was asked since this was last called, by whom.
    pub fn questions(&mut self) -> Vec<(usize, Question)> {
        std::mem::take(&mut self.asked)
    }

    /// Answers a rank. One that is gone, or asks without listening, gets nothing.
    pub fn answer(&self, index: usize, answer: &Answer) {
        if let Some(control) = &self.all[index].control {
            let _ = weft_sys::passing::send(control, &answer.encode(), &[]);
        }
    }

    /// How many were started.
    pub fn count(&self) -> u32 {
        self.all.len() as u32
    }

    /// Takes over the next one.
    pub fn add(&mut self, process: u32, control: OwnedFd, lifeline: OwnedFd) {
        self.all.push(Rank {
            process,
            control: Some(File::from(control)),
            _lifeline: Some(lifeline),
            initialised: false,
            finalised: false,
            ended: None,
        });
    }

    /// Counts so many that run on other hosts.
    pub fn add_remote(&mut self, count: u32) {
        self.all.extend((0..count).map(|_| Rank {
            process: 0,
            control: None,
            _lifeline: None,
            initialised: false,
            finalised: false,
            ended: None,
        }));
    }

    /// Notes the end of a rank on another host. False if it has ended already.
    pub fn record_remote(&mut self, index: usize, status: ExitStatus) -> bool {
        let first = self.all[index].ended.is_none();
        if first {
            self.all[index].ended = Some(status);
        }
        first
    }

    /// Tells the other ranks that one has died.
    pub fn tell_of_death(&self, index: usize) {
        if let (Some(status), Some(watch)) = (self.status(index), &self.watch) {
            watch.tell_of_death(index as u32, status.into_raw());
        }
    }

    /// Prepares for another process of a rank that has died. False if there were too many.
    pub fn seat_anew(&self, index: usize) -> bool {
        self.watch
            .as_ref()
            .is_some_and(|watch| watch.assign_spare(index as u32))
    }

    /// Takes over the process that was started in place of one that died.
    pub fn replace(&mut self, index: usize, process: u32, control: OwnedFd, lifeline: OwnedFd) {
        self.all[index] = Rank {
            process,
            control: Some(File::from(control)),
            _lifeline: Some(lifeline),
            initialised: false,
            finalised: false,
            ended: None,
        };
    }

    /// Notes the end of a process; answers which rank it was, if one.
    pub fn record(&mut self, process: u32, status: ExitStatus) -> Option<usize> {
        let running = |rank: &Rank| rank.process == process && rank.ended.is_none();
        let index = self.all.iter().position(running)?;
        self.all[index].ended = Some(status);
        Some(index)
    }

    /// How a rank ended, if it has.
    pub fn status(&self, index: usize) -> Option<ExitStatus> {
        self.all[index].ended
    }

    /// Those that have not ended.
    pub fn running(&self) -> Vec<u32> {
        let all = self.all.iter().enumerate();
        let running = all.filter(|(_, rank)| rank.ended.is_none());
        running.map(|(index, _)| index as u32).collect()
    }

    /// Their processes: not fetched yet, so these ids mean nobody else.
    pub fn processes(&self) -> Vec<u32> {
        let here = self.all.iter().filter(|rank| rank.process != 0);
        let running = here.filter(|rank| rank.ended.is_none());
        running.map(|rank| rank.process).collect()
    }

    /// The sockets over which there may be news, with the number for [`listen`](Self::listen).
    pub fn controls(&self) -> impl Iterator<Item = (usize, &File)> {
        let all = self.all.iter().enumerate();
        all.filter_map(|(index, rank)| Some((index, rank.control.as_ref()?)))
    }

    /// Reads what a rank has to tell; answers the failures that this is or shows.
    pub fn listen(&mut self, index: usize) -> Vec<Failure> {
        let messages = self.hear(index);
        let told = messages.into_iter();
        told.filter_map(|message| self.take(index, message))
            .collect()
    }

    /// Reads what a rank has to tell: some of it, if it goes on without end; all of one that has ended.
    pub fn hear(&mut self, index: usize) -> Vec<Message> {
        let most = match self.status(index) {
            None => AT_ONCE,
            Some(_) => LAST,
        };
        let mut messages = Vec::new();
        let mut bytes = [0; LONGEST];
        for _ in 0..most {
            let Some(control) = &mut self.all[index].control else {
                break;
            };
            match control.read(&mut bytes) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Ok(0) | Err(_) => {
                    self.all[index].control = None;
                    break;
                }
                Ok(count) => messages.extend(Message::decode(&bytes[..count])),
            }
        }
        messages
    }

    /// Notes what a rank has told; answers the failure that this is or shows.
    pub fn take(&mut self, index: usize, message: Message) -> Option<Failure> {
        let rank = index as u32;
        match message {
            Message::Initialised => {
                self.all[index].initialised = true;
                return self.left_too_early(rank);
            }
            Message::Finalised => self.all[index].finalised = true,
            Message::Abort { code, text } => return Some(Failure::Aborted { rank, code, text }),
            Message::Put { name, value } => {
                let entry = Entry { rank, name, value };
                self.asked.push((index, Question::Put(entry)));
            }
            Message::Fence => self.asked.push((index, Question::Fence)),
            Message::Get { rank, name } => {
                self.asked.push((index, Question::Get { rank, name }));
            }
            Message::AskPlaces { from } => self.asked.push((index, Question::Places { from })),
        }
        None
    }

    /// A rank has initialised: has another one left already, for whom it will wait in vain?
    fn left_too_early(&self, other: u32) -> Option<Failure> {
        let left = (0..self.all.len()).find(|&index| {
            let well = self.status(index).is_some_and(|status| status.success());
            well && self.progress(index) == Progress::Before
        })?;
        Some(Failure::NotInitialised {
            rank: left as u32,
            other,
        })
    }

    /// Whether the end of a rank is a failure.
    pub fn judge(&self, index: usize) -> Option<Failure> {
        let rank = index as u32;
        let status = self.status(index)?;
        let progress = self.progress(index);
        if !status.success() {
            return Some(Failure::Ended {
                rank,
                status,
                progress,
            });
        }
        match progress {
            Progress::After => None,
            Progress::Within => Some(Failure::NotFinalised { rank }),
            Progress::Before => {
                let mut others = 0..self.all.len();
                let other = others.find(|&other| self.progress(other) != Progress::Before)?;
                Some(Failure::NotInitialised {
                    rank,
                    other: other as u32,
                })
            }
        }
    }

    /// The first rank that has aborted, as the segment says.
    pub fn first_abort(&self) -> Option<Failure> {
        let abort = self.watch.as_ref()?.first_abort()?;
        Some(Failure::Aborted {
            rank: abort.rank,
            code: abort.code,
            text: String::new(),
        })
    }

    /// How far a rank has come: what it told us, or what stands in the segment.
    pub fn progress(&self, index: usize) -> Progress {
        let watched = self.watch.as_ref();
        let state = watched.map_or(ProcessState::Absent, |watch| watch.state(index as u32));
        let rank = &self.all[index];
        if rank.finalised || state == ProcessState::Finalised {
            Progress::After
        } else if rank.initialised || state != ProcessState::Absent {
            Progress::Within
        } else {
            Progress::Before
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment;
    use weft_sys::descriptor::{self, Carries};

    /// Ranks without processes, and their ends of the control sockets.
    fn ranks(count: u32) -> (Ranks, Vec<OwnedFd>) {
        let segment = segment::create(count, 0).expect("memory files exist here");
        let mut ranks = Ranks::new(Some(segment.watch));
        let mut ends = Vec::new();
        for rank in 0..count {
            let (ours, its) = descriptor::socket_pair(Carries::Messages).expect("descriptors");
            descriptor::set_nonblocking(&ours, true).expect("may be set");
            let lifeline = descriptor::pipe().expect("descriptors").1;
            ranks.add(1000 + rank, ours, lifeline);
            ends.push(its);
        }
        (ranks, ends)
    }

    #[test]
    fn an_end_is_judged_by_what_was_told_before() {
        let (mut ranks, ends) = ranks(2);
        let well = ExitStatus::from_raw(0);
        Message::Initialised.send(&ends[0]).expect("connected");
        assert_eq!(ranks.listen(0), []);
        assert_eq!(ranks.record(1000, well), Some(0));
        assert_eq!(ranks.record(1000, well), None, "it has ended already");
        assert_eq!(ranks.judge(0), Some(Failure::NotFinalised { rank: 0 }));
        Message::Finalised.send(&ends[0]).expect("connected");
        assert_eq!(ranks.listen(0), []);
        assert_eq!(ranks.judge(0), None);
        assert_eq!(ranks.running(), [1]);
        assert_eq!(ranks.record(1001, well), Some(1));
        let without = Failure::NotInitialised { rank: 1, other: 0 };
        assert_eq!(ranks.judge(1), Some(without));
    }

    #[test]
    fn who_left_without_mpi_is_found_when_another_initialises() {
        let (mut ranks, ends) = ranks(2);
        ranks.record(1001, ExitStatus::from_raw(0));
        assert_eq!(ranks.judge(1), None, "nobody uses MPI so far");
        Message::Initialised.send(&ends[0]).expect("connected");
        let without = Failure::NotInitialised { rank: 1, other: 0 };
        assert_eq!(ranks.listen(0), [without]);
    }

    /// A rank that tells something without end gets its turn, and no more.
    #[test]
    fn a_rank_that_never_stops_keeps_nobody_waiting() {
        let (mut ranks, ends) = ranks(1);
        descriptor::set_nonblocking(&ends[0], true).expect("may be set");
        let mut told = 0;
        while Message::Fence.send(&ends[0]).is_ok() {
            told += 1;
        }
        assert!(told > AT_ONCE, "the socket holds {told}");
        assert_eq!(ranks.hear(0).len(), AT_ONCE);
        // What it said before it ended counts, all of it.
        ranks.record(1000, ExitStatus::from_raw(0));
        assert_eq!(ranks.hear(0).len(), told - AT_ONCE);
    }

    #[test]
    fn nonsense_over_the_socket_is_ignored_and_its_end_is_noticed() {
        let (mut ranks, mut ends) = ranks(1);
        weft_sys::passing::send(&ends[0], b"\xff nonsense", &[]).expect("connected");
        assert_eq!(ranks.listen(0), []);
        assert_eq!(ranks.controls().count(), 1);
        ends.clear();
        assert_eq!(ranks.listen(0), []);
        assert_eq!(ranks.controls().count(), 0);
    }
}
