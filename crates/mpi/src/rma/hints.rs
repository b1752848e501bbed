//! Hints: the info keys that a window understands, and the values that apply (MPI 5.0, sections 12.2.1 to 12.2.6).
//!
//! Ordering and the kinds of operations are guaranteed beyond what any hint asks for, so hints that relax them change
//! nothing and are reported with the values that apply.

use super::Flavor;
use super::target::{Description, Granularity};
use crate::error::Result;
use crate::info::Info;

/// The keys whose values are kept as they are given.
const KEPT: [&str; 4] = [
    "no_locks",
    "same_size",
    "same_disp_unit",
    "mpi_accumulate_granularity",
];

/// Ranks may place their parts of shared memory apart from each other.
pub(super) const APART: &str = "alloc_shared_noncontig";

/// The alignment of memory that Weft allocates for a window.
const ALIGNMENT: &str = "mpi_minimum_memory_alignment";
/// The alignment that is meant where none is asked for: a cache line.
const USUAL: &str = "64";
/// The largest alignment that is stated without having been asked for.
const PAGE: usize = 4096;

/// This rank's memory has this address: its alignment is the one that was asked for, or, if it has not that, the largest that
/// it has. The parts of contiguous shared memory follow each other without gaps, whatever was asked for (MPI 5.0, section 12.2.3).
pub(super) fn state_alignment(info: &mut Info, address: usize) -> Result<()> {
    let Some(asked) = info.get(ALIGNMENT)? else {
        return Ok(());
    };
    let asked = asked.trim().parse::<usize>().ok();
    let asked = asked.filter(|asked| asked.is_power_of_two());
    let has = 1 << address.trailing_zeros().min(PAGE.trailing_zeros());
    let met = match asked {
        Some(asked) if address.is_multiple_of(asked) => asked,
        _ => has,
    };
    info.set(ALIGNMENT, &met.to_string())
}

/// The hints of a new window.
pub(super) fn of_new(flavor: Flavor, given: &Info) -> Result<Info> {
    let mut info = Info::default();
    info.set("no_locks", "false")?;
    info.set("accumulate_ordering", "rar,raw,war,waw")?;
    info.set("accumulate_ops", "same_op_no_op")?;
    info.set("mpi_accumulate_granularity", "0")?;
    info.set("same_size", "false")?;
    info.set("same_disp_unit", "false")?;
    if matches!(flavor, Flavor::Allocate | Flavor::Shared) {
        info.set(ALIGNMENT, given.get(ALIGNMENT)?.unwrap_or(USUAL))?;
    }
    if flavor == Flavor::Shared {
        let apart = if is_true(given, APART) {
            "true"
        } else {
            "false"
        };
        info.set(APART, apart)?;
    }
    for key in KEPT {
        if let Some(value) = given.get(key)? {
            info.set(key, value)?;
        }
    }
    Ok(info)
}

/// Takes over what may change later (`MPI_Win_set_info`); unknown keys are ignored.
pub(super) fn change(info: &mut Info, given: &Info) -> Result<()> {
    for key in KEPT {
        if let Some(value) = given.get(key)? {
            info.set(key, value)?;
        }
    }
    Ok(())
}

/// Bytes from which on elements are combined many at a time.
const COARSE: u64 = 64;

/// Bytes that a member exposes above which that is so without a hint: a cache line of counters.
const SMALL: u64 = 64;

/// What the program says of it.
pub(super) fn granularity(info: &Info) -> Granularity {
    let value = info.get("mpi_accumulate_granularity").ok().flatten();
    let bytes = value.and_then(|value| value.trim().parse::<u64>().ok());
    match bytes.unwrap_or(0) {
        0 => Granularity::Unknown,
        1..COARSE => Granularity::Fine,
        _ => Granularity::Coarse,
    }
}

/// Whether the elements of a window are combined under their lock, many at a time, and not by one atomic instruction each.
/// What all members say alike holds; else a window of a few words, which is for counters and flags, has no lock for them.
pub(super) fn is_coarse(members: &[Description]) -> bool {
    let mut hints = members.iter().map(|member| member.granularity);
    let first = hints.next().unwrap_or_default();
    match first {
        Granularity::Coarse if hints.all(|other| other == first) => true,
        Granularity::Fine if hints.all(|other| other == first) => false,
        _ => members.iter().any(|member| member.size > SMALL),
    }
}

/// Whether a key is there and true.
pub(super) fn is_true(info: &Info, key: &str) -> bool {
    matches!(info.get(key), Ok(Some(value)) if value.trim() == "true")
}

impl super::Window {
    /// `MPI_Win_set_info`.
    ///
    /// # Errors
    /// None that a valid info object leads to.
    pub fn set_info(&self, given: &Info) -> Result<()> {
        change(&mut self.extras.info(), given)
    }
}
