//! Enumerations (MPI 5.0, section 15.3.5).

use std::ffi::{c_char, c_int};

use crate::args::Optional;
use crate::c;
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::tool::enumerations::Enumeration;
use crate::tool::{self, hand_out};

pub fn t_enum_get_info(
    enumtype: c::ToolHandle,
    mut num: Optional<c_int>,
    name: Optional<c_char>,
    mut name_len: Optional<c_int>,
) -> Checked<()> {
    tool::check()?;
    let one = Enumeration::find(enumtype)?;
    num.set(one.items.len() as c_int);
    hand_out(one.name, &name, &mut name_len);
    Ok(())
}

pub fn t_enum_get_item(
    enumtype: c::ToolHandle,
    index: c_int,
    mut value: Optional<c_int>,
    name: Optional<c_char>,
    mut name_len: Optional<c_int>,
) -> Checked<()> {
    tool::check()?;
    let one = Enumeration::find(enumtype)?;
    let item = usize::try_from(index)
        .ok()
        .and_then(|index| one.items.get(index));
    let Some((number, text)) = item else {
        return Err(Fault::new(
            k::MPI_T_ERR_INVALID_INDEX,
            format!("{} has no item {index}", one.name),
        ));
    };
    value.set(*number);
    hand_out(text, &name, &mut name_len);
    Ok(())
}
