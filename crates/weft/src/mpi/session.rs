//! Sessions: a job without a given world, whose processes are found by the names of sets (MPI 5.0, section 11.3).

use std::sync::Arc;

use weft_mpi::process_set;
use weft_mpi::{Error, ErrorClass, Result};
use weft_service::Node;

use super::Info;
use super::communicator::{Communicator, PointToPoint};
use super::environment::{join, leave};
use super::group::Group;
use super::state::{Handle, RankState};

/// A view of the job: sets of processes by name, groups of them, and communicators made of these.
///
/// A library gets one from a communicator that it is given ([`PointToPoint::session`]), and then has processes and
/// communicators of its own, which no message of the program can reach. Such a session ends when it is dropped, at each
/// rank separately; objects made from it stay.
///
/// ```
/// use weft::mpi::{self, op};
///
/// mpi::test(4, |world| {
///     let session = world.session();
///     let all = session.process_set("mpi://WORLD")?;
///     let even = all.include(&[0, 2])?;
///     if let Some(even) = session.communicator(&even, "org.example.even")? {
///         assert_eq!(even.allreduce(&world.rank(), op::sum())?, 2);
///     }
///     let itself = session.communicator_of("mpi://self", "org.example.itself")?;
///     assert_eq!(itself.size(), 1);
///     Ok(())
/// });
/// ```
///
/// A program that uses nothing but sessions begins with [`Session::init`] and ends with [`Session::finalize`].
#[derive(Debug)]
pub struct Session {
    state: Arc<RankState>,
    /// Of the session that the process has joined the job by.
    joined: Option<Node>,
}

impl Session {
    /// Joins the job by a session (`MPI_Session_init`), as [`init`](super::init) does with a world. Once per process; use
    /// [`PointToPoint::session`] for further sessions. A process started by a [`Program`](super::Program) must begin with
    /// [`init`](super::init) instead: the processes that started it wait for its world.
    ///
    /// If it is dropped without [`finalize`](Self::finalize), the process has not finished its part of the job, and the
    /// launcher ends the job: so an error that leaves `main` by `?` ends all ranks.
    ///
    /// ```no_run
    /// use weft::mpi::{self, op};
    ///
    /// fn main() -> mpi::Result<()> {
    ///     let session = mpi::Session::init()?;
    ///     let all = session.communicator_of("mpi://WORLD", "org.example.main")?;
    ///     let ranks = all.allreduce(&1_u32, op::sum())?;
    ///     println!("rank {} of {ranks}", all.rank());
    ///     drop(all);
    ///     session.finalize()
    /// }
    /// ```
    ///
    /// # Errors
    /// As for [`init`](super::init).
    pub fn init() -> Result<Self> {
        let (state, services) = join()?;
        Ok(Self {
            state,
            joined: Some(services),
        })
    }

    /// Its hints (`MPI_Session_get_info`): `thread_level`, and `mpi_memory_alloc_kinds`.
    ///
    /// # Errors
    /// None: the pairs are its own.
    pub fn info(&self) -> Result<Info> {
        let mut info = Info::default();
        info.set("thread_level", "MPI_THREAD_MULTIPLE")?;
        Ok(info.answered())
    }

    /// The names of all sets of processes (`MPI_Session_get_nth_pset`).
    #[must_use]
    pub fn process_sets(&self) -> &'static [&'static str] {
        &process_set::NAMES
    }

    /// The processes of a set (`MPI_Group_from_session_pset`). Case does not matter in its name.
    ///
    /// # Errors
    /// `Arg` if there is no such set.
    pub fn process_set(&self, name: &str) -> Result<Group> {
        let found = self.state.process().process_set(name);
        found.map(Group::of).ok_or_else(|| {
            let names = self.process_sets().join("\" or \"");
            Error::new(
                ErrorClass::Arg,
                format!("there is no set of processes \"{name}\"; \"{names}\" was expected"),
            )
        })
    }

    /// A communicator of a group (`MPI_Comm_create_from_group`); `None` for a rank that is not in it. Collective among
    /// the members, who give the same text; it separates calls made for different purposes at the same time.
    ///
    /// # Errors
    /// `Group` if a member of the group is not among the job's first processes; if no context is left, or a member is
    /// lost.
    pub fn communicator(&self, group: &Group, tag: &str) -> Result<Option<Communicator>> {
        let process = self.state.process();
        let made = process.create_from_group(group.shared(), tag.as_bytes(), None)?;
        let whole = |comm| Communicator::new(Handle::new(comm, Arc::clone(&self.state)));
        Ok(made.map(whole))
    }

    /// A communicator of a whole set, in which this process is. Collective among its members.
    ///
    /// # Errors
    /// `Arg` if there is no such set; as for [`communicator`](Self::communicator).
    pub fn communicator_of(&self, set: &str, tag: &str) -> Result<Communicator> {
        let made = self.communicator(&self.process_set(set)?, tag)?;
        made.ok_or_else(|| {
            Error::new(
                ErrorClass::Group,
                format!("this process is not in the set \"{set}\"; only members make a communicator of it"),
            )
        })
    }

    /// Ends the session (`MPI_Session_finalize`). The session by which the process has [joined](Self::init) the job waits
    /// for all ranks and for operations whose requests were dropped, as
    /// [`Environment::finalize`](super::Environment::finalize) does.
    ///
    /// # Errors
    /// `ProcFailed` if a rank is lost.
    pub fn finalize(self) -> Result<()> {
        if self.joined.is_some() {
            leave(&self.state)?;
            self.state.finalised();
        }
        Ok(())
    }
}

impl PointToPoint {
    /// A new session of this rank: a separate view of the job (`MPI_Session_init`).
    #[must_use]
    pub fn session(&self) -> Session {
        Session {
            state: Arc::clone(self.state()),
            joined: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::mpi::{self, Comparison, ErrorClass};

    #[test]
    fn sets_are_known_by_their_names() {
        mpi::test(3, |world| {
            let session = world.session();
            assert_eq!(session.process_sets(), ["mpi://WORLD", "mpi://SELF"]);
            for name in ["mpi://WORLD", "mpi://world"] {
                let all = session.process_set(name)?;
                assert_eq!(all.compare(&world.group()), Comparison::Identical);
            }
            let itself = session.process_set("MPI://Self")?;
            assert_eq!(itself.translate(&[0], &world.group()), [Some(world.rank())]);
            let error = session.process_set("mpi://all").map(drop).unwrap_err();
            assert_eq!(error.class(), ErrorClass::Arg, "{error}");
            Ok(())
        });
    }

    #[test]
    fn what_is_made_in_two_sessions_at_once_does_not_meet() {
        mpi::test(4, |world| {
            let sessions = [world.session(), world.session()];
            let all = sessions[0].process_set("mpi://WORLD")?;
            let rank = world.rank();
            std::thread::scope(|scope| {
                let each = ["org.example.one", "org.example.two"]
                    .into_iter()
                    .zip(&sessions);
                let made: Vec<_> = each
                    .map(|(tag, session)| scope.spawn(|| session.communicator(&all, tag)))
                    .collect();
                for (number, made) in made.into_iter().enumerate() {
                    let comm = made.join().expect("no panic")?.expect("a member");
                    let (right, left) = ((rank + 1) % 4, (rank + 3) % 4);
                    let sent = comm.isend(vec![10 * number + rank], right, 0)?;
                    let (came, _) = comm.receive::<usize>(left, 0)?;
                    assert_eq!(came, 10 * number + left);
                    sent.wait()?;
                }
                Ok(())
            })
        });
    }

    #[test]
    fn a_session_ends_before_what_came_of_it() {
        mpi::test(2, |world| {
            let session = world.session();
            let info = session.info()?;
            assert_eq!(info.get("thread_level")?, Some("MPI_THREAD_MULTIPLE"));
            let comm = session.communicator_of("mpi://WORLD", "org.example.left")?;
            session.finalize()?;
            comm.barrier()?;
            let alone = world.group().include(&[0])?;
            let made = world.session().communicator(&alone, "org.example.alone")?;
            assert_eq!(made.is_some(), world.rank() == 0);
            Ok(())
        });
    }
}
