//! Entry points in Rust, one file for each group.

use std::fmt::Write;

use anyhow::{Result, bail};

use super::NOTICE;
use super::calls::Calls;
use super::collective::Completion;
use super::declaration::Declaration;
use super::forms;
use super::profiled;
use super::table::{Form, Function, Tables};
use super::watch;

/// Names and texts of the files.
pub fn files(tables: &Tables, calls: &Calls) -> Result<Vec<(String, String)>> {
    let mut files = Vec::new();
    let mut index = format!(
        "//! {NOTICE}\n//!\n//! Constants and entry points of the C binding. `PMPI_X` checks and calls, `MPI_X` jumps to it.\n\n\
         #![allow(non_snake_case, missing_docs, clippy::too_many_arguments, clippy::missing_safety_doc, clippy::useless_conversion, clippy::unnecessary_cast)]\n\n\
         pub mod constants;\npub(crate) mod profiled;\n"
    );
    for (group, functions) in &tables.groups {
        let _ = writeln!(index, "mod {group};");
        let mut body = String::new();
        for function in functions {
            for form in function.forms() {
                body.push_str(&entry(group, function, form, calls.has(group, function))?);
            }
        }
        let mut head = format!(
            "//! {NOTICE}\n//!\n//! Entry points of the group `{group}`.\n\n#![allow(unused_imports, unused_unsafe, unused_variables)]\n\n"
        );
        head.push_str(
            "use std::ffi::{c_char, c_int, c_void};\n\nuse crate::args::{AddressArgument, BlocksArgument, BufferArgument, Form, Optional, StatusOut, StatusesOut, TypedBlocksArgument};\n\
             use crate::entry::{self, Scope};\nuse crate::{alias, c, calls, check, state};\n\n",
        );
        files.push((format!("generated/{group}.rs"), head + &body));
    }
    files.push((
        "generated/profiled.rs".to_owned(),
        profiled::file(tables, calls),
    ));
    files.push(("generated.rs".to_owned(), index));
    Ok(files)
}

fn entry(group: &str, function: &Function, form: Form, implemented: bool) -> Result<String> {
    let name = function.name_of(form);
    let declarations: Vec<Declaration> = function
        .parameters
        .iter()
        .filter_map(|parameter| parameter.declaration(form))
        .collect();
    let parameters: Vec<String> = declarations
        .iter()
        .map(|one| format!("{}: {}", one.name, one.in_rust()))
        .collect();
    let returns = match function.returns_in_c() {
        "int" => "c_int".to_owned(),
        "double" => "f64".to_owned(),
        handle => format!("c::{}", handle.trim_start_matches("MPI_")),
    };
    let mut out = format!(
        "#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn P{name}({}) -> {returns} {{\n",
        parameters.join(", ")
    );
    if function.returns.is_some() {
        let names: Vec<&str> = declarations.iter().map(|one| one.name.as_str()).collect();
        let _ = writeln!(
            out,
            "calls::{group}::{}({})",
            function.call(),
            names.join(", ")
        );
    } else if implemented && function.at_once {
        let whole = implementation(group, function, form, &name)?;
        let (goes_on, body) = at_once_first(function, &declarations, &parameters, (&name, &whole));
        out.insert_str(0, &goes_on);
        out.push_str(&body);
    } else if implemented {
        out.push_str(&implementation(group, function, form, &name)?);
    } else {
        bail!(
            "{name} has no call: write `calls::{group}::{}` (crates/abi/src/calls/{group}.rs)",
            function.call()
        );
    }
    let _ = writeln!(out, "}}\nalias!({name} => P{name});\n");
    Ok(out)
}

/// The body of a function that tries a short path first, and the function by which the call goes on otherwise. That is a function of its own,
/// so that the short path need not save registers that only the full path uses.
fn at_once_first(
    function: &Function,
    declarations: &[Declaration],
    parameters: &[String],
    (name, whole): (&str, &str),
) -> (String, String) {
    let names: Vec<&str> = declarations.iter().map(|one| one.name.as_str()).collect();
    // The short paths take counts of 64 bits.
    let arguments: Vec<String> = names
        .iter()
        .map(|&name| match name {
            count if count.ends_with("count") => format!("{count}.into()"),
            other => other.to_owned(),
        })
        .collect();
    let form = function.form_of.as_ref();
    let is_begun = form.is_some_and(|form| form.completion == Completion::Nonblocking);
    let attempt = |suffix: &str| {
        let call = function.call();
        let ends = match arguments.split_last() {
            Some((request, arguments)) if is_begun => format!(
                "!{request}.is_null() && crate::at_once::has_begun({request}, crate::at_once::begun::{call}({}))",
                arguments.join(", "),
            ),
            _ => format!("crate::at_once::{call}{suffix}({})", arguments.join(", ")),
        };
        format!(
            "// SAFETY: the addresses come from the caller, which keeps the promises of the C binding (`crate::at_once`).\n\
             if unsafe {{ {ends} }} {{\nreturn super::constants::MPI_SUCCESS;\n}}\n",
        )
    };
    let long = match function.at_once_long {
        true => attempt("_long"),
        false => String::new(),
    };
    let goes_on = format!(
        "/// `{name}`, after the short path was not possible.\n\
         #[inline(never)]\npub(super) unsafe extern \"C\" fn full_{name}({}) -> c_int {{\n{long}{whole}}}\n\n",
        parameters.join(", "),
    );
    let body = format!(
        "{}\
         // SAFETY: the same arguments.\n\
         unsafe {{ full_{name}({}) }}\n",
        attempt(""),
        names.join(", "),
    );
    (goes_on, body)
}

fn implementation(group: &str, function: &Function, form: Form, name: &str) -> Result<String> {
    let body = forms::body(group, function, form)?;
    let mut out = String::new();
    let _ = writeln!(
        out,
        "entry::run(\"{name}\", {}, || {{",
        scope(group, function)
    );
    if !function.anytime {
        out.push_str("state::check_running()?;\n");
    }
    out.push_str(
        "// SAFETY: the addresses come from the caller, which keeps the promises of the C binding (`crate::check`).\nunsafe {\n",
    );
    // The first check is that of the object: if it fails, there are no other ranks that could be informed.
    let object = function
        .parameters
        .first()
        .and_then(|one| Some(one.widest()?.name));
    for (place, line) in body.lines.iter().enumerate() {
        let _ = match (&function.refused, &object, line.strip_suffix("?;")) {
            (Some(refused), Some(object), Some(check)) if place > 0 => writeln!(
                out,
                "{check}.map_err(|fault| calls::{group}::{refused}({object}, fault))?;"
            ),
            _ => writeln!(out, "{line}"),
        };
    }
    let call = format!(
        "calls::{}::{}({})",
        function.call_group(group),
        function.call(),
        body.arguments.join(", ")
    );
    let _ = match &function.form_of {
        Some(form) => writeln!(
            out,
            "let schedule = {call}?;\n{}\n}}",
            form.completion.ending()
        ),
        None => writeln!(out, "{call}\n}}"),
    };
    let watched = watch::of(group, function, name);
    let mut after = watched.after;
    if let Some(object) = made(function) {
        let _ = writeln!(
            after,
            "// SAFETY: as above: if the call has succeeded, it has stored a handle there.\n\
             unsafe {{ crate::handle::creation::note(\"{name}\", code, {object}.cast()) }};"
        );
    }
    let before = watched.before;
    if after.is_empty() {
        return Ok(format!("{before}{out}}})\n"));
    }
    Ok(format!("{before}let code = {out}}});\n{after}code\n"))
}

/// Kinds of objects that a program makes and frees.
const OBJECTS: [&str; 9] = [
    "COMMUNICATOR",
    "GROUP",
    "DATATYPE",
    "OPERATION",
    "INFO",
    "ERRHANDLER",
    "WINDOW",
    "FILE",
    "MESSAGE",
];

/// Endings of the names of calls whose result the program must not free.
const LENT: [&str; 7] = [
    "_get_parent",
    "_get_errhandler",
    "_match_size",
    "_get_value_index",
    "_f90_complex",
    "_f90_integer",
    "_f90_real",
];

/// The parameter that is the address at which a call stores the handle of a new object.
fn made(function: &Function) -> Option<String> {
    let name = function.call();
    if LENT.iter().any(|end| name.ends_with(end)) {
        return None;
    }
    let mut parameters = function.parameters.iter();
    parameters.find_map(|parameter| {
        let declaration = parameter.widest()?;
        let single = declaration.stars == 1 && !declaration.array;
        let is_object = OBJECTS.contains(&parameter.kind.as_str());
        (is_object && single && parameter.direction == "out").then_some(declaration.name)
    })
}

/// The object whose error handler is called for an error.
fn scope(group: &str, function: &Function) -> String {
    if group == "tool" {
        return "Scope::Tool".to_owned();
    }
    // Errors of calls that have no file yet also count as errors of files (MPI 5.0, section 14.7).
    let has_file = |function: &Function| {
        let mut parameters = function.parameters.iter();
        parameters.any(|one| one.kind == "FILE" && one.direction != "out")
    };
    if group == "file" && !has_file(function) {
        return "Scope::File(calls::file::NO_FILE)".to_owned();
    }
    for parameter in &function.parameters {
        let Some(declaration) = parameter.widest() else {
            continue;
        };
        let name = &declaration.name;
        let single = declaration.stars == 1 && !declaration.array;
        match parameter.kind.as_str() {
            "COMMUNICATOR" if declaration.by_value() => return format!("Scope::Comm({name})"),
            "COMMUNICATOR" if single && parameter.direction == "inout" => {
                return format!("Scope::CommAt({name})");
            }
            "WINDOW" if declaration.by_value() => return format!("Scope::Win({name})"),
            "WINDOW" if single && parameter.direction == "inout" => {
                return format!("Scope::WinAt({name})");
            }
            "FILE" if declaration.by_value() => return format!("Scope::File({name})"),
            "FILE" if single && parameter.direction == "inout" => {
                return format!("Scope::FileAt({name})");
            }
            "SESSION" if declaration.by_value() => return format!("Scope::Session({name})"),
            "SESSION" if single && parameter.direction == "inout" => {
                return format!("Scope::SessionAt({name})");
            }
            "REQUEST" if single && parameter.direction == "inout" => {
                return format!("Scope::RequestAt({name})");
            }
            "MESSAGE" if single && parameter.direction == "inout" => {
                return format!("Scope::MessageAt({name})");
            }
            _ => {}
        }
    }
    "Scope::None".to_owned()
}
