//! Places: the numbers of the other side's processes, on the bridge and at this process.

use std::ops::Range;

use weft_fabric::Peer;

/// The processes of the other side of one bridge.
#[derive(Debug)]
pub(super) struct Places {
    /// The first number here beyond those of the job.
    first: u32,
    /// Their numbers on the bridge.
    others: Range<u32>,
    /// Their places here, in that order.
    places: Vec<usize>,
}

impl Places {
    /// As many places as there are others.
    pub fn new(first: u32, others: Range<u32>, places: Vec<usize>) -> Self {
        debug_assert_eq!(others.len(), places.len());
        Self {
            first,
            others,
            places,
        }
    }

    /// The index, among the others, of a number on the bridge.
    pub fn index(&self, number: Peer) -> Option<usize> {
        let index = number.0.checked_sub(self.others.start)? as usize;
        (index < self.places.len()).then_some(index)
    }

    /// The number at this process for a number on the bridge.
    pub fn peer(&self, number: Peer) -> Option<Peer> {
        let place = self.places[self.index(number)?];
        Some(Peer(self.first + place as u32))
    }

    /// All numbers of the bridge.
    pub fn numbers(&self) -> impl Iterator<Item = Peer> + use<> {
        self.others.clone().map(Peer)
    }

    /// All numbers at this process.
    pub fn peers(&self) -> impl Iterator<Item = Peer> {
        self.places
            .iter()
            .map(|place| Peer(self.first + *place as u32))
    }

    /// All places.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.places.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_both_ways() {
        let places = Places::new(10, 3..5, vec![0, 7]);
        assert_eq!(places.peer(Peer(3)), Some(Peer(10)));
        assert_eq!(places.peer(Peer(4)), Some(Peer(17)));
        assert_eq!([places.peer(Peer(2)), places.peer(Peer(5))], [None, None]);
        assert!(places.numbers().eq([Peer(3), Peer(4)]));
        assert!(places.peers().eq([Peer(10), Peer(17)]));
        assert_eq!(places.index(Peer(4)), Some(1));
    }
}
