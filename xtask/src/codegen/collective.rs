//! Collectives: three functions for one row of the tables.
//!
//! ```text
//!   row MPI_Gather ──► MPI_Gather         calls::coll::run       runs the schedule
//!                      MPI_Igather        calls::coll::begin     begins it, returns a request
//!                      MPI_Gather_init    calls::coll::prepare   keeps it, returns a persistent request
//! ```
//!
//! All three check the same arguments, and let one hand-written function build the schedule,
//! `calls::coll::gather`. The differences are above on the right.

use anyhow::{Result, ensure};

use super::table::{Function, Parameter};

/// How a collective completes (MPI 5.0, sections 2.4.2, 6.12 and 6.13).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Completion {
    Blocking,
    Nonblocking,
    Persistent,
}

/// The form of a collective that a function is, and what the forms have in common.
#[derive(Clone)]
pub struct Collective {
    /// The form that this function is.
    pub completion: Completion,
    /// The group whose calls hold the hand-written function that builds the schedule.
    pub group: String,
    /// The name of that function.
    pub call: String,
    /// How many of the parameters it receives: those of the blocking form.
    pub parameters: usize,
}

/// The groups to which the other forms of a table's collectives belong.
pub struct Groups<'a> {
    pub blocking: &'a str,
    pub nonblocking: &'a str,
    pub persistent: &'a str,
}

impl Completion {
    const ALL: [Self; 3] = [Self::Blocking, Self::Nonblocking, Self::Persistent];

    /// The C name, from that of the blocking form without `MPI_`.
    fn name(self, stem: &str) -> String {
        match self {
            Self::Blocking => format!("MPI_{stem}"),
            Self::Nonblocking => {
                let (first, rest) = stem.split_at(1);
                format!("MPI_I{}{rest}", first.to_lowercase())
            }
            Self::Persistent => format!("MPI_{stem}_init"),
        }
    }

    /// The parameters after those of the blocking form.
    fn parameters(self) -> Vec<Parameter> {
        let request = Parameter::new("MPI_Request *request", "REQUEST", "out");
        match self {
            Self::Blocking => Vec::new(),
            Self::Nonblocking => vec![request],
            Self::Persistent => vec![Parameter::new("MPI_Info info", "INFO", "in"), request],
        }
    }

    /// What an entry point does with the schedule, in Rust.
    pub const fn ending(self) -> &'static str {
        match self {
            Self::Blocking => "calls::coll::run(schedule, comm)",
            Self::Nonblocking => "calls::coll::begin(schedule, comm, request)",
            Self::Persistent => "calls::coll::prepare(schedule, comm, request)",
        }
    }
}

/// The three functions of a row, each with its group.
pub fn forms(row: &Function, groups: &Groups) -> Result<Vec<(String, Function)>> {
    let stem = &row.name["MPI_".len()..];
    ensure!(
        stem.starts_with(|first: char| first.is_ascii_uppercase()),
        "behind MPI_ stands a capital letter"
    );
    let form = |completion: Completion| {
        let mut function = row.clone();
        function.name = completion.name(stem);
        function.parameters.extend(completion.parameters());
        function.at_once &= completion != Completion::Persistent;
        // There is one short way to begin it.
        function.at_once_long &= completion == Completion::Blocking;
        function.form_of = Some(Collective {
            completion,
            group: groups.blocking.to_owned(),
            call: row.call(),
            parameters: row.parameters.len(),
        });
        let group = match completion {
            Completion::Blocking => groups.blocking,
            Completion::Nonblocking => groups.nonblocking,
            Completion::Persistent => groups.persistent,
        };
        (group.to_owned(), function)
    };
    Ok(Completion::ALL.map(form).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_standard() {
        let names = |stem| Completion::ALL.map(|form| form.name(stem));
        assert_eq!(
            names("Gather"),
            ["MPI_Gather", "MPI_Igather", "MPI_Gather_init"]
        );
        assert_eq!(
            names("Neighbor_alltoallw"),
            [
                "MPI_Neighbor_alltoallw",
                "MPI_Ineighbor_alltoallw",
                "MPI_Neighbor_alltoallw_init"
            ]
        );
    }
}
