//! Names of MPICH's modules of `mpi_f08`, which programs built with them ask for: other names of our entry points, procedures whose buffers are
//! descriptors, comparisons of handles, and constants.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use anyhow::{Context, Result};

use super::super::NOTICE;
use super::super::table::{Form, Function, Tables};
use super::dummy::Binding;
use super::{Fortran, constants, entries};

/// The file in Rust.
pub fn file(fortran: &Fortran, tables: &Tables, values: &BTreeMap<String, i64>) -> Result<String> {
    let mut groups = BTreeSet::new();
    let mut body = String::new();
    for (group, function) in tables.functions() {
        for form in function.forms() {
            let ours = entries::names(fortran, group, function, form);
            let Some(name) = ours.first() else {
                continue;
            };
            if !fortran.has(group, function, form, Binding::F08) {
                continue;
            }
            if !fortran.by_hand.contains_key(&function.name) {
                groups.insert(group);
            }
            if function.parameters.iter().any(|one| one.kind == "BUFFER") {
                body += &with_descriptors(fortran, group, function, form, name)
                    .with_context(|| format!("descriptors of {}", function.name_of(form)))?;
            } else {
                let mut others = names(&function.name, form, "f08");
                let former = FORMER.iter().filter(|(today, _)| *today == function.name);
                others.extend(former.flat_map(|(_, former)| names(former, form, "f08")));
                others.retain(|other| !ours.contains(other));
                let _ = writeln!(body, "also!({name}: {});\n", others.join(" "));
            }
        }
    }
    let mut out = format!(
        "//! {NOTICE}\n//!\n//! Names of MPICH's modules of `mpi_f08`, as gfortran makes them.\n\n\
         #![allow(non_upper_case_globals, unused_imports)]\n\n\
         use core::ffi::{{c_char, c_int, c_void}};\n\nuse crate::also;\n\
         use crate::by_hand::{{attributes::*, contents::*, detach::*, own::*, representations::*, requests::*, spawn::*, start::*, texts::*}};\n\
         use crate::section::{{Descriptor, Section, start, whole}};\n"
    );
    for group in groups {
        let _ = writeln!(out, "use super::{group}::*;");
    }
    Ok(out + "\n" + &body + &comparisons(tables) + &handles(tables, values))
}

/// Functions of MPI 4.1, and the names that MPICH had for them before.
const FORMER: [(&str, &str); 3] = [
    ("MPI_Remove_error_class", "MPI_Delete_error_class"),
    ("MPI_Remove_error_code", "MPI_Delete_error_code"),
    ("MPI_Remove_error_string", "MPI_Delete_error_string"),
];

/// The linker names of a procedure and of its form for tools: those of large forms have changed after MPICH 4.0.
fn names(name: &str, form: Form, suffix: &str) -> Vec<String> {
    let name = name.to_lowercase();
    let (library, rest) = name.split_once('_').unwrap_or((&name, ""));
    let all = [name.clone(), format!("p{library}r_{rest}")].into_iter();
    all.flat_map(|name| match form {
        Form::Small => vec![format!("{name}_{suffix}_")],
        Form::Large => vec![
            format!("{name}_c_{suffix}_"),
            format!("{name}_{suffix}_large_"),
        ],
    })
    .collect()
}

/// The procedure that gets buffers as descriptors, and calls the one that gets addresses.
fn with_descriptors(
    fortran: &Fortran,
    group: &str,
    function: &Function,
    form: Form,
    ours: &str,
) -> Result<String> {
    let names = names(&function.name, form, "f08ts");
    let (name, others) = names.split_first().context("a name")?;
    let all = &function.parameters;
    let is_counted = all.iter().any(|one| one.kind == "DATATYPE")
        && all.iter().any(|one| one.kind.contains("NUM_ELEM"));
    let (mut declared, lengths) = entries::parameters(fortran, group, function, form)?;
    let mut passed: Vec<String> = declared.iter().map(|(name, _)| name.clone()).collect();
    let mut body = String::new();
    let there =
        |place: usize, kind: &str| all.get(place).is_some_and(|one| one.kind.starts_with(kind));
    for place in 0..all.len() {
        if all[place].kind != "BUFFER" {
            continue;
        }
        let buffer = declared[place].0.clone();
        "*const Descriptor".clone_into(&mut declared[place].1);
        let count = all.get(place + 1).filter(|one| {
            let counts = one.kind.contains("NUM_ELEM");
            counts && one.widest().is_some_and(|count| count.by_value())
        });
        // A buffer after another one has its count and datatype in common with that.
        let alone = place == 0 || all[place - 1].kind != "BUFFER";
        let made = if count.is_some() && alone && there(place + 2, "DATATYPE") {
            let [count, datatype] = [1, 2].map(|further| declared[place + further].0.clone());
            passed[place] = format!("{buffer}.address()");
            passed[place + 1] = format!("{buffer}.count()");
            passed[place + 2] = format!("{buffer}.datatype()");
            format!("Section::of({buffer}, {count}, {datatype}, ierror)")
        } else if is_counted {
            format!("whole({buffer}, ierror)")
        } else {
            format!("start({buffer}, ierror)")
        };
        let _ = writeln!(body, "let Some({buffer}) = {made} else {{ return }};");
    }
    let mut declared: Vec<String> = declared
        .into_iter()
        .map(|(name, kind)| format!("{name}: {kind}"))
        .collect();
    declared.push("ierror: *mut c_int".to_owned());
    passed.push("ierror".to_owned());
    for length in lengths {
        declared.push(format!("{length}: usize"));
        passed.push(length);
    }
    Ok(format!(
        "#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn {name}({}) {{\n\
         // SAFETY: the program passes descriptors of buffers, and the addresses of other arguments.\n\
         unsafe {{\n{body}{ours}({});\n}}\n}}\nalso!({name}: {});\n\n",
        declared.join(", "),
        passed.join(", "),
        others.join(" ")
    ))
}

/// Operators of the types of handles: of two handles, and of a handle and a number. Module `mpi` has those of two handles.
fn comparisons(tables: &Tables) -> String {
    let kinds: BTreeSet<String> = constants::handle_constants(tables)
        .into_iter()
        .map(|(kind, _, _)| kind.to_lowercase())
        .collect();
    let mut out = String::new();
    for (ours, theirs) in [("eq", "eq"), ("ne", "neq")] {
        let _ = write!(out, "also!(weft_comm_{ours}_:");
        for kind in &kinds {
            for name in [
                format!("{kind}_{theirs}"),
                format!("{kind}_f08_{theirs}_f"),
                format!("{kind}_f_{theirs}_f08"),
            ] {
                let _ = write!(out, " __mpi_f08_types_MOD_mpi_{name}");
            }
            let _ = writeln!(out, " __mpi_constants_MOD_{kind}{theirs}");
        }
        out.push_str(");\n\n");
    }
    out
}

/// Constants that are handles, as variables: a compiler that does not insert their values refers to them.
fn handles(tables: &Tables, values: &BTreeMap<String, i64>) -> String {
    let value = |name: &str| {
        let mut others = tables.other_names.iter();
        let meant = others.find(|(other, _)| other == name);
        let meant = meant.map_or(name, |(_, meant)| meant.as_str());
        values.get(name).or_else(|| values.get(meant)).copied()
    };
    let named = constants::handle_constants(tables).into_iter();
    let named = named.filter_map(|(_, name, _)| Some((value(&name)?, name)));
    let removed = constants::OWN_OF_MPICH.iter();
    let removed = removed.filter(|(name, _)| ["MPI_LB", "MPI_UB"].contains(name));
    let removed = removed.map(|(name, value)| (*value, (*name).to_owned()));
    let mut out = String::new();
    for (value, name) in named.chain(removed) {
        // Numbers of four bytes.
        let value = value as i32;
        let name = name.to_lowercase();
        let _ = writeln!(
            out,
            "#[unsafe(no_mangle)]\npub static __mpi_f08_compile_constants_MOD_{name}: c_int = {value};"
        );
    }
    out
}
