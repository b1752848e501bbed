//! Coverage, `docs/coverage.md`: which functions are implemented.

use std::fmt::Write;

use super::NOTICE;
use super::calls::Calls;
use super::fortran::Fortran;
use super::table::Tables;

/// The whole page.
pub fn text(tables: &Tables, calls: &Calls, fortran: &Fortran) -> String {
    let mut out = format!(
        "# Coverage of the MPI 5.0 bindings\n\n{NOTICE}\n\n\
         Every function is exported, as `MPI_…` and as `PMPI_…`; a function without an implementation does not get\n\
         through the generator. *Large* marks the functions that have a second form, `…_c`, with large counts: both\n\
         forms are the same code. *Fortran*: `yes`, in `mpif.h` and both modules; `old`, in `mpif.h` and module `mpi` alone.\n\n\
         | group | functions | implemented | with their `_c` forms |\n|---|--:|--:|--:|\n"
    );
    let (mut total, mut done, mut forms) = (0, 0, (0, 0));
    for (group, functions) in &tables.groups {
        let ready = functions
            .iter()
            .filter(|function| calls.has(group, function));
        let (mut here, mut here_forms) = (0, 0);
        for function in ready {
            here += 1;
            here_forms += function.forms().count();
        }
        let all_forms: usize = functions
            .iter()
            .map(|function| function.forms().count())
            .sum();
        let _ = writeln!(
            out,
            "| [{group}](#{group}) | {} | {here} | {here_forms} of {all_forms} |",
            functions.len()
        );
        total += functions.len();
        done += here;
        forms = (forms.0 + here_forms, forms.1 + all_forms);
    }
    let _ = writeln!(
        out,
        "| **all** | **{total}** | **{done}** | **{} of {}** |",
        forms.0, forms.1
    );
    let _ = writeln!(out, "\nNot in Fortran:\n");
    for (name, reason) in fortran.reasons() {
        let _ = writeln!(out, "* {name}: {reason}");
    }
    for (group, functions) in &tables.groups {
        let _ = writeln!(
            out,
            "\n## {group}\n\n| function | large | state | Fortran | note |\n|---|---|---|---|---|"
        );
        for function in functions {
            let large = if function.large { "yes" } else { "" };
            let state = if calls.has(group, function) {
                "implemented"
            } else {
                "unsupported"
            };
            let note = function.note.as_deref().unwrap_or("");
            let in_fortran = fortran.state(group, function);
            let _ = writeln!(
                out,
                "| `{}` | {large} | {state} | {in_fortran} | {note} |",
                function.name
            );
        }
    }
    out
}
