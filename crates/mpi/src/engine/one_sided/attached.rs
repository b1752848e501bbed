//! Attached memory: what a member of a dynamic window lets the others use just now, by its addresses (MPI 5.0, section 12.2.5).
//!
//! Regions that touch each other form a *run*. An access that crosses from one to the next uses attached memory only, so
//! accesses are looked up in runs.

use std::collections::BTreeMap;

use weft_fabric::Region;

use super::direct::Visit;
use crate::datatype::StridedBlock;
use crate::exposed::{ElementLock, Exposed, joined};

/// Most pieces that are visited together: a peer says how many there are. Even, so that the two of a pair stay together.
const MOST_PIECES: usize = 4096;

/// The regions that are attached, and the runs that they form. No two regions overlap, and no two runs touch.
#[derive(Debug, Default)]
pub(crate) struct Attached {
    /// By their addresses.
    regions: BTreeMap<usize, Region>,
    /// In the order of their addresses; none is empty.
    runs: Vec<Exposed>,
}

fn start(region: &Region) -> usize {
    region.as_ptr().addr()
}

fn end(region: &Region) -> usize {
    start(region).saturating_add(region.len())
}

impl Attached {
    /// Attaches a region.
    ///
    /// # Errors
    /// The region that it overlaps with, or that begins at the same address.
    pub(crate) fn attach(&mut self, region: Region) -> Result<(), Region> {
        let (first, behind) = (start(&region), end(&region));
        let before = self.regions.range(..=first).next_back();
        let next = self.regions.range(first..).next();
        let overlaps =
            |other: &Region| start(other) == first || start(other) < behind && first < end(other);
        let mut neighbours = before.into_iter().chain(next).map(|(_, other)| *other);
        if let Some(other) = neighbours.find(overlaps) {
            return Err(other);
        }
        self.regions.insert(first, region);
        if !region.is_empty() {
            self.add(region);
        }
        Ok(())
    }

    /// Detaches the region that begins at this address; false if there is none.
    pub(crate) fn detach(&mut self, first: usize) -> bool {
        let Some(region) = self.regions.remove(&first) else {
            return false;
        };
        let place = self.runs.partition_point(|run| end(&run.region()) <= first);
        if !region.is_empty()
            && let Some(run) = self.runs.get(place).map(Exposed::region)
        {
            let before = first - start(&run);
            let after = before + region.len();
            let left = [
                run.part(0, before),
                run.part(after, run.len().saturating_sub(after)),
            ];
            let left = left.into_iter().flatten().filter(|left| !left.is_empty());
            self.runs.splice(place..=place, left.map(exposed));
        }
        true
    }

    /// The run that all blocks lie in, with what their base is there.
    pub(super) fn find(
        &self,
        base: i64,
        blocks: &[StridedBlock],
        bytes: usize,
    ) -> Option<(&Exposed, i64)> {
        let (first, _) = blocks.iter().find(|block| block.count > 0)?.bounds()?;
        let address = usize::try_from(base.checked_add(first as i64)?).ok()?;
        let run = self.run_of(address)?;
        let base = base.checked_sub_unsigned(start(&run.region()) as u64)?;
        run.holds(base, blocks, bytes).then_some((run, base))
    }

    /// Visits blocks that do not all lie in one run, piece by piece, those that follow each other in one run together. What
    /// [`Reach::visit`](super::direct::Reach::visit) says.
    #[cold]
    pub(super) fn visit_parts(&self, base: i64, blocks: &[StridedBlock], visit: Visit<'_>) -> bool {
        let mut pieces = blocks.iter().flat_map(StridedBlock::each).peekable();
        let (mut part, mut done) = (Vec::new(), 0);
        while let Some(piece) = pieces.next() {
            let Some((run, own)) = self.find(base, &[piece], piece.bytes) else {
                return false;
            };
            part.push(piece);
            let goes_on = |next: &StridedBlock| {
                part.len() < MOST_PIECES && run.holds(own, &[*next], next.bytes)
            };
            if pieces.peek().is_some_and(goes_on) {
                continue;
            }
            let bytes: usize = part.iter().map(StridedBlock::data).sum();
            if !visit(run, own, &part, done..done + bytes) {
                return false;
            }
            part.clear();
            done += bytes;
        }
        true
    }

    /// The run that has this address.
    fn run_of(&self, address: usize) -> Option<&Exposed> {
        let place = self
            .runs
            .partition_point(|run| end(&run.region()) <= address);
        self.runs
            .get(place)
            .filter(|run| start(&run.region()) <= address)
    }

    /// Joins a region with the runs that it touches.
    fn add(&mut self, region: Region) {
        let place = self
            .runs
            .partition_point(|run| end(&run.region()) < start(&region));
        let (mut run, mut taken) = (region, place..place);
        while let Some(other) = self.runs.get(taken.end).map(Exposed::region) {
            let Some(both) = joined(other, run).or_else(|| joined(run, other)) else {
                break;
            };
            (run, taken.end) = (both, taken.end + 1);
        }
        self.runs.splice(taken, [exposed(run)]);
    }
}

fn exposed(run: Region) -> Exposed {
    Exposed::new(run, ElementLock::Engine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::region_of;

    fn runs(attached: &Attached, base: usize) -> Vec<(usize, usize)> {
        let run = |run: &Exposed| (start(&run.region()) - base, run.region().len());
        attached.runs.iter().map(run).collect()
    }

    #[test]
    fn regions_that_touch_are_one_run() {
        let mut memory = vec![0u8; 64];
        let whole = region_of(&mut memory);
        let part = |at, length| whole.part(at, length).expect("within");
        let base = start(&whole);
        let mut attached = Attached::default();
        for (at, length) in [(0, 8), (16, 8), (40, 8), (8, 8), (24, 0)] {
            attached.attach(part(at, length)).expect("free");
        }
        assert_eq!(runs(&attached, base), [(0, 24), (40, 8)]);
        for (at, length) in [(0, 4), (4, 40), (15, 2), (23, 20), (24, 0), (47, 1)] {
            assert!(attached.attach(part(at, length)).is_err(), "{at} {length}");
        }
        let find = |attached: &Attached, at| {
            attached
                .run_of(base + at)
                .map(|run| start(&run.region()) - base)
        };
        assert_eq!(find(&attached, 23), Some(0));
        assert_eq!((find(&attached, 24), find(&attached, 48)), (None, None));
        assert!(attached.detach(base + 8) && !attached.detach(base + 9));
        assert_eq!(runs(&attached, base), [(0, 8), (16, 8), (40, 8)]);
        assert!(attached.detach(base + 24) && attached.detach(base + 40));
        attached.attach(part(8, 8)).expect("free again");
        assert!(attached.detach(base));
        assert_eq!(runs(&attached, base), [(8, 16)]);
    }
}
