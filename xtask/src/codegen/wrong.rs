//! Wrong arguments, `tests/programs/wrong_calls.h`: for every function that is implemented, each parameter that has a
//! wrong value of its own, with the error class that it must give (`tests/programs/wrong.c`).
//!
//! The rules depend on the kind of a parameter, so that a function is tested as soon as it is implemented. Exceptions
//! are rows of [`RIGHT_ALL_THE_SAME`], each with its reason.

use std::fmt::Write;

use super::NOTICE;
use super::calls::Calls;
use super::declaration::Declaration;
use super::table::{Form, Function, Parameter, Tables};

/// Functions that are not called: see [`super::extremes`].
const LEFT_OUT: [&str; 2] = ["MPI_Abort", "MPIX_Comm_revoke"];

/// Function, parameter, and why a call with the wrong value succeeds, or fails for another reason.
const RIGHT_ALL_THE_SAME: [(&str, &str, &str); 7] = [
    ("MPI_Graph_create", "edges", "the graph has none"),
    ("MPI_Graph_map", "edges", "the graph has none"),
    (
        "MPI_Comm_accept",
        "info",
        "the port is none, and looked at first",
    ),
    (
        "MPI_Comm_connect",
        "info",
        "the port is none, and looked at first",
    ),
    (
        "MPI_Comm_spawn_multiple",
        "array_of_info",
        "the commands are null, and looked at first",
    ),
    (
        "MPI_Dist_graph_neighbors",
        "sourceweights",
        "the edges have no weights",
    ),
    (
        "MPI_Dist_graph_neighbors",
        "destweights",
        "the edges have no weights",
    ),
];

/// The whole file.
pub fn text(tables: &Tables, calls: &Calls) -> String {
    let mut out = format!(
        "/* {NOTICE}\n * Every parameter of a function that is implemented, with a wrong value and the class that it gives. */\n\n\
         static const struct wrong_call wrong_calls[] = {{\n"
    );
    for (group, function) in tables.functions() {
        let skipped = LEFT_OUT.contains(&function.name.as_str()) || function.returns.is_some();
        if skipped || !calls.has(group, function) {
            continue;
        }
        for form in function.forms() {
            rows(&mut out, group, function, form);
        }
    }
    out.push_str("};\n");
    out
}

fn rows(out: &mut String, group: &str, function: &Function, form: Form) {
    let name = function.name_of(form);
    let declared = function
        .parameters
        .iter()
        .filter_map(|parameter| Some((parameter, parameter.declaration(form)?)));
    for (place, (parameter, declaration)) in declared.enumerate() {
        for (way, class) in ways(group, function, parameter, &declaration) {
            let right = RIGHT_ALL_THE_SAME
                .iter()
                .any(|(call, of, _)| *call == function.name && *of == declaration.name);
            if right {
                continue;
            }
            let _ = writeln!(
                out,
                "    {{\"{name}\", call_{name}, {place}, \"{}\", {way}, {class}}},",
                declaration.name
            );
        }
    }
}

/// The error class for a wrong handle.
fn class_of_handle(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "COMMUNICATOR" => "MPI_ERR_COMM",
        "DATATYPE" => "MPI_ERR_TYPE",
        "GROUP" => "MPI_ERR_GROUP",
        "OPERATION" => "MPI_ERR_OP",
        "INFO" => "MPI_ERR_INFO",
        "ERRHANDLER" => "MPI_ERR_ERRHANDLER",
        "REQUEST" | "MESSAGE" => "MPI_ERR_REQUEST",
        "SESSION" => "MPI_ERR_SESSION",
        "WINDOW" => "MPI_ERR_WIN",
        "FILE" => "MPI_ERR_FILE",
        _ => return None,
    })
}

/// The error class for a number that is negative and not a constant of the standard.
fn class_of_number(parameter: &Parameter) -> Option<&'static str> {
    let kind = parameter.kind.as_str();
    Some(match (parameter.check.as_deref(), kind) {
        (Some("dest" | "source"), _) => "MPI_ERR_RANK",
        (Some("root"), _) => "MPI_ERR_ROOT",
        (Some("send_tag" | "receive_tag"), _) => "MPI_ERR_TAG",
        (Some(_), _) => return None,
        (_, "KEYVAL") => "MPI_ERR_KEYVAL",
        _ if kind.contains("NUM_ELEM") && (kind.ends_with("_NNI") || kind.ends_with("_PI")) => {
            "MPI_ERR_COUNT"
        }
        _ if kind == "PARTITION" => "MPI_ERR_ARG",
        _ if kind.starts_with("ARRAY_LENGTH") || kind == "NUM_DIMS" => "MPI_ERR_ARG",
        _ if kind.contains("NUM_BYTES") || kind.ends_with("PACK_SIZE") => "MPI_ERR_ARG",
        _ => return None,
    })
}

/// The ways in which a parameter can be wrong, and the error class of each.
fn ways(
    group: &str,
    function: &Function,
    parameter: &Parameter,
    declaration: &Declaration,
) -> Vec<(&'static str, &'static str)> {
    let (kind, direction) = (parameter.kind.as_str(), parameter.direction.as_str());
    // The tool interface has its own error classes, and most of its results may be null.
    if group == "tool" || declaration.is_callback() || declaration.inner.is_some() {
        return Vec::new();
    }
    let mut ways = Vec::new();
    if declaration.by_value() {
        if parameter.check.as_deref() != Some("or_null") {
            ways.extend(class_of_handle(kind).map(|class| ("WRONG_HANDLE", class)));
        }
        ways.extend(class_of_number(parameter).map(|class| ("WRONG_NUMBER", class)));
        return ways;
    }
    if kind == "BUFFER" {
        // The buffer has elements, so it must not be missing.
        let counted = function
            .parameters
            .iter()
            .any(|parameter| parameter.kind.contains("XFER_NUM_ELEM"));
        if counted && declaration.base == "void" {
            ways.push(("WRONG_NULL", "MPI_ERR_BUFFER"));
        }
        return ways;
    }
    let optional = parameter.check.as_deref() == Some("optional");
    // MPI_STATUS_IGNORE, MPI_ERRCODES_IGNORE, and a missing list of arguments for a program.
    let ignored =
        direction == "out" && (kind == "STATUS" || kind == "ERROR_CODE" && declaration.array);
    if ignored || kind == "ARGUMENT_COUNT" || optional {
        return ways;
    }
    let deep = declaration.stars + usize::from(declaration.array) > 1;
    if declaration.base != "void" && !deep {
        ways.push(("WRONG_NULL", "MPI_ERR_ARG"));
    }
    if !deep && direction != "out" {
        ways.extend(class_of_handle(kind).map(|class| ("WRONG_HANDLE", class)));
        if !declaration.array {
            ways.extend(class_of_number(parameter).map(|class| ("WRONG_NUMBER", class)));
        }
    }
    ways
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    /// Functions without a wrong argument of their own, by name or by its start or end (`…`), and why.
    const NOTHING_IS_WRONG: [(&str, &str); 18] = [
        ("MPI_T_…", "tests/programs/wrong_tools.c"),
        ("…_toint", "any handle has an integer, or 0"),
        ("…_fromint", "any integer gives a handle, or the null one"),
        ("MPI_Abort", "ends the program"),
        ("MPIX_Comm_revoke", "ends what the other calls are made on"),
        ("MPI_Init", "has none that it looks at"),
        ("MPI_Finalize", "has none"),
        ("MPI_Pcontrol", "any level may be given"),
        ("MPI_Wtime", "has none"),
        ("MPI_Wtick", "has none"),
        ("MPI_Aint_add", "answers a sum"),
        ("MPI_Aint_diff", "answers a difference"),
        ("MPI_Free_mem", "a null pointer is nothing to free"),
        ("MPI_Buffer_flush", "has none"),
        (
            "MPI_Abi_set_fortran_booleans",
            "tests/programs/fine_print.c",
        ),
        ("MPI_File_call_errhandler", "MPI_FILE_NULL has a handler"),
        ("MPI_Remove_error_…", "tests/programs/fine_print.c"),
        ("MPI_Add_error_…", "tests/programs/fine_print.c"),
    ];

    fn is_excused(name: &str) -> bool {
        NOTHING_IS_WRONG.iter().any(|(pattern, _)| {
            match (pattern.strip_prefix('…'), pattern.strip_suffix('…')) {
                (Some(end), _) => name.ends_with(end),
                (_, Some(start)) => name.starts_with(start),
                _ => name == *pattern,
            }
        })
    }

    /// Every function of the binding has a call with a wrong argument, or is listed above.
    #[test]
    fn every_function_has_a_wrong_argument_or_a_reason() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let read = |file: &str| std::fs::read_to_string(root.join(file)).expect("is generated");
        let (coverage, calls) = (
            read("docs/coverage.md"),
            read("tests/programs/wrong_calls.h"),
        );
        let functions = coverage.lines().filter_map(|line| {
            let name = line.strip_prefix("| `")?.split('`').next()?;
            name.starts_with("MPI").then_some(name)
        });
        let called: BTreeSet<&str> = calls
            .lines()
            .filter_map(|line| line.trim_start().strip_prefix("{\"")?.split('"').next())
            .collect();
        let (mut count, mut left) = (0, Vec::new());
        for name in functions {
            count += 1;
            if !called.contains(name) && !is_excused(name) {
                left.push(name);
            }
        }
        assert!(count > 500, "{count} functions were found");
        assert_eq!(left, [""; 0], "no wrong argument of these is tried");
    }
}
