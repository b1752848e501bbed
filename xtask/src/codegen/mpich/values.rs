//! Constants of MPICH beside those of the standard ABI.

use std::fmt::Write;

use anyhow::{Context, Result};

use super::super::NOTICE;
use super::super::table::{Family, Tables};
use super::{Extension, Mpich, Numbers};

/// Kinds of handles with 32 bits in MPICH: the type in C, the name in Rust, the null handle.
const KINDS: [(&str, &str, &str); 10] = [
    ("MPI_Comm", "Comm", "MPI_COMM_NULL"),
    ("MPI_Group", "Group", "MPI_GROUP_NULL"),
    ("MPI_Win", "Win", "MPI_WIN_NULL"),
    ("MPI_Session", "Session", "MPI_SESSION_NULL"),
    ("MPI_Message", "Message", "MPI_MESSAGE_NULL"),
    ("MPI_Info", "Info", "MPI_INFO_NULL"),
    ("MPI_Errhandler", "Errhandler", "MPI_ERRHANDLER_NULL"),
    ("MPI_Op", "Op", "MPI_OP_NULL"),
    ("MPI_Request", "Request", "MPI_REQUEST_NULL"),
    ("MPI_Datatype", "Datatype", "MPI_DATATYPE_NULL"),
];

/// The upper bits of all predefined datatypes that are identified by their low byte.
const BY_LOW_BYTE: i64 = 0x4c00_0000;
/// The first handle of a datatype in the standard ABI.
const FIRST_DATATYPE: i64 = 0x200;

/// Predefined handles.
pub fn handles(mpich: &Mpich, tables: &Tables) -> Result<String> {
    let mut out = format!(
        "//! {NOTICE}\n//!\n//! Predefined handles of MPICH and of the standard ABI.\n\n\
         use crate::handle::{{Comm, Datatype, Errhandler, File, Group, Info, Message, Op, Request, Session, Win}};\n"
    );
    for (c, name, null) in KINDS {
        let pairs = pairs_of_kind(mpich, tables, c)?;
        let null = mpich.value(null)?;
        let _ = writeln!(
            out,
            "\nimpl {name} {{\n/// The null handle.\npub const NULL: u32 = {null:#010x};\n"
        );
        if c == "MPI_Datatype" {
            out += &datatypes(&pairs, &extensions(mpich, tables)?);
            continue;
        }
        out += "/// The predefined handle of the standard ABI.\n#[inline(always)]\npub const fn predefined(classic: u32) -> Option<usize> {\n\
                match classic {\n";
        for (classic, standard) in &pairs {
            let _ = writeln!(out, "{classic:#010x} => Some({standard:#x}),");
        }
        out += "_ => None,\n}\n}\n\n/// The predefined handle of MPICH.\n#[inline(always)]\npub const fn classic(standard: usize) -> Option<u32> {\n\
                match standard {\n";
        for (classic, standard) in &pairs {
            let _ = writeln!(out, "{standard:#x} => Some({classic:#010x}),");
        }
        out += "_ => None,\n}\n}\n}\n";
    }
    let null = mpich.value("MPI_FILE_NULL")?;
    let standard = standard(tables, "MPI_FILE_NULL")?;
    let _ = writeln!(
        out,
        "\nimpl File {{\n/// The null handle.\npub const NULL: u32 = {null:#010x};\n/// The null handle of the standard ABI.\n\
         pub const STANDARD_NULL: usize = {standard:#x};\n}}"
    );
    Ok(out)
}

/// Datatypes of MPICH's own, and those of the standard ABI that are used for them.
fn extensions(mpich: &Mpich, tables: &Tables) -> Result<Vec<(i64, i64)>> {
    let pair = |extension: &Extension| {
        let name = &extension.stands_for;
        let found = tables.datatypes.iter().find(|(other, _)| other == name);
        let (_, row) = found.with_context(|| format!("tables/datatypes.toml has no {name}"))?;
        Ok((extension.handle, row.handle))
    };
    mpich.extensions.values().map(pair).collect()
}

/// Tables of datatypes: one indexed by the low byte of the handle in MPICH, one by the difference to the
/// first handle of the standard ABI.
fn datatypes(pairs: &[(i64, i64)], extensions: &[(i64, i64)]) -> String {
    let mut by_low_byte = vec![(u32::MAX, 0); 256];
    // Rows without a handle contain `u32::MAX`, which has this low byte itself: its row gets another number.
    by_low_byte[0xff].0 = 0;
    let mut others = Vec::new();
    for (classic, standard) in pairs.iter().chain(extensions) {
        if classic & !0xffff == BY_LOW_BYTE {
            by_low_byte[(classic & 0xff) as usize] = (*classic as u32, *standard as u32);
        } else {
            others.push((*classic, *standard));
        }
    }
    let mut by_standard = vec![0; 256];
    for (classic, standard) in pairs.iter().chain(extensions) {
        by_standard[(standard - FIRST_DATATYPE) as usize] = *classic;
    }
    let mut out = String::from(
        "/// By the low byte of MPICH's handle: that handle, and the one of the standard ABI.\npub const BY_LOW_BYTE: [(u32, u32); 256] = [\n",
    );
    for (classic, standard) in by_low_byte {
        let _ = writeln!(out, "({classic:#x}, {standard:#x}),");
    }
    out += "];\n\n/// The predefined handle of the standard ABI, of those that the table does not have.\n\
            pub const fn predefined(classic: u32) -> Option<usize> {\nmatch classic {\n";
    for (classic, standard) in others {
        let _ = writeln!(out, "{classic:#010x} => Some({standard:#x}),");
    }
    out += "_ => None,\n}\n}\n\n/// By the handle of the standard ABI.\nconst BY_STANDARD: [u32; 256] = [\n";
    for classic in by_standard {
        let _ = writeln!(out, "{classic:#x},");
    }
    let _ = writeln!(
        out,
        "];\n\n/// The predefined handle of MPICH.\n#[inline(always)]\npub const fn classic(standard: usize) -> Option<u32> {{\n\
         let place = standard.wrapping_sub({FIRST_DATATYPE:#x});\n\
         if place < 256 && Self::BY_STANDARD[place] != 0 {{\nSome(Self::BY_STANDARD[place])\n}} else {{\nNone\n}}\n}}\n}}"
    );
    out
}

/// Handles of one kind in MPICH and in the standard ABI.
fn pairs_of_kind(mpich: &Mpich, tables: &Tables, c: &str) -> Result<Vec<(i64, i64)>> {
    if c == "MPI_Datatype" {
        let rows = tables.datatypes.iter();
        return rows
            .map(|(name, row)| Ok((mpich.value(name)?, row.handle)))
            .collect();
    }
    let families = tables.families.iter().filter(|family| family.c == c);
    families
        .flat_map(Family::values)
        .map(|(name, standard)| Ok((mpich.value(name)?, standard)))
        .collect()
}

/// The value of a constant in the standard ABI.
fn standard(tables: &Tables, name: &str) -> Result<i64> {
    let mut all = tables.families.iter().flat_map(Family::values);
    let found = all.find(|(other, _)| *other == name);
    Ok(found
        .with_context(|| format!("tables/constants.toml has no {name}"))?
        .1)
}

/// Constants that hand-written code names, with their type.
const NAMED: [(&str, &str); 24] = [
    ("MPI_ANY_TAG", "c_int"),
    ("MPI_ANY_SOURCE", "c_int"),
    ("MPI_IN_PLACE", "isize"),
    ("MPI_BUFFER_AUTOMATIC", "isize"),
    ("MPI_DISPLACEMENT_CURRENT", "i64"),
    ("MPI_DISTRIBUTE_DFLT_DARG", "c_int"),
    ("MPI_UNWEIGHTED", "c_int"),
    ("MPI_WEIGHTS_EMPTY", "c_int"),
    ("MPI_T_PVAR_ALL_HANDLES", "c_int"),
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
];

/// How generated code names a constant of the standard ABI.
pub fn standard_name(constant: &str) -> String {
    format!("STANDARD_{}", constant.trim_start_matches("MPI_"))
}

/// Constants other than handles.
pub fn numbers(mpich: &Mpich, tables: &Tables) -> Result<String> {
    let mut out = format!(
        "//! {NOTICE}\n//!\n//! Constants of MPICH beside those of the standard ABI.\n\n\
         #![allow(dead_code, unreachable_patterns, clippy::manual_range_patterns)]\n\nuse std::ffi::c_int;\n"
    );
    for (name, kind) in NAMED {
        let _ = writeln!(
            out,
            "pub const {}: {kind} = {};",
            standard_name(name),
            standard(tables, name)?
        );
        if let Some(value) = mpich.values.get(name) {
            let short = name.trim_start_matches("MPI_");
            let _ = writeln!(out, "pub const {short}: {kind} = {value};");
        }
    }
    let undefined = mpich.value("MPI_UNDEFINED")?;
    out += "\n/// Special ranks: here and in the standard ABI.\npub const RANKS: &[(c_int, c_int)] = &[\n";
    for name in [
        "MPI_PROC_NULL",
        "MPI_ANY_SOURCE",
        "MPI_ROOT",
        "MPI_UNDEFINED",
    ] {
        let _ = writeln!(
            out,
            "({}, {}),",
            mpich.value(name)?,
            standard(tables, name)?
        );
    }
    out += "];\n\n/// Error classes: here and in the standard ABI.\npub static ERRORS: &[(c_int, c_int)] = &[\n";
    for (name, error) in &tables.errors {
        // The error class of the extension is a predefined one in MPICH.
        let value = mpich.value(name)?;
        let _ = writeln!(out, "({value}, {}),", error.value);
    }
    let _ = writeln!(
        out,
        "];\n\n/// The last predefined code here.\npub const LAST_CODE: c_int = {};\n/// The last predefined code of the standard ABI.\n\
         pub const STANDARD_LAST_CODE: c_int = {};\n/// `MPI_ERR_OTHER`.\npub const OTHER: c_int = {};",
        mpich.value("MPI_ERR_LASTCODE")?,
        error(tables, "MPI_ERR_LASTCODE")?,
        mpich.value("MPI_ERR_OTHER")?
    );
    for (name, numbers) in &mpich.numbers {
        let family = tables
            .families
            .iter()
            .find(|family| family.title == numbers.family);
        let family = family.context("checked when it was loaded")?;
        let pairs: Vec<(i64, i64)> = family
            .values()
            .map(|(name, standard)| Ok((mpich.value(name)?, standard)))
            .collect::<Result<_>>()?;
        let _ = writeln!(
            out,
            "\n/// {}.\npub mod {name} {{\nuse std::ffi::c_int;\n",
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
    out += "}\n}\n\n/// The number of MPICH.\npub const fn encode(standard: c_int) -> c_int {\nmatch standard {\n";
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
        ("encode", "MPICH", 1, 0),
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
