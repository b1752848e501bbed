//! Header `mpi.h`.

use std::fmt::Write;

use super::NOTICE;
use super::table::{Family, Tables};

/// Handles, in the order of their definitions. The names of the structures are part of the ABI: C++
/// mangles them into the names of functions.
const HANDLES: [&str; 11] = [
    "Comm",
    "Group",
    "Win",
    "File",
    "Session",
    "Message",
    "Info",
    "Errhandler",
    "Request",
    "Datatype",
    "Op",
];

/// Handles of the tool interface.
const TOOLS: [&str; 6] = [
    "enum",
    "cvar_handle",
    "pvar_handle",
    "pvar_session",
    "event_registration",
    "event_instance",
];

/// The whole file.
pub fn text(tables: &Tables) -> String {
    let mut out = format!(
        "/* {NOTICE}\n * The MPI 5.0 application binary interface: a program built with this header runs on every\n \
         * library that implements it. */\n\
         #ifndef MPI_H_ABI\n#define MPI_H_ABI\n\n#include <stdint.h>\n\n#ifdef __cplusplus\nextern \"C\" {{\n#endif\n"
    );
    numbers(&mut out);
    out.push_str("\n/* Handles. */\n");
    for name in HANDLES {
        let _ = writeln!(out, "typedef struct MPI_ABI_{name} *MPI_{name};");
    }
    for name in TOOLS {
        let _ = writeln!(out, "typedef struct MPI_T_{name}_t *MPI_T_{name};");
    }
    let (typed, plain): (Vec<&Family>, Vec<&Family>) = tables
        .families
        .iter()
        .partition(|family| family.c.starts_with("enum MPI_"));
    for family in typed {
        let name = family.c.trim_start_matches("enum ");
        let _ = writeln!(out, "\n/* {}. */\ntypedef enum {name} {{", family.title);
        enumerators(&mut out, family.values());
        let _ = writeln!(out, "}} {name};");
    }
    out.push_str("\n/* Functions that users write. */\n");
    for callback in &tables.callbacks {
        let _ = writeln!(
            out,
            "typedef {} ({})({});",
            callback.returns, callback.name, callback.arguments
        );
        if let Some(also) = &callback.also {
            let _ = writeln!(out, "typedef {} {also};", callback.name);
        }
    }
    for family in plain {
        constants(&mut out, family);
    }
    out.push_str("\n/* Error classes. */\nenum {\n");
    enumerators(
        &mut out,
        tables
            .errors
            .iter()
            .map(|(name, error)| (name.as_str(), error.value)),
    );
    out.push_str("};\n");
    // With these, programs test in the preprocessor whether there is an extension.
    for (name, _) in tables
        .errors
        .iter()
        .filter(|(name, _)| name.starts_with("MPIX_"))
    {
        define(&mut out, name, name, None);
    }
    out.push_str("\n/* Predefined datatypes. */\n");
    for (name, datatype) in &tables.datatypes {
        define(
            &mut out,
            name,
            &format!("((MPI_Datatype){:#x})", datatype.handle),
            datatype.stands_for.as_deref(),
        );
    }
    for (other, name) in &tables.other_names {
        define(&mut out, other, name, None);
    }
    for (prefix, title) in [
        ("", "Functions."),
        (
            "P",
            "The same functions under the names that profiling libraries call.",
        ),
    ] {
        let _ = writeln!(out, "\n/* {title} */");
        for (_, function) in tables.functions() {
            for form in function.forms() {
                let _ = writeln!(out, "{};", function.prototype(form, prefix));
            }
        }
    }
    conversions(&mut out);
    out.push_str(include_str!("header/statuses.h"));
    out.push_str(include_str!("header/removed.h"));
    out.push_str("\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
    out
}

/// Handles of C and integers of Fortran: defined in the header by the functions that the library has for all
/// languages.
fn conversions(out: &mut String) {
    out.push_str("\n/* Handles of Fortran, which are integers. */\ntypedef int MPI_Fint;\n");
    for handle in HANDLES {
        let function = if handle == "Datatype" { "Type" } else { handle };
        let name = handle.to_lowercase();
        let _ = write!(
            out,
            "static inline MPI_Fint MPI_{function}_c2f(MPI_{handle} {name}) {{\n    \
             return MPI_{function}_toint({name});\n}}\n\
             static inline MPI_{handle} MPI_{function}_f2c(MPI_Fint {name}) {{\n    \
             return MPI_{function}_fromint({name});\n}}\n\
             #define PMPI_{function}_c2f MPI_{function}_c2f\n\
             #define PMPI_{function}_f2c MPI_{function}_f2c\n"
        );
    }
}

/// Integers and the status.
fn numbers(out: &mut String) {
    out.push_str(
        "\n/* Integers. */\ntypedef intptr_t MPI_Aint;\ntypedef int64_t MPI_Offset;\ntypedef int64_t MPI_Count;\n\n\
         /* What a receive has received. The last five words belong to the library. */\n\
         typedef struct MPI_Status {\n    int MPI_SOURCE;\n    int MPI_TAG;\n    int MPI_ERROR;\n    \
         int MPI_internal[5];\n} MPI_Status;\n",
    );
}

fn constants(out: &mut String, family: &Family) {
    let _ = writeln!(out, "\n/* {}. */", family.title);
    match family.c.as_str() {
        "enum" => {
            out.push_str("enum {\n");
            enumerators(out, family.values());
            out.push_str("};\n");
        }
        "macro" => family
            .values()
            .for_each(|(name, value)| define(out, name, &value.to_string(), None)),
        "MPI_Offset" => family
            .values()
            .for_each(|(name, value)| define(out, name, &format!("((MPI_Offset){value})"), None)),
        kind => family.values().for_each(|(name, value)| {
            let number = if value < 16 {
                value.to_string()
            } else {
                format!("{value:#x}")
            };
            define(out, name, &format!("(({kind}){number})"), None);
        }),
    }
}

fn enumerators<'a>(out: &mut String, values: impl Iterator<Item = (&'a str, i64)>) {
    let lines: Vec<String> = values
        .map(|(name, value)| format!("    {name} = {value}"))
        .collect();
    out.push_str(&lines.join(",\n"));
    out.push('\n');
}

fn define(out: &mut String, name: &str, value: &str, remark: Option<&str>) {
    match remark {
        Some(remark) => {
            let _ = writeln!(out, "#define {name} {value} /* {remark} */");
        }
        None => {
            let _ = writeln!(out, "#define {name} {value}");
        }
    }
}
