//! Access of all ranks together: they tell each other their parts, decide alike how it is done, and tell each other the
//! result.

use super::File;
use super::access::{Direction, Resolved, check_reach, convert};
use super::aggregation::{Collective, NOWHERE};
use super::agreement::{agree, agree_with};
use super::hints::Aggregation;
use crate::error::Result;
use weft_atomic::Ordering;

/// Pieces of at least so many bytes are moved by each rank itself: a call of the system for each costs less than another
/// copy by way of an aggregator.
const DIRECT: u64 = 4 << 10;

/// What a rank tells the others.
struct Summary {
    /// First byte in the file, and the one after the last.
    first: u64,
    end: u64,
    bytes: u64,
    etypes: u64,
    /// Bytes of a piece on average.
    piece: u64,
    sorted: bool,
}

impl Summary {
    fn of(resolved: &Resolved) -> Self {
        let (first, end) = resolved.range();
        Self {
            first,
            end,
            bytes: resolved.bytes,
            etypes: resolved.etypes(),
            piece: resolved.view.piece_length(),
            sorted: resolved.view.is_sorted(),
        }
    }

    fn to_words(&self) -> [u64; 6] {
        [
            self.first,
            self.end,
            self.bytes,
            self.etypes,
            self.piece,
            u64::from(self.sorted),
        ]
    }

    fn from_words(words: &[u64; 6]) -> Self {
        let [first, end, bytes, etypes, piece, sorted] = *words;
        Self {
            first,
            end,
            bytes,
            etypes,
            piece,
            sorted: sorted != 0,
        }
    }
}

/// Carries out an access of all ranks; answers how many bytes of this rank's memory it was.
///
/// # Errors
/// That of any rank.
pub(super) fn perform(file: &File, resolved: Result<Resolved>) -> Result<u64> {
    let comm = file.comm();
    let words = match &resolved {
        Ok(resolved) => Summary::of(resolved).to_words(),
        Err(_) => [0; 6],
    };
    let (mut resolved, said) = agree_with(comm, resolved, words)?;
    let mut all: Vec<Summary> = said.iter().map(Summary::from_words).collect();
    if resolved.from.is_none() {
        let placed = order(file, &mut resolved, &all);
        let words = |()| Summary::of(&resolved).to_words();
        let words = placed.clone().map_or([0; 6], words);
        let ((), said) = agree_with(comm, placed, words)?;
        all = said.iter().map(Summary::from_words).collect();
    }
    let base = all.iter().filter(|one| one.bytes > 0);
    let base = base.map(|one| one.first).min().unwrap_or(NOWHERE);
    let own = if base == NOWHERE {
        Ok(0)
    } else if aggregates(file, resolved.direction, &all) {
        by_aggregators(file, &resolved, base)
    } else {
        file.perform_alone(&resolved)
    };
    agree(comm, own)
}

/// Gives each rank its place at the shared file pointer, one after the other.
fn order(file: &File, resolved: &mut Resolved, all: &[Summary]) -> Result<()> {
    let comm = file.comm();
    let total: u64 = all.iter().map(|one| one.etypes).sum();
    let first = if comm.rank() == 0 {
        file.shared.advance(total.cast_signed())
    } else {
        Ok(0)
    };
    let word = [first.as_ref().map_or(0, |first| first.cast_unsigned())];
    let (_, said) = agree_with(comm, first, word)?;
    let before = all.iter().take(comm.rank() as usize);
    let before: u64 = before.map(|one| one.etypes).sum();
    let position = said[0][0].saturating_add(before).cast_signed();
    resolved.from = Some(check_reach(&resolved.view, position, resolved.bytes)?);
    Ok(())
}

/// Whether aggregators do it. All ranks come to the same answer.
fn aggregates(file: &File, direction: Direction, all: &[Summary]) -> bool {
    let hint = {
        let state = file.state();
        match direction {
            Direction::Read => state.hints.read(),
            Direction::Write => state.hints.write(),
        }
    };
    if all.len() == 1
        || file.atomic.load(Ordering::Relaxed)
        || hint == Aggregation::Disable
        || all.iter().any(|one| !one.sorted)
    {
        return false;
    }
    if hint == Aggregation::Enable {
        return true;
    }
    let mut parts: Vec<&Summary> = all.iter().filter(|one| one.bytes > 0).collect();
    parts.sort_by_key(|one| one.first);
    let interleaved = parts.windows(2).any(|pair| pair[1].first < pair[0].end);
    let piece = parts.iter().map(|one| one.piece.min(one.bytes)).min();
    interleaved && piece.unwrap_or(0) < DIRECT
}

fn by_aggregators(file: &File, resolved: &Resolved, base: u64) -> Result<u64> {
    let storage = file.storage()?;
    let aggregators = file.state().aggregators.clone();
    let guard = |first: u64, length: u64, write: &mut dyn FnMut() -> Result<()>| {
        file.write_beside_sieves(&*storage, first, length, write)
    };
    let mut converted = true;
    let moved = convert(resolved, |stream| {
        converted = false;
        let mut collective = Collective {
            comm: file.comm(),
            aggregators: &aggregators,
            storage: &*storage,
            guard: &guard,
            cursor: resolved.cursor(),
            stream,
        };
        match resolved.direction {
            Direction::Read => collective.read(base),
            Direction::Write => {
                file.note_written();
                collective.write(base).map(|()| resolved.bytes)
            }
        }
    });
    if converted {
        // Its data could not be brought to the form of the file: the others must not wait for them.
        Collective::give_up(file.comm())?;
    }
    moved
}
