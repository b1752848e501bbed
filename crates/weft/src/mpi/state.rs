//! State of a rank, shared by its communicators and requests: the process, and operations whose request was
//! dropped before they ended.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use weft_launch::bootstrap::{JobAnswer, JobRequest, Launcher, Refusal, Worlds};
use weft_launch::other_jobs::OtherJobs;
use weft_mpi::waits::{CommunicatorName, RankWaits};
use weft_mpi::{Comm, Error, ErrorClass, Process, RequestId, Result};

use super::attribute::Attributes;

/// The job as a whole, of which ranks ask for ports and names.
pub(super) enum Job {
    /// Whatever started the process, and how it meets those of other jobs.
    Launcher(Arc<dyn Launcher>, Arc<OtherJobs>),
    /// The ranks are threads of this process, and have this together.
    Threads(Arc<Mutex<Worlds>>),
}

/// One rank.
pub(super) struct RankState {
    process: Arc<Process>,
    job: Job,
    orphans: Mutex<Vec<Orphan>>,
    /// What others may use until this rank ends.
    kept: Mutex<Vec<Box<dyn Send>>>,
    /// Those that there are, and some that there were.
    comms: Mutex<Vec<Weak<Comm>>>,
}

impl std::fmt::Debug for RankState {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "RankState({:?})", self.process)
    }
}

/// An operation that goes on without anybody who waits for it, and what it needs until its end.
struct Orphan {
    id: RequestId,
    /// Dropped first: then its memory is nobody's any more.
    _kept: Box<dyn Send>,
    /// Freed when nothing of it is under way.
    _handle: Arc<Handle>,
}

impl std::fmt::Debug for Orphan {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.id.fmt(out)
    }
}

impl RankState {
    pub(super) fn new(process: Arc<Process>, job: Job) -> Arc<Self> {
        Arc::new(Self {
            process,
            job,
            orphans: Mutex::default(),
            kept: Mutex::default(),
            comms: Mutex::default(),
        })
    }

    fn comms(&self) -> MutexGuard<'_, Vec<Weak<Comm>>> {
        self.comms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A communicator that reports may have to name.
    fn note(&self, comm: &Arc<Comm>) {
        let mut comms = self.comms();
        // Before there is room for more: those that are gone leave theirs.
        if comms.len() == comms.capacity() {
            comms.retain(|comm| comm.strong_count() > 0);
        }
        comms.push(Arc::downgrade(comm));
    }

    /// The communicators on which somebody waits, by name.
    pub(super) fn named(&self, waits: &RankWaits) -> Vec<CommunicatorName> {
        let named: BTreeSet<u32> = waits.contexts().map(|context| context & !1).collect();
        let comms: Vec<_> = self.comms().iter().filter_map(Weak::upgrade).collect();
        let world = self.process.world();
        let name = |context: u32| {
            let mut comms = comms.iter();
            let found = comms.find(|comm| comm.known_context().map(|it| it & !1) == Some(context));
            found.map(|comm| CommunicatorName::of(comm, &world))
        };
        named.into_iter().filter_map(name).collect()
    }

    pub(super) fn process(&self) -> &Arc<Process> {
        &self.process
    }

    /// Whatever started the process, if the rank is no thread.
    pub(super) fn launcher(&self) -> Option<&Arc<dyn Launcher>> {
        match &self.job {
            Job::Launcher(launcher, _) => Some(launcher),
            Job::Threads(_) => None,
        }
    }

    /// How processes of other jobs are met, by ranks that are processes.
    pub(super) fn other_jobs(&self) -> Option<&OtherJobs> {
        match &self.job {
            Job::Launcher(_, other_jobs) => Some(other_jobs),
            Job::Threads(_) => None,
        }
    }

    /// Asks something of the job as a whole; what it refuses is an answer.
    pub(super) fn ask_job(&self, request: &JobRequest) -> Result<JobAnswer> {
        match &self.job {
            Job::Launcher(launcher, _) => launcher
                .ask_job(request)
                .map_err(|lost| Error::new(ErrorClass::Other, lost.to_string())),
            Job::Threads(worlds) => {
                let mut worlds = worlds.lock().unwrap_or_else(PoisonError::into_inner);
                let answer = worlds.answer(self.process.me().0, request.clone());
                Ok(answer.unwrap_or_else(|| {
                    JobAnswer::refuse(
                        Refusal::Spawn,
                        "the ranks of this job are threads; start it by mpiexec",
                    )
                }))
            }
        }
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Box<dyn Send>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps something until the rank ends.
    pub(super) fn keep(&self, what: Box<dyn Send>) {
        self.kept().push(what);
    }

    /// The rank has ended, one way or the other: nobody uses what was kept.
    pub(super) fn release(&self) {
        let kept = std::mem::take(&mut *self.kept());
        drop(kept);
        self.process.refuse_all();
        self.process.release();
    }

    fn orphans(&self) -> MutexGuard<'_, Vec<Orphan>> {
        self.orphans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An operation goes on by itself; `kept` lives until it has ended.
    pub(super) fn adopt(&self, handle: Arc<Handle>, id: RequestId, kept: Box<dyn Send>) {
        self.orphans().push(Orphan {
            id,
            _kept: kept,
            _handle: handle,
        });
        self.release_ended();
    }

    /// Releases what has ended by now. Their outcomes are nobody's.
    fn release_ended(&self) {
        // Not while the list is locked: a test may run code of the program, which may drop requests.
        let orphans = std::mem::take(&mut *self.orphans());
        let (left, ended): (Vec<_>, Vec<_>) = orphans
            .into_iter()
            .partition(|orphan| matches!(self.process.test(orphan.id), Ok(None)));
        self.orphans().extend(left);
        drop(ended);
    }

    /// Waits for all of them, as `MPI_Finalize` does.
    pub(super) fn settle(&self) {
        loop {
            let orphans = std::mem::take(&mut *self.orphans());
            if orphans.is_empty() {
                return;
            }
            for orphan in orphans {
                // Who dropped the request did not want its outcome.
                _ = self.process.wait(orphan.id);
            }
        }
    }

    /// The rank ends before its operations do: their memory is never given back, and nothing else of them keeps the
    /// rank's endpoint open.
    pub(super) fn abandon(&self) {
        for orphan in std::mem::take(&mut *self.orphans()) {
            std::mem::forget(orphan._kept);
        }
    }

    /// Tells the launcher that the rank goes on when others die.
    pub(super) fn handles_losses(&self) {
        if let Some(launcher) = self.launcher() {
            launcher.handles_losses();
        }
    }

    /// Tells the launcher that the rank has left in order.
    pub(super) fn finalised(&self) {
        if let Some(launcher) = self.launcher() {
            launcher.finalised();
        }
    }

    /// Ends the job, as `MPI_Abort` does.
    pub(super) fn abort(&self, code: i32, text: &str) -> ! {
        let Some(launcher) = self.launcher() else {
            panic!("{text}");
        };
        let status = if code & 0xff == 0 { 1 } else { code };
        launcher.abort(status, text);
        launcher.await_end();
        std::process::exit(status)
    }
}

/// A communicator, to be freed when nobody uses it any more.
#[derive(Debug)]
pub(super) struct Handle {
    pub(super) comm: Arc<Comm>,
    pub(super) state: Arc<RankState>,
    /// What the program caches with it.
    pub(super) attributes: Attributes,
    /// Whether it ends with the rank only.
    predefined: bool,
}

impl Handle {
    pub(super) fn new(comm: Arc<Comm>, state: Arc<RankState>) -> Arc<Self> {
        Self::with(comm, state, Attributes::default())
    }

    pub(super) fn with(
        comm: Arc<Comm>,
        state: Arc<RankState>,
        attributes: Attributes,
    ) -> Arc<Self> {
        state.note(&comm);
        Arc::new(Self {
            comm,
            state,
            attributes,
            predefined: false,
        })
    }

    pub(super) fn predefined(comm: Arc<Comm>, state: Arc<RankState>) -> Arc<Self> {
        state.note(&comm);
        Arc::new(Self {
            comm,
            state,
            attributes: Attributes::default(),
            predefined: true,
        })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.attributes.clear();
        if !self.predefined {
            self.comm.drop_messages();
        }
    }
}
