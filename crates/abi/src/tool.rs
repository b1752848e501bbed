//! The tool interface's objects (MPI 5.0, chapter 15): tables of variables, categories and events, and the
//! handles that programs hold.
//!
//! | file | what |
//! |---|---|
//! | `variables` | performance variables: a table of values, and how each is read |
//! | `settings` | control variables |
//! | `categories`, `enumerations` | how both are grouped; names of values |
//! | `handles` | a program's view of one variable; sessions |
//! | `events`, `registrations` | kinds of events; the callbacks that are called for them |
//! | `page` | tests: the tables of `docs/tools.md` |
//!
//! The interface only returns codes, works before `MPI_Init` and after `MPI_Finalize`, and outside of these
//! all counters are zero.

pub mod categories;
pub mod enumerations;
pub mod events;
pub mod handles;
mod page;
pub mod registrations;
pub mod settings;
pub mod variables;

use std::ffi::{CStr, c_char, c_int};

use weft_atomic::{AtomicU32, Ordering};

use crate::args::Optional;
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;

/// Calls of `MPI_T_init_thread` without their `MPI_T_finalize`.
static USERS: AtomicU32 = AtomicU32::new(0);

/// One more user.
pub fn begin() {
    USERS.fetch_add(1, Ordering::AcqRel);
}

/// One less; true if it was the last.
pub fn end() -> Checked<bool> {
    let left = USERS.fetch_update(Ordering::AcqRel, Ordering::Acquire, |users| {
        users.checked_sub(1)
    });
    left.map(|users| users == 1).map_err(|_| not_initialised())
}

/// An error unless the interface is in use.
pub fn check() -> Checked<()> {
    if USERS.load(Ordering::Acquire) > 0 {
        Ok(())
    } else {
        Err(not_initialised())
    }
}

#[cold]
fn not_initialised() -> Fault {
    Fault::new(
        k::MPI_T_ERR_NOT_INITIALIZED,
        "the tool interface is not initialised; call MPI_T_init_thread first",
    )
}

/// The row of an index.
pub fn row<'a, T>(rows: &'a [T], index: c_int, what: &str) -> Checked<&'a T> {
    let found = usize::try_from(index)
        .ok()
        .and_then(|index| rows.get(index));
    found.ok_or_else(|| {
        Fault::new(
            k::MPI_T_ERR_INVALID_INDEX,
            format!(
                "there is no {what} {index}: they are 0 to {}",
                rows.len() as i64 - 1
            ),
        )
    })
}

/// The index of the row with a name.
pub fn index_of<'a>(
    mut names: impl Iterator<Item = &'a str>,
    name: &Optional<c_char>,
    what: &str,
) -> Checked<c_int> {
    let name = text(name)?;
    match names.position(|one| one == name) {
        Some(index) => Ok(index as c_int),
        None => Err(Fault::new(
            k::MPI_T_ERR_INVALID_NAME,
            format!("there is no {what} '{name}'"),
        )),
    }
}

/// A text of the caller.
fn text(address: &Optional<c_char>) -> Checked<String> {
    let Some(address) = address.address() else {
        return Err(invalid("a name is needed, not a null pointer"));
    };
    // SAFETY: an IN string ends with a zero and does not change until the call returns (MPI 5.0, section 15.3.3).
    let text = unsafe { CStr::from_ptr(address) };
    Ok(text.to_string_lossy().into_owned())
}

/// Invalid use.
#[cold]
pub fn invalid(cause: &str) -> Fault {
    Fault::new(k::MPI_T_ERR_INVALID, cause)
}

/// Hands out a text: as much as fits into the caller's length, which is then set to the needed length, with the zero
/// (MPI 5.0, section 15.3.3).
pub fn hand_out(text: &str, into: &Optional<c_char>, length: &mut Optional<c_int>) {
    let Some(given) = length.get() else { return };
    if let Some(address) = into.address()
        && let Ok(capacity) = usize::try_from(given)
        && capacity > 0
    {
        // SAFETY: the caller has room for the number of characters that it gives.
        unsafe { crate::args::TextOut::new(address) }.set(text, capacity);
    }
    length.set(text.len() as c_int + 1);
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::categories::CATEGORIES;
    use super::events::EVENTS;
    use super::page::page;
    use super::settings::SETTINGS;
    use super::variables::VARIABLES;

    #[test]
    fn names_are_unique_and_all_have_a_category() {
        let categories: HashSet<_> = CATEGORIES.iter().map(|one| one.name).collect();
        assert_eq!(categories.len(), CATEGORIES.len());
        let variables = VARIABLES.iter().map(|one| (one.name, one.category));
        let settings = SETTINGS.iter().map(|one| (one.name, one.category));
        let events = EVENTS.iter().map(|one| (one.name, one.category));
        let all: Vec<_> = variables.chain(settings).chain(events).collect();
        let names: HashSet<_> = all.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), all.len());
        for (name, category) in all {
            assert!(categories.contains(category), "{name} is in {category}");
        }
        for parent in CATEGORIES.iter().filter_map(|one| one.parent) {
            assert!(categories.contains(parent));
        }
        assert!(VARIABLES.len() >= 40 && EVENTS.len() >= 10);
    }

    /// `docs/tools.md` lists what the tables have; `WEFT_WRITE=1` writes it.
    #[test]
    fn the_page_lists_what_there_is() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tools.md");
        let written = std::fs::read_to_string(path).unwrap_or_default();
        let head =
            "<!-- From here on written by `WEFT_WRITE=1 cargo test -p weft-abi tool::tests`. -->\n";
        let (text, _) = written.split_once(head).unwrap_or((&written, ""));
        let wanted = format!("{text}{head}{}", page());
        if std::env::var_os("WEFT_WRITE").is_some() {
            std::fs::write(path, &wanted).expect("docs can be written");
        } else {
            assert!(written == wanted, "run it again with WEFT_WRITE=1 set");
        }
    }
}
