//! Ranks that are threads of one process: for tests, and for programs without a launcher.

mod supervision;

use std::any::Any;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex};

use weft_fabric_local::Local;
use weft_launch::bootstrap::Worlds;
use weft_mpi::Process;

use super::communicator::Communicator;
use super::environment::leave;
use super::state::{Handle, Job, RankState};
use supervision::Supervision;

/// Runs `work` as this many ranks, each a thread, and waits for all. Returns their results, by rank.
///
/// ```
/// use weft::mpi::{self, op};
///
/// let sums = mpi::run_ranks(4, |world| world.scan(&1_i32, op::sum()).unwrap());
/// assert_eq!(sums, [1, 2, 3, 4]);
/// ```
///
/// # Panics
/// If a rank panics: with the payload of the first panic; the other ranks see a lost rank. If all ranks wait for each
/// other: with what each of them waits for; their calls end in errors. Deadlocks are not searched for while another
/// thread of the process, such as that of another test, runs or waits with a time limit, nor if the variable
/// `WEFT_ON_DEADLOCK` is `ignore`.
pub fn run_ranks<R: Send>(ranks: usize, work: impl Fn(Communicator) -> R + Sync) -> Vec<R> {
    let work = &work;
    let worlds = Arc::new(Mutex::new(Worlds::new(ranks as u32, 0)));
    let endpoints = Local::group(ranks);
    let (supervision, thread) = Supervision::over(&endpoints);
    let outcomes: Vec<Result<R, Panicked>> = std::thread::scope(|scope| {
        let started: Vec<_> = endpoints
            .into_iter()
            .map(|endpoint| {
                let job = Job::Threads(Arc::clone(&worlds));
                let supervision = Arc::clone(&supervision);
                scope.spawn(move || as_rank(endpoint, job, &supervision, work))
            })
            .collect();
        started.into_iter().map(|rank| rank.join()).collect()
    });
    let (deadlock, first_panic) = supervision.end(thread);
    if let Some(deadlock) = deadlock {
        panic!("{deadlock}");
    }
    let mut results = Vec::with_capacity(ranks);
    for (rank, outcome) in outcomes.into_iter().enumerate() {
        match outcome {
            Ok(result) => results.push(result),
            // Those that only lost another rank say less than that rank itself.
            Err(panic) if first_panic.is_none_or(|first| first == rank) => resume_unwind(panic),
            Err(_) => {}
        }
    }
    results
}

type Panicked = Box<dyn Any + Send>;

/// Tests a program of this many ranks, each a thread: `work` runs in each, and must succeed in all.
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
/// If ranks wait for each other, the test fails with the line that each of them is in:
///
/// ```
/// use weft::mpi;
///
/// let told = std::panic::catch_unwind(|| {
///     mpi::test(2, |world| world.receive::<u8>(1 - world.rank(), 7).map(drop));
/// });
/// let told = told.unwrap_err().downcast::<String>().unwrap();
/// assert!(told.starts_with("deadlock: ranks 0 and 1 wait for each other"), "{told}");
/// let rank = "rank 0: receive for a message from rank 1, tag 7, MPI_COMM_WORLD, at ";
/// assert!(told.contains(rank), "{told}");
/// ```
///
/// # Panics
/// If `work` fails or panics at any rank; the text names the rank. If all ranks wait for each other, as for
/// [`run_ranks`]: the text says what each of them waits for.
pub fn test(ranks: usize, work: impl Fn(Communicator) -> weft_mpi::Result<()> + Sync) {
    run_ranks(ranks, |world| {
        let rank = world.rank();
        if let Err(error) = work(world) {
            panic!("rank {rank} of {ranks}: {error:?}");
        }
    });
}

/// A rank that ends leaves its endpoint; the others learn of it if it unwinds.
struct Leaving<'a> {
    state: &'a RankState,
    supervision: &'a Supervision,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let peer = self.state.process().me();
        let rank = peer.index();
        if std::thread::panicking() {
            self.state.abandon();
            self.supervision.panics(rank, peer);
        }
        self.state.release();
        self.supervision.leave(rank);
    }
}

fn as_rank<R>(
    endpoint: Local,
    job: Job,
    supervision: &Arc<Supervision>,
    work: &(impl Fn(Communicator) -> R + Sync),
) -> R {
    let process = Process::new(Box::new(endpoint));
    process.let_threads_call_at_once();
    let state = RankState::new(Arc::clone(&process), job);
    supervision.begin(process.me().index(), &state);
    let _leaving = Leaving {
        state: &state,
        supervision,
    };
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
        let endpoints = Local::group_with_channels(2, 2);
        let (supervision, thread) = Supervision::over(&endpoints);
        std::thread::scope(|scope| {
            for endpoint in endpoints {
                let job = Job::Threads(Arc::clone(&worlds));
                let supervision = &supervision;
                scope.spawn(move || as_rank(endpoint, job, supervision, &rank));
            }
        });
        supervision.end(thread);
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

    /// Whatever the others make of that.
    #[test]
    fn the_first_panic_is_told() {
        let text = text(|world| {
            if world.rank() == 2 {
                panic!("the cause is rank {}", world.rank());
            }
            assert!(world.barrier().is_ok(), "what follows from it");
            Ok(())
        });
        assert_eq!(text, "the cause is rank 2");
    }

    #[test]
    fn ranks_that_wait_for_each_other_are_told_so() {
        let each_first_receives = text(|world| {
            let left = (world.rank() + 2) % 3;
            world.receive::<u8>(left, 5).map(drop)
        });
        let parts = [
            "deadlock: rank 0 waits for rank 2",
            "tag 5, MPI_COMM_WORLD",
            "remedy: ",
        ];
        for part in parts {
            assert!(each_first_receives.contains(part), "{each_first_receives}");
        }
        let one_leaves = text(|world| match world.rank() {
            0 => Ok(()),
            _ => world.barrier(),
        });
        assert!(one_leaves.starts_with("deadlock: "), "{one_leaves}");
        let from_itself = text(|world| world.ssend(&1, world.rank(), 0));
        assert!(from_itself.starts_with("deadlock: "), "{from_itself}");
        let awaited = text(|world| {
            let never = world.ireceive(vec![0], Any, 3)?;
            mpi::block_on(async { never.await }).map(drop)
        });
        assert!(awaited.starts_with("deadlock: "), "{awaited}");
    }

    /// A rank waits for what one of its own threads sends when it has computed.
    #[test]
    fn a_rank_with_a_thread_that_computes_is_in_no_deadlock() {
        mpi::test(2, |world| {
            std::thread::scope(|scope| {
                let helper = world.clone();
                scope.spawn(move || {
                    let until = std::time::Instant::now() + std::time::Duration::from_millis(900);
                    while std::time::Instant::now() < until {
                        std::hint::spin_loop();
                    }
                    helper.send(&1_u8, helper.rank(), 0)
                });
                world.receive::<u8>(world.rank(), 0).map(drop)
            })
        });
    }

    /// As long as somebody has its communicator its endpoint is there.
    #[test]
    fn a_rank_that_panics_and_whose_communicator_is_kept_ends_the_others() {
        let kept = Mutex::new(Vec::new());
        let text = text(|world| {
            kept.lock().unwrap().push(world.clone());
            if world.rank() == 1 {
                panic!("rank {} is the cause", world.rank());
            }
            world.barrier()
        });
        assert_eq!(text, "rank 1 is the cause");
    }

    #[test]
    fn what_is_kept_of_a_rank_that_has_ended_is_refused() {
        let kept = Mutex::new(Vec::new());
        mpi::test(2, |world| {
            let other = 1 - world.rank();
            let window = world.window::<u8>(1)?;
            let request = world.ireceive(vec![0], other, 0)?;
            kept.lock().unwrap().push((world, window, request));
            Ok(())
        });
        for (world, window, request) in kept.into_inner().unwrap() {
            let other = 1 - world.rank();
            let refused = |outcome: mpi::Result<()>| {
                let error = outcome.unwrap_err().to_string();
                assert!(error.contains("this rank has left MPI"), "{error}");
            };
            refused(world.send(&1, other, 0));
            refused(world.send(&vec![1; 1 << 16], other, 0));
            refused(world.isend(vec![1], other, 0).map(drop));
            refused(world.receive::<i32>(other, 0).map(drop));
            refused(world.receive::<i32>(Any, Any).map(drop));
            refused(world.barrier());
            refused(world.duplicate().map(drop));
            refused(window.fence().map(drop));
            refused(request.wait().map(drop));
            refused(window.free());
        }
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
