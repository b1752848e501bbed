//! Entry points: `mpi_send_` and its other names, which call `MPI_Send`.

use std::fmt::Write;

use anyhow::{Context, Result, bail};

use super::super::NOTICE;
use super::super::declaration::Declaration;
use super::super::table::{Form, Function, Parameter, Tables};
use super::Fortran;
use super::dummy::{self, Binding, Dummy, Type};

/// The files in Rust.
pub fn files(fortran: &Fortran, tables: &Tables) -> Result<Vec<(String, String)>> {
    let mut files = vec![(
        "src/generated/c.rs".to_owned(),
        functions_of_c(fortran, tables)?,
    )];
    let mut index = format!(
        "//! {NOTICE}\n//!\n//! Entry points, the functions that they call, and constants.\n\n\
         #![allow(non_snake_case, missing_docs, clippy::too_many_arguments, clippy::missing_safety_doc)]\n\n\
         pub mod c;\n\
         #[cfg(not(any(feature = \"mpich\", feature = \"openmpi\")))]\npub mod constants;\n\
         #[cfg(feature = \"mpich\")]\n#[path = \"generated/constants_of_mpich.rs\"]\npub mod constants;\n\
         #[cfg(feature = \"mpich\")]\nmod of_mpich;\n\
         #[cfg(feature = \"openmpi\")]\n#[path = \"generated/constants_of_openmpi.rs\"]\npub mod constants;\n\
         #[cfg(feature = \"openmpi\")]\nmod names_of_openmpi;\n\n"
    );
    for (group, functions) in &tables.groups {
        let mut body = String::new();
        for function in functions {
            if fortran.by_hand.contains_key(&function.name) {
                continue;
            }
            for form in function.forms() {
                body += &entry(fortran, group, function, form)
                    .with_context(|| format!("translating {}", function.name_of(form)))?;
            }
        }
        if body.is_empty() {
            continue;
        }
        let _ = writeln!(index, "mod {group};");
        let head = format!(
            "//! {NOTICE}\n//!\n//! Entry points of the group `{group}`.\n\n#![allow(unused_imports, unused_mut)]\n\n\
             use core::ffi::{{c_char, c_int, c_void}};\n\n\
             use super::{{c, constants}};\nuse crate::also;\nuse crate::array::{{self, length}};\n\
             use crate::data::{{aint, handle, int, long, store_handle}};\nuse crate::logical;\nuse crate::neighbors;\n\
             use crate::sentinel;\n\
             use crate::text::{{self, Text}};\nuse crate::error::finish;\n\n"
        );
        files.push((format!("src/generated/{group}.rs"), head + &body));
    }
    files.push(("src/generated.rs".to_owned(), index));
    Ok(files)
}

/// A type of C in Rust. Constant and mutable pointers are not distinguished.
fn c_type(declaration: &Declaration) -> Result<String> {
    if declaration.is_callback() {
        return Ok("usize".to_owned());
    }
    let base = match declaration.base.as_str() {
        "int" => "c_int",
        "char" => "c_char",
        "void" => "c_void",
        "MPI_Aint" => "isize",
        "MPI_Count" | "MPI_Offset" => "i64",
        // Eight integers, in C as in Fortran.
        "MPI_Status" => "c_int",
        base if dummy::handle(base).is_some() => "usize",
        other => bail!("the type {other} is not known"),
    };
    let pointers = declaration.stars + usize::from(declaration.array);
    Ok(format!("{}{base}", "*mut ".repeat(pointers)))
}

/// The functions of the C binding that procedures call.
fn functions_of_c(fortran: &Fortran, tables: &Tables) -> Result<String> {
    let mut out = format!(
        "//! {NOTICE}\n//!\n//! Functions of the C binding, by the names that tools interpose.\n\n\
         #![allow(dead_code)]\n\nuse core::ffi::{{c_char, c_int, c_void}};\n\nunsafe extern \"C\" {{\n"
    );
    for (group, function) in tables.functions() {
        if fortran.reason_not_there(group).is_some() {
            continue;
        }
        for form in function.forms() {
            let mut parameters = Vec::new();
            for parameter in &function.parameters {
                match parameter.declaration(form) {
                    Some(declaration) => {
                        parameters.push(format!("{}: {}", declaration.name, c_type(&declaration)?))
                    }
                    None if parameter.kind == "VARARGS" => parameters.push("...".to_owned()),
                    None => {}
                }
            }
            if function
                .parameters
                .iter()
                .any(|one| gets_a_handle(one, form))
            {
                let name = function.name_of(form).replacen("MPI_", "weft_fortran_", 1);
                let _ = writeln!(
                    out,
                    "#[cfg_attr(feature = \"openmpi\", link_name = \"{}\")]",
                    name.to_lowercase()
                );
            }
            let _ = writeln!(
                out,
                "pub fn {}({}) -> {};",
                function.name_of(form),
                parameters.join(", "),
                returned(function)
            );
        }
    }
    Ok(out + "}\n")
}

/// Whether a parameter is a function of the program to which C passes the address of a handle: in the ABI of Open MPI, such a handle is no integer
/// of Fortran, and the library of C has other functions for Fortran, which pass that.
fn gets_a_handle(parameter: &Parameter, form: Form) -> bool {
    let declaration = parameter.declaration(form);
    declaration.is_some_and(|one| {
        let base = one.base.trim_end_matches("_c");
        base == "MPI_User_function" || base.ends_with("_errhandler_function")
    })
}

/// Names that the modules of Open MPI have for the procedures of `mpif.h`, and names that some had before the standard had them.
pub fn names_of_openmpi(fortran: &Fortran, tables: &Tables) -> String {
    let mut out = format!(
        "//! {NOTICE}\n//!\n//! Further names of procedures, by which the modules of Open MPI call them.\n\n\
         use crate::also_of;\n\nalso_of! {{\n"
    );
    for (group, function) in tables.functions() {
        let form = Form::Small;
        if !fortran.has(group, function, form, Binding::Old) {
            continue;
        }
        let name = function.name.to_lowercase();
        let short = name.trim_start_matches("mpi_");
        let _ = writeln!(out, "ompi_{short}_f {name}_;");
        if group.ends_with("_persistent")
            || name.starts_with("mpi_neighbor") && name.ends_with("_init")
        {
            for other in [
                format!("ompix_{short}_f"),
                format!("mpix_{short}_"),
                format!("pmpix_{short}_"),
            ] {
                let _ = writeln!(out, "{other} {name}_;");
            }
        }
    }
    out + "ompi_f_sync_reg_f mpi_f_sync_reg_;\n}\n"
}

fn returned(function: &Function) -> &'static str {
    match function.returns_in_c() {
        "double" => "f64",
        "MPI_Aint" => "isize",
        _ => "c_int",
    }
}

/// The names of the entry point of a form: that of the code, and others that jump to it. The last linker names are those of
/// module `mpi_f08` (MPI 5.0, section 19.1.5).
pub fn names(fortran: &Fortran, group: &str, function: &Function, form: Form) -> Vec<String> {
    let name = function.name_of(form).to_lowercase();
    let mut names = Vec::new();
    for (binding, suffix) in [(Binding::Old, "_"), (Binding::F08, "_f08_")] {
        if fortran.has(group, function, form, binding) {
            names.push(format!("{name}{suffix}"));
            names.push(format!("p{name}{suffix}"));
            // Module mpi has another name for the form with a `type(c_ptr)` instead of an integer (MPI 5.0,
            // section 19.1.5).
            if binding == Binding::Old && function.gives_an_address() {
                names.push(format!("{name}_cptr_"));
                names.push(format!("p{name}_cptr_"));
            }
            if binding == Binding::Old {
                let renamed = fortran.renamed.iter();
                for (old, _) in renamed.filter(|(_, today)| **today == function.name) {
                    names.push(format!("{}_", old.to_lowercase()));
                    names.push(format!("p{}_", old.to_lowercase()));
                }
            }
        }
    }
    names
}

/// The entry point of a form; nothing if Fortran does not have it.
fn entry(fortran: &Fortran, group: &str, function: &Function, form: Form) -> Result<String> {
    let names = names(fortran, group, function, form);
    let Some((name, others)) = names.split_first() else {
        return Ok(String::new());
    };
    let mut declared = Vec::new();
    let mut lengths = Vec::new();
    let mut arguments = Vec::new();
    let (mut before, mut after) = (String::new(), String::new());
    for parameter in &function.parameters {
        let Some(declaration) = parameter.declaration(form) else {
            continue;
        };
        let argument = Argument::of(fortran, group, function, parameter, &declaration)?;
        declared.push(format!("{}: {}", declaration.name, argument.kind));
        lengths.extend(argument.length);
        arguments.push(argument.passed);
        before.extend(argument.before.map(|line| line + "\n"));
        after.extend(argument.after.map(|line| line + "\n"));
    }
    let call = format!("c::{}({})", function.name_of(form), arguments.join(", "));
    let (returns, body) = match super::result(function) {
        Some(_) => (format!(" -> {}", returned(function)), call),
        None => {
            declared.push("ierror: *mut c_int".to_owned());
            let last = match after.is_empty() {
                true => format!("finish(ierror, {call});"),
                false => format!("let code = {call};\n{after}finish(ierror, code);"),
            };
            (String::new(), format!("{before}{last}"))
        }
    };
    declared.extend(lengths);
    Ok(format!(
        "#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn {name}({}){returns} {{\n\
         // SAFETY: the program passes the addresses of arguments as Fortran's binding declares them.\n\
         unsafe {{\n{body}\n}}\n}}\nalso!({name}: {});\n\n",
        declared.join(", "),
        others.join(" ")
    ))
}

/// The parameters of an entry point with their types, without `ierror`, and the lengths of texts that follow it.
#[allow(clippy::type_complexity)]
pub fn parameters(
    fortran: &Fortran,
    group: &str,
    function: &Function,
    form: Form,
) -> Result<(Vec<(String, String)>, Vec<String>)> {
    let (mut declared, mut lengths) = (Vec::new(), Vec::new());
    for parameter in &function.parameters {
        let declaration = parameter.declaration(form).context("not in this form")?;
        let argument = Argument::of(fortran, group, function, parameter, &declaration)?;
        lengths.extend(
            argument
                .length
                .map(|_| format!("{}_length", declaration.name)),
        );
        declared.push((declaration.name, argument.kind));
    }
    Ok((declared, lengths))
}

/// One argument of an entry point.
struct Argument {
    /// Its type: an address.
    kind: String,
    /// The length of a text, which is passed after all arguments.
    length: Option<String>,
    before: Option<String>,
    passed: String,
    after: Option<String>,
}

impl Argument {
    fn new(kind: &str, passed: String) -> Self {
        Self {
            kind: kind.to_owned(),
            length: None,
            before: None,
            passed,
            after: None,
        }
    }

    fn before(mut self, line: String) -> Self {
        self.before = Some(line);
        self
    }

    fn after(mut self, line: String) -> Self {
        self.after = Some(line);
        self
    }

    fn of(
        fortran: &Fortran,
        group: &str,
        function: &Function,
        parameter: &Parameter,
        declaration: &Declaration,
    ) -> Result<Self> {
        let name = &declaration.name;
        let dummy = Dummy::of(function, parameter, declaration, Binding::F08)
            .context("an argument that Fortran does not have: write it by hand")?;
        let single = declaration.stars == 1 && !declaration.array;
        Ok(match &dummy.kind {
            Type::Choice => Self::new("*mut c_void", format!("sentinel::buffer({name})")),
            Type::Pointer => Self::new("*mut c_void", name.clone()),
            Type::Status if declaration.array => {
                Self::new("*mut c_int", format!("sentinel::statuses({name})"))
            }
            Type::Status => Self::new("*mut c_int", format!("sentinel::status({name})")),
            Type::Procedure(_) => Self::new("usize", name.clone()),
            Type::Text => {
                let length = format!("{name}_length: usize");
                let mut made = match parameter.direction.as_str() {
                    "in" => {
                        let kind = match name.as_str() {
                            "key" | "value" => "bare",
                            _ => "new",
                        };
                        Self::new("*const c_char", format!("{name}_text.pointer()")).before(
                            format!("let mut {name}_text = Text::{kind}({name}, {name}_length);"),
                        )
                    }
                    _ => {
                        let room = fortran.texts.get(name).with_context(|| {
                            format!("tables/fortran.toml does not say how long {name} is")
                        })?;
                        Self::new("*mut c_char", format!("{name}_room.as_mut_ptr().cast()"))
                            .before(format!("let mut {name}_room = [0_u8; constants::{room}];"))
                            .after(format!(
                                "text::give(code, &{name}_room, {name}, {name}_length);"
                            ))
                    }
                };
                made.length = Some(length);
                made
            }
            Type::Handle(_) if declaration.by_value() => {
                Self::new("*const c_int", format!("handle({name})"))
            }
            Type::Handle(_) if single => {
                let place = Self::new("*mut c_int", format!("&mut {name}_there"));
                let loaded =
                    |place: Self| place.before(format!("let mut {name}_there = handle({name});"));
                match parameter.direction.as_str() {
                    "in" => loaded(place),
                    "out" => place
                        .before(format!("let mut {name}_there = 0;"))
                        .after(format!(
                            "if code == 0 {{ store_handle({name}, {name}_there); }}"
                        )),
                    _ => loaded(place).after(format!("store_handle({name}, {name}_there);")),
                }
            }
            Type::Handle(_) => {
                let count = count(group, function, parameter, name)?;
                let place = Self::new("*mut c_int", format!("{name}_there.as_mut_ptr()")).before(
                    format!("let mut {name}_there = array::handles({name}, {count});"),
                );
                match parameter.direction.as_str() {
                    "in" => place,
                    _ => place.after(format!("{name}_there.store({name});")),
                }
            }
            Type::Logical if declaration.by_value() => {
                Self::new("*const c_int", format!("logical::load({name})"))
            }
            // In C, too, any number other than zero is true.
            Type::Logical if declaration.array && parameter.direction == "in" => {
                Self::new("*mut c_int", name.clone())
            }
            Type::Logical if declaration.array => {
                let count = parameter.length.as_deref().context("a length")?;
                Self::new("*mut c_int", name.clone()).after(format!(
                    "logical::store_all(code, {name}, length({count}));"
                ))
            }
            Type::Logical => Self::new("*mut c_int", format!("&mut {name}_there"))
                .before(format!("let mut {name}_there = logical::UNSET;"))
                .after(format!("logical::store({name}, {name}_there);")),
            Type::Integer if parameter.kind == "WEIGHT" => {
                Self::new("*mut c_int", format!("sentinel::weights({name})"))
            }
            Type::Integer if parameter.kind == "ERROR_CODE" && declaration.array => {
                Self::new("*mut c_int", format!("sentinel::error_codes({name})"))
            }
            // Requests are counted from one.
            Type::Integer if group == "request" && parameter.kind == "INDEX" => {
                match declaration.array {
                    true => Self::new("*mut c_int", name.clone())
                        .after(format!("array::from_one(code, {name}, outcount);")),
                    false => Self::new("*mut c_int", format!("&mut {name}_there"))
                        .before(format!("let mut {name}_there = array::UNSET;"))
                        .after(format!("array::store_index({name}, {name}_there);")),
                }
            }
            Type::Integer if declaration.by_value() => {
                Self::new("*const c_int", format!("int({name})"))
            }
            Type::Integer => Self::new("*mut c_int", name.clone()),
            Type::Long("MPI_ADDRESS_KIND") if declaration.by_value() => {
                Self::new("*const isize", format!("aint({name})"))
            }
            Type::Long(_) if declaration.by_value() => {
                Self::new("*const i64", format!("long({name})"))
            }
            Type::Long("MPI_ADDRESS_KIND") => Self::new("*mut isize", name.clone()),
            Type::Long(_) => Self::new("*mut i64", name.clone()),
        })
    }
}

/// How many elements an array of handles has.
fn count(group: &str, function: &Function, parameter: &Parameter, name: &str) -> Result<String> {
    Ok(match parameter.length.as_deref() {
        Some("*") if group.starts_with("coll") => {
            // The types for sending have no meaning if the data are in place.
            let unused = match name.starts_with("send") {
                true => "crate::sentinel::is_in_place(sendbuf)",
                false => "false",
            };
            format!("neighbors::peers(handle(comm), {unused})")
        }
        Some("*") if name.starts_with("send") => "neighbors::outgoing(handle(comm))".to_owned(),
        Some("*") => "neighbors::incoming(handle(comm))".to_owned(),
        Some(length) => {
            let poly = function
                .parameters
                .iter()
                .filter_map(|one| one.widest())
                .find(|one| one.name == length);
            poly.with_context(|| format!("no parameter {length}"))?;
            format!("length({length})")
        }
        None => bail!("{} does not say how long {name} is", function.name),
    })
}
