//! Sources of events (MPI 5.0, section 15.3.8): the engine.

use std::ffi::{c_char, c_int};

use weft_mpi::info::Info;

use crate::args::Optional;
use crate::c;
use crate::calls::abi::new_info;
use crate::fault::Checked;
use crate::generated::constants as k;
use crate::tool::events::{TICKS_PER_SECOND, now};
use crate::tool::{self, hand_out, row};

/// Name and description.
const SOURCES: &[(&str, &str)] = &[(
    "engine",
    "what one rank sends, receives, matches and waits for",
)];

pub fn t_source_get_num(mut num_sources: Optional<c_int>) -> Checked<()> {
    tool::check()?;
    num_sources.set(SOURCES.len() as c_int);
    Ok(())
}

#[allow(clippy::too_many_arguments, reason = "those of the standard")]
pub fn t_source_get_info(
    source_index: c_int,
    name: Optional<c_char>,
    mut name_len: Optional<c_int>,
    desc: Optional<c_char>,
    mut desc_len: Optional<c_int>,
    mut ordering: Optional<c_int>,
    mut ticks_per_second: Optional<c::Count>,
    mut max_ticks: Optional<c::Count>,
    mut info: Optional<c::Info>,
) -> Checked<()> {
    tool::check()?;
    let (called, description) = row(SOURCES, source_index, "source")?;
    hand_out(called, &name, &mut name_len);
    hand_out(description, &desc, &mut desc_len);
    ordering.set(k::MPI_T_SOURCE_UNORDERED);
    ticks_per_second.set(TICKS_PER_SECOND);
    max_ticks.set(i64::MAX);
    if !info.is_null() {
        info.set(new_info(Info::default())?);
    }
    Ok(())
}

pub fn t_source_get_timestamp(
    source_index: c_int,
    mut timestamp: Optional<c::Count>,
) -> Checked<()> {
    tool::check()?;
    row(SOURCES, source_index, "source")?;
    timestamp.set(now() as i64);
    Ok(())
}
