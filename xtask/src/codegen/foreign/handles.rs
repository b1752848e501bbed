//! Predefined handles of an ABI in which they are numbers of 32 bits, and files addresses: that of MPICH.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::super::NOTICE;
use super::super::table::Tables;
use super::values::standard;
use super::{Abi, KINDS, predefined};

/// A datatype of the implementation's own, for which one of the standard is used.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Extension {
    handle: i64,
    stands_for: String,
}

/// The name of the null handle of a kind.
fn null(c: &str) -> String {
    format!("{}_NULL", c.to_uppercase())
}

/// The upper bits of all predefined datatypes that are identified by their low byte.
const BY_LOW_BYTE: i64 = 0x4c00_0000;
/// The first handle of a datatype in the standard ABI.
const FIRST_DATATYPE: i64 = 0x200;

/// Predefined handles.
pub fn text(abi: &Abi, others: &BTreeMap<String, Extension>, tables: &Tables) -> Result<String> {
    let mut out = format!(
        "//! {NOTICE}\n//!\n//! Predefined handles of MPICH and of the standard ABI.\n\n\
         use crate::mpich::handle::{{Comm, Datatype, Errhandler, File, Group, Info, Message, Op, Request, Session, Win}};\n"
    );
    // Files are addresses.
    for (c, name) in KINDS.into_iter().filter(|(_, name)| *name != "File") {
        let pairs = pairs_of_kind(abi, tables, c)?;
        let null = abi.value(&null(c))?;
        let _ = writeln!(
            out,
            "\nimpl {name} {{\n/// The null handle.\npub const NULL: u32 = {null:#010x};\n"
        );
        if c == "MPI_Datatype" {
            out += &datatypes(&pairs, &extensions(others, tables)?);
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
    let null = abi.value("MPI_FILE_NULL")?;
    let standard = standard(tables, "MPI_FILE_NULL")?;
    let _ = writeln!(
        out,
        "\nimpl File {{\n/// The null handle.\npub const NULL: u32 = {null:#010x};\n/// The null handle of the standard ABI.\n\
         pub const STANDARD_NULL: usize = {standard:#x};\n}}"
    );
    Ok(out)
}

/// Datatypes of MPICH's own, and those of the standard ABI that are used for them.
fn extensions(others: &BTreeMap<String, Extension>, tables: &Tables) -> Result<Vec<(i64, i64)>> {
    let pair = |extension: &Extension| {
        let name = &extension.stands_for;
        let found = tables.datatypes.iter().find(|(other, _)| other == name);
        let (_, row) = found.with_context(|| format!("tables/datatypes.toml has no {name}"))?;
        Ok((extension.handle, row.handle))
    };
    others.values().map(pair).collect()
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
fn pairs_of_kind(abi: &Abi, tables: &Tables, c: &str) -> Result<Vec<(i64, i64)>> {
    predefined(tables, c)
        .into_iter()
        .map(|(name, standard)| Ok((abi.value(name)?, standard)))
        .collect()
}
