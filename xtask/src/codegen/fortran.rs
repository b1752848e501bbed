//! Fortran's bindings: entry points that turn the arguments of Fortran into calls of the C binding, `mpif.h`,
//! and the modules.
//!
//! ```text
//!   tables/fortran.toml ─┬─entries────► crates/abi-fortran/src/generated/<group>.rs, c.rs, constants.rs
//!   tables/functions ────┤
//!   tables/constants ────┼─constants──► crates/abi-fortran/modules/mpif.h, weft_mpi_constants in mpi.f90
//!                        ├─modules────► crates/abi-fortran/modules/mpi.f90, mpi_f08.f90
//!   tables/mpich.toml ───┴─of_mpich───► crates/abi-fortran/src/generated/of_mpich.rs, constants_of_mpich.rs
//! ```
//!
//! The form of a parameter in Fortran is defined once, in [`dummy`]; the entry points and both modules follow
//! from it.

mod constants;
mod dummy;
mod entries;
mod modules;
mod of_mpich;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::table::{Family, Form, Function, Tables};
pub use constants::{include_file_of_mpich, include_file_of_openmpi};
use dummy::{Binding, Dummy};

/// `tables/fortran.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fortran {
    groups_not_there: BTreeMap<String, String>,
    old: BTreeMap<String, String>,
    /// Removed names, and their present names.
    renamed: BTreeMap<String, String>,
    by_hand: BTreeMap<String, String>,
    /// A parameter that receives a text, and the constant that limits its length.
    texts: BTreeMap<String, String>,
}

impl Fortran {
    /// Reads the table and checks that the names in it exist in the other tables.
    pub fn load(path: &Path, tables: &Tables) -> Result<Self> {
        let text =
            fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        let read: Self =
            toml::from_str(&text).with_context(|| format!("reading {}", path.display()))?;
        let known = read.by_hand.keys().chain(read.old.keys());
        for name in known.chain(read.renamed.values()) {
            ensure!(
                tables
                    .functions()
                    .iter()
                    .any(|(_, function)| function.name == *name),
                "tables/fortran.toml names the function {name}, which tables/functions does not have"
            );
        }
        for group in read.groups_not_there.keys() {
            ensure!(
                tables.groups.contains_key(group),
                "tables/fortran.toml names the group {group}, which tables/functions does not have"
            );
        }
        Ok(read)
    }

    /// The reason why there is no procedure for the functions of a group.
    pub fn reason_not_there(&self, group: &str) -> Option<&str> {
        self.groups_not_there.get(group).map(String::as_str)
    }

    /// Whether a binding has a form of a function.
    fn has(&self, group: &str, function: &Function, form: Form, binding: Binding) -> bool {
        if self.reason_not_there(group).is_some() {
            return false;
        }
        match (binding, form) {
            (Binding::Old, Form::Small) => true,
            (Binding::Old, Form::Large) => false,
            (Binding::F08, Form::Small) => !self.old.contains_key(&function.name),
            (Binding::F08, Form::Large) => large(function) != Large::Same,
        }
    }

    /// The state of a function on the page of coverage.
    pub fn state(&self, group: &str, function: &Function) -> &'static str {
        match (
            self.reason_not_there(group),
            self.old.contains_key(&function.name),
        ) {
            (Some(_), _) => "",
            (None, true) => "old",
            (None, false) => "yes",
        }
    }

    /// The reasons for missing groups, for the page of coverage.
    pub fn reasons(&self) -> impl Iterator<Item = (&str, &str)> {
        let groups = self.groups_not_there.iter();
        groups.map(|(name, reason)| (name.as_str(), reason.as_str()))
    }
}

/// How the large form of a function is called from module `mpi_f08`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Large {
    /// By the name of the small form: the kinds of the arguments decide which form it is.
    Generic,
    /// By its own name, as in C: the forms differ in the arguments of a procedure that is passed.
    Named,
    /// Not at all: its arguments are those of the small form, because addresses and counts have the same
    /// kind.
    Same,
}

fn large(function: &Function) -> Large {
    let shapes = |form| -> Vec<String> {
        let all = dummies(function, form, Binding::F08);
        all.iter().map(Dummy::shape).collect()
    };
    match shapes(Form::Small) != shapes(Form::Large) {
        true => Large::Generic,
        false
            if function
                .parameters
                .iter()
                .any(|one| one.kind == "POLYFUNCTION") =>
        {
            Large::Named
        }
        false => Large::Same,
    }
}

/// The arguments of a procedure, without `ierror`.
fn dummies(function: &Function, form: Form, binding: Binding) -> Vec<Dummy> {
    let all = function.parameters.iter();
    all.filter_map(|parameter| {
        Dummy::of(function, parameter, &parameter.declaration(form)?, binding)
    })
    .collect()
}

/// The type that a function returns in Fortran; `None` for a subroutine.
fn result(function: &Function) -> Option<&'static str> {
    match function.returns_in_c() {
        "double" => Some("double precision"),
        "MPI_Aint" => Some("integer(kind=MPI_ADDRESS_KIND)"),
        _ => None,
    }
}

/// Whether a procedure has an argument for the error code: functions that return a value have none, nor has
/// one that cannot fail.
fn fails(function: &Function) -> bool {
    result(function).is_none() && function.name != "MPI_Pcontrol"
}

/// Paths below `crates/abi-fortran` and texts; those in Rust still have to be formatted.
pub fn files(
    fortran: &Fortran,
    tables: &Tables,
    of_mpich: &BTreeMap<String, i64>,
    of_openmpi: &BTreeMap<String, i64>,
    handles_of_openmpi: &BTreeMap<String, i64>,
) -> Result<Vec<(String, String)>> {
    let mut files = entries::files(fortran, tables)?;
    files.push((
        "src/generated/constants.rs".to_owned(),
        constants::rust(tables)?,
    ));
    files.push((
        "src/generated/constants_of_mpich.rs".to_owned(),
        constants::rust_of_mpich(of_mpich)?,
    ));
    files.push((
        "src/generated/of_mpich.rs".to_owned(),
        of_mpich::file(fortran, tables, of_mpich)?,
    ));
    files.push((
        "src/generated/constants_of_openmpi.rs".to_owned(),
        constants::rust_of_openmpi(of_openmpi, handles_of_openmpi)?,
    ));
    files.push((
        "src/generated/names_of_openmpi.rs".to_owned(),
        entries::names_of_openmpi(fortran, tables),
    ));
    files.push(("modules/mpif.h".to_owned(), constants::include_file(tables)));
    files.push(("modules/mpi.f90".to_owned(), modules::old(fortran, tables)));
    files.push((
        "modules/mpi_f08.f90".to_owned(),
        modules::f08(fortran, tables),
    ));
    Ok(files)
}

/// A family of constants that are handles: the name of their type without prefix.
fn handles(family: &Family) -> Option<&str> {
    dummy::handle(&family.c)
}
