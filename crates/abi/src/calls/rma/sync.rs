//! Synchronisation of windows (MPI 5.0, section 12.5).

use std::ffi::c_int;
use std::sync::Arc;

use weft_mpi::Group;
use weft_mpi::rma::{Assertion, LockKind};

use super::rank_of;
use crate::args::Out;
use crate::check::accesses::{self, Ended};
use crate::check::{epochs, fences};
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::state::WinObject;

/// The assertions that each call accepts, with their names.
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
    win.window().post(group, assertion)?;
    epochs::posted(win.window(), group);
    Ok(())
}

pub fn win_start(group: &Arc<Group>, assert: c_int, win: &WinObject) -> Checked<()> {
    let assertion = assertion(assert, CHECK)?;
    win.window().start(group, assertion)?;
    epochs::started(win.window(), group);
    Ok(())
}

pub fn win_complete(win: &WinObject) -> Checked<()> {
    let window = win.window();
    accesses::completed("MPI_Win_complete", window, Ended::All, || window.complete())?;
    epochs::completed(window);
    Ok(())
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
    win.window().lock(kind, rank, assertion)?;
    epochs::locked(win.window(), kind, rank);
    Ok(())
}

pub fn win_unlock(rank: c_int, win: &WinObject) -> Checked<()> {
    if rank == k::MPI_PROC_NULL {
        return Ok(());
    }
    let rank = rank_of(rank, win, "rank")?;
    let window = win.window();
    accesses::completed("MPI_Win_unlock", window, Ended::To(rank), || {
        window.unlock(rank)
    })?;
    epochs::unlocked(window, rank);
    Ok(())
}

pub fn win_lock_all(assert: c_int, win: &WinObject) -> Checked<()> {
    let assertion = assertion(assert, CHECK)?;
    win.window().lock_all(assertion)?;
    epochs::all_locked(win.window(), true);
    Ok(())
}

pub fn win_unlock_all(win: &WinObject) -> Checked<()> {
    let window = win.window();
    accesses::completed("MPI_Win_unlock_all", window, Ended::All, || {
        window.unlock_all()
    })?;
    epochs::all_locked(window, false);
    Ok(())
}

#[inline]
pub fn win_flush(rank: c_int, win: &WinObject) -> Checked<()> {
    if rank == k::MPI_PROC_NULL {
        return Ok(());
    }
    let rank = rank_of(rank, win, "rank")?;
    let window = win.window();
    let flushed = accesses::completed("MPI_Win_flush", window, Ended::To(rank), || {
        window.flush(rank)
    });
    Ok(flushed?)
}

pub fn win_flush_all(win: &WinObject) -> Checked<()> {
    let window = win.window();
    let flushed = accesses::completed("MPI_Win_flush_all", window, Ended::All, || {
        window.flush_all()
    });
    Ok(flushed?)
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
