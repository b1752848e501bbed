//! Wait text: a rank's answer about what its threads wait for, as text for the user.

use std::collections::BTreeMap;

use weft_mpi::waits::{
    self, CommunicatorName, HeldLock, MOST, Operation, RankWaits, Unreceived, WindowStep,
};

use super::protocol::Wait;

/// Longest name that is kept of what a rank says, in letters.
const LONGEST: usize = 200;
/// Most operations of one wait, and most messages, that are written out.
const SHOWN: usize = 4;

/// Names of ranks and communicators, for the text.
pub struct Names<'a> {
    /// Names of processes, by their number in the job.
    pub ranks: &'a BTreeMap<u32, String>,
    /// As the rank has said them.
    communicators: &'a [CommunicatorName],
}

impl<'a> Names<'a> {
    /// For those that occur in a rank's answer.
    #[must_use]
    pub fn new(ranks: &'a BTreeMap<u32, String>, waits: &'a RankWaits) -> Self {
        Self {
            ranks,
            communicators: &waits.communicators,
        }
    }

    fn rank(&self, number: u32) -> String {
        self.ranks
            .get(&number)
            .cloned()
            .unwrap_or_else(|| number.to_string())
    }

    fn communicator(&self, context: u32) -> Option<&CommunicatorName> {
        let mut all = self.communicators.iter();
        all.find(|communicator| communicator.context == context)
    }

    /// A process, with its rank in the communicator where that is another one.
    fn member(&self, number: u32, context: u32) -> String {
        let members = self.communicator(context).map(|named| &named.members[..]);
        let at = members.and_then(|members| members.iter().position(|member| *member == number));
        let name = self.rank(number);
        match at {
            Some(rank) if rank.to_string() != name => format!("rank {name} (there rank {rank})"),
            _ => format!("rank {name}"),
        }
    }

    fn on(&self, context: u32) -> String {
        match self.communicator(context) {
            Some(named) if !named.name.is_empty() => format!(" on {}", bounded(&named.name)),
            _ => String::new(),
        }
    }
}

fn bounded(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}

/// The waits of each thread of a rank.
#[must_use]
pub fn waits(ranks: &BTreeMap<u32, String>, said: &RankWaits) -> Vec<Wait> {
    let names = Names::new(ranks, said);
    let all = said.waits.iter().take(MOST);
    all.map(|wait| one(&names, wait)).collect()
}

fn one(names: &Names<'_>, wait: &waits::Wait) -> Wait {
    let mut operations = wait.operations.iter();
    let texts: Vec<String> = operations
        .by_ref()
        .take(SHOWN)
        .map(|operation| operation_text(names, operation))
        .collect();
    let between = if wait.any { ", or " } else { ", and " };
    let mut what = match &wait.call[..] {
        "" => "in MPI".to_owned(),
        call => bounded(call),
    };
    match &texts[..] {
        [] => {}
        // A collective by its own name.
        [only] if only.starts_with(&what) => what.clone_from(only),
        texts => what += &format!(": {}", texts.join(between)),
    }
    match operations.count() {
        0 => {}
        more => what += &format!("{between}{more} more"),
    }
    if wait.is_fiber {
        what += " (a fiber)";
    }
    Wait {
        what,
        place: Some(bounded(&wait.place)).filter(|place| !place.is_empty()),
        seconds: Some(wait.since as f64 / 1000.0),
    }
}

fn operation_text(names: &Names<'_>, operation: &Operation) -> String {
    match operation {
        Operation::Message {
            from,
            tag,
            context,
            room,
        } => {
            let from = match from {
                Some(from) => names.member(*from, *context),
                None => "any rank".to_owned(),
            };
            let tag = match tag {
                Some(tag) => format!("tag {tag}"),
                None => "any tag".to_owned(),
            };
            let room = match room {
                Some(room) => format!(", of at most {room} bytes"),
                None => String::new(),
            };
            format!("a message from {from}, {tag}{room}{}", names.on(*context))
        }
        Operation::Data { from, context } => match from {
            Some(from) => format!(
                "the data of a message from {}{}",
                names.member(*from, *context),
                names.on(*context)
            ),
            None => format!("the data of a message{}", names.on(*context)),
        },
        Operation::Receive {
            by,
            context,
            is_queued,
            ..
        } => {
            let (by, on) = (names.member(*by, *context), names.on(*context));
            match is_queued {
                true => format!("room for a message to {by}{on}, which takes nothing now"),
                false => format!("{by} to receive a message{on}"),
            }
        }
        Operation::Collective {
            name,
            context,
            missing,
        } => {
            let on = names.on(*context);
            let name = bounded(name);
            match list(names, missing, *context) {
                None => format!("{name}{on}"),
                Some(missing) => format!("{name}{on}, to which {missing} did not come yet"),
            }
        }
        Operation::Window {
            context,
            step,
            peers,
        } => {
            let on = names.on(*context);
            let Some(of) = list(names, peers, *context) else {
                return format!("others at a window{on}");
            };
            match step {
                WindowStep::Lock => format!("the lock of {of} at a window{on}"),
                WindowStep::Post => format!("{of} to begin an exposure epoch (MPI_Win_post){on}"),
                WindowStep::Complete => {
                    format!("{of} to end an access epoch (MPI_Win_complete){on}")
                }
                WindowStep::Answer => format!("{of} to carry out operations at a window{on}"),
                WindowStep::Other => format!("{of} at a window{on}"),
            }
        }
        Operation::Leaving => "what was sent to leave this rank".to_owned(),
        Operation::Service { what, .. } => bounded(what),
        Operation::Other(text) | Operation::Outside(text) => bounded(text),
    }
}

/// Some ranks; `None` if there are none.
fn list(names: &Names<'_>, numbers: &[u32], context: u32) -> Option<String> {
    let (shown, rest) = numbers.split_at(numbers.len().min(SHOWN));
    let shown: Vec<String> = shown
        .iter()
        .map(|number| names.member(*number, context))
        .collect();
    let more = match rest.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!shown.is_empty()).then(|| shown.join(", ") + &more)
}

/// Messages that arrived at a rank and were not received, if there are any.
#[must_use]
pub fn unreceived(ranks: &BTreeMap<u32, String>, said: &RankWaits) -> Option<String> {
    let names = Names::new(ranks, said);
    let (shown, rest) = said.unreceived.split_at(said.unreceived.len().min(SHOWN));
    let text = |message: &Unreceived| {
        let Unreceived {
            from,
            tag,
            context,
            bytes,
            ..
        } = message;
        let (from, on) = (names.member(*from, *context), names.on(*context));
        format!("{bytes} bytes from {from}, tag {tag}{on}")
    };
    let mut texts: Vec<String> = shown.iter().map(text).collect();
    match rest.len() + said.more_unreceived as usize {
        0 => {}
        more => texts.push(format!("{more} more")),
    }
    (!texts.is_empty()).then(|| texts.join("; "))
}

/// Locks of windows that a rank has, if it has any.
#[must_use]
pub fn locks(ranks: &BTreeMap<u32, String>, said: &RankWaits) -> Option<String> {
    let names = Names::new(ranks, said);
    let (shown, rest) = said.locks.split_at(said.locks.len().min(SHOWN));
    let text = |lock: &HeldLock| {
        let kind = if lock.is_exclusive {
            "exclusive"
        } else {
            "shared"
        };
        let (of, on) = (names.member(lock.of, lock.context), names.on(lock.context));
        format!("the lock of {of} at a window{on} ({kind})")
    };
    let mut texts: Vec<String> = shown.iter().map(text).collect();
    match rest.len() {
        0 => {}
        more => texts.push(format!("{more} more")),
    }
    (!texts.is_empty()).then(|| texts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(any: bool, operations: Vec<Operation>) -> RankWaits {
        RankWaits {
            waits: vec![waits::Wait {
                call: "MPI_Waitall".into(),
                place: "heat.c:17 (exchange)".into(),
                since: 1500,
                any,
                operations,
                ..waits::Wait::default()
            }],
            communicators: vec![CommunicatorName {
                context: 4,
                name: "rows".into(),
                members: vec![7, 3],
            }],
            ..RankWaits::default()
        }
    }

    fn text(any: bool, operations: Vec<Operation>) -> String {
        let ranks = BTreeMap::from([(9, "1.0".to_owned())]);
        let waits = super::waits(&ranks, &said(any, operations));
        assert_eq!(waits[0].place.as_deref(), Some("heat.c:17 (exchange)"));
        assert_eq!(waits[0].seconds, Some(1.5));
        waits[0].what.clone()
    }

    #[test]
    fn each_operation_has_its_words() {
        let message = |from, tag, context, room| Operation::Message {
            from,
            tag,
            context,
            room,
        };
        let window = |step, peers| Operation::Window {
            context: 0,
            step,
            peers,
        };
        let receive = |is_queued| Operation::Receive {
            by: 9,
            context: 0,
            request: 0,
            is_queued,
        };
        let collective = |missing| Operation::Collective {
            name: "MPI_Barrier".into(),
            context: 4,
            missing,
        };
        let service = || Operation::Service {
            what: "a message from any node".into(),
            ranks: Vec::new(),
        };
        for (operation, expected) in [
            (
                message(Some(3), Some(7), 4, Some(8)),
                "a message from rank 3 (there rank 1), tag 7, of at most 8 bytes on rows",
            ),
            (
                message(None, None, 0, None),
                "a message from any rank, any tag",
            ),
            (receive(false), "rank 1.0 to receive a message"),
            (
                receive(true),
                "room for a message to rank 1.0, which takes nothing now",
            ),
            (
                collective(vec![7, 3]),
                "MPI_Barrier on rows, to which rank 7 (there rank 0), rank 3 (there rank 1) did not come yet",
            ),
            (collective(vec![]), "MPI_Barrier on rows"),
            (
                window(WindowStep::Other, (0..6).collect()),
                "rank 0, rank 1, rank 2, rank 3 and 2 more at a window",
            ),
            (window(WindowStep::Other, vec![]), "others at a window"),
            (
                window(WindowStep::Lock, vec![9]),
                "the lock of rank 1.0 at a window",
            ),
            (
                window(WindowStep::Post, vec![9]),
                "rank 1.0 to begin an exposure epoch (MPI_Win_post)",
            ),
            (
                window(WindowStep::Complete, vec![9, 3]),
                "rank 1.0, rank 3 to end an access epoch (MPI_Win_complete)",
            ),
            (
                window(WindowStep::Answer, vec![9]),
                "rank 1.0 to carry out operations at a window",
            ),
            (service(), "a message from any node"),
            (Operation::Outside("a file".into()), "a file"),
        ] {
            assert_eq!(
                text(false, vec![operation]),
                format!("MPI_Waitall: {expected}")
            );
        }
        let two = vec![service(), Operation::Leaving];
        assert!(text(true, two.clone()).contains("node, or what"));
        assert!(text(false, two).contains("node, and what"));
        let many = vec![service(); 9];
        assert!(text(true, many).ends_with(", or 5 more"));
        assert_eq!(text(false, vec![]), "MPI_Waitall");
        let mut of_itself = said(false, vec![collective(vec![])]);
        of_itself.waits[0].call = "MPI_Barrier".into();
        let waits = super::waits(&BTreeMap::new(), &of_itself);
        assert_eq!(waits[0].what, "MPI_Barrier on rows");
    }

    #[test]
    fn what_a_rank_says_is_bounded() {
        let long = "x".repeat(100_000);
        let mut said = said(false, vec![Operation::Other(long.clone())]);
        said.waits[0].call = long.clone();
        said.waits = vec![said.waits[0].clone(); 1000];
        said.communicators[0].name = long;
        let message = Unreceived {
            from: 1,
            tag: 2,
            context: 4,
            bytes: 8,
            request: 0,
        };
        said.unreceived = vec![message; 1000];
        said.more_unreceived = u32::MAX;
        let ranks = BTreeMap::new();
        let waits = super::waits(&ranks, &said);
        assert_eq!(waits.len(), MOST);
        assert!(waits.iter().all(|wait| wait.what.len() < 3 * LONGEST));
        let text = unreceived(&ranks, &said).expect("some");
        assert!(text.len() < 10 * LONGEST, "{text}");
        assert!(
            text.starts_with("8 bytes from rank 1, tag 2 on xxx"),
            "{text}"
        );
        assert_eq!(unreceived(&ranks, &RankWaits::default()), None);
    }
}
