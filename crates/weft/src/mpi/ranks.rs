//! Ranks that are threads of one process: for tests, and for programs that want no launcher.

use std::any::Any;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex};

use weft_fabric_local::Local;
use weft_launch::bootstrap::Worlds;
use weft_mpi::Process;

use super::communicator::Communicator;
use super::environment::leave;
use super::state::{Handle, Job, RankState};

/// Runs `work` as so many ranks, each a thread, and waits for all. Gives what they give, by rank.
///
/// ```
/// use weft::mpi::{self, op};
///
/// let sums = mpi::run_ranks(4, |world| world.scan(&1_i32, op::sum()).unwrap());
/// assert_eq!(sums, [1, 2, 3, 4]);
/// ```
///
/// # Panics
/// If a rank panics: with what the first one panicked with. The others learn that it is lost.
pub fn run_ranks<R: Send>(ranks: usize, work: impl Fn(Communicator) -> R + Sync) -> Vec<R> {
    let work = &work;
    let worlds = Arc::new(Mutex::new(Worlds::new(ranks as u32, 0)));
    let outcomes: Vec<Result<R, Panicked>> = std::thread::scope(|scope| {
        let started: Vec<_> = Local::group(ranks)
            .into_iter()
            .map(|endpoint| {
                let job = Job::Threads(Arc::clone(&worlds));
                scope.spawn(move || as_rank(endpoint, job, work))
            })
            .collect();
        started.into_iter().map(|rank| rank.join()).collect()
    });
    let mut results = Vec::with_capacity(ranks);
    let mut panics = Vec::new();
    for outcome in outcomes {
        match outcome {
            Ok(result) => results.push(result),
            Err(panic) => panics.push(panic),
        }
    }
    // Those that only lost another rank say less than that rank itself.
    let first = panics.iter().position(|panic| !is_loss(panic));
    if let Some(panic) = panics.into_iter().nth(first.unwrap_or(0)) {
        resume_unwind(panic);
    }
    results
}

type Panicked = Box<dyn Any + Send>;

/// Tests a program of so many ranks, each a thread: `work` runs in each, and all must succeed.
///
/// ```
/// use weft::mpi;
///
/// mpi::test(3, |world| {
///     assert_eq!(world.size(), 3);
///     world.barrier()
/// });
/// ```
///
/// # Panics
/// If `work` fails or panics at any rank; the text says at which.
pub fn test(ranks: usize, work: impl Fn(Communicator) -> weft_mpi::Result<()> + Sync) {
    run_ranks(ranks, |world| {
        let rank = world.rank();
        if let Err(error) = work(world) {
            panic!("rank {rank} of {ranks}: {error:?}");
        }
    });
}

/// Whether a rank panicked because of an error that says that another one is lost.
fn is_loss(panic: &Panicked) -> bool {
    panic
        .downcast_ref::<String>()
        .is_some_and(|text| text.contains("ProcFailed"))
}

/// A rank that ends leaves its endpoint; the others learn of it if it unwinds.
struct Leaving<'a>(&'a RankState);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.abandon();
        }
        self.0.release();
    }
}

fn as_rank<R>(endpoint: Local, job: Job, work: &(impl Fn(Communicator) -> R + Sync)) -> R {
    let process = Process::new(Box::new(endpoint));
    process.let_threads_call_at_once();
    let state = RankState::new(Arc::clone(&process), job);
    let _leaving = Leaving(&state);
    let world = Handle::predefined(process.world(), Arc::clone(&state));
    let result = work(Communicator::new(world));
    if let Err(error) = leave(&state) {
        panic!("rank {} could not leave: {error:?}", process.me());
    }
    result
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;
    use crate::mpi::{self, Any, ErrorClass};

    fn text(work: impl Fn(mpi::Communicator) -> mpi::Result<()> + Sync) -> String {
        let work = std::panic::AssertUnwindSafe(work);
        let panic = catch_unwind(|| mpi::test(3, &*work)).unwrap_err();
        *panic.downcast::<String>().expect("a text")
    }

    /// Communicators are divided among engines, each of which counts for itself.
    #[test]
    fn what_a_rank_has_counted_is_of_all_its_engines() {
        let worlds = Arc::new(Mutex::new(Worlds::new(2, 0)));
        let rank = |world: Communicator| {
            let variables = world.performance_variables();
            for communicator in [(); 4].map(|()| world.duplicate().unwrap()) {
                let before = variables.messages_sent();
                if world.rank() == 0 {
                    communicator.send(&1_u64, 1, 0).unwrap();
                    assert_eq!(variables.messages_sent(), before + 1);
                } else {
                    communicator.receive::<u64>(0, 0).unwrap();
                }
            }
        };
        std::thread::scope(|scope| {
            for endpoint in Local::group_with_channels(2, 2) {
                let job = Job::Threads(Arc::clone(&worlds));
                scope.spawn(move || as_rank(endpoint, job, &rank));
            }
        });
    }

    #[test]
    fn a_rank_that_fails_is_named_and_the_others_are_told() {
        let text = text(|world| {
            if world.rank() == 1 {
                return world.send(&1, 77, 0);
            }
            let error = world.receive::<i32>(1, Any).map(drop).unwrap_err();
            assert_eq!(error.class(), ErrorClass::ProcFailed);
            Err(error)
        });
        assert!(
            text.starts_with("rank 1 of 3: Rank: there is no rank 77"),
            "{text}"
        );
    }

    #[test]
    fn a_rank_that_panics_ends_the_others() {
        let text = text(|world| {
            if world.rank() == 2 {
                panic!("rank {} has had enough", world.rank());
            }
            world.barrier()
        });
        assert_eq!(text, "rank 2 has had enough");
    }

    /// Windows do not keep it: the others hear of it.
    #[test]
    fn a_rank_that_panics_with_a_window_ends_the_others() {
        let text = text(|world| {
            let window = world.window::<u64>(4)?;
            let kept = world.window::<u64>(4)?;
            drop(kept);
            if world.rank() == 0 {
                panic!("no more of {} elements", window.len());
            }
            world.barrier()
        });
        assert_eq!(text, "no more of 4 elements");
    }

    #[test]
    fn what_is_dropped_before_its_end_goes_on() {
        mpi::test(2, |world| {
            let large = vec![world.rank() as u64; 1 << 18];
            let other = 1 - world.rank();
            drop(world.isend(large, other, 0)?);
            drop(world.ireceive(vec![0_u64; 5], other, 1)?);
            let apart = world.duplicate()?;
            drop(apart.iallreduce(vec![1], mpi::op::sum())?);
            drop(apart);
            std::mem::forget(world.ireceive(vec![0_u64; 5], other, 2)?);
            let (came, _) = world.receive_vec::<u64>(other, 0)?;
            assert_eq!(came, vec![other as u64; 1 << 18]);
            Ok(())
        });
    }
}
