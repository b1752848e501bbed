//! Interpreter: runs the schedules of all ranks in one thread, in random order, without an engine, so that builders are
//! tested by themselves. It is stricter than any engine may be: a send ends only when it was received, and its bytes are
//! read as late as that allows.

use std::collections::{BTreeMap, VecDeque};

use weft_fabric::Region;

use super::tests::filled;
use crate::buffer::{region_of, shared};
use crate::schedule::{Schedule, Span, Step};

/// A small generator of numbers: the same ones in every run.
pub(super) struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit
    }
}

struct Rank {
    schedule: Schedule,
    /// Kept for `memory`.
    _scratch: Vec<u8>,
    /// The scratch memory; made once, so that parts lent before stay valid.
    memory: Region,
    position: usize,
    outstanding: usize,
    awaited: Vec<u32>,
}

#[derive(Default)]
struct Channel {
    sent: VecDeque<Region>,
    wanted: VecDeque<Region>,
    signals: usize,
}

/// Runs all schedules to their end; `Err` says what went wrong.
pub(super) fn run(schedules: Vec<Schedule>, random: &mut Random) -> Result<(), String> {
    let mut ranks: Vec<Rank> = schedules
        .into_iter()
        .map(|schedule| {
            let mut scratch = filled(0xa5, schedule.scratch_bytes);
            Rank {
                memory: region_of(&mut scratch),
                _scratch: scratch,
                schedule,
                position: 0,
                outstanding: 0,
                awaited: Vec::new(),
            }
        })
        .collect();
    let mut channels: BTreeMap<(usize, usize), Channel> = BTreeMap::new();
    loop {
        let mut moved = false;
        let start = random.below(ranks.len());
        for turn in 0..ranks.len() {
            let me = (start + turn) % ranks.len();
            if random.below(3) > 0 {
                moved |= advance(me, &mut ranks, &mut channels)?;
            }
        }
        for (&(from, to), channel) in &mut channels {
            let awaited = &mut ranks[to].awaited;
            if channel.signals > 0 && awaited.contains(&(from as u32)) {
                let place = awaited.iter().position(|one| *one == from as u32);
                awaited.remove(place.expect("it is there"));
                channel.signals -= 1;
                moved = true;
            }
            if channel.sent.is_empty() || channel.wanted.is_empty() || random.below(2) == 0 {
                moved |= !channel.sent.is_empty() && !channel.wanted.is_empty();
                continue;
            }
            let (out, into) = (channel.sent.pop_front(), channel.wanted.pop_front());
            let (Some(out), Some(into)) = (out, into) else {
                continue;
            };
            if out.len() != into.len() {
                return Err(format!(
                    "{from} sends {} bytes to {to}, which expects {}",
                    out.len(),
                    into.len()
                ));
            }
            into.copy_from(&out);
            ranks[from].outstanding -= 1;
            ranks[to].outstanding -= 1;
            moved = true;
        }
        if ranks.iter().all(Rank::is_done) {
            break;
        }
        if !moved && !settle(&mut ranks, &mut channels)? {
            let stuck: Vec<_> = (0..ranks.len())
                .filter(|rank| !ranks[*rank].is_done())
                .collect();
            return Err(format!("ranks {stuck:?} wait for what nobody will send"));
        }
    }
    let left = channels.iter().find(|(_, channel)| {
        channel.signals > 0 || !channel.sent.is_empty() || !channel.wanted.is_empty()
    });
    match left {
        Some((pair, _)) => Err(format!("something is left between {pair:?}")),
        None => Ok(()),
    }
}

/// The dice may have let everybody pass: tries everybody once before calling it a deadlock.
fn settle(
    ranks: &mut [Rank],
    channels: &mut BTreeMap<(usize, usize), Channel>,
) -> Result<bool, String> {
    let mut moved = false;
    for me in 0..ranks.len() {
        moved |= advance(me, ranks, channels)?;
    }
    Ok(moved)
}

impl Rank {
    fn is_done(&self) -> bool {
        self.position == self.schedule.steps.len()
            && self.outstanding == 0
            && self.awaited.is_empty()
    }

    fn region(&self, span: Span) -> Region {
        match span {
            Span::User(region) => region,
            Span::Scratch { offset, length } => self
                .memory
                .part(offset, length)
                .expect("lies in the scratch"),
        }
    }
}

/// Takes one step of a rank, if it can.
fn advance(
    me: usize,
    ranks: &mut [Rank],
    channels: &mut BTreeMap<(usize, usize), Channel>,
) -> Result<bool, String> {
    let rank = &mut ranks[me];
    let Some(step) = rank.schedule.steps.get(rank.position).cloned() else {
        return Ok(false);
    };
    match step {
        Step::Send { to, from } => {
            let from = rank.region(from);
            rank.outstanding += 1;
            channels
                .entry((me, to as usize))
                .or_default()
                .sent
                .push_back(from);
        }
        Step::Receive { from, into } => {
            let into = rank.region(into);
            rank.outstanding += 1;
            channels
                .entry((from as usize, me))
                .or_default()
                .wanted
                .push_back(into);
        }
        Step::Copy { from, into } => {
            let from = rank.region(from);
            let into = rank.region(into);
            if from.len() != into.len() {
                return Err(format!(
                    "rank {me} copies {} to {} bytes",
                    from.len(),
                    into.len()
                ));
            }
            into.copy_from(&from);
        }
        Step::Pack { buffer, into } => {
            buffer.pack(&rank.region(into));
        }
        Step::Unpack { from, buffer } => {
            let from = rank.region(from);
            if buffer.unpack(shared(&from)) != from.len() {
                return Err(format!("rank {me} unpacks more than there is room"));
            }
        }
        Step::CopyElements { from, into } => {
            if from.bytes() != into.bytes() {
                return Err(format!("rank {me} copies elements of different sizes"));
            }
            from.copy_to(&into);
        }
        Step::Reduce {
            op,
            datatype,
            count,
            operand,
            into,
            operand_first,
        } => {
            let (operand, into) = (rank.region(operand), rank.region(into));
            let mut turned = vec![0; operand.len()];
            operand.copy_to_slice(&mut turned);
            let result = if operand_first {
                op.reduce(operand, into, count, &datatype)
            } else {
                let spare = region_of(&mut turned);
                let result = op.reduce(into, spare, count, &datatype);
                into.copy_from(&spare);
                result
            };
            result.map_err(|error| error.to_string())?;
        }
        Step::Tell { .. } => {
            return Err("no collective tells anybody what it has agreed on".to_owned());
        }
        Step::Signal { to } => channels.entry((me, to as usize)).or_default().signals += 1,
        Step::Await { from } => {
            rank.awaited.push(from);
            channels.entry((from as usize, me)).or_default();
        }
        Step::Fence => {
            if rank.outstanding > 0 || !rank.awaited.is_empty() {
                return Ok(false);
            }
        }
    }
    rank.position += 1;
    Ok(true)
}
