//! Foreign ABIs in Rust: entry points that translate to the standard ABI, which are the same for all of them, and the constants and
//! handles of each.
//!
//! ```text
//!   tables/foreign.toml ─┬─parameters──► crates/abi-mpich/src/generated/<group>.rs, names.rs
//!   tables/functions ────┘
//!   tables/mpich.toml ───┬─values──────► crates/abi-mpich/src/generated/<abi>/numbers.rs
//!   tables/openmpi.toml ─┘─handles─────► crates/abi-mpich/src/generated/<abi>/handles.rs
//! ```

mod handles;
mod objects;
mod parameters;
mod values;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::NOTICE;
use super::declaration::Declaration;
use super::table::{Family, Form, Function, Tables};
use parameters::Translation;

/// Foreign ABIs: what they have in common, `tables/foreign.toml`, and each of them.
pub struct Foreign {
    common: Common,
    pub mpich: Abi,
    pub openmpi: Abi,
}

/// `tables/foreign.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Common {
    /// Functions that are written by hand, with the reason.
    by_hand: BTreeMap<String, String>,
    texts: BTreeMap<String, Text>,
    numbers: BTreeMap<String, Numbers>,
}

/// A text for which a program of a foreign ABI has a shorter buffer.
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

/// A foreign ABI.
pub struct Abi {
    /// The name of its modules.
    module: &'static str,
    /// The name of the implementation.
    name: &'static str,
    table: String,
    /// Constants that the implementation does not have.
    ours: BTreeMap<String, i64>,
    values: BTreeMap<String, i64>,
    handles: Handles,
}

/// What predefined handles are.
enum Handles {
    /// Numbers, which are among the values; and those of datatypes outside the standard.
    Numbers(BTreeMap<String, handles::Extension>),
    /// Addresses of objects.
    Objects(objects::Objects),
}

/// `tables/mpich.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WithNumbers {
    extensions: BTreeMap<String, handles::Extension>,
    values: BTreeMap<String, i64>,
}

/// `tables/openmpi.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WithObjects {
    sizes: BTreeMap<String, usize>,
    objects: BTreeMap<String, objects::Predefined>,
    extensions: BTreeMap<String, objects::Extension>,
    /// Constants that the implementation does not have.
    ours: BTreeMap<String, i64>,
    values: BTreeMap<String, i64>,
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    toml::from_str(&text).with_context(|| format!("reading {}", path.display()))
}

impl Foreign {
    /// Reads the tables of a folder and checks that the names in them exist in the other tables.
    pub fn load(folder: &Path, tables: &Tables) -> Result<Self> {
        let common: Common = read(&folder.join("foreign.toml"))?;
        for name in common.by_hand.keys().chain(common.texts.keys()) {
            ensure!(
                tables
                    .functions()
                    .iter()
                    .any(|(_, function)| function.name == *name),
                "tables/foreign.toml names the function {name}, which tables/functions does not have"
            );
        }
        for numbers in common.numbers.values() {
            ensure!(
                tables
                    .families
                    .iter()
                    .any(|family| family.title == numbers.family),
                "tables/foreign.toml names the family `{}`, which tables/constants.toml does not have",
                numbers.family
            );
        }
        let WithNumbers { extensions, values } = read(&folder.join("mpich.toml"))?;
        let mpich = Abi {
            module: "mpich",
            name: "MPICH",
            table: "tables/mpich.toml".to_owned(),
            ours: BTreeMap::new(),
            values,
            handles: Handles::Numbers(extensions),
        };
        let WithObjects {
            sizes,
            objects,
            extensions,
            ours,
            values,
        } = read(&folder.join("openmpi.toml"))?;
        let objects = objects::Objects {
            sizes,
            objects,
            extensions,
        };
        let openmpi = Abi {
            module: "openmpi",
            name: "Open MPI",
            table: "tables/openmpi.toml".to_owned(),
            ours,
            values,
            handles: Handles::Objects(objects),
        };
        Ok(Self {
            common,
            mpich,
            openmpi,
        })
    }
}

impl Common {
    /// The function that translates parameters of a kind.
    fn numbers_of(&self, kind: &str) -> Option<&str> {
        let found = self.numbers.iter();
        found
            .filter(|(_, numbers)| numbers.kinds.iter().any(|one| one == kind))
            .map(|(name, _)| name.as_str())
            .next()
    }
}

impl Abi {
    /// Its constants.
    pub fn values(&self) -> &BTreeMap<String, i64> {
        &self.values
    }

    /// Its constants, and those that the implementation does not have.
    pub fn all_values(&self) -> BTreeMap<String, i64> {
        let all = self.values.iter().chain(&self.ours);
        all.map(|(name, value)| (name.clone(), *value)).collect()
    }

    /// The integers of Fortran for its predefined handles, where these are not those of C.
    pub fn fortran(&self) -> BTreeMap<String, i64> {
        match &self.handles {
            Handles::Numbers(_) => BTreeMap::new(),
            Handles::Objects(objects) => objects.fortran(),
        }
    }

    /// The value of one of its constants.
    fn value(&self, name: &str) -> Result<i64> {
        let found = self.values.get(name).or_else(|| self.ours.get(name));
        found
            .copied()
            .with_context(|| format!("{} has no value of {name}", self.table))
    }
}

/// Constants and predefined handles of an ABI, which a test program compares with those of the implementation's `mpi.h`.
pub fn checks(abi: &Abi) -> String {
    let mut out = format!("/* {NOTICE}\n   Constants of {}. */\n", abi.name);
    for (name, value) in &abi.values {
        let _ = writeln!(out, "CONSTANT({name}, {value})");
    }
    if let Handles::Objects(objects) = &abi.handles {
        out += &objects.checks();
    }
    out
}

/// Kinds of handles: the type in C, the name in Rust.
const KINDS: [(&str, &str); 11] = [
    ("MPI_Comm", "Comm"),
    ("MPI_Group", "Group"),
    ("MPI_Win", "Win"),
    ("MPI_File", "File"),
    ("MPI_Session", "Session"),
    ("MPI_Message", "Message"),
    ("MPI_Info", "Info"),
    ("MPI_Errhandler", "Errhandler"),
    ("MPI_Op", "Op"),
    ("MPI_Request", "Request"),
    ("MPI_Datatype", "Datatype"),
];

/// Predefined handles of one kind in the standard ABI.
fn predefined<'t>(tables: &'t Tables, c: &str) -> Vec<(&'t str, i64)> {
    if c == "MPI_Datatype" {
        let rows = tables.datatypes.iter();
        return rows
            .map(|(name, row)| (name.as_str(), row.handle))
            .collect();
    }
    let families = tables.families.iter().filter(|family| family.c == c);
    families.flat_map(Family::values).collect()
}

/// Names and texts of the files, below `crates/abi-mpich/src`.
pub fn files(foreign: &Foreign, tables: &Tables) -> Result<Vec<(String, String)>> {
    let mut files = vec![("generated/names.rs".to_owned(), names(tables))];
    for abi in [&foreign.mpich, &foreign.openmpi] {
        files.extend(files_of(abi, &foreign.common, tables)?);
    }
    let mut index = format!(
        "//! {NOTICE}\n//!\n//! Entry points, and constants of each ABI. `PMPI_X` translates and calls, `MPI_X` jumps to it.\n\n\
         #![allow(non_snake_case, missing_docs, clippy::too_many_arguments, clippy::missing_safety_doc)]\n\n\
         #[cfg(not(feature = \"openmpi\"))]\nmod mpich;\n#[cfg(feature = \"openmpi\")]\nmod openmpi;\npub mod names;\n\n\
         #[cfg(not(feature = \"openmpi\"))]\npub use mpich::*;\n#[cfg(feature = \"openmpi\")]\npub use openmpi::*;\n\n"
    );
    for (group, functions) in &tables.groups {
        let mut body = String::new();
        for function in functions
            .iter()
            .filter(|one| !foreign.common.by_hand.contains_key(&one.name))
        {
            for form in function.forms() {
                body += &entry(&foreign.common, group, function, form)
                    .with_context(|| format!("translating {}", function.name_of(form)))?;
            }
        }
        if body.is_empty() {
            continue;
        }
        let _ = writeln!(index, "pub mod {group};");
        let head = format!(
            "//! {NOTICE}\n//!\n//! Entry points of the group `{group}`.\n\n#![allow(unused_imports, unused_mut)]\n\n\
             use core::ffi::{{c_char, c_int, c_void}};\n\n\
             use super::names::index;\nuse crate::array::{{self, length}};\nuse crate::handle::{{self, Handle, Word}};\n\
             use crate::status::{{self, Classic, Standard}};\nuse crate::{{alias, error, number, standard}};\n\n"
        );
        files.push((format!("generated/{group}.rs"), head + &body));
    }
    files.push(("generated.rs".to_owned(), index));
    Ok(files)
}

/// What is generated of one ABI.
fn files_of(abi: &Abi, common: &Common, tables: &Tables) -> Result<Vec<(String, String)>> {
    let handles = match &abi.handles {
        Handles::Numbers(extensions) => handles::text(abi, extensions, tables)?,
        Handles::Objects(objects) => objects.text(abi, tables)?,
    };
    let module = abi.module;
    let index = format!(
        "//! {NOTICE}\n//!\n//! Handles and constants of {}.\n\npub mod handles;\npub mod numbers;\n",
        abi.name
    );
    Ok(vec![
        (format!("generated/{module}.rs"), index),
        (format!("generated/{module}/handles.rs"), handles),
        (
            format!("generated/{module}/numbers.rs"),
            values::numbers(abi, &common.numbers, tables)?,
        ),
    ])
}

/// All functions of the standard ABI that are called, in the order in which their addresses are stored.
fn names(tables: &Tables) -> String {
    let mut names: Vec<String> = Vec::new();
    for (_, function) in tables.functions() {
        names.extend(function.forms().map(|form| function.name_of(form)));
    }
    let mut out = format!(
        "//! {NOTICE}\n//!\n//! Functions of the standard ABI, and the indices of their addresses.\n\n\
         use core::ffi::CStr;\n\n\
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
fn entry(common: &Common, group: &str, function: &Function, form: Form) -> Result<String> {
    let name = function.name_of(form);
    let mut declared = Vec::new();
    let mut types = Vec::new();
    let mut arguments = Vec::new();
    let (mut before, mut after) = (String::new(), String::new());
    for parameter in &function.parameters {
        let Some(declaration) = parameter.declaration(form) else {
            continue;
        };
        let text = common
            .texts
            .get(&function.name)
            .filter(|text| text.parameter == declaration.name);
        let mut translation = Translation::of(common, group, function, parameter, &declaration)?;
        if let Some(text) = text {
            translation = Translation::of_text(&declaration, &text.room, length_of_text(function));
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

/// Where a function stores the length of the text that it stores.
fn length_of_text(function: &Function) -> &'static str {
    let mut kinds = function.parameters.iter().map(|one| one.kind.as_str());
    match kinds.any(|kind| kind == "STRING_LENGTH") {
        true => "resultlen",
        false => "core::ptr::null_mut()",
    }
}

/// Whether a declaration is an array of numbers or handles whose length the program passes.
fn has_length(declaration: &Declaration) -> bool {
    declaration.array && declaration.inner.is_none()
}
