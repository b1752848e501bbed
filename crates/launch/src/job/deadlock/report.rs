//! Report of a standstill: why no rank can go on, what each rank waits for, what was sent and never received, and a
//! remedy.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use weft_mpi::waits::{Operation, PARTITIONS, RankWaits, Unreceived, Wait, WindowStep};

use super::graph::{self, Core, first_operation};

/// Ranks that get lines of their own; further ones wait for the same, as a rule.
const RANKS_SHOWN: usize = 32;
/// Threads of a rank that are shown.
const THREADS_SHOWN: usize = 4;
/// Messages that are shown.
const MESSAGES_SHOWN: usize = 8;
/// Operations of one wait that are shown.
const OPERATIONS_SHOWN: usize = 4;

/// Ranks none of which can go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Standstill {
    ranks: BTreeMap<u32, RankWaits>,
}

/// A message that nobody has received: sender, receiver, and what the receiver told.
type Pending<'a> = (u32, u32, &'a Unreceived);

impl Standstill {
    /// What each of them waits for.
    pub fn new(ranks: BTreeMap<u32, RankWaits>) -> Self {
        Self { ranks }
    }

    /// For the last line of the launcher: "ranks 0 and 1 wait for each other".
    pub fn summary(&self) -> String {
        match graph::core(&self.ranks) {
            None => "no rank can go on".into(),
            Some(Core::Cycle(ranks)) => match &ranks[..] {
                [one] => format!("rank {one} waits for itself"),
                [one, other] => format!("ranks {one} and {other} wait for each other"),
                ranks => {
                    let way = listed(&ranks[1..], ", that for rank ");
                    let first = ranks[0];
                    format!("rank {first} waits for rank {way}, and that for rank {first}")
                }
            },
            Some(Core::Knot(ranks)) => match &ranks[..] {
                [one] => format!("rank {one} waits for itself"),
                ranks => format!("ranks {} wait for one another", listed(ranks, ", ")),
            },
            Some(Core::Gone(one, gone)) => {
                format!("rank {one} waits for rank {gone}, which has left MPI")
            }
        }
    }

    /// All lines of the report but the last one of the launcher.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("deadlock: {}", self.summary())];
        for (rank, waits) in self.ranks.iter().take(RANKS_SHOWN) {
            for wait in waits.waits.iter().take(THREADS_SHOWN) {
                lines.push(format!(
                    "  rank {rank}: {}",
                    self.describe(*rank, waits, wait)
                ));
            }
            let more = waits.waits.len().saturating_sub(THREADS_SHOWN) + waits.more_waits as usize;
            if more > 0 {
                lines.push(format!("  rank {rank}: {more} more threads or fibers wait"));
            }
        }
        let more = self.ranks.len().saturating_sub(RANKS_SHOWN);
        if more > 0 {
            lines.push(format!("  and {more} more ranks"));
        }
        let messages = self.unreceived();
        for message in messages.iter().take(MESSAGES_SHOWN) {
            lines.push(format!("  never received: {}", self.message(message)));
        }
        let more = messages.len().saturating_sub(MESSAGES_SHOWN);
        if more > 0 {
            lines.push(format!("  never received: {more} more messages"));
        }
        lines.push(format!("  remedy: {}", self.remedy()));
        lines
    }

    /// One wait: "MPI_Recv from rank 1, tag 6, in MPI_COMM_WORLD, at heat.c:17 (main)".
    fn describe(&self, rank: u32, waits: &RankWaits, wait: &Wait) -> String {
        let mut text = String::new();
        if wait.is_fiber {
            text += "a fiber: ";
        }
        text += if wait.call.is_empty() {
            "waits"
        } else {
            &wait.call
        };
        let between = if wait.any { " or" } else { " and" };
        for (index, operation) in wait.operations.iter().take(OPERATIONS_SHOWN).enumerate() {
            text += if index == 0 { "" } else { between };
            text.push(' ');
            text += &self.operation(rank, waits, wait, operation);
        }
        let more = wait.operations.len().saturating_sub(OPERATIONS_SHOWN);
        if more > 0 {
            let _ = write!(text, "{between} {more} more");
        }
        if !wait.place.is_empty() {
            let _ = write!(text, ", at {}", wait.place);
        }
        text
    }

    fn operation(
        &self,
        rank: u32,
        waits: &RankWaits,
        wait: &Wait,
        operation: &Operation,
    ) -> String {
        let on = operation
            .context()
            .and_then(|context| communicator(waits, context))
            .map_or_else(String::new, |on| format!(", {on}"));
        match operation {
            Operation::Message { from, tag, .. } => {
                let from = from.map_or("any rank".into(), |from| format!("rank {from}"));
                let tag = tag.map_or("any tag".into(), |tag| format!("tag {tag}"));
                format!("for a message from {from}, {tag}{on}")
            }
            Operation::Data { from, .. } => {
                let from = from.map_or("any rank".into(), |from| format!("rank {from}"));
                format!("for the data of a message from {from}{on}")
            }
            Operation::Receive { by, request, .. } => {
                let tag = self.ranks.get(by).and_then(|other| {
                    let mut all = other.unreceived.iter();
                    all.find(|one| one.from == rank && one.request == *request)
                });
                let tag = tag.map_or(String::new(), |one| format!(", tag {}", one.tag));
                format!("for rank {by} to receive{tag}{on}")
            }
            Operation::Collective { name, missing, .. } => {
                // Other calls than those that wait for a request do collectives of their own.
                let is_named = wait.call.is_empty() || wait.call.starts_with("MPI_Wait");
                let own = if is_named && wait.call != *name {
                    format!("in {name} ")
                } else {
                    String::new()
                };
                let missing = match missing.len() {
                    0 => "the others".into(),
                    1 => format!("rank {}", missing[0]),
                    _ => format!("ranks {}", listed(missing, ", ")),
                };
                format!("{own}for {missing} to come{on}")
            }
            Operation::Window {
                context,
                step,
                peers,
            } => {
                let holders = graph::holders(&self.ranks, rank, (*context, peers));
                format!("for {}{on}", at_window(*step, peers, &holders))
            }
            Operation::Leaving => "for what it has sent to leave".into(),
            Operation::Service { what, .. } | Operation::Other(what) | Operation::Outside(what) => {
                format!("for {what}")
            }
        }
    }

    /// What was sent and never received, but for what belongs to collectives.
    fn unreceived(&self) -> Vec<Pending<'_>> {
        let mut found = Vec::new();
        for (rank, waits) in &self.ranks {
            for message in &waits.unreceived {
                if message.context & 1 == 0 {
                    found.push((message.from, *rank, message));
                }
            }
        }
        found
    }

    fn message(&self, (from, to, message): &Pending<'_>) -> String {
        let waits = &self.ranks[to];
        let mut text = format!(
            "a message of {} bytes from rank {from} to rank {to}, tag {}",
            message.bytes, message.tag,
        );
        if let Some(on) = communicator(waits, message.context) {
            let _ = write!(text, ", {on}");
        }
        match self.near_miss(*from, *to, message) {
            Some(NearMiss::Tag(tag)) => {
                let _ = write!(text, " (rank {to} waits for tag {tag})");
            }
            Some(NearMiss::Communicator(context)) => {
                let on = communicator(waits, context);
                let on = on.unwrap_or_else(|| "another communicator".into());
                let _ = write!(text, " (rank {to} waits in {on})");
            }
            Some(NearMiss::Source(source)) => {
                let _ = write!(text, " (rank {to} waits for rank {source})");
            }
            None => {}
        }
        text
    }

    /// In what a message differs from what its receiver waits for.
    fn near_miss(&self, from: u32, to: u32, message: &Unreceived) -> Option<NearMiss> {
        let waits = self.ranks.get(&to)?;
        let operations = waits.waits.iter().flat_map(|wait| &wait.operations);
        operations
            .filter_map(|operation| match operation {
                Operation::Message {
                    from: source,
                    tag,
                    context,
                    ..
                } => {
                    let same_source = source.is_none_or(|source| source == from);
                    let same_tag = tag.is_none_or(|tag| tag == message.tag);
                    match (same_source, same_tag, *context == message.context) {
                        (true, false, true) => tag.map(NearMiss::Tag),
                        (true, true, false) => Some(NearMiss::Communicator(*context)),
                        (false, true, true) => source.map(NearMiss::Source),
                        _ => None,
                    }
                }
                _ => None,
            })
            .next()
    }

    /// A collective that some of these ranks have called, and others begun.
    fn mixed_forms(&self, ranks: &[u32]) -> Option<&str> {
        let waits = ranks.iter().filter_map(|rank| self.ranks.get(rank));
        let waits = waits.filter_map(|waits| waits.waits.first());
        let forms: Vec<(&str, u32, bool)> = waits
            .filter_map(|wait| match wait.operations.first() {
                Some(Operation::Collective { name, context, .. }) => {
                    Some((&**name, *context, is_request(wait)))
                }
                _ => None,
            })
            .collect();
        let is_called = |(name, context, begun): &&(&str, u32, bool)| {
            *begun && forms.contains(&(*name, *context, false))
        };
        forms.iter().find(is_called).map(|(name, ..)| *name)
    }

    /// Those who have a lock for which the first of these ranks waits that waits for one.
    fn holders_of(&self, involved: &[u32]) -> Option<Vec<u32>> {
        let holders = involved.iter().filter_map(|rank| {
            let operation = self.ranks.get(rank).and_then(first_operation)?;
            match operation {
                Operation::Window {
                    context,
                    step: WindowStep::Lock,
                    peers,
                } => Some(graph::holders(&self.ranks, *rank, (*context, peers))),
                _ => None,
            }
        });
        holders.into_iter().find(|holders| !holders.is_empty())
    }

    fn remedy(&self) -> String {
        for (from, to, message) in self.unreceived() {
            match self.near_miss(from, to, message) {
                Some(NearMiss::Tag(_)) => {
                    return format!(
                        "let the tags of rank {from}'s send and rank {to}'s receive agree"
                    );
                }
                Some(NearMiss::Communicator(_)) => {
                    return format!(
                        "let rank {from}'s send and rank {to}'s receive name the same communicator"
                    );
                }
                Some(NearMiss::Source(_)) | None => {}
            }
        }
        let of = |ranks: &[u32]| -> Vec<&Operation> {
            let waits = ranks.iter().filter_map(|rank| self.ranks.get(rank));
            waits.filter_map(first_operation).collect()
        };
        let involved = match graph::core(&self.ranks) {
            Some(Core::Gone(one, gone)) => {
                return format!(
                    "rank {gone} sends nothing any more: let it do its part before it leaves, or let rank {one} not wait for it"
                );
            }
            Some(Core::Cycle(ranks)) if ranks.len() == 1 => {
                return "a rank that sends to itself needs a receive posted before (MPI_Irecv), or MPI_Sendrecv".into();
            }
            Some(Core::Cycle(ranks) | Core::Knot(ranks)) => ranks,
            None => Vec::new(),
        };
        let in_finalise = |rank: &&u32| {
            let waits = self.ranks.get(rank).map(|waits| &waits.waits);
            waits.is_some_and(|waits| waits.iter().any(|wait| wait.call == "MPI_Finalize"))
        };
        if let Some(rank) = involved.iter().find(in_finalise) {
            return format!(
                "rank {rank} is in MPI_Finalize and does nothing more for the others: let it do its part before, or let them not wait for it"
            );
        }
        let operations = of(&involved);
        let is_send = |one: &&Operation| matches!(one, Operation::Receive { .. });
        let is_receive = |one: &&Operation| matches!(one, Operation::Message { .. });
        let is_collective = |one: &&Operation| matches!(one, Operation::Collective { .. });
        let is_window = |one: &&Operation| matches!(one, Operation::Window { .. });
        let is_partitioned =
            |one: &&Operation| matches!(one, Operation::Other(what) if what == PARTITIONS);
        let is_service = |one: &&Operation| matches!(one, Operation::Service { .. });
        if operations.iter().all(is_send) {
            "all of them send before they receive: use MPI_Sendrecv, or post the receives first (MPI_Irecv)".into()
        } else if operations.iter().all(is_receive) {
            "all of them receive before anybody has sent: let one of them send first, or use MPI_Sendrecv".into()
        } else if let Some(name) = self.mixed_forms(&involved) {
            format!(
                "some ranks are in {name} itself, others wait for one that was begun before (non-blocking or persistent): these never meet; let all ranks call the same form"
            )
        } else if operations.iter().all(is_collective) {
            "let all ranks of each communicator call its collectives, and in the same order".into()
        } else if operations.iter().any(is_partitioned) {
            "let whoever sends by partitions make each of them ready (MPI_Pready) before it waits"
                .into()
        } else if let Some(holders) = self.holders_of(&involved) {
            format!(
                "let {} give the lock back (MPI_Win_unlock) before it waits for something else",
                ranks(&holders)
            )
        } else if operations.iter().any(is_window) {
            "let each rank end its epoch (MPI_Win_unlock, MPI_Win_complete, MPI_Win_fence) before it waits for something else: others wait at the window until then".into()
        } else if operations.iter().any(is_service) {
            "let whoever is waited for write, allow, signal or take the name before it waits itself"
                .into()
        } else if operations.iter().any(is_collective) {
            "let all ranks of the communicator call the collective, and exchange messages before or after it on both sides".into()
        } else {
            "let each receive have a send with the same ranks, tag and communicator, in an order in which one can go first".into()
        }
    }
}

/// Whether it is a wait for a request.
fn is_request(wait: &Wait) -> bool {
    wait.call == "wait" || wait.call.starts_with("MPI_Wait") || wait.call.starts_with("MPI_Test")
}

/// In what a message differs from what its receiver waits for.
enum NearMiss {
    Tag(i32),
    Communicator(u32),
    Source(u32),
}

fn listed(ranks: &[u32], between: &str) -> String {
    const SHOWN: usize = 16;
    let shown: Vec<String> = ranks.iter().take(SHOWN).map(u32::to_string).collect();
    let more = match ranks.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    shown.join(between) + &more
}

/// Some ranks, not none.
fn ranks(numbers: &[u32]) -> String {
    match numbers {
        [one] => format!("rank {one}"),
        several => format!("ranks {}", listed(several, ", ")),
    }
}

/// What is awaited at a window of these ranks, whose lock these others have.
fn at_window(step: WindowStep, peers: &[u32], holders: &[u32]) -> String {
    if peers.is_empty() {
        return "others at a window".into();
    }
    let of = ranks(peers);
    match step {
        WindowStep::Lock if holders.is_empty() => format!("the lock of {of} at a window"),
        WindowStep::Lock => {
            let verb = if holders.len() == 1 { "has" } else { "have" };
            format!(
                "the lock of {of} at a window, which {} {verb}",
                ranks(holders)
            )
        }
        WindowStep::Post => format!("{of} to begin an exposure epoch (MPI_Win_post)"),
        WindowStep::Complete => format!("{of} to end an access epoch (MPI_Win_complete)"),
        WindowStep::Answer => format!("{of} to carry out operations at a window"),
        WindowStep::Other => format!("{of} at a window"),
    }
}

/// A communicator for people; `None` for those that the program does not know, within windows and files.
fn communicator(waits: &RankWaits, context: u32) -> Option<String> {
    let mut named = waits.communicators.iter();
    let found = named.find(|one| one.context & !1 == context & !1)?;
    Some(match found {
        one if !one.name.is_empty() => one.name.clone(),
        one if one.members.is_empty() => "a communicator of all ranks".into(),
        one => format!("a communicator of ranks {}", listed(&one.members, ", ")),
    })
}
