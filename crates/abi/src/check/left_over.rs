//! Messages, requests and objects left over when the process finalises: reported once for all ranks that have the same.
//!
//! | told | by default | by `mpiexec --check` |
//! |---|---|---|
//! | messages never received, requests never completed, messages probed and never received | yes | yes, with the calls that made them |
//! | windows, files, communicators, datatypes, groups, operations never freed | those that the program itself has made | those of its libraries, too |
//! | persistent requests, info objects, error handlers, key values never freed | no | yes |
//!
//! A library that keeps a communicator until the process ends is not a mistake that the user of the program can correct.
//! Objects freed by functions that run when the attributes of `MPI_COMM_SELF` are deleted are not left over.

use std::collections::BTreeMap;

use weft_launch::check_mode::STRICT_EXIT;
use weft_mpi::left_over::{self, Compared, Owner, Report};

use super::{mode, under_way};
use crate::handle::ObjectKind;
use crate::handle::creation::{self, CreatedKind};
use crate::state::{self, Runtime};

/// Ranks that report what a session has left: they do not compare.
const TELLERS: u32 = 4;

/// Kinds of things, in words: one, several, what was not done; and whether the default checks report them.
const KINDS: [(CreatedKind, &str, &str, &str, bool); 10] = [
    (
        CreatedKind::Object(ObjectKind::Message),
        "matched message",
        "matched messages",
        "never received",
        true,
    ),
    (
        CreatedKind::Object(ObjectKind::Win),
        "window",
        "windows",
        "never freed",
        true,
    ),
    (
        CreatedKind::Object(ObjectKind::File),
        "file",
        "files",
        "never closed",
        true,
    ),
    (
        CreatedKind::Object(ObjectKind::Comm),
        "communicator",
        "communicators",
        "never freed",
        true,
    ),
    (
        CreatedKind::Object(ObjectKind::Datatype),
        "datatype",
        "datatypes",
        "never freed",
        true,
    ),
    (
        CreatedKind::Object(ObjectKind::Group),
        "group",
        "groups",
        "never freed",
        true,
    ),
    (
        CreatedKind::Object(ObjectKind::Op),
        "operation",
        "operations",
        "never freed",
        true,
    ),
    (
        CreatedKind::Object(ObjectKind::Info),
        "info object",
        "info objects",
        "never freed",
        false,
    ),
    (
        CreatedKind::Object(ObjectKind::Errhandler),
        "error handler",
        "error handlers",
        "never freed",
        false,
    ),
    (
        CreatedKind::KeyValue,
        "key value",
        "key values",
        "never freed",
        false,
    ),
];

/// A context in words, if it is one of the program's communicators, files or windows.
fn owner(context: u32) -> Option<Owner> {
    if let Some((_, comm)) = state::comm_of_context(context) {
        let name = comm.extras().name_or("a communicator without name");
        return Some(Owner {
            name,
            comm: Some(comm),
        });
    }
    let name = match (
        state::file_of_context(context),
        state::window_of_context(context),
    ) {
        (Some(_), _) => "a file",
        (None, Some(_)) => "a window",
        (None, None) => return None,
    };
    Some(Owner {
        name: name.to_owned(),
        comm: None,
    })
}

/// The things left over at this rank now.
fn report(runtime: &Runtime) -> Report {
    let mut report = Report::default();
    let full = mode().is_full();
    report.add_messages(&runtime.process, &owner);
    report.add_collectives(&runtime.process, &owner);
    report.add_requests(&runtime.process, &owner, &under_way::made, full);
    let mut places: BTreeMap<usize, BTreeMap<String, usize>> = BTreeMap::new();
    for (thing, made) in creation::list() {
        let Some(kind) = KINDS.iter().position(|kind| kind.0 == thing) else {
            continue;
        };
        let usual = KINDS[kind].4;
        if full || usual && (made.is_the_programs() || thing == KINDS[0].0) {
            *places
                .entry(kind)
                .or_default()
                .entry(made.describe())
                .or_default() += 1;
        }
    }
    for (kind, places) in &places {
        let (_, one, many, what, _) = KINDS[*kind];
        report.add_things((one, many), what, places);
    }
    report
}

/// Reports what is left over at `MPI_Finalize`. All ranks of the world call it, even those that check
/// nothing.
pub fn at_finalize(runtime: &Runtime, all_come: bool) {
    // Objects of sessions that continue are not left over yet.
    let looked = mode().is_on() && !state::has_sessions();
    let report = if looked {
        report(runtime)
    } else {
        Report::default()
    };
    let world = &runtime.world;
    let compared = match all_come {
        true => left_over::compare(world, report.likeness()),
        false => Ok(Compared::of_one(report.is_empty(), world.rank() < TELLERS)),
    };
    // A loss in this time is reported elsewhere.
    let Ok(compared) = compared else {
        return;
    };
    if let Some(text) = report.of_rank(&compared, world.rank(), world.size()) {
        state::warn(&text);
    }
    if compared.ranks > 0 && mode().strict {
        // Only after all have reported theirs.
        let met = runtime.process.meet();
        if compared.first || met.is_err() {
            fail();
        }
    }
}

/// Reports what is left over when the last session ends and nothing else continues. Each rank reports by itself, as ranks
/// do not wait for each other here.
pub fn at_session_end(runtime: &Runtime) {
    let rank = runtime.world.rank();
    if !mode().is_on() {
        return;
    }
    let report = report(runtime);
    if report.is_empty() {
        return;
    }
    if rank < TELLERS {
        let size = runtime.world.size();
        state::warn(&report.text(&format!(
            "left over by rank {rank} of {size} at MPI_Session_finalize"
        )));
    }
    if mode().strict {
        fail();
    }
}

/// Fails the job for a finding.
pub fn fail() -> ! {
    state::abort(
        i32::from(STRICT_EXIT),
        "weft: the job fails for what was found (--check=strict)\n",
    )
}
