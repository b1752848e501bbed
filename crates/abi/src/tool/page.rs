//! Page of everything that tools can query and set: the tables of `docs/tools.md`.

use std::ffi::c_int;
use std::fmt::Write;

use super::events::EVENTS;
use super::settings::SETTINGS;
use super::variables::VARIABLES;
use crate::generated::constants as k;

/// Names of the classes.
fn class_name(class: c_int) -> &'static str {
    match class {
        k::MPI_T_PVAR_CLASS_STATE => "state",
        k::MPI_T_PVAR_CLASS_LEVEL => "level",
        k::MPI_T_PVAR_CLASS_SIZE => "size",
        k::MPI_T_PVAR_CLASS_PERCENTAGE => "percentage",
        k::MPI_T_PVAR_CLASS_HIGHWATERMARK => "high-water mark",
        k::MPI_T_PVAR_CLASS_LOWWATERMARK => "low-water mark",
        k::MPI_T_PVAR_CLASS_COUNTER => "counter",
        k::MPI_T_PVAR_CLASS_AGGREGATE => "aggregate",
        k::MPI_T_PVAR_CLASS_TIMER => "timer",
        _ => "generic",
    }
}

/// The tables of `docs/tools.md`.
#[cfg_attr(not(test), allow(dead_code, reason = "the test of the page writes it"))]
pub fn page() -> String {
    let mut out = String::from(
        "\n## Performance variables\n\n| variable | class | what it says |\n|---|---|---|\n",
    );
    for one in VARIABLES {
        let of = if one.bind() == k::MPI_T_BIND_MPI_COMM {
            ", of a communicator"
        } else {
            ""
        };
        let _ = writeln!(
            out,
            "| `{}` | {}{of} | {} |",
            one.name,
            class_name(one.class),
            one.description
        );
    }
    out +=
        "\n## Control variables\n\n| variable | may be written | what it does |\n|---|---|---|\n";
    for one in SETTINGS {
        let written = if one.write.is_some() {
            "at any time, by each process for itself"
        } else {
            "no"
        };
        let _ = writeln!(out, "| `{}` | {written} | {} |", one.name, one.description);
    }
    out += "\n## Events\n\n| event | elements | when |\n|---|---|---|\n";
    for one in EVENTS {
        let names: Vec<_> = one.elements.iter().map(|element| element.name()).collect();
        let _ = writeln!(
            out,
            "| `{}` | {} | {} |",
            one.name,
            names.join(", "),
            one.description
        );
    }
    out
}
