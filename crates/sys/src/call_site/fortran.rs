//! Names of procedures as written in Fortran programs, from the names that compilers give to linkers.
//!
//! | compiler | main program | procedure of a module | procedure within another one |
//! |---|---|---|---|
//! | gfortran | `MAIN__` | `__heat_MOD_exchange` | as C functions |
//! | flang | `_QQmain` | `_QMheatPexchange` | `_QMheatFexchangePinner` |

/// Name used for the main program, whose own name is not in linker names; gfortran's debug information has
/// it.
const MAIN: &str = "main program";

/// The program's own name of a procedure, after the names of its containers: `heat::exchange`. `None` for names that no
/// Fortran compiler makes.
pub(super) fn own_name(linked: &str) -> Option<String> {
    if matches!(linked, "MAIN__" | "_QQmain") {
        return Some(MAIN.to_owned());
    }
    if let Some(parts) = linked.strip_prefix("_Q") {
        return of_flang(parts);
    }
    let (module, procedure) = linked.strip_prefix("__")?.split_once("_MOD_")?;
    Some(format!("{module}::{procedure}"))
}

/// The same for flang: after `_Q`, a letter for the kind of each part and its name, which has no capitals.
fn of_flang(parts: &str) -> Option<String> {
    let mut names = Vec::new();
    let mut rest = parts;
    loop {
        let (kind, name) = rest.split_at_checked(1)?;
        let end = name.find(|letter: char| letter.is_ascii_uppercase());
        let (name, behind) = name.split_at(end.unwrap_or(name.len()));
        names.push(name);
        let fits = match behind {
            "" => kind == "P",
            _ => matches!(kind, "M" | "S" | "F"),
        };
        if name.is_empty() || !fits {
            return None;
        }
        if behind.is_empty() {
            return Some(names.join("::"));
        }
        rest = behind;
    }
}

#[cfg(test)]
mod tests {
    use super::own_name;

    #[test]
    fn names_are_those_of_the_program() {
        for (linked, own) in [
            ("MAIN__", "main program"),
            ("_QQmain", "main program"),
            ("__heat_MOD_exchange", "heat::exchange"),
            ("_QPexchange", "exchange"),
            ("_QMheat_2dPexchange_rows", "heat_2d::exchange_rows"),
            ("_QMheatFexchangePinner", "heat::exchange::inner"),
            ("_QMheatSpartPexchange", "heat::part::exchange"),
        ] {
            assert_eq!(own_name(linked).as_deref(), Some(own), "{linked}");
        }
    }

    #[test]
    fn other_names_are_left_alone() {
        for linked in [
            "",
            "main",
            "exchange_",
            "__libc_start",
            "_Q",
            "_QP",
            "_QMheat",
            "_QMPexchange",
            "_QXheatPexchange",
            "_QÄP",
        ] {
            assert_eq!(own_name(linked), None, "{linked}");
        }
    }
}
