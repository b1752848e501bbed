//! Counters of a rank, read from its memory while it runs.
//!
//! A rank tells its launcher once where the counters of each of its engines are. From then on inspection costs it
//! nothing, whatever it is doing: the launcher, from which it descends, copies the words from its memory. If the kernel
//! or a container refuses that, no counters are shown, and nothing else changes.

use serde::{Deserialize, Serialize};
use weft_mpi::counters::Shown;
use weft_sys::attach::{self, Remote};

/// Most counters that are added up.
const MOST: usize = 32;
/// All of them lie within so many bytes: they are read by one system call.
const SPAN: u64 = 4096;
/// Bytes of a counter.
const WORD: usize = size_of::<u64>();

/// Addresses of the counters of an engine of a rank. *Invariant:* at least one and at most [`MOST`], within [`SPAN`]
/// bytes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "(u32, Vec<(u8, u64)>)", into = "(u32, Vec<(u8, u64)>)")]
pub struct CounterPlaces {
    process: u32,
    places: Vec<(u8, u64)>,
}

/// The values of the counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CounterValues {
    /// Messages sent, by any protocol.
    pub messages_sent: u64,
    /// Their bytes.
    pub bytes_sent: u64,
    /// Messages received.
    pub messages_received: u64,
    /// Their bytes.
    pub bytes_received: u64,
    /// Collectives begun.
    pub collectives: u64,
    /// Times that a wait slept.
    pub sleeps: u64,
}

impl CounterValues {
    /// The sums of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            messages_sent: self.messages_sent.wrapping_add(other.messages_sent),
            bytes_sent: self.bytes_sent.wrapping_add(other.bytes_sent),
            messages_received: self.messages_received.wrapping_add(other.messages_received),
            bytes_received: self.bytes_received.wrapping_add(other.bytes_received),
            collectives: self.collectives.wrapping_add(other.collectives),
            sleeps: self.sleeps.wrapping_add(other.sleeps),
        }
    }

    fn add(&mut self, shown: Shown, value: u64) {
        let sum = match shown {
            Shown::MessagesSent => &mut self.messages_sent,
            Shown::BytesSent => &mut self.bytes_sent,
            Shown::MessagesReceived => &mut self.messages_received,
            Shown::BytesReceived => &mut self.bytes_received,
            Shown::Collectives => &mut self.collectives,
            Shown::Sleeps => &mut self.sleeps,
        };
        *sum = sum.wrapping_add(value);
    }
}

/// These are no places of counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoPlaces;

impl std::fmt::Display for NoPlaces {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("these are no places of counters")
    }
}

impl TryFrom<(u32, Vec<(u8, u64)>)> for CounterPlaces {
    type Error = NoPlaces;

    fn try_from((process, places): (u32, Vec<(u8, u64)>)) -> Result<Self, NoPlaces> {
        let addresses = || places.iter().map(|(_, address)| *address);
        let (Some(first), Some(last)) = (addresses().min(), addresses().max()) else {
            return Err(NoPlaces);
        };
        if places.len() > MOST || process == 0 || last - first > SPAN - WORD as u64 {
            return Err(NoPlaces);
        }
        Ok(Self { process, places })
    }
}

impl From<CounterPlaces> for (u32, Vec<(u8, u64)>) {
    fn from(places: CounterPlaces) -> Self {
        (places.process, places.places)
    }
}

impl CounterPlaces {
    /// Of this process.
    ///
    /// # Panics
    /// If there are too many, or too far from each other: they are of one value.
    #[must_use]
    pub fn new(process: u32, addresses: &[(Shown, u64)]) -> Self {
        let places = addresses.iter();
        let places = places.map(|(shown, address)| (*shown as u8, *address));
        Self::try_from((process, places.collect())).expect("the counters of one value")
    }

    /// The process of the rank: the one that has initialised MPI.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.process
    }

    /// As words.
    #[must_use]
    pub fn encode(&self) -> String {
        let places = self.places.iter();
        let places = places.map(|(shown, address)| format!(" {shown}:{address:x}"));
        format!("{}{}", self.process, places.collect::<String>())
    }

    /// Reads the text of [`encode`](Self::encode); `None` if it is something else.
    #[must_use]
    pub fn decode(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let process = words.next()?.parse().ok()?;
        let place = |word: &str| {
            let (shown, address) = word.split_once(':')?;
            Some((shown.parse().ok()?, u64::from_str_radix(address, 16).ok()?))
        };
        let places: Option<Vec<(u8, u64)>> = words.take(MOST + 1).map(place).collect();
        Self::try_from((process, places?)).ok()
    }

    /// Reads them now; `None` if the kernel refuses, or the process is gone.
    #[must_use]
    pub fn read(&self) -> Option<CounterValues> {
        let addresses = || self.places.iter().map(|(_, address)| *address);
        let (first, last) = (addresses().min()?, addresses().max()?);
        let mut bytes = vec![0; (last - first) as usize + WORD];
        let from = Remote {
            process: self.process,
            address: first,
        };
        attach::read_bytes(from, &mut bytes).ok()?;
        let mut values = CounterValues::default();
        for (shown, address) in &self.places {
            let at = (address - first) as usize;
            let word = bytes.get(at..at + WORD)?.try_into().ok()?;
            // What a later release counts besides is not known here.
            if let Some(shown) = Shown::ALL.get(usize::from(*shown)) {
                values.add(*shown, u64::from_ne_bytes(word));
            }
        }
        Some(values)
    }
}

#[cfg(test)]
mod tests {
    use weft_mpi::counters::Counters;

    use super::*;

    #[test]
    fn places_survive_the_way() {
        let counters = Counters::default();
        let places = CounterPlaces::new(7, &counters.addresses());
        assert_eq!(CounterPlaces::decode(&places.encode()), Some(places));
    }

    #[test]
    fn other_words_are_no_places() {
        let many = format!("7{}", " 0:8".repeat(MOST + 1));
        for text in [
            "",
            "7",
            "x 0:8",
            "7 0",
            "7 0:",
            "7 0:x",
            "7 256:8",
            "0 0:8",
            "7 0:0 0:ff9",
            "-1 0:8",
            "7  0:8",
            &many,
        ] {
            assert_eq!(CounterPlaces::decode(text), None, "{text}");
        }
        let widest = CounterPlaces::decode("7 0:0 0:ff8").expect("one page");
        assert_eq!(widest.read(), None, "no process has anything there");
    }

    #[test]
    fn what_stands_there_is_added_up() {
        let memory = [3u64, 5, 70];
        let at = |index: usize| std::ptr::from_ref(&memory[index]).addr() as u64;
        let places = [
            (Shown::MessagesSent, at(0)),
            (Shown::Sleeps, at(2)),
            (Shown::MessagesSent, at(1)),
        ];
        let places = CounterPlaces::new(std::process::id(), &places);
        let expected = CounterValues {
            messages_sent: 8,
            sleeps: 70,
            ..CounterValues::default()
        };
        // Where this may be refused, nothing is seen.
        if let Some(values) = places.read() {
            assert_eq!(values, expected);
        }
    }
}
