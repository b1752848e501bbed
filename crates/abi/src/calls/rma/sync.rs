//! Synchronisation of windows (MPI 5.0, section 12.5).

use std::ffi::c_int;
use std::sync::Arc;

use weft_mpi::Group;
use weft_mpi::rma::{Assertion, LockKind};

use super::rank_of;
use crate::args::Out;
use crate::check::accesses::{self, Ended};
use crate::check::fences;
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::state::WinObject;

/// The assertions that a call knows, with their names.
const FENCE: &[(c_int, &str)] = &[
    (k::MPI_MODE_NOSTORE, "MPI_MODE_NOSTORE"),
    (k::MPI_MODE_NOPUT, "MPI_MODE_NOPUT"),
    (k::MPI_MODE_NOPRECEDE, "MPI_MODE_NOPRECEDE"),
    (k::MPI_MODE_NOSUCCEED, "MPI_MODE_NOSUCCEED"),
];
const POST: &[(c_int, &str)] = &[
    (k::MPI_MODE_NOCHECK, "MPI_MODE_NOCHECK"),
    (k::MPI_MODE_NOSTORE, "MPI_MODE_NOSTORE"),
    (k::MPI_MODE_NOPUT, "MPI_MODE_NOPUT"),
];
const CHECK: &[(c_int, &str)] = &[(k::MPI_MODE_NOCHECK, "MPI_MODE_NOCHECK")];

fn assertion(bits: c_int, known: &[(c_int, &str)]) -> Checked<Assertion> {
    let all = known.iter().fold(0, |sum, (bit, _)| sum | bit);
    if bits & !all != 0 {
        let names: Vec<&str> = known.iter().map(|(_, name)| *name).collect();
        return Err(Fault::argument(
            k::MPI_ERR_ASSERT,
            "assert",
            format!("0, or a sum of {}", names.join(", ")),
            format!("{bits:#x}"),
            "pass 0 if nothing is known",
        ));
    }
    let has = |bit| bits & bit != 0;
    Ok(Assertion {
        no_check: has(k::MPI_MODE_NOCHECK),
        no_precede: has(k::MPI_MODE_NOPRECEDE),
        no_succeed: has(k::MPI_MODE_NOSUCCEED),
    })
}

pub fn win_fence(assert: c_int, win: &WinObject) -> Checked<()> {
    let assertion = assertion(assert, FENCE)?;
    let window = win.window();
    Ok(fences::fence(window, || window.fence(assertion))?)
}

pub fn win_post(group: &Arc<Group>, assert: c_int, win: &WinObject) -> Checked<()> {
    let assertion = assertion(assert, POST)?;
    Ok(win.window().post(group, assertion)?)
}

pub fn win_start(group: &Arc<Group>, assert: c_int, win: &WinObject) -> Checked<()> {
    let assertion = assertion(assert, CHECK)?;
    Ok(win.window().start(group, assertion)?)
}

pub fn win_complete(win: &WinObject) -> Checked<()> {
    accesses::ended("MPI_Win_complete", win.window(), Ended::All);
    Ok(win.window().complete()?)
}

pub fn win_wait(win: &WinObject) -> Checked<()> {
    Ok(win.window().wait()?)
}

pub fn win_test(win: &WinObject, mut flag: Out<c_int>) -> Checked<()> {
    flag.flag(win.window().test()?);
    Ok(())
}

pub fn win_lock(lock_type: c_int, rank: c_int, assert: c_int, win: &WinObject) -> Checked<()> {
    let kind = match lock_type {
        k::MPI_LOCK_SHARED => LockKind::Shared,
        k::MPI_LOCK_EXCLUSIVE => LockKind::Exclusive,
        other => {
            return Err(Fault::argument(
                k::MPI_ERR_LOCKTYPE,
                "lock_type",
                "MPI_LOCK_SHARED or MPI_LOCK_EXCLUSIVE",
                other.to_string(),
                "pass one of the two",
            ));
        }
    };
    let assertion = assertion(assert, CHECK)?;
    if rank == k::MPI_PROC_NULL {
        return Ok(());
    }
    let rank = rank_of(rank, win, "rank")?;
    Ok(win.window().lock(kind, rank, assertion)?)
}

pub fn win_unlock(rank: c_int, win: &WinObject) -> Checked<()> {
    if rank == k::MPI_PROC_NULL {
        return Ok(());
    }
    let rank = rank_of(rank, win, "rank")?;
    accesses::ended("MPI_Win_unlock", win.window(), Ended::To(rank));
    Ok(win.window().unlock(rank)?)
}

pub fn win_lock_all(assert: c_int, win: &WinObject) -> Checked<()> {
    let assertion = assertion(assert, CHECK)?;
    Ok(win.window().lock_all(assertion)?)
}

pub fn win_unlock_all(win: &WinObject) -> Checked<()> {
    accesses::ended("MPI_Win_unlock_all", win.window(), Ended::All);
    Ok(win.window().unlock_all()?)
}

#[inline]
pub fn win_flush(rank: c_int, win: &WinObject) -> Checked<()> {
    if rank == k::MPI_PROC_NULL {
        return Ok(());
    }
    let rank = rank_of(rank, win, "rank")?;
    accesses::ended("MPI_Win_flush", win.window(), Ended::To(rank));
    Ok(win.window().flush(rank)?)
}

pub fn win_flush_all(win: &WinObject) -> Checked<()> {
    accesses::ended("MPI_Win_flush_all", win.window(), Ended::All);
    Ok(win.window().flush_all()?)
}

pub fn win_flush_local(rank: c_int, win: &WinObject) -> Checked<()> {
    if rank == k::MPI_PROC_NULL {
        return Ok(());
    }
    let rank = rank_of(rank, win, "rank")?;
    accesses::ended(
        "MPI_Win_flush_local",
        win.window(),
        Ended::Locally(Some(rank)),
    );
    Ok(win.window().flush_local(rank)?)
}

pub fn win_flush_local_all(win: &WinObject) -> Checked<()> {
    accesses::ended(
        "MPI_Win_flush_local_all",
        win.window(),
        Ended::Locally(None),
    );
    Ok(win.window().flush_local_all()?)
}

pub fn win_sync(win: &WinObject) -> Checked<()> {
    win.window().sync();
    Ok(())
}
