//! The modules `mpi` and `mpi_f08`: constants, types, and an interface for each procedure.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::super::NOTICE;
use super::super::table::{Form, Function, Tables};
use super::constants::{self, CALLBACKS, LOGICALS, REMOVED, SENTINELS, common};
use super::dummy::{Binding, Dummy};
use super::{Fortran, Large, dummies, large};

/// What `mpi` and `mpi_f08` have in common; compiled first.
const CONSTANTS: &str = "weft_mpi_constants";

/// `mpi.f90`: the module that both share, and module `mpi`.
pub fn old(fortran: &Fortran, tables: &Tables) -> String {
    let mut out = format!("! {NOTICE}\n!\n! Constants that both modules have, and module mpi.\n\n");
    shared(&mut out, tables);
    let kinds = types(&mut out, tables);
    let kinds: Vec<String> = kinds.iter().map(|kind| format!("MPI_{kind}")).collect();
    let _ = writeln!(
        out,
        "module mpi\n  use, intrinsic :: iso_c_binding, only: c_ptr\n  use {CONSTANTS}\n  \
         use mpi_f08_types, only: operator(==), operator(/=), MPI_Status, &\n    {}\n  \
         implicit none\n  public\n  private :: c_ptr\n",
        kinds.join(", ")
    );
    for (_, name, value) in constants::handle_constants(tables) {
        let _ = writeln!(out, "  integer, parameter :: {name} = {value}");
    }
    for (name, value) in REMOVED {
        let _ = writeln!(out, "  integer, parameter :: {name} = {value}");
    }
    out.push('\n');
    for (name, declaration) in SENTINELS.iter().filter(|(name, _)| name.contains("STATUS")) {
        sentinel(&mut out, name, declaration);
    }
    out.push('\n');
    for (name, _) in CALLBACKS {
        let _ = writeln!(out, "  external :: {name}");
    }
    out.push_str("\n  interface\n");
    let mut overloaded = Vec::new();
    for (group, function) in tables.functions() {
        if !fortran.has(group, function, Form::Small, Binding::Old) {
            continue;
        }
        // An address is returned as an integer or as type(c_ptr).
        if function.gives_an_address() {
            overloaded.push(function);
            continue;
        }
        for prefix in ["", "P"] {
            let name = format!("{prefix}{}", function.name);
            let arguments = dummies(function, Form::Small, Binding::Old);
            interface(&mut out, function, &name, &arguments, Binding::Old);
        }
    }
    out.push_str("  end interface\n\n");
    for function in overloaded {
        let integer = dummies(function, Form::Small, Binding::Old);
        let typed = dummies(function, Form::Small, Binding::F08);
        let mixed: Vec<Dummy> = integer
            .iter()
            .zip(typed)
            .map(|(integer, typed)| match typed.kind {
                super::dummy::Type::Pointer => typed,
                _ => integer.clone(),
            })
            .collect();
        for prefix in ["", "P"] {
            let name = format!("{prefix}{}", function.name);
            let _ = writeln!(out, "  interface {name}");
            interface(&mut out, function, &name, &integer, Binding::Old);
            interface(
                &mut out,
                function,
                &format!("{name}_cptr"),
                &mixed,
                Binding::Old,
            );
            out.push_str("  end interface\n");
        }
    }
    out.push_str(include_str!("own.f90"));
    out.push_str("end module mpi\n");
    out
}

/// `mpi_f08.f90`: types, callbacks, and module `mpi_f08`.
pub fn f08(fortran: &Fortran, tables: &Tables) -> String {
    let mut out = format!(
        "! {NOTICE}\n!\n! Module mpi_f08, and its callbacks. mpi.f90 is compiled before.\n\n"
    );
    out.push_str(include_str!("callbacks.f90"));
    let _ = writeln!(
        out,
        "\nmodule mpi_f08\n  use, intrinsic :: iso_c_binding, only: c_ptr\n  use {CONSTANTS}\n  use mpi_f08_types\n  use mpi_f08_callbacks\n  \
         implicit none\n  public\n  private :: c_ptr\n"
    );
    for (name, interface) in CALLBACKS {
        if let Some(interface) = interface {
            let _ = writeln!(out, "  procedure({interface}) :: {name}");
        }
    }
    out.push('\n');
    for (group, function) in tables.functions() {
        let has = |form| fortran.has(group, function, form, Binding::F08);
        if !has(Form::Small) {
            continue;
        }
        let large = function
            .forms()
            .any(|form| form == Form::Large)
            .then(|| large(function));
        let specific = |out: &mut String, prefix: &str, form: Form| {
            let name = format!("{prefix}{}_f08", function.name_of(form));
            let arguments = dummies(function, form, Binding::F08);
            interface(out, function, &name, &arguments, Binding::F08);
        };
        for prefix in ["", "P"] {
            let _ = writeln!(out, "  interface {prefix}{}", function.name);
            specific(&mut out, prefix, Form::Small);
            if large == Some(Large::Generic) {
                specific(&mut out, prefix, Form::Large);
            }
            out.push_str("  end interface\n");
            if large == Some(Large::Named) {
                let _ = writeln!(out, "  interface {prefix}{}", function.name_of(Form::Large));
                specific(&mut out, prefix, Form::Large);
                out.push_str("  end interface\n");
            }
        }
    }
    out.push_str(include_str!("own_f08.f90"));
    out.push_str("end module mpi_f08\n");
    out
}

/// The module with the parts common to both.
fn shared(out: &mut String, tables: &Tables) {
    let _ = writeln!(out, "module {CONSTANTS}\n  implicit none\n  public\n");
    for one in constants::numbers(tables) {
        let kind = one
            .kind
            .map_or_else(String::new, |kind| format!("(kind={kind})"));
        let _ = writeln!(
            out,
            "  integer{kind}, parameter :: {} = {}",
            one.name, one.value
        );
    }
    for name in LOGICALS {
        let _ = writeln!(out, "  logical, parameter :: {name} = .false.");
    }
    out.push('\n');
    for (name, declaration) in SENTINELS
        .iter()
        .filter(|(name, _)| !name.contains("STATUS"))
    {
        sentinel(out, name, declaration);
    }
    let _ = writeln!(out, "end module {CONSTANTS}");
}

/// A variable that is recognized by its address.
fn sentinel(out: &mut String, name: &str, declaration: &str) {
    let declaration = declaration.replacen(' ', " :: ", 1);
    let _ = writeln!(out, "  {declaration}\n  common /{}/ {name}", common(name));
}

/// The types of handles and of the status, their constants and comparisons.
fn types(out: &mut String, tables: &Tables) -> Vec<String> {
    let _ = writeln!(
        out,
        "\nmodule mpi_f08_types\n  use {CONSTANTS}\n  implicit none\n  public\n"
    );
    let handles = constants::handle_constants(tables);
    let mut kinds: Vec<String> = Vec::new();
    for (kind, _, _) in &handles {
        if !kinds.contains(kind) {
            kinds.push(kind.clone());
        }
    }
    for kind in &kinds {
        let _ = writeln!(
            out,
            "  type, bind(C) :: MPI_{kind}\n    integer :: MPI_VAL\n  end type MPI_{kind}"
        );
    }
    out.push_str(
        "  type, bind(C) :: MPI_Status\n    integer :: MPI_SOURCE\n    integer :: MPI_TAG\n    integer :: MPI_ERROR\n    \
         integer, private :: MPI_internal(5)\n  end type MPI_Status\n\n",
    );
    for (kind, name, value) in &handles {
        let _ = writeln!(
            out,
            "  type(MPI_{kind}), parameter :: {name} = MPI_{kind}({value})"
        );
    }
    out.push('\n');
    for (name, bounds) in [("MPI_STATUS_IGNORE", ""), ("MPI_STATUSES_IGNORE", "(1)")] {
        let _ = writeln!(
            out,
            "  type(MPI_Status) :: {name}{bounds}\n  common /{}/ {name}",
            common(name)
        );
    }
    for (operator, name) in [("==", "eq"), ("/=", "ne")] {
        let _ = writeln!(out, "\n  interface operator({operator})");
        for kind in &kinds {
            let procedure = format!("weft_{}_{name}", kind.to_lowercase());
            let _ = writeln!(
                out,
                "    elemental logical function {procedure}(one, other)\n      import :: MPI_{kind}\n      \
                 type(MPI_{kind}), intent(in) :: one, other\n    end function {procedure}"
            );
        }
        out.push_str("  end interface\n");
    }
    out.push_str("end module mpi_f08_types\n\n");
    kinds
}

/// The interface of one procedure.
fn interface(
    out: &mut String,
    function: &Function,
    name: &str,
    arguments: &[Dummy],
    binding: Binding,
) {
    let result = super::result(function);
    let fails = super::fails(function);
    let mut names: Vec<&str> = arguments.iter().map(|one| one.name.as_str()).collect();
    if fails {
        names.push("ierror");
    }
    let kind = if result.is_some() {
        "function"
    } else {
        "subroutine"
    };
    wrapped(out, &format!("    {kind} {name}("), &names);
    let mut needs: BTreeSet<String> = arguments.iter().flat_map(Dummy::needs).collect();
    if result.is_some_and(|result| result.contains("MPI_ADDRESS_KIND")) {
        needs.insert("MPI_ADDRESS_KIND".to_owned());
    }
    if !needs.is_empty() {
        let needs: Vec<String> = needs.into_iter().collect();
        let _ = writeln!(out, "      import :: {}", needs.join(", "));
    }
    for line in arguments.iter().flat_map(Dummy::declared) {
        let _ = writeln!(out, "      {line}");
    }
    match (result, binding) {
        (Some(result), _) => {
            let _ = writeln!(out, "      {result} :: {name}");
        }
        (None, _) if !fails => {}
        (None, Binding::Old) => out.push_str("      integer :: ierror\n"),
        (None, Binding::F08) => out.push_str("      integer, optional, intent(out) :: ierror\n"),
    }
    let _ = writeln!(out, "    end {kind} {name}");
}

/// Names after an opening parenthesis, on as many lines as needed.
fn wrapped(out: &mut String, head: &str, names: &[&str]) {
    let mut line = head.to_owned();
    for (place, name) in names.iter().enumerate() {
        let separator = if place == 0 { "" } else { ", " };
        if line.len() + separator.len() + name.len() > 120 {
            let _ = writeln!(out, "{line}{}&", separator.trim_end());
            line = format!("        {name}");
        } else {
            line += separator;
            line += name;
        }
    }
    let _ = writeln!(out, "{line})");
}
