//! The ABI of MPICH in Rust: entry points that translate to the standard ABI, and the constants that they
//! need.
//!
//! ```text
//!   tables/mpich.toml ─┬─values──────► crates/abi-mpich/src/generated/numbers.rs, handles.rs
//!   tables/functions ──┴─parameters──► crates/abi-mpich/src/generated/<group>.rs, names.rs
//! ```

mod parameters;
mod values;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::NOTICE;
use super::declaration::Declaration;
use super::table::{Form, Function, Tables};
use parameters::Translation;

/// `tables/mpich.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mpich {
    /// Functions that are written by hand, with the reason.
    by_hand: BTreeMap<String, String>,
    texts: BTreeMap<String, Text>,
    numbers: BTreeMap<String, Numbers>,
    /// Datatypes outside the standard that programs of MPICH pass.
    extensions: BTreeMap<String, Extension>,
    values: BTreeMap<String, i64>,
}

/// A datatype of MPICH's own, for which one of the standard is used.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Extension {
    handle: i64,
    stands_for: String,
}

/// A text for which a program of MPICH has a shorter buffer.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    parameter: String,
    /// A constant.
    room: String,
}

/// Numbers that are constants.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Numbers {
    /// Title of a family of constants.
    family: String,
    /// Kinds of parameters that hold one.
    kinds: Vec<String>,
    /// Whether a number is a sum of the constants.
    #[serde(default)]
    set: bool,
    /// Whether numbers other than the constants are unchanged.
    #[serde(default)]
    others: bool,
}

impl Mpich {
    /// The constants of MPICH.
    pub fn values(&self) -> &BTreeMap<String, i64> {
        &self.values
    }

    /// Reads the table and checks that the names in it exist in the other tables.
    pub fn load(path: &Path, tables: &Tables) -> Result<Self> {
        let text =
            fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        let read: Self =
            toml::from_str(&text).with_context(|| format!("reading {}", path.display()))?;
        for name in read.by_hand.keys().chain(read.texts.keys()) {
            ensure!(
                tables
                    .functions()
                    .iter()
                    .any(|(_, function)| function.name == *name),
                "tables/mpich.toml names the function {name}, which tables/functions does not have"
            );
        }
        for numbers in read.numbers.values() {
            ensure!(
                tables
                    .families
                    .iter()
                    .any(|family| family.title == numbers.family),
                "tables/mpich.toml names the family `{}`, which tables/constants.toml does not have",
                numbers.family
            );
        }
        Ok(read)
    }

    /// The value of a constant in MPICH.
    fn value(&self, name: &str) -> Result<i64> {
        let found = self.values.get(name).copied();
        found.with_context(|| format!("tables/mpich.toml has no value of {name}"))
    }

    /// The function that translates parameters of a kind.
    fn numbers_of(&self, kind: &str) -> Option<&str> {
        let found = self.numbers.iter();
        found
            .filter(|(_, numbers)| numbers.kinds.iter().any(|one| one == kind))
            .map(|(name, _)| name.as_str())
            .next()
    }
}

/// Names and texts of the files, below `crates/abi-mpich/src`.
pub fn files(mpich: &Mpich, tables: &Tables) -> Result<Vec<(String, String)>> {
    let mut files = vec![
        (
            "generated/handles.rs".to_owned(),
            values::handles(mpich, tables)?,
        ),
        (
            "generated/numbers.rs".to_owned(),
            values::numbers(mpich, tables)?,
        ),
        ("generated/names.rs".to_owned(), names(tables)),
    ];
    let mut index = format!(
        "//! {NOTICE}\n//!\n//! Entry points and constants. `PMPI_X` translates and calls, `MPI_X` jumps to it.\n\n\
         #![allow(non_snake_case, missing_docs, clippy::too_many_arguments, clippy::missing_safety_doc)]\n\n\
         mod handles;\npub mod names;\npub mod numbers;\n\n"
    );
    for (group, functions) in &tables.groups {
        let mut body = String::new();
        for function in functions
            .iter()
            .filter(|one| !mpich.by_hand.contains_key(&one.name))
        {
            for form in function.forms() {
                body += &entry(mpich, group, function, form)
                    .with_context(|| format!("translating {}", function.name_of(form)))?;
            }
        }
        if body.is_empty() {
            continue;
        }
        let _ = writeln!(index, "pub mod {group};");
        let head = format!(
            "//! {NOTICE}\n//!\n//! Entry points of the group `{group}`.\n\n#![allow(unused_imports, unused_mut)]\n\n\
             use std::ffi::{{c_char, c_int, c_void}};\n\n\
             use super::names::index;\nuse crate::array::{{self, length}};\nuse crate::handle::{{self, Handle}};\n\
             use crate::status::{{self, Classic, Standard}};\nuse crate::{{alias, error, number, standard}};\n\n"
        );
        files.push((format!("generated/{group}.rs"), head + &body));
    }
    files.push(("generated.rs".to_owned(), index));
    Ok(files)
}

/// All functions of the standard ABI that are called, in the order in which their addresses are stored.
fn names(tables: &Tables) -> String {
    let mut names: Vec<String> = Vec::new();
    for (_, function) in tables.functions() {
        names.extend(function.forms().map(|form| function.name_of(form)));
    }
    let mut out = format!(
        "//! {NOTICE}\n//!\n//! Functions of the standard ABI, and the indices of their addresses.\n\n\
         use std::ffi::CStr;\n\n\
         /// Their names. `PMPI_X`: the function by which a tool has replaced `MPI_X` there is for programs of that ABI.\n\
         pub static NAMES: [&CStr; {}] = [\n",
        names.len()
    );
    for name in &names {
        let _ = writeln!(out, "c\"P{name}\",");
    }
    out += "];\n\n/// Indices of their addresses.\n#[allow(dead_code)]\npub mod index {\n";
    for (place, name) in names.iter().enumerate() {
        let _ = writeln!(out, "pub const {}: usize = {place};", name.to_uppercase());
    }
    out + "}\n"
}

/// The entry point of one form of a function.
fn entry(mpich: &Mpich, group: &str, function: &Function, form: Form) -> Result<String> {
    let name = function.name_of(form);
    let mut declared = Vec::new();
    let mut types = Vec::new();
    let mut arguments = Vec::new();
    let (mut before, mut after) = (String::new(), String::new());
    for parameter in &function.parameters {
        let Some(declaration) = parameter.declaration(form) else {
            continue;
        };
        let text = mpich
            .texts
            .get(&function.name)
            .filter(|text| text.parameter == declaration.name);
        let mut translation = Translation::of(mpich, group, function, parameter, &declaration)?;
        if let Some(text) = text {
            translation = Translation::of_text(
                &declaration,
                tables_room(&text.room),
                mpich.value(&text.room)?,
            );
        }
        declared.push(format!(
            "{}: {}",
            declaration.name,
            parameters::classic_type(&declaration)?
        ));
        types.push(parameters::standard_type(&declaration)?);
        arguments.push(translation.argument);
        for line in translation.before {
            let _ = writeln!(before, "{line}");
        }
        for line in translation.after {
            let _ = writeln!(after, "{line}");
        }
    }
    let (returns, result) = match function.returns_in_c() {
        "int" => ("c_int", "error::encode({code})"),
        "double" => ("f64", "{code}"),
        "MPI_Aint" => ("isize", "{code}"),
        other => anyhow::bail!("it returns {other}"),
    };
    let call = format!("call({})", arguments.join(", "));
    let last = if after.is_empty() {
        result.replace("{code}", &call)
    } else {
        format!(
            "let code = {call};\n{after}{}",
            result.replace("{code}", "code")
        )
    };
    let place = name.to_uppercase();
    Ok(format!(
        "#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn P{name}({}) -> {returns} {{\n\
         // SAFETY: the addresses come from the caller, which keeps the promises of the C binding; the types are those of the standard ABI.\n\
         unsafe {{\n{before}let call: unsafe extern \"C\" fn({}) -> {returns} = standard::function(index::{place});\n\
         {last}\n}}\n}}\nalias!({name} => P{name});\n\n",
        declared.join(", "),
        types.join(", "),
    ))
}

/// The constant of the standard ABI, as generated code names it.
fn tables_room(constant: &str) -> String {
    format!("number::{}", values::standard_name(constant))
}

/// Whether a declaration is an array of numbers or handles whose length the program passes.
fn has_length(declaration: &Declaration) -> bool {
    declaration.array && declaration.inner.is_none()
}
