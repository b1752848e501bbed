//! Predefined handles of an ABI in which they are addresses of objects that the library exports: that of Open MPI.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::super::NOTICE;
use super::super::table::Tables;
use super::{Abi, KINDS, predefined};

/// The objects.
pub struct Objects {
    /// Bytes of one, by the name of the kind of its handle.
    pub sizes: BTreeMap<String, usize>,
    /// Objects, by the name of the handle in the standard.
    pub objects: BTreeMap<String, Predefined>,
    /// Further ones, by symbol.
    pub extensions: BTreeMap<String, Extension>,
}

/// An object that is a predefined handle.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Predefined {
    /// The symbol of the library.
    symbol: String,
    /// The integer of Fortran.
    fortran: i64,
}

/// An object for which the standard has another name, or none.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Extension {
    kind: String,
    stands_for: Option<String>,
    /// Whether programs get it for the one that it stands for.
    #[serde(default)]
    given_back: bool,
}

impl Objects {
    /// The definitions of the objects, and their addresses by the handle of the standard ABI.
    pub fn text(&self, abi: &Abi, tables: &Tables) -> Result<String> {
        let mut out = format!(
            "//! {NOTICE}\n//!\n//! Objects whose addresses are the predefined handles of {}.\n\n\
             #![allow(non_upper_case_globals)]\n\nuse core::ffi::c_int;\n\n\
             use crate::openmpi::fortran::Predefined;\n\
             use crate::openmpi::handle::{{Comm, Datatype, Errhandler, File, Group, Info, Message, Op, Request, Session, Win}};\n\
             use crate::openmpi::object::{{Addresses, Object}};\n\n",
            abi.name
        );
        let (mut places, mut in_fortran) = (String::new(), String::new());
        let mut known = 0;
        for (c, kind) in KINDS {
            let size = self.size(kind)?;
            let mut numbers = String::new();
            for (name, handle) in predefined(tables, c) {
                let Some(Predefined { symbol, fortran }) = self.objects.get(name) else {
                    continue;
                };
                let _ = writeln!(numbers, "({fortran}, {handle:#x}),");
                known += 1;
                let _ = writeln!(
                    out,
                    "/// `{name}`.\n#[unsafe(no_mangle)]\npub static {symbol}: Object<{size}> = Object::of({handle:#x}, {fortran});"
                );
                let _ = writeln!(places, "addresses.set({handle:#x}, &{symbol});");
            }
            let _ = writeln!(
                in_fortran,
                "\nimpl Predefined for {kind} {{\nconst IN_FORTRAN: &'static [(c_int, usize)] = &[\n{numbers}];\n}}"
            );
        }
        ensure!(
            known == self.objects.len(),
            "{}: [objects] names a handle that the standard does not have",
            abi.table
        );
        for (symbol, extension) in &self.extensions {
            let size = self.size(&extension.kind)?;
            let (title, value) = match &extension.stands_for {
                None => (
                    "No handle of the standard.".to_owned(),
                    "Object::none()".to_owned(),
                ),
                Some(name) => {
                    let handle = handle(tables, name)?;
                    if extension.given_back {
                        let _ = writeln!(places, "addresses.set({handle:#x}, &{symbol});");
                    }
                    (
                        format!("As `{name}`."),
                        format!("Object::of({handle:#x}, -1)"),
                    )
                }
            };
            let _ = writeln!(
                out,
                "/// {title}\n#[unsafe(no_mangle)]\npub static {symbol}: Object<{size}> = {value};"
            );
        }
        let _ = write!(
            out,
            "\n/// The objects, by the handle of the standard ABI.\npub static ADDRESSES: Addresses = {{\n\
             let mut addresses = Addresses::none();\n{places}addresses\n}};\n{in_fortran}"
        );
        Ok(out)
    }

    /// The same as rows for a test program in C, by kind: a type, and the name of its conversions to Fortran. A header may lack a datatype.
    pub fn checks(&self) -> String {
        let mut out = String::new();
        for (name, Predefined { symbol, fortran }) in &self.objects {
            let _ = writeln!(
                out,
                "#ifdef {name}\nOBJECT({name}, {symbol}, {fortran})\n#endif"
            );
        }
        out
    }

    /// The integers of Fortran, by the name of the handle.
    pub fn fortran(&self) -> BTreeMap<String, i64> {
        let all = self.objects.iter();
        all.map(|(name, one)| (name.clone(), one.fortran)).collect()
    }

    fn size(&self, kind: &str) -> Result<usize> {
        let size = self.sizes.get(kind);
        Ok(*size.with_context(|| format!("there is no size of objects of the kind {kind}"))?)
    }
}

/// A predefined handle of the standard ABI.
fn handle(tables: &Tables, name: &str) -> Result<i64> {
    for (c, _) in KINDS {
        let all = predefined(tables, c);
        if let Some((_, handle)) = all.into_iter().find(|(other, _)| *other == name) {
            return Ok(handle);
        }
    }
    bail!("the standard has no handle {name}")
}
