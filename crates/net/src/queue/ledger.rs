//! Ledger: records which party has which buffer of a region. It is private and exact, and validates every
//! incoming descriptor.

use super::Descriptor;

/// The error in a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It lies outside of the region.
    Range,
    /// It does not begin where a buffer begins.
    Alignment,
    /// The frame is longer than the buffer.
    Length,
    /// The sender does not have the buffer: it was given twice, or never held.
    Ownership,
}

/// Up to 64 parties can hold a buffer; bit `p` of its word says that party `p` does.
///
/// It has two uses. The *owner* of a region records which other parties have a buffer ([`give`](Self::give),
/// [`take_back`](Self::take_back)). The *receiver* of buffers of another's region records which it has, as
/// party 0 ([`accept`](Self::accept), [`hand_back`](Self::hand_back)).
pub struct Ledger {
    holders: Vec<u64>,
    shift: u32,
}

impl Ledger {
    /// The ledger of a region of `buffers` buffers, `size` bytes each.
    ///
    /// # Panics
    /// If the size is not a power of two: the caller has checked its description.
    #[must_use]
    pub fn new(buffers: u32, size: u32) -> Self {
        assert!(size.is_power_of_two(), "{size} is no power of two");
        Self {
            holders: vec![0; buffers as usize],
            shift: size.trailing_zeros(),
        }
    }

    /// Which buffer a descriptor names, if it names one.
    ///
    /// # Errors
    /// Range, alignment or length.
    #[inline]
    pub fn slot(&self, descriptor: Descriptor) -> Result<u32, Fault> {
        let slot = descriptor.offset >> self.shift;
        if slot as usize >= self.holders.len() {
            return Err(Fault::Range);
        }
        if slot << self.shift != descriptor.offset {
            return Err(Fault::Alignment);
        }
        if u32::from(descriptor.length) > 1 << self.shift {
            return Err(Fault::Length);
        }
        Ok(slot)
    }

    /// Notes that a party has the buffer from now on.
    ///
    /// # Errors
    /// If it has it already, or there is no such buffer.
    #[inline]
    pub fn give(&mut self, descriptor: Descriptor, party: u32) -> Result<u32, Fault> {
        let slot = self.slot(descriptor)?;
        let holders = &mut self.holders[slot as usize];
        if *holders & 1 << party != 0 {
            return Err(Fault::Ownership);
        }
        *holders |= 1 << party;
        Ok(slot)
    }

    /// Notes that a party has given the buffer back; true if no other party has it now.
    ///
    /// # Errors
    /// If that party did not have it, or there is no such buffer.
    #[inline]
    pub fn take_back(&mut self, descriptor: Descriptor, party: u32) -> Result<bool, Fault> {
        let slot = self.slot(descriptor)?;
        let holders = &mut self.holders[slot as usize];
        if *holders & 1 << party == 0 {
            return Err(Fault::Ownership);
        }
        *holders &= !(1 << party);
        Ok(*holders == 0)
    }

    /// Notes that a buffer came from its owner.
    ///
    /// # Errors
    /// If it is here already, or there is no such buffer.
    #[inline]
    pub fn accept(&mut self, descriptor: Descriptor) -> Result<u32, Fault> {
        self.give(descriptor, 0)
    }

    /// Notes that a buffer goes back to its owner.
    ///
    /// # Errors
    /// If it is not here.
    #[inline]
    pub fn hand_back(&mut self, descriptor: Descriptor) -> Result<(), Fault> {
        self.take_back(descriptor, 0).map(drop)
    }

    /// Whether a party has the buffer.
    #[must_use]
    pub fn has(&self, slot: u32, party: u32) -> bool {
        self.holders
            .get(slot as usize)
            .is_some_and(|holders| holders & 1 << party != 0)
    }

    /// How many buffers a party has. Counts: not for the hot path.
    #[must_use]
    pub fn held_by(&self, party: u32) -> u32 {
        let held = |holders: &&u64| *holders & 1 << party != 0;
        self.holders.iter().filter(held).count() as u32
    }

    /// Takes all buffers from a party that has died, and calls `freed` with the offset of each that nobody
    /// has then.
    pub fn reclaim(&mut self, party: u32, mut freed: impl FnMut(u32)) {
        for (slot, holders) in self.holders.iter_mut().enumerate() {
            if *holders & 1 << party != 0 {
                *holders &= !(1 << party);
                if *holders == 0 {
                    freed((slot as u32) << self.shift);
                }
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn of(offset: u32, length: u16) -> Descriptor {
        Descriptor {
            offset,
            length,
            tag: 0,
        }
    }

    #[test]
    fn every_kind_of_fault_is_found() {
        let mut ledger = Ledger::new(4, 2048);
        for (descriptor, expected) in [
            (of(0, 0), Ok(0)),
            (of(0, 0), Err(Fault::Ownership)),
            (of(6144, 2048), Ok(3)),
            (of(2048, 2049), Err(Fault::Length)),
            (of(2049, 10), Err(Fault::Alignment)),
            (of(8192, 10), Err(Fault::Range)),
            (of(u32::MAX, u16::MAX), Err(Fault::Range)),
        ] {
            assert_eq!(ledger.accept(descriptor), expected, "{descriptor:?}");
        }
        assert_eq!(ledger.held_by(0), 2);
        assert_eq!(ledger.hand_back(of(2048, 0)), Err(Fault::Ownership));
        assert_eq!(ledger.hand_back(of(0, 0)), Ok(()));
        assert_eq!(ledger.hand_back(of(0, 0)), Err(Fault::Ownership), "twice");
    }

    #[test]
    fn a_buffer_of_several_is_free_when_the_last_gives_it_back() {
        let mut ledger = Ledger::new(2, 2048);
        for party in [1, 5, 63] {
            ledger.give(of(2048, 60), party).expect("fresh");
        }
        assert_eq!(ledger.take_back(of(2048, 0), 5), Ok(false));
        assert_eq!(ledger.take_back(of(2048, 0), 5), Err(Fault::Ownership));
        let mut freed = Vec::new();
        ledger.reclaim(63, |offset| freed.push(offset));
        assert!(freed.is_empty());
        ledger.reclaim(1, |offset| freed.push(offset));
        assert_eq!(freed, [2048]);
    }
}
