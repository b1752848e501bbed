//! Ranks that use sessions only, beside others that call `MPI_Init` and `MPI_Finalize`.

use std::time::Duration;

use weft_tests::{build, check_sessions_beside, mpiexec, run, tool};

use super::Folder;

#[test]
fn nobody_waits_at_the_end_for_a_rank_that_uses_sessions_only() {
    let program = build("tests/programs/sessions_beside.c", &[]);
    for what in ["early", "late", "stays", "returns", "meets"] {
        for ranks in [2, 3, 5] {
            let ended = mpiexec(ranks, &program, &[what]);
            check_sessions_beside(&ended, ranks, what);
        }
    }
}

/// This holds for every fabric, and whatever the rank does that only uses sessions.
#[test]
fn a_rank_that_uses_sessions_only_may_go_on_until_the_others_have_ended() {
    let program = build("tests/programs/sessions_beside.c", &[]);
    let folder = Folder::new("sessions-beside");
    for fabric in ["auto", "tcp"] {
        for what in [
            "early", "late", "returns", "meets", "awaits", "met", "alone",
        ] {
            for ranks in [2, 3] {
                let file = format!("{}/{fabric}-{what}-{ranks}", folder.name());
                let mut start = tool("mpiexec");
                start.args(["--timeout=40", "--fabric", fabric, "-n", &ranks.to_string()]);
                let ended = run(
                    start.arg(&program).args([what, &file]),
                    Duration::from_secs(60),
                );
                check_sessions_beside(&ended, ranks, &format!("{fabric}, {what}"));
            }
        }
    }
}

#[test]
fn a_wait_for_a_rank_that_has_ended_its_session_is_reported() {
    let program = build("tests/programs/sessions_beside.c", &[]);
    for what in ["wanted", "missed"] {
        let ended = mpiexec(2, &program, &[what]);
        assert_ne!(ended.code(), Some(0), "{what}: {ended:?}");
        assert!(ended.err.contains("MPI_Recv"), "{what}: {ended:?}");
    }
}
