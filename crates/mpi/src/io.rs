//! File: data outside of the program that the members of a communicator read and write together
//! (MPI 5.0, chapter 14).
//!
//! ```text
//!   Access ──► resolve: view, place ──┬─ alone ────────────────► pieces of this rank     alone
//!   (what a call asks for)            └─ together ─ agreement ─┬─ alone                  together
//!                                                              └─ by aggregators         aggregation
//!                                 View ─► Cursor ─► runs ─┬────────► Storage
//!                                                         └─ sieve ──┘  (writers: who may rewrite gaps)
//! ```
//!
//! Blocking calls run on the caller's thread, the others as [tasks] of the file, which complete a request of the engine.
//! If one rank of a collective call fails, all learn its error ([agreement]).

mod access;
mod aggregation;
mod agreement;
mod alone;
mod coverage;
mod cursor;
mod hints;
#[cfg(test)]
mod memory_storage;
mod mode;
mod open;
mod representation;
mod run;
mod settings;
mod shared_pointer;
mod sieve;
mod split;
mod storage;
mod stream;
mod tasks;
#[cfg(test)]
mod tests;
mod together;
mod transfers;
mod view;
mod writers;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use weft_atomic::{AtomicBool, Ordering};

use crate::comm::Comm;
use crate::engine::RequestId;
use crate::error::{Error, ErrorClass, Result};
use crate::extras::Extras;

pub use access::{Access, Direction, FilePosition};
pub use hints::{Aggregation, Hints};
pub use mode::AccessMode;
pub use open::{delete, open, refuse_to_open};
pub use representation::{Conversion, Registry, Representation};
pub use settings::Whence;
pub use split::SplitCall;
pub use storage::Storage;
pub use view::View;

use aggregation::Aggregators;
use shared_pointer::SharedPointer;
use split::Split;
use tasks::Tasks;
use writers::Writers;

/// What changes in the life of a file.
#[derive(Debug)]
struct State {
    view: Arc<View>,
    /// The individual file pointer, in etypes.
    position: i64,
    hints: Hints,
    aggregators: Aggregators,
}

/// An open file, as one rank has it. Always behind an `Arc`.
#[derive(Debug)]
pub struct File {
    extras: Extras,
    /// Of its own: nothing else of the program travels there.
    comm: Arc<Comm>,
    path: PathBuf,
    mode: AccessMode,
    /// Ranks in the order in which they become aggregators, and how many do by themselves.
    candidates: Candidates,
    /// `None` once it is closed.
    storage: RwLock<Option<Arc<dyn Storage>>>,
    state: Mutex<State>,
    shared: Box<dyn SharedPointer>,
    split: Split,
    tasks: Tasks,
    atomic: AtomicBool,
    /// Openings exclude each other by locks; threads with one opening by this. One at a time, readers as well: a lock that one
    /// gives back would be that of another, too.
    own_turn: Mutex<()>,
    writers: Writers,
    /// Whether this rank has written what no `sync` has seen.
    written: AtomicBool,
    /// What an access failed with that nobody waits for: told by the next call that says how the file is.
    unreported: Mutex<Option<Error>>,
    /// Accesses that failed before anybody asked for them, or freed their request.
    failed: Mutex<Vec<(RequestId, Error)>>,
}

/// The ranks that may aggregate.
#[derive(Clone, Debug)]
struct Candidates {
    /// A rank of each host first, then a second of each.
    order: Arc<[u32]>,
    /// How many do if no hint says.
    usual: usize,
}

impl Candidates {
    fn aggregators(&self, hints: &Hints) -> Aggregators {
        let count = hints.aggregators().unwrap_or(self.usual);
        let count = count.clamp(1, self.order.len());
        Aggregators {
            ranks: self.order[..count].into(),
            window: hints.window(),
        }
    }
}

impl File {
    /// A file of all members of `comm`, which belongs to it alone from now on.
    fn assemble(
        comm: Arc<Comm>,
        path: PathBuf,
        mode: AccessMode,
        storage: Arc<dyn Storage>,
        hints: Hints,
        candidates: Candidates,
        shared: Box<dyn SharedPointer>,
    ) -> Arc<Self> {
        Arc::new(Self {
            extras: Extras::default(),
            comm,
            path,
            mode,
            storage: RwLock::new(Some(storage)),
            state: Mutex::new(State {
                view: Arc::new(View::of_bytes()),
                position: 0,
                aggregators: candidates.aggregators(&hints),
                hints,
            }),
            candidates,
            shared,
            split: Split::default(),
            tasks: Tasks::default(),
            atomic: AtomicBool::new(false),
            own_turn: Mutex::new(()),
            writers: Writers::default(),
            written: AtomicBool::new(false),
            unreported: Mutex::new(None),
            failed: Mutex::default(),
        })
    }

    /// Name, info and error handler.
    #[must_use]
    pub fn extras(&self) -> &Extras {
        &self.extras
    }

    /// The communicator of its own; its context is that of the file's requests.
    #[must_use]
    pub fn comm(&self) -> &Arc<Comm> {
        &self.comm
    }

    /// The name that it was opened by.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The mode that it was opened with.
    #[must_use]
    pub fn mode(&self) -> AccessMode {
        self.mode
    }

    /// The view.
    #[must_use]
    pub fn view(&self) -> Arc<View> {
        Arc::clone(&self.state().view)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where its bytes are.
    fn storage(&self) -> Result<Arc<dyn Storage>> {
        let storage = self.storage.read();
        let storage = storage.unwrap_or_else(PoisonError::into_inner);
        storage.clone().ok_or_else(|| {
            Error::new(
                ErrorClass::File,
                "the file has been closed; do not use it after MPI_File_close",
            )
        })
    }

    /// Keeps an error that nobody waits for.
    fn keep_error(&self, error: Error) {
        let unreported = self.unreported.lock();
        unreported
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert(error);
    }

    /// Such an error, to be told now.
    fn kept_error(&self) -> Result<()> {
        let unreported = self.unreported.lock();
        let unreported = unreported.unwrap_or_else(PoisonError::into_inner).take();
        let process = self.comm.process();
        let failed = self.failed.lock();
        let mut failed = failed.unwrap_or_else(PoisonError::into_inner);
        let freed = failed.extract_if(.., |(request, _)| process.take_freed_unread(*request));
        let freed: Vec<Error> = freed.map(|(_, error)| error).collect();
        match unreported.into_iter().chain(freed).next() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Keeps an error that is told unless the program asks for this request.
    fn keep_failed(&self, request: RequestId, error: Error) {
        let failed = self.failed.lock();
        let mut failed = failed.unwrap_or_else(PoisonError::into_inner);
        failed.push((request, error));
    }

    /// For as long as this thread alone takes locks.
    fn own_turn(&self) -> MutexGuard<'_, ()> {
        self.own_turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_written(&self) {
        self.written.store(true, Ordering::Relaxed);
    }
}
