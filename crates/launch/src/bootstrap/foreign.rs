//! Foreign launchers: the variables by which they are recognised.

use super::BootstrapError;

/// Beginnings of the names of variables by which foreign launchers tell a process its rank.
pub(crate) const PREFIXES: [&str; 5] = ["PMI_", "PMI2_", "PMIX_", "OMPI_COMM_WORLD_", "HYDI_"];

/// One way of recognising a launcher.
struct Sign {
    /// Any of these shows it.
    shows: &'static [&'static str],
    /// This must be there too, unless it is empty.
    and: &'static str,
    /// Which says how many processes there are, first one found.
    sizes: &'static [&'static str],
    /// Which says which one this is, first one found.
    ranks: &'static [&'static str],
    who: &'static str,
}

const SRUN: &str = "srun";

/// srun has started several of us, and no way to talk to it. Its first task says what to do; the others say as little as they
/// can.
fn without_pmi(rank: Option<&str>, size: Option<&str>) -> BootstrapError {
    match rank {
        Some(rank) if rank != "0" => {
            BootstrapError::new("started by srun without PMI, as task 0 says")
        }
        _ => BootstrapError::new(format!(
            "srun has started this program {} times without a way for its tasks to find each other: start it by \
             srun --mpi=pmix or srun --mpi=pmi2, or once by Weft's mpiexec within the allocation (salloc or sbatch). To run it alone on purpose, \
             remove SLURM_PROCID from its environment",
            size.unwrap_or("several")
        )),
    }
}

/// Most telling first.
const SIGNS: [Sign; 4] = [
    Sign {
        shows: &["OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"],
        // Which a rank removes that has joined: what it starts is no rank.
        and: "PMIX_RANK",
        sizes: &["OMPI_COMM_WORLD_SIZE"],
        ranks: &["OMPI_COMM_WORLD_RANK"],
        who: "the mpiexec of Open MPI",
    },
    Sign {
        shows: &["PMIX_RANK", "PMIX_NAMESPACE"],
        and: "",
        sizes: &["SLURM_STEP_NUM_TASKS"],
        ranks: &["PMIX_RANK"],
        who: "a launcher that speaks PMIx (prterun, or srun --mpi=pmix)",
    },
    Sign {
        shows: &["PMI_FD", "PMI_RANK", "PMI_PORT"],
        and: "",
        sizes: &["PMI_SIZE"],
        ranks: &["PMI_RANK", "PMI_ID"],
        who: "a launcher that speaks PMI (the mpiexec of MPICH or Intel MPI, or srun --mpi=pmi2)",
    },
    Sign {
        shows: &["SLURM_PROCID"],
        and: "SLURM_NTASKS",
        sizes: &["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"],
        ranks: &["SLURM_PROCID"],
        who: SRUN,
    },
];

/// The error, if a foreign launcher has started several of us. `reason` says why its job could not be joined, if that was tried.
pub(crate) fn find(
    variable: &dyn Fn(&str) -> Option<String>,
    reason: Option<&str>,
) -> Option<BootstrapError> {
    SIGNS.iter().find_map(|sign| {
        let shown = sign
            .shows
            .iter()
            .find_map(|name| Some((*name, variable(name)?)));
        let (name, value) = shown?;
        if !sign.and.is_empty() && variable(sign.and).is_none() {
            return None;
        }
        let first = |names: &[&str]| names.iter().find_map(|name| variable(name));
        let size = first(sign.sizes);
        // Of one process there is nothing to get wrong.
        if size.as_deref() == Some("1") {
            return None;
        }
        if sign.who == SRUN {
            return Some(without_pmi(first(sign.ranks).as_deref(), size.as_deref()));
        }
        let rank = first(sign.ranks).map_or(String::new(), |rank| format!(" as process {rank}"));
        let of = size.as_ref().map_or(String::new(), |size| format!(" of {size}"));
        let ranks = size.as_deref().unwrap_or("N");
        let reason = reason.map_or(String::new(), |reason| format!(" ({reason})"));
        Some(BootstrapError::new(format!(
            "this process was started{rank}{of} by {who} ({name}={value}), which has set up no job \
             that Weft can join{reason}: each process would be a rank 0 of its own. Start the program with \
             Weft's mpiexec: weft run -n {ranks} PROGRAM. To run it alone on purpose, remove {name} \
             from its environment",
            who = sign.who
        )))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(variables: &[(&str, &str)]) -> Option<String> {
        find(
            &|name| {
                let variable = variables.iter().find(|(known, _)| *known == name)?;
                Some(variable.1.to_owned())
            },
            Some("as they say"),
        )
        .map(|error| error.to_string())
    }

    #[test]
    fn each_launcher_is_named_with_the_remedy() {
        let table: [(&[(&str, &str)], &str); 4] = [
            (
                &[("PMI_FD", "9"), ("PMI_RANK", "1"), ("PMI_SIZE", "4")],
                "MPICH",
            ),
            (&[("PMI_PORT", "host:1"), ("PMI_ID", "0")], "MPICH"),
            (&[("PMIX_RANK", "0"), ("PMIX_NAMESPACE", "x")], "PMIx"),
            (
                &[
                    ("PMIX_RANK", "1"),
                    ("OMPI_COMM_WORLD_SIZE", "2"),
                    ("OMPI_COMM_WORLD_RANK", "1"),
                ],
                "Open MPI",
            ),
        ];
        for (variables, named) in table {
            let error = found(variables).expect("foreign");
            assert!(
                error.contains(named)
                    && error.contains("weft run -n")
                    && error.contains("as they say"),
                "{error}"
            );
        }
    }

    #[test]
    fn srun_without_pmi_is_explained_once() {
        let task = |rank| {
            let variables = [
                ("SLURM_NTASKS", "8"),
                ("SLURM_STEP_NUM_TASKS", "2"),
                ("SLURM_PROCID", rank),
            ];
            found(&variables).expect("foreign")
        };
        assert!(task("0").contains("2 times") && task("0").contains("srun --mpi=pmi2"));
        assert!(task("1").contains("task 0") && !task("1").contains("--mpi"));
    }

    #[test]
    fn what_is_alone_or_only_in_an_allocation_is_not_foreign() {
        assert_eq!(found(&[]), None);
        assert_eq!(found(&[("SLURM_NTASKS", "8")]), None);
        assert_eq!(found(&[("SLURM_NTASKS", "1"), ("SLURM_PROCID", "0")]), None);
        assert_eq!(found(&[("PMI_RANK", "0"), ("PMI_SIZE", "1")]), None);
        assert_eq!(found(&[("OMPI_COMM_WORLD_SIZE", "1")]), None);
    }
}
