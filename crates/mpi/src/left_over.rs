//! Report of what is left over when a rank finalises: messages never received, requests never completed, and objects that
//! its caller has made and never freed.
//!
//! ```text
//! weft: warning: left over by rank 1 of 64 at MPI_Finalize, and likewise by 62 other ranks
//!   message        never received: 8 bytes from rank 0 with tag 5 on MPI_COMM_WORLD
//!   communicators  3 never freed: 2 of MPI_Comm_dup at heat.c:17 (setup), 1 of MPI_Comm_split at heat.c:20 (setup)
//! ```
//!
//! Ranks whose reports are the same, except for the sources of messages, are reported once: all ranks compare a
//! [word](Report::likeness), and the first of those that agree reports for them. If nothing is left over anywhere, this
//! costs one reduction of a word.

mod words;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use weft_fabric::Peer;

use crate::buffer::{self, Buffer};
use crate::coll::{Blocks, Collective, Members, Reduction, allgather, allreduce};
use crate::comm::Comm;
use crate::datatype::{Basic, SignatureCode};
use crate::engine::Shared;
use crate::engine::collective_note::CollectiveNote;
use crate::engine::left_over::Unended;
pub use crate::engine::left_over::{Operation, Standing};
use crate::engine::schedule::Schedule;
use crate::error::Result;
use crate::op::{Op, Predefined};
use crate::process::Process;
use crate::{RequestId, group::Group};

use words::{list, ranks};

/// Different reports of a job that are told in full.
const TOLD: usize = 4;

/// Lines of messages, or of requests, in one report.
const LINES: usize = 4;

/// Owner of a context, in words.
#[derive(Clone, Debug)]
pub struct Owner {
    /// `MPI_COMM_WORLD`, "a file": how people know it.
    pub name: String,
    /// In which the ranks of messages are counted.
    pub comm: Option<Arc<Comm>>,
}

/// One line.
#[derive(Clone, Debug)]
struct Line {
    /// The kind of thing.
    label: String,
    said: String,
    /// The same without what differs between ranks.
    alike: String,
}

/// Everything that one rank has left over.
#[derive(Clone, Debug, Default)]
pub struct Report {
    lines: Vec<Line>,
}

impl Report {
    /// Whether nothing is left over.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Adds a line that does not depend on the rank: "communicators", "2 never freed: …".
    pub fn add(&mut self, label: &str, said: String) {
        self.add_of_rank(label, said.clone(), said);
    }

    fn add_of_rank(&mut self, label: &str, said: String, alike: String) {
        self.lines.push(Line {
            label: label.to_owned(),
            said,
            alike,
        });
    }

    /// A word that two ranks have in common if the same is left over by them; 0 if nothing is.
    #[must_use]
    pub fn likeness(&self) -> u64 {
        if self.is_empty() {
            return 0;
        }
        let mut hasher = DefaultHasher::new();
        for line in &self.lines {
            line.label.hash(&mut hasher);
            line.alike.hash(&mut hasher);
        }
        hasher.finish().max(1)
    }

    /// The whole, as people read it: below a first line that begins so.
    #[must_use]
    pub fn text(&self, first: &str) -> String {
        let width = self.lines.iter().map(|line| line.label.len()).max();
        let width = width.unwrap_or(0);
        let mut text = format!("weft: warning: {first}\n");
        for line in &self.lines {
            let _ = writeln!(text, "  {:width$}  {}", line.label, line.said);
        }
        text
    }

    /// The text that a rank prints at `MPI_Finalize`, if it is the one to print it.
    #[must_use]
    pub fn of_rank(&self, compared: &Compared, rank: u32, size: u32) -> Option<String> {
        let mut first = format!("left over by rank {rank} of {size} at MPI_Finalize");
        match compared.told? {
            0 => {}
            1 => first += ", and likewise by another rank",
            others => {
                let _ = write!(first, ", and likewise by {others} other ranks");
            }
        }
        let mut text = self.text(&first);
        if compared.first && compared.untold > 0 {
            let _ = writeln!(text, "  and more by {} other ranks", compared.untold);
        }
        Some(text)
    }

    /// Adds the messages that no receive has taken. `owner` knows the communicators of contexts; messages of other
    /// contexts are not the program's.
    pub fn add_messages(&mut self, process: &Process, owner: &dyn Fn(u32) -> Option<Owner>) {
        let of_engine = |engine: &Arc<Shared>| {
            let mut engine = engine.lock();
            engine.settle();
            engine.unreceived()
        };
        let unreceived: Vec<_> = process.engines().all().flat_map(of_engine).collect();
        let mut groups: BTreeMap<(u32, i32), (Vec<u32>, u64)> = BTreeMap::new();
        for message in &unreceived {
            let group = groups.entry((message.context, message.tag)).or_default();
            group.0.push(message.from.0);
            group.1 += message.bytes;
        }
        let known = groups.into_iter().filter_map(|((context, tag), group)| {
            let owner = owner(context)?;
            owner.comm.is_some().then_some((owner, tag, group))
        });
        let known: Vec<_> = known.collect();
        let more: usize = known
            .iter()
            .skip(LINES)
            .map(|(.., group)| group.0.len())
            .sum();
        for (owner, tag, (peers, bytes)) in known.into_iter().take(LINES) {
            let count = peers.len();
            let from = ranks(&in_ranks(&owner, peers));
            let (label, amount, total) = match count {
                1 => ("message", String::new(), ""),
                _ => ("messages", format!("{count} "), " in all"),
            };
            let of = format!("with tag {tag} on {}", owner.name);
            let size = format!("{bytes} bytes{total}");
            self.add_of_rank(
                label,
                format!("{amount}never received: {size} from {from} {of}"),
                format!("{amount}never received: {size} {of}"),
            );
        }
        if more > 0 {
            self.add(
                "messages",
                format!("{more} more, with other tags or on other communicators"),
            );
        }
    }

    /// Adds the collectives of others that no call of this rank belongs to: those of another root, for instance.
    pub fn add_collectives(&mut self, process: &Process, owner: &dyn Fn(u32) -> Option<Owner>) {
        let of_engine = |engine: &Arc<Shared>| engine.lock().stranded();
        let stranded: Vec<_> = process.engines().all().flat_map(of_engine).collect();
        for (message, note) in stranded.iter().take(LINES) {
            let Some(owner) = owner(message.context).filter(|owner| owner.comm.is_some()) else {
                continue;
            };
            let what = format!(
                "{} on {}: {} bytes that no call of this rank has received; all ranks must call the same collectives, with the same root",
                note.describe(),
                owner.name,
                message.bytes
            );
            let from = ranks(&in_ranks(&owner, vec![message.from.0]));
            let said = format!("not shared: {from} was in {what}");
            self.add_of_rank("collective", said, what);
        }
    }

    /// Adds the requests that were not completed; `made` knows where some of them were made. Inactive persistent requests
    /// are included if `also_inactive` is true.
    pub fn add_requests(
        &mut self,
        process: &Process,
        owner: &dyn Fn(u32) -> Option<Owner>,
        made: &dyn Fn(RequestId) -> Option<String>,
        also_inactive: bool,
    ) {
        let of_engine = |engine: &Arc<Shared>| engine.lock().unended();
        let unended: Vec<_> = process.engines().all().flat_map(of_engine).collect();
        let mut groups: BTreeMap<(Standing, Operation, u32), BTreeMap<String, usize>> =
            BTreeMap::new();
        for one in &unended {
            if one.standing == Standing::Inactive && !also_inactive {
                continue;
            }
            let Unended {
                standing,
                operation,
                context,
                ..
            } = *one;
            let group = groups
                .entry((standing, operation, context & !1))
                .or_default();
            *group.entry(made(one.id).unwrap_or_default()).or_default() += 1;
        }
        let more: usize = groups.values().skip(LINES).flat_map(BTreeMap::values).sum();
        for ((standing, operation, context), places) in groups.into_iter().take(LINES) {
            let count: usize = places.values().sum();
            let name =
                owner(context).map_or_else(String::new, |owner| format!(" on {}", owner.name));
            let what = match (standing, operation) {
                (Standing::Inactive, _) => "persistent and never freed",
                (Standing::Complete, _) => "ended, but never waited for or tested",
                (_, Operation::Send) => "never completed: send",
                (_, Operation::Receive) => "never completed: receive",
                (_, Operation::Collective) => "never completed: collective",
                (_, Operation::Other) => "never completed",
            };
            let label = if count == 1 { "request" } else { "requests" };
            let amount = if count == 1 {
                String::new()
            } else {
                format!("{count} ")
            };
            let said = format!("{amount}{what}{name}{}", list(&places));
            self.add(label, said);
        }
        if more > 0 {
            self.add(
                "requests",
                format!("{more} more, of other kinds or communicators"),
            );
        }
    }

    /// Adds things of a kind, with its singular and plural name, and what was not done: how many from each place, which
    /// may be empty.
    pub fn add_things(
        &mut self,
        (one, many): (&str, &str),
        what: &str,
        places: &BTreeMap<String, usize>,
    ) {
        let count: usize = places.values().sum();
        let (label, amount) = match count {
            0 => return,
            1 => (one, String::new()),
            _ => (many, format!("{count} ")),
        };
        self.add(label, format!("{amount}{what}{}", list(places)));
    }
}

/// Peers as ranks of the owner's communicator.
fn in_ranks(owner: &Owner, peers: Vec<u32>) -> Vec<u32> {
    let comm = owner.comm.as_ref();
    let group: Option<&Group> = comm.map(|comm| &**comm.remote_group().unwrap_or(comm.group()));
    let rank_of = |peer: u32| group.and_then(|group| group.rank_of(Peer(peer)));
    let mut ranks: Vec<u32> = peers.into_iter().filter_map(rank_of).collect();
    ranks.sort_unstable();
    ranks.dedup();
    ranks
}

impl Process {
    /// State of a request, if it is live.
    #[must_use]
    pub fn standing(&self, id: RequestId) -> Option<Standing> {
        self.lock_of(id).standing(id)
    }
}

impl Comm {
    /// Senders and tags of its messages that are here and that no receive has taken; of one tag, or of all.
    #[must_use]
    pub fn unreceived(&self, tag: Option<i32>) -> Vec<(Peer, i32)> {
        let of_context = |context: u32| {
            let mut engine = self.process().engine_of(context).lock();
            engine.settle();
            let mut all = engine.unreceived();
            drop(engine);
            all.retain(|one| one.context == context && tag.is_none_or(|tag| tag == one.tag));
            all
        };
        let all = self.contexts().flat_map(of_context);
        all.map(|one| (one.from, one.tag)).collect()
    }
}

/// Result of the comparison among the ranks of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Compared {
    /// Number of ranks that have something left over.
    pub ranks: u32,
    /// Whether this rank is to print its report, and how many others have the same.
    pub told: Option<u32>,
    /// Whether this is the first rank of all that have anything left over.
    pub first: bool,
    /// Number of ranks whose report is not printed, because there would be too many.
    pub untold: u32,
}

impl Compared {
    /// The result of a rank that cannot ask the others; it prints its report if `tells` is true.
    #[must_use]
    pub fn of_one(is_empty: bool, tells: bool) -> Self {
        Self {
            ranks: u32::from(!is_empty),
            told: (!is_empty && tells).then_some(0),
            first: !is_empty,
            untold: 0,
        }
    }
}

/// Has all ranks of the world compare their [words](Report::likeness). A collective call.
///
/// # Errors
/// When a rank is lost.
pub fn compare(world: &Comm, likeness: u64) -> Result<Compared> {
    let all = match any(world, likeness != 0)? {
        false => {
            return Ok(Compared {
                ranks: 0,
                told: None,
                first: false,
                untold: 0,
            });
        }
        true => gather(world, likeness)?,
    };
    Ok(of_rank(&all, world.rank() as usize))
}

/// What the rank has to know, if these are the words of all.
fn of_rank(all: &[u64], rank: usize) -> Compared {
    let mut different: Vec<u64> = Vec::new();
    for word in all.iter().filter(|word| **word != 0) {
        if !different.contains(word) {
            different.push(*word);
            if different.len() == TOLD {
                break;
            }
        }
    }
    let own = all[rank];
    let count =
        |wanted: &dyn Fn(&u64) -> bool| all.iter().filter(|word| wanted(word)).count() as u32;
    let is_first = |wanted: &dyn Fn(&u64) -> bool| all.iter().position(wanted) == Some(rank);
    let told = different.contains(&own) && is_first(&|word| *word == own);
    Compared {
        ranks: count(&|word| *word != 0),
        told: told.then(|| count(&|word| *word == own) - 1),
        first: is_first(&|word| *word != 0),
        untold: count(&|word| *word != 0 && !different.contains(word)),
    }
}

/// Whether any rank says so.
fn any(world: &Comm, mine: bool) -> Result<bool> {
    let mut byte = [u8::from(mine)];
    let data = Buffer::Flat(buffer::region_of(&mut byte), SignatureCode::UNKNOWN);
    let reduction = Reduction {
        count: 1,
        datatype: Basic::Uint8.datatype().clone(),
        op: Op::predefined(Predefined::Bor),
    };
    let schedule = allreduce(&Members::of(world), &data, &data, &reduction)?;
    world.run(of_finalize(schedule))?;
    let Buffer::Flat(region, _) = data else {
        return Ok(false);
    };
    let mut answer = [0];
    region.copy_to_slice(&mut answer);
    Ok(answer != [0])
}

/// A collective by which ranks compare: none of the program, which others that still look for what is left over would
/// take for one that nobody has called here.
fn of_finalize(schedule: Schedule) -> Collective<'static> {
    Collective::Steps(Schedule {
        name: "MPI_Finalize",
        note: CollectiveNote::NOTHING,
        ..schedule
    })
}

/// The words of all ranks.
fn gather(world: &Comm, mine: u64) -> Result<Vec<u64>> {
    let size = world.size() as usize;
    let mut sent = mine.to_le_bytes();
    let mut received = vec![0_u8; size * 8];
    let whole = buffer::region_of(&mut received);
    let block = |rank: usize| {
        Buffer::Flat(
            whole.part(rank * 8, 8).expect("one of them"),
            SignatureCode::UNKNOWN,
        )
    };
    let blocks = Blocks::of((0..size).map(block).collect());
    let own = Buffer::Flat(buffer::region_of(&mut sent), SignatureCode::UNKNOWN);
    let schedule = allgather(&Members::of(world), Some(&own), &blocks)?;
    world.run(of_finalize(schedule))?;
    let words = received.as_chunks::<8>().0;
    Ok(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
}

#[cfg(test)]
mod tests;
