//! Constants in Rust.

use std::fmt::Write;

use super::NOTICE;
use super::table::Tables;

/// Name and text of the file.
pub fn file(tables: &Tables) -> (String, String) {
    let mut out = format!(
        "//! {NOTICE}\n//!\n//! Constants of the MPI 5 ABI, under their names in C.\n\n\
         use std::ffi::{{c_char, c_int, c_void}};\n\nuse weft_mpi::datatype::Basic;\n\nuse crate::c;\n"
    );
    for family in &tables.families {
        let _ = writeln!(out, "\n// {}.", family.title);
        for (name, value) in family.values() {
            let (kind, expression) = rust(&family.c, value);
            let _ = writeln!(out, "pub const {name}: {kind} = {expression};");
        }
    }
    out.push_str("\n// Error classes.\n");
    for (name, error) in &tables.errors {
        let _ = writeln!(out, "pub const {name}: c_int = {};", error.value);
    }
    out.push_str("\n// Predefined datatypes.\n");
    for (name, datatype) in &tables.datatypes {
        let _ = writeln!(
            out,
            "pub const {name}: c::Datatype = c::Datatype({:#x});",
            datatype.handle
        );
    }
    out.push_str("\n/// Error classes: value, name, sentence.\npub static ERROR_CLASSES: &[(c_int, &str, &str)] = &[\n");
    for (name, error) in &tables.errors {
        let _ = writeln!(
            out,
            "({}, \"{name}\", \"{}\"),",
            error.value, error.sentence
        );
    }
    out.push_str(
        "];\n\n/// Predefined datatypes: handle, bytes of data, and its name in the engine.\n",
    );
    out.push_str("pub static DATATYPES: &[(usize, usize, Basic)] = &[\n");
    for (_, datatype) in &tables.datatypes {
        if let Some(engine) = &datatype.engine {
            let size = datatype.size.unwrap_or_default();
            let _ = writeln!(out, "({:#x}, {size}, Basic::{engine}),", datatype.handle);
        }
    }
    out.push_str("];\n");
    ("generated/constants.rs".to_owned(), out)
}

/// Type and expression of a constant of a C type.
fn rust(c: &str, value: i64) -> (String, String) {
    match c {
        "enum" | "macro" => ("c_int".to_owned(), value.to_string()),
        "enum MPI_T_cb_safety" | "enum MPI_T_source_order" => {
            ("c_int".to_owned(), value.to_string())
        }
        "MPI_Offset" => ("c::Offset".to_owned(), value.to_string()),
        "void *" => pointer("c_void", value),
        "int *" => pointer("c_int", value),
        "char **" => pointer("*mut c_char", value),
        "char ***" => pointer("*mut *mut c_char", value),
        "MPI_Status *" => pointer("c::Status", value),
        callback if callback.ends_with('*') => {
            ("c::Callback".to_owned(), format!("c::Callback({value:#x})"))
        }
        tool if tool.starts_with("MPI_T_") => (
            "c::ToolHandle".to_owned(),
            format!("c::ToolHandle({value:#x})"),
        ),
        handle => {
            let name = handle.trim_start_matches("MPI_");
            (format!("c::{name}"), format!("c::{name}({value:#x})"))
        }
    }
}

fn pointer(target: &str, value: i64) -> (String, String) {
    let expression = match value {
        0 => "std::ptr::null_mut()".to_owned(),
        value => format!("std::ptr::without_provenance_mut({value})"),
    };
    (format!("*mut {target}"), expression)
}
