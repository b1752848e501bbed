//! Output of the ranks: whole lines, each rank's in order, prompts at once.
//!
//! ```text
//!   rank 0 ── stdout ─▶ Stream ─┐ lines
//!          └─ stderr ─▶ Stream ─┼──────▶ StandardStream ─▶ ours
//!   rank 1 ── …               ─┘
//! ```
//!
//! A stream keeps an incomplete line. Complete lines are passed on together. The rest is passed on as well, as the *open
//! line* of the launcher's stream, once the whole job has been quiet for [`QUIET`]: that is a prompt. While a line is
//! open, the others wait, at most [`PATIENCE`]; then the line is broken, so that two ranks never share one.
//!
//! Output may go to files instead, and standard error to standard output ([`OutputRequest`]): a stream has a target, a
//! stream of the launcher or a file.
//!
//! Standard error waits for [`GATHER`] after each piece, so that a traceback that comes line by line stays in one block
//! even if several ranks write one.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use weft_sys::clock;

use super::standard_stream::StandardStream;
use crate::options::{OutputRequest, RankPlace};

/// A job from which nothing has come for so long waits for somebody: half a line is a prompt.
const QUIET: Duration = Duration::from_millis(20);
/// How long others wait for an open line to be finished.
const PATIENCE: Duration = Duration::from_millis(200);
/// How long standard error waits for more of the same rank.
const GATHER: Duration = Duration::from_millis(3);
/// … and how long at most.
const GATHER_MOST: Duration = Duration::from_millis(20);
/// A line longer than this is passed on in pieces.
const LONGEST: usize = 1 << 20;
/// Bytes of a block that standard error waits for.
const BLOCK: usize = 64 << 10;

/// Which of the two standard outputs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OutputKind {
    /// Standard output.
    Out,
    /// Standard error.
    Error,
}

impl OutputKind {
    /// Standard error, or else standard output.
    pub fn of_error(error: bool) -> Self {
        match error {
            true => Self::Error,
            false => Self::Out,
        }
    }
}

/// Where the bytes of a stream come from.
#[derive(Debug)]
enum Source {
    /// From a rank on this host.
    Pipe(File),
    /// From another host, by [`Output::feed`].
    Fed,
    /// It has ended.
    Ended,
}

/// One output of one rank.
#[derive(Debug)]
struct Stream {
    rank: u32,
    /// What its lines are tagged with.
    label: String,
    kind: OutputKind,
    /// Which of the targets it goes to.
    target: usize,
    source: Source,
    /// What was read and not passed on.
    held: Vec<u8>,
    /// How much of `held` are complete lines.
    complete: usize,
    /// The next byte passed on begins a line of this stream.
    begins: bool,
    /// When the oldest byte of `held` came, and the newest.
    first: Instant,
    last: Instant,
}

impl Stream {
    fn is_open(&self) -> bool {
        !matches!(self.source, Source::Ended)
    }

    fn is_fed(&self) -> bool {
        matches!(self.source, Source::Fed)
    }

    /// Keeps what has come.
    fn take(&mut self, came: &[u8], now: Instant) {
        if self.held.is_empty() {
            self.first = now;
        }
        if let Some(end) = came.iter().rposition(|&byte| byte == b'\n') {
            self.complete = self.held.len() + end + 1;
        }
        self.held.extend_from_slice(came);
        self.last = now;
    }
}

/// The outputs of all ranks.
#[derive(Debug)]
pub struct Output {
    streams: Vec<Stream>,
    /// Our standard streams, and behind them the files.
    standard: Vec<StandardStream>,
    /// What they are called.
    names: Vec<String>,
    /// How many of them are our standard streams.
    ours: usize,
    /// The stream whose line is open, for each of ours, and since when.
    open: Vec<Option<(usize, Instant)>>,
    tags: bool,
    /// Lines begin with the time.
    times: bool,
    /// Standard error of the ranks goes where standard output goes.
    merged: bool,
    /// The files of ranks.
    files: HashMap<(u32, OutputKind), usize>,
    last: Instant,
    scratch: Vec<u8>,
}

impl Output {
    /// Passes on to these standard streams: one for both kinds, or one for each.
    pub fn new(standard: Vec<StandardStream>, tags: bool) -> Self {
        let names: &[&str] = match standard.len() {
            1 => &["standard output and standard error"],
            _ => &["standard output", "standard error"],
        };
        Self {
            streams: Vec::new(),
            open: standard.iter().map(|_| None).collect(),
            names: names.iter().map(|&name| name.to_owned()).collect(),
            ours: standard.len(),
            standard,
            tags,
            times: false,
            merged: false,
            files: HashMap::new(),
            last: Instant::now(),
            scratch: vec![0; 64 << 10],
        }
    }

    /// Has the outputs of the ranks, whose hosts are these, go where the command line says. To be called before any is added.
    ///
    /// # Errors
    /// If a file cannot be made.
    pub fn redirect(
        &mut self,
        request: &OutputRequest,
        places: &[RankPlace<'_>],
    ) -> io::Result<()> {
        self.times = request.times;
        self.merged = request.merged;
        let ranks = places.len() as u32;
        let mut made: HashMap<PathBuf, usize> = HashMap::new();
        for (rank, place) in (0..).zip(places) {
            for kind in [OutputKind::Out, OutputKind::Error] {
                let Some(path) = request.file(rank, ranks, *place, kind == OutputKind::Error)
                else {
                    continue;
                };
                let target = match made.get(&path) {
                    Some(target) => *target,
                    None => {
                        let target = self.standard.len();
                        self.standard.push(open(&path).map_err(|error| {
                            let path = path.display();
                            io::Error::new(error.kind(), format!("the output file {path}: {error}"))
                        })?);
                        self.names.push(path.display().to_string());
                        self.open.push(None);
                        made.insert(path, target);
                        target
                    }
                };
                self.files.insert((rank, kind), target);
            }
        }
        Ok(())
    }

    /// Takes over the two outputs of a rank; reading them must not wait.
    pub fn add(&mut self, rank: u32, label: &str, pipes: [File; 2]) {
        let sources = pipes.map(Source::Pipe);
        self.add_streams(rank, label, sources);
    }

    /// Makes room for the two outputs of each of so many ranks on other hosts.
    pub fn add_remote(&mut self, ranks: u32) {
        for rank in 0..ranks {
            self.add_fed(rank, &rank.to_string());
        }
    }

    /// Makes room for the two outputs of a rank on another host.
    pub fn add_fed(&mut self, rank: u32, label: &str) {
        self.add_streams(rank, label, [Source::Fed, Source::Fed]);
    }

    /// They take the places of streams that have ended, if there are any: a job may start any number of processes one
    /// after the other.
    fn add_streams(&mut self, rank: u32, label: &str, sources: [Source; 2]) {
        let now = Instant::now();
        for (source, kind) in sources
            .into_iter()
            .zip([OutputKind::Out, OutputKind::Error])
        {
            let stream = Stream {
                rank,
                label: label.to_owned(),
                kind,
                target: self.target(rank, kind),
                source,
                held: Vec::new(),
                complete: 0,
                begins: true,
                first: now,
                last: now,
            };
            let over = |(index, stream): (usize, &Stream)| {
                let held_open = self.open.iter().flatten().any(|open| open.0 == index);
                !stream.is_open() && stream.held.is_empty() && !held_open
            };
            match self.streams.iter().enumerate().position(over) {
                Some(index) => self.streams[index] = stream,
                None => self.streams.push(stream),
            }
        }
    }

    /// Takes what a rank on another host has written; no bytes: it has closed this output. False if
    /// nobody listens any more: the rank is to be told, as by any pipe, when it next writes.
    pub fn feed(&mut self, rank: u32, kind: OutputKind, bytes: &[u8]) -> bool {
        let wanted =
            |stream: &Stream| stream.rank == rank && stream.kind == kind && stream.is_fed();
        // Two of each rank that the job starts with, in order: see `add_remote`.
        let index = 2 * rank as usize + usize::from(kind == OutputKind::Error);
        let index = match self.streams.get(index).is_some_and(wanted) {
            true => Some(index),
            false => self.streams.iter().position(wanted),
        };
        let Some(stream) = index.and_then(|index| self.streams.get_mut(index)) else {
            return true;
        };
        let broken = self.standard[stream.target].is_broken();
        if bytes.is_empty() || broken {
            stream.source = Source::Ended;
        } else {
            let now = Instant::now();
            stream.take(bytes, now);
            self.last = now;
        }
        !broken
    }

    /// Whether other hosts should wait with what they have to say, because nobody takes it.
    pub fn is_held_up(&self) -> bool {
        self.standard.iter().any(StandardStream::is_full)
            || self
                .streams
                .iter()
                .any(|stream| stream.held.len() >= 2 * LONGEST)
    }

    fn standard_of(&self, kind: OutputKind) -> usize {
        match kind {
            OutputKind::Out => 0,
            OutputKind::Error => self.ours - 1,
        }
    }

    /// Which of the targets an output of a rank goes to.
    fn target(&self, rank: u32, kind: OutputKind) -> usize {
        let kind = match self.merged {
            true => OutputKind::Out,
            false => kind,
        };
        let file = self.files.get(&(rank, kind)).copied();
        file.unwrap_or_else(|| self.standard_of(kind))
    }

    /// The pipes that may be read now, with the number for [`read`](Self::read). One that has said so
    /// much that nobody has taken is left alone: its rank waits, as on any full pipe.
    pub fn readable(&self) -> impl Iterator<Item = (usize, &File)> {
        self.streams
            .iter()
            .enumerate()
            .filter_map(|(index, stream)| {
                let room =
                    stream.held.len() < 2 * LONGEST && !self.standard[stream.target].is_full();
                match &stream.source {
                    Source::Pipe(pipe) if room => Some((index, pipe)),
                    _ => None,
                }
            })
    }

    /// The standard streams in which something waits.
    pub fn writable(&self) -> impl Iterator<Item = &StandardStream> {
        self.standard.iter().filter(|ours| !ours.is_empty())
    }

    /// Reads a stream once. False if nothing was there.
    pub fn read(&mut self, index: usize) -> bool {
        let broken = self.standard[self.streams[index].target].is_broken();
        let stream = &mut self.streams[index];
        let Source::Pipe(pipe) = &mut stream.source else {
            return false;
        };
        if broken {
            // Nobody listens any more: the rank is told as by any pipe, when it next writes.
            stream.source = Source::Ended;
            stream.held.clear();
            stream.complete = 0;
            return true;
        }
        match pipe.read(&mut self.scratch) {
            Ok(0) => stream.source = Source::Ended,
            Ok(count) => {
                let now = Instant::now();
                stream.take(&self.scratch[..count], now);
                self.last = now;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(_) => stream.source = Source::Ended,
        }
        true
    }

    /// Passes on what may be passed on, and writes what can be written. Answers when to be called again
    /// at the latest, if nothing happens before.
    pub fn forward(&mut self, now: Instant) -> Option<Instant> {
        let mut next: Option<Instant> = None;
        let mut at = |when: Instant| next = Some(next.map_or(when, |next| next.min(when)));
        for index in 0..self.streams.len() {
            let stream = &self.streams[index];
            if stream.held.is_empty() {
                continue;
            }
            let ours = stream.target;
            if self.standard[ours].is_full() {
                continue;
            }
            let ended = !stream.is_open();
            if let Some((holder, since)) = self.open[ours]
                && holder != index
            {
                let until = since.max(self.streams[holder].last) + PATIENCE;
                if now < until && self.streams[holder].is_open() {
                    at(until);
                    continue;
                }
            }
            let whole = ended || stream.held.len() - stream.complete >= LONGEST;
            let take = if whole {
                stream.held.len()
            } else {
                stream.complete
            };
            if take > 0 {
                let gathered = (stream.last + GATHER).min(stream.first + GATHER_MOST);
                if stream.kind == OutputKind::Error
                    && !whole
                    && take < BLOCK
                    && now < gathered
                    && self.streams.len() > 2
                {
                    at(gathered);
                    continue;
                }
                self.pass_on(index, take, now);
            }
            if !self.streams[index].held.is_empty() {
                let quiet = self.last + QUIET;
                if now < quiet {
                    at(quiet);
                } else {
                    let all = self.streams[index].held.len();
                    self.pass_on(index, all, now);
                }
            }
        }
        for ours in &mut self.standard {
            ours.write();
        }
        next
    }

    /// Passes on the first bytes that a stream holds.
    fn pass_on(&mut self, index: usize, count: usize, now: Instant) {
        let which = self.streams[index].target;
        let (stream, ours) = (&mut self.streams[index], &mut self.standard[which]);
        let other = self.open[which]
            .take()
            .map(|(holder, _)| holder)
            .filter(|&holder| holder != index);
        if !ours.is_fresh() && (other.is_some() || stream.begins) {
            ours.push(b"\n");
            stream.begins = true;
        }
        if self.tags || self.times {
            let mut tag = match self.times {
                true => clock::utc_text() + " ",
                false => String::new(),
            };
            if self.tags {
                tag += &format!("[{}] ", stream.label);
            }
            for line in stream.held[..count].split_inclusive(|&byte| byte == b'\n') {
                if stream.begins {
                    ours.push(tag.as_bytes());
                }
                ours.push(line);
                stream.begins = line.ends_with(b"\n");
            }
        } else {
            ours.push(&stream.held[..count]);
            stream.begins = stream.held[count - 1] == b'\n';
        }
        if !stream.begins {
            self.open[which] = Some((index, now));
        }
        stream.held.drain(..count);
        stream.complete = stream.complete.saturating_sub(count);
        stream.first = stream.last;
        if let Some(holder) = other {
            // Its line was broken: what follows of it begins a line.
            self.streams[holder].begins = true;
        }
    }

    /// Reads all that is left in the pipes and passes it on: the ranks have ended. That of `last` comes
    /// at the end. True once everything is written.
    pub fn finish(&mut self, last: Option<u32>) -> bool {
        let now = Instant::now();
        let mut order: Vec<usize> = (0..self.streams.len()).collect();
        order.sort_by_key(|&index| Some(self.streams[index].rank) == last);
        for index in order {
            let ours = self.streams[index].target;
            loop {
                if self.standard[ours].is_full() {
                    break;
                }
                let held = self.streams[index].held.len();
                if held > 0 {
                    self.pass_on(index, held, now);
                }
                if !self.streams[index].is_open() {
                    break;
                }
                if !self.read(index) {
                    // Nobody who could write is left, except somebody who fled.
                    self.streams[index].source = Source::Ended;
                }
            }
            self.standard[ours].write();
            if self.streams[index].is_open() || !self.streams[index].held.is_empty() {
                return false;
            }
        }
        self.standard.iter_mut().all(|ours| {
            ours.write();
            ours.is_empty()
        })
    }

    /// What could not be written, though somebody may have wanted it, and why.
    pub fn loss(&self) -> Option<(&str, String)> {
        let mut streams = self.standard.iter().zip(&self.names);
        streams.find_map(|(stream, name)| Some((&**name, stream.loss()?.to_string())))
    }

    /// Puts a line of our own on standard error, on a line of its own.
    pub fn say(&mut self, line: &str) {
        let which = self.standard_of(OutputKind::Error);
        if let Some((holder, _)) = self.open[which].take() {
            self.streams[holder].begins = true;
        }
        let ours = &mut self.standard[which];
        if !ours.is_fresh() {
            ours.push(b"\n");
        }
        ours.push(format!("{line}\n").as_bytes());
    }
}

/// Makes a file for output, and the folders that it lies in.
fn open(path: &PathBuf) -> io::Result<StandardStream> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    StandardStream::new(File::create(path)?.as_fd())
}

#[cfg(test)]
mod tests;
