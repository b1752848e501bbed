//! Categories (MPI 5.0, section 15.3.9).

use std::ffi::{c_char, c_int};

use crate::args::Optional;
use crate::fault::Checked;
use crate::tool::categories::{CATEGORIES, Category};
use crate::tool::events::EVENTS;
use crate::tool::settings::SETTINGS;
use crate::tool::variables::VARIABLES;
use crate::tool::{self, hand_out, index_of, row};

fn category(index: c_int) -> Checked<&'static Category> {
    tool::check()?;
    row(CATEGORIES, index, "category")
}

/// Indices of the rows whose category is that of an index.
fn within<'a>(of: &Category, names: impl Iterator<Item = &'a str>) -> Vec<c_int> {
    let all = (0..).zip(names);
    all.filter(|(_, name)| *name == of.name)
        .map(|(index, _)| index)
        .collect()
}

fn cvars(of: &Category) -> Vec<c_int> {
    within(of, SETTINGS.iter().map(|one| one.category))
}

fn pvars(of: &Category) -> Vec<c_int> {
    within(of, VARIABLES.iter().map(|one| one.category))
}

fn events(of: &Category) -> Vec<c_int> {
    within(of, EVENTS.iter().map(|one| one.category))
}

fn children(of: &Category) -> Vec<c_int> {
    within(
        of,
        CATEGORIES.iter().map(|one| one.parent.unwrap_or_default()),
    )
}

/// As many indices as the caller has room for.
fn list(found: &[c_int], length: c_int, mut indices: Optional<c_int>) -> Checked<()> {
    let Ok(length) = usize::try_from(length) else {
        return Err(tool::invalid("the length of a list is 0 or more"));
    };
    for (place, index) in found.iter().take(length).enumerate() {
        indices.set_at(place, *index);
    }
    Ok(())
}

pub fn t_category_get_num(mut num_cat: Optional<c_int>) -> Checked<()> {
    tool::check()?;
    num_cat.set(CATEGORIES.len() as c_int);
    Ok(())
}

#[allow(clippy::too_many_arguments, reason = "those of the standard")]
pub fn t_category_get_info(
    cat_index: c_int,
    name: Optional<c_char>,
    mut name_len: Optional<c_int>,
    desc: Optional<c_char>,
    mut desc_len: Optional<c_int>,
    mut num_cvars: Optional<c_int>,
    mut num_pvars: Optional<c_int>,
    mut num_categories: Optional<c_int>,
) -> Checked<()> {
    let one = category(cat_index)?;
    hand_out(one.name, &name, &mut name_len);
    hand_out(one.description, &desc, &mut desc_len);
    num_cvars.set(cvars(one).len() as c_int);
    num_pvars.set(pvars(one).len() as c_int);
    num_categories.set(children(one).len() as c_int);
    Ok(())
}

pub fn t_category_get_num_events(cat_index: c_int, mut num_events: Optional<c_int>) -> Checked<()> {
    num_events.set(events(category(cat_index)?).len() as c_int);
    Ok(())
}

pub fn t_category_get_index(name: Optional<c_char>, mut cat_index: Optional<c_int>) -> Checked<()> {
    tool::check()?;
    let names = CATEGORIES.iter().map(|one| one.name);
    cat_index.set(index_of(names, &name, "category")?);
    Ok(())
}

pub fn t_category_get_cvars(cat_index: c_int, len: c_int, indices: Optional<c_int>) -> Checked<()> {
    list(&cvars(category(cat_index)?), len, indices)
}

pub fn t_category_get_pvars(cat_index: c_int, len: c_int, indices: Optional<c_int>) -> Checked<()> {
    list(&pvars(category(cat_index)?), len, indices)
}

pub fn t_category_get_events(
    cat_index: c_int,
    len: c_int,
    indices: Optional<c_int>,
) -> Checked<()> {
    list(&events(category(cat_index)?), len, indices)
}

pub fn t_category_get_categories(
    cat_index: c_int,
    len: c_int,
    indices: Optional<c_int>,
) -> Checked<()> {
    list(&children(category(cat_index)?), len, indices)
}

/// The categories never change while a program runs.
pub fn t_category_changed(mut update_number: Optional<c_int>) -> Checked<()> {
    tool::check()?;
    update_number.set(0);
    Ok(())
}
