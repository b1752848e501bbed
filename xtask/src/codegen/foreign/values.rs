//! Constants of a foreign ABI beside those of the standard ABI.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::iter;

use anyhow::{Context, Result};

use super::super::NOTICE;
use super::super::table::{Family, Tables};
use super::{Abi, Numbers};

/// The value of a constant in the standard ABI.
pub fn standard(tables: &Tables, name: &str) -> Result<i64> {
    let mut all = tables.families.iter().flat_map(Family::values);
    let found = all.find(|(other, _)| *other == name);
    Ok(found
        .with_context(|| format!("tables/constants.toml has no {name}"))?
        .1)
}

/// Constants that hand-written code names, with their type.
const NAMED: [(&str, &str); 28] = [
    ("MPI_ANY_TAG", "c_int"),
    ("MPI_ANY_SOURCE", "c_int"),
    ("MPI_IN_PLACE", "isize"),
    ("MPI_BUFFER_AUTOMATIC", "isize"),
    ("MPI_DISPLACEMENT_CURRENT", "i64"),
    ("MPI_DISTRIBUTE_DFLT_DARG", "c_int"),
    ("MPI_UNWEIGHTED", "c_int"),
    ("MPI_WEIGHTS_EMPTY", "c_int"),
    ("MPI_T_PVAR_ALL_HANDLES", "isize"),
    ("MPI_DUP_FN", "c_int"),
    ("MPI_HOST", "c_int"),
    ("MPI_IO", "c_int"),
    ("MPI_LASTUSEDCODE", "c_int"),
    ("MPI_WIN_CREATE_FLAVOR", "c_int"),
    ("MPI_WIN_MODEL", "c_int"),
    ("MPI_COMBINER_SUBARRAY", "c_int"),
    ("MPI_COMBINER_DARRAY", "c_int"),
    ("MPI_CART", "c_int"),
    ("MPI_GRAPH", "c_int"),
    ("MPI_DIST_GRAPH", "c_int"),
    ("MPI_T_BIND_MPI_COMM", "c_int"),
    ("MPI_MAX_PROCESSOR_NAME", "usize"),
    ("MPI_MAX_INFO_KEY", "usize"),
    ("MPI_MAX_PORT_NAME", "usize"),
    ("MPI_MAX_OBJECT_NAME", "usize"),
    ("MPI_MAX_ERROR_STRING", "usize"),
    ("MPI_MAX_LIBRARY_VERSION_STRING", "usize"),
    ("MPI_STATUS_IGNORE", "usize"),
];

/// How generated code names a constant of the standard ABI.
pub fn standard_name(constant: &str) -> String {
    format!("STANDARD_{}", constant.trim_start_matches("MPI_"))
}

/// How generated code names the same constant of the foreign ABI.
pub fn own_name(constant: &str) -> &str {
    constant.trim_start_matches("MPI_")
}

/// Constants other than handles.
pub fn numbers(abi: &Abi, numbers: &BTreeMap<String, Numbers>, tables: &Tables) -> Result<String> {
    let mut out = format!(
        "//! {NOTICE}\n//!\n//! Constants of {} beside those of the standard ABI.\n\n\
         #![allow(dead_code, unreachable_patterns, clippy::manual_range_patterns)]\n\nuse core::ffi::c_int;\n",
        abi.name
    );
    for (name, kind) in NAMED {
        let _ = writeln!(
            out,
            "pub const {}: {kind} = {};",
            standard_name(name),
            standard(tables, name)?
        );
        if let Ok(value) = abi.value(name) {
            let _ = writeln!(out, "pub const {}: {kind} = {value};", own_name(name));
        }
    }
    let undefined = abi.value("MPI_UNDEFINED")?;
    out += "\n/// Special ranks: here and in the standard ABI.\npub const RANKS: &[(c_int, c_int)] = &[\n";
    for name in [
        "MPI_PROC_NULL",
        "MPI_ANY_SOURCE",
        "MPI_ROOT",
        "MPI_UNDEFINED",
    ] {
        let _ = writeln!(out, "({}, {}),", abi.value(name)?, standard(tables, name)?);
    }
    out += "];\n\n/// Error classes: here and in the standard ABI.\npub static ERRORS: &[(c_int, c_int)] = &[\n";
    // The class of a lost process has two names, which are two numbers here. It is given to programs by that of the extension, which the
    // programs know that go on after a loss.
    let lost = "MPIX_ERR_PROC_FAILED";
    let pair = (abi.value(lost)?, standard(tables, lost)?);
    let all = tables.errors.iter();
    let all = all.map(|(name, error)| Ok((abi.value(name)?, error.value)));
    let pairs: Vec<(i64, i64)> = iter::once(Ok(pair)).chain(all).collect::<Result<_>>()?;
    for (value, standard) in pairs {
        let _ = writeln!(out, "({value}, {standard}),");
    }
    let _ = writeln!(
        out,
        "];\n\n/// The last predefined code here.\npub const LAST_CODE: c_int = {};\n/// The last predefined code of the standard ABI.\n\
         pub const STANDARD_LAST_CODE: c_int = {};\n/// `MPI_ERR_OTHER`.\npub const OTHER: c_int = {};\n/// `MPI_ERR_ARG`.\npub const ARG: c_int = {};",
        abi.value("MPI_ERR_LASTCODE")?,
        error(tables, "MPI_ERR_LASTCODE")?,
        abi.value("MPI_ERR_OTHER")?,
        abi.value("MPI_ERR_ARG")?
    );
    for (name, numbers) in numbers {
        let family = tables
            .families
            .iter()
            .find(|family| family.title == numbers.family);
        let family = family.context("checked when it was loaded")?;
        let pairs: Vec<(i64, i64)> = family
            .values()
            .map(|(name, standard)| Ok((abi.value(name)?, standard)))
            .collect::<Result<_>>()?;
        let _ = writeln!(
            out,
            "\n/// {}.\npub mod {name} {{\nuse core::ffi::c_int;\n",
            family.title
        );
        out += &if numbers.set {
            set(&pairs)
        } else {
            one(&pairs, numbers, undefined)
        };
        out += "}\n";
    }
    Ok(out)
}

fn error(tables: &Tables, name: &str) -> Result<i64> {
    let found = tables.errors.iter().find(|(other, _)| other == name);
    Ok(found
        .with_context(|| format!("tables/errors.toml has no {name}"))?
        .1
        .value)
}

/// A number that is one of the constants.
fn one(pairs: &[(i64, i64)], numbers: &Numbers, undefined: i64) -> String {
    let mut out = String::from(
        "/// The number of the standard ABI.\npub const fn decode(classic: c_int) -> c_int {\nmatch classic {\n",
    );
    for (classic, standard) in pairs {
        let _ = writeln!(out, "{classic} => {standard},");
    }
    if numbers.others {
        out += "other => other,\n";
    } else {
        let _ = writeln!(out, "{undefined} => {undefined},\n_ => c_int::MIN,");
    }
    out += "}\n}\n\n/// The number of this ABI.\npub const fn encode(standard: c_int) -> c_int {\nmatch standard {\n";
    for (classic, standard) in pairs {
        let _ = writeln!(out, "{standard} => {classic},");
    }
    out + "other => other,\n}\n}\n"
}

/// A number that is a sum of the constants. Other bits become a bit that is not a constant in the other ABI
/// either.
fn set(pairs: &[(i64, i64)]) -> String {
    let mut out = String::new();
    for (name, title, from, to) in [
        ("decode", "the standard ABI", 0, 1),
        ("encode", "this ABI", 1, 0),
    ] {
        let of = |pair: &(i64, i64), side| if side == 0 { pair.0 } else { pair.1 };
        let all: i64 = pairs.iter().map(|pair| of(pair, from)).sum();
        let _ = writeln!(
            out,
            "/// The set of {title}.\npub const fn {name}(set: c_int) -> c_int {{\n\
             let mut found = if set & !{all} == 0 {{ 0 }} else {{ 1 << 30 }};"
        );
        for pair in pairs {
            let _ = writeln!(
                out,
                "if set & {} != 0 {{ found |= {}; }}",
                of(pair, from),
                of(pair, to)
            );
        }
        out += "found\n}\n";
    }
    out
}
