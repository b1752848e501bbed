//! Hints: a program's advice about a file, and its effect (MPI 5.0, section 14.2.8).
//!
//! | key | effect |
//! |---|---|
//! | `cb_nodes` | how many ranks write or read for all in a collective call |
//! | `cb_buffer_size` | bytes of the file that each of these handles at a time |
//! | `romio_cb_write`, `romio_cb_read` | `enable`, `disable` or `automatic`: whether they do |
//! | `romio_ds_read`, `romio_ds_write` | `enable`, `disable` or `automatic`: whether independent accesses of small pieces also move the gaps, see [sieve](super::sieve) |
//! | `ind_rd_buffer_size`, `ind_wr_buffer_size` | bytes, gaps included, that such a read or write moves by one call |
//! | `striping_unit` | windows of the collective calls are whole multiples of it |
//! | `striping_factor` | kept; no file system that is used here takes it |
//! | `weft_sync_on_close` | `false`: closing does not wait until written data are on the device |

use crate::info::Info;

/// Whether something is done that may pay: ranks write or read for others, or gaps are moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Aggregation {
    /// Where it pays.
    #[default]
    Automatic,
    /// Always, where it can be done.
    Enable,
    /// Never.
    Disable,
}

impl Aggregation {
    const ALL: [Self; 3] = [Self::Automatic, Self::Enable, Self::Disable];

    fn parse(text: &str) -> Option<Self> {
        let same = |one: &Self| text.trim().eq_ignore_ascii_case(one.name());
        Self::ALL.into_iter().find(same)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Automatic => "automatic",
            Self::Enable => "enable",
            Self::Disable => "disable",
        }
    }
}

/// Windows are whole pages at least.
const PAGE: u64 = 4096;

/// The hints that are in use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hints {
    /// `cb_nodes`; 0 leaves it to the library.
    aggregators: u64,
    /// `cb_buffer_size`.
    window: u64,
    write: Aggregation,
    read: Aggregation,
    sieve_write: Aggregation,
    sieve_read: Aggregation,
    read_window: u64,
    write_window: u64,
    striping_unit: u64,
    striping_factor: u64,
    sync_on_close: bool,
}

impl Default for Hints {
    fn default() -> Self {
        Self {
            aggregators: 0,
            window: 4 << 20,
            write: Aggregation::Automatic,
            read: Aggregation::Automatic,
            sieve_write: Aggregation::Automatic,
            sieve_read: Aggregation::Automatic,
            read_window: 512 << 10,
            write_window: 512 << 10,
            striping_unit: 0,
            striping_factor: 0,
            sync_on_close: true,
        }
    }
}

/// Words of the encoded form.
pub(super) const WORDS: usize = 11;

impl Hints {
    /// Takes what is known of an info object. Values that cannot be used are ignored, as the standard wants it.
    pub fn take(&mut self, info: &Info) {
        let text = |key: &str| info.get(key).ok().flatten();
        let number = |key: &str, most: u64| {
            let number = text(key)?.trim().parse::<u64>().ok()?;
            (1..=most).contains(&number).then_some(number)
        };
        let set = |into: &mut u64, value: Option<u64>| *into = value.unwrap_or(*into);
        set(&mut self.aggregators, number("cb_nodes", 1 << 31));
        set(&mut self.window, number("cb_buffer_size", 1 << 31));
        set(&mut self.read_window, number("ind_rd_buffer_size", 1 << 31));
        set(
            &mut self.write_window,
            number("ind_wr_buffer_size", 1 << 31),
        );
        set(&mut self.striping_unit, number("striping_unit", 1 << 31));
        set(
            &mut self.striping_factor,
            number("striping_factor", 1 << 31),
        );
        let choice = |key: &str| text(key).and_then(Aggregation::parse);
        self.write = choice("romio_cb_write").unwrap_or(self.write);
        self.read = choice("romio_cb_read").unwrap_or(self.read);
        self.sieve_write = choice("romio_ds_write").unwrap_or(self.sieve_write);
        self.sieve_read = choice("romio_ds_read").unwrap_or(self.sieve_read);
        match text("weft_sync_on_close").map(str::trim) {
            Some("true") => self.sync_on_close = true,
            Some("false") => self.sync_on_close = false,
            _ => {}
        }
    }

    /// What is in use, as `MPI_File_get_info` tells it. `aggregators`: how many there are.
    #[must_use]
    pub fn info(&self, aggregators: usize) -> Info {
        let mut info = Info::default();
        let mut add = |key: &str, value: String| {
            // Neither is empty or too long.
            let _ = info.set(key, &value);
        };
        add("cb_nodes", aggregators.to_string());
        add("cb_buffer_size", self.window.to_string());
        add("romio_cb_write", self.write.name().to_owned());
        add("romio_cb_read", self.read.name().to_owned());
        add("romio_ds_write", self.sieve_write.name().to_owned());
        add("romio_ds_read", self.sieve_read.name().to_owned());
        add("ind_rd_buffer_size", self.read_window.to_string());
        add("ind_wr_buffer_size", self.write_window.to_string());
        for (key, value) in [
            ("striping_unit", self.striping_unit),
            ("striping_factor", self.striping_factor),
        ] {
            if value > 0 {
                add(key, value.to_string());
            }
        }
        add("weft_sync_on_close", self.sync_on_close.to_string());
        info
    }

    /// How many ranks write or read for all; `None` leaves it to the library.
    pub(super) fn aggregators(&self) -> Option<usize> {
        (self.aggregators > 0).then_some(self.aggregators as usize)
    }

    /// Bytes of a window: whole pages, and whole stripes.
    pub(super) fn window(&self) -> u64 {
        let unit = match self.striping_unit {
            0 => PAGE,
            unit => unit.next_multiple_of(PAGE),
        };
        self.window.next_multiple_of(unit)
    }

    pub(super) fn write(&self) -> Aggregation {
        self.write
    }

    pub(super) fn read(&self) -> Aggregation {
        self.read
    }

    /// Whether independent reads may move gaps, too, and how much at a time.
    pub(super) fn read_sieve(&self) -> (Aggregation, u64) {
        (self.sieve_read, self.read_window)
    }

    /// As [`Self::read_sieve`], of writes.
    pub(super) fn write_sieve(&self) -> (Aggregation, u64) {
        (self.sieve_write, self.write_window)
    }

    pub(super) fn syncs_on_close(&self) -> bool {
        self.sync_on_close
    }

    /// For the other ranks.
    pub(super) fn to_words(&self) -> [u64; WORDS] {
        [
            self.aggregators,
            self.window,
            self.write as u64,
            self.read as u64,
            self.sieve_write as u64,
            self.sieve_read as u64,
            self.read_window,
            self.write_window,
            self.striping_unit,
            self.striping_factor,
            u64::from(self.sync_on_close),
        ]
    }

    /// From another rank.
    pub(super) fn from_words(words: &[u64]) -> Self {
        let word = |place: usize| words.get(place).copied().unwrap_or(0);
        let choice = |place: usize| Aggregation::ALL.get(word(place) as usize);
        Self {
            aggregators: word(0),
            window: word(1),
            write: choice(2).copied().unwrap_or_default(),
            read: choice(3).copied().unwrap_or_default(),
            sieve_write: choice(4).copied().unwrap_or_default(),
            sieve_read: choice(5).copied().unwrap_or_default(),
            read_window: word(6),
            write_window: word(7),
            striping_unit: word(8),
            striping_factor: word(9),
            sync_on_close: word(10) != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_used_is_used_and_told() {
        let mut info = Info::default();
        for (key, value) in [
            ("cb_nodes", "2"),
            ("cb_buffer_size", "100000"),
            ("romio_cb_write", "Disable"),
            ("romio_cb_read", "perhaps"),
            ("striping_unit", "65536"),
            ("ind_rd_buffer_size", "-5"),
            ("something_else", "1"),
        ] {
            info.set(key, value).unwrap();
        }
        let mut hints = Hints::default();
        hints.take(&info);
        assert_eq!((hints.aggregators(), hints.window()), (Some(2), 131_072));
        assert_eq!(hints.write(), Aggregation::Disable);
        assert_eq!(hints.read(), Aggregation::Automatic);
        assert_eq!(hints.read_sieve(), Hints::default().read_sieve());
        let told = hints.info(2);
        assert_eq!(told.get("striping_unit").unwrap(), Some("65536"));
        assert_eq!(told.get("something_else").unwrap(), None);
        assert_eq!(Hints::from_words(&hints.to_words()), hints);
    }
}
