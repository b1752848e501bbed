//! Communicators of one group: making them (MPI 5.0, chapter 7).
//!
//! A communicator ends when it is dropped and no operation on it is under way any more. In Weft that is local: no rank
//! waits for another, and each may drop it at any time. Messages that were sent to it and never received are dropped with
//! it.

use std::ops::Deref;
use std::sync::Arc;

use weft_mpi::Result;

pub use weft_mpi::group::Comparison;

use super::Info;
use super::attribute::Attributes;
use super::group::Group;
use super::inter::Intercommunicator;
use super::state::{Handle, RankState};

/// Operations of every communicator, of one group or of two: messages from one rank to another.
///
/// [`Communicator`], [`Intercommunicator`] and communicators with a topology dereference to it. Ranks are those of the
/// group that messages go to, which for an intercommunicator is the remote group.
#[derive(Clone, Debug)]
pub struct PointToPoint {
    handle: Arc<Handle>,
}

impl PointToPoint {
    pub(super) fn new(handle: Arc<Handle>) -> Self {
        Self { handle }
    }

    pub(super) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    pub(super) fn comm(&self) -> &weft_mpi::Comm {
        &self.handle.comm
    }

    pub(super) fn state(&self) -> &Arc<RankState> {
        &self.handle.state
    }

    pub(super) fn attributes(&self) -> &Attributes {
        &self.handle.attributes
    }

    /// The rank of this process in its own group.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.comm().rank() as usize
    }

    /// Number of processes of its own group.
    #[must_use]
    pub fn size(&self) -> usize {
        self.comm().size() as usize
    }

    /// Its own group.
    #[must_use]
    pub fn group(&self) -> Group {
        Group::of(Arc::clone(self.comm().group()))
    }

    /// Its name, which reports show.
    #[must_use]
    pub fn name(&self) -> String {
        self.comm().extras().name()
    }

    /// Sets its name.
    pub fn set_name(&self, name: &str) {
        self.comm().extras().set_name(name);
    }

    /// The hints that Weft understands, with the values that hold (`MPI_Comm_get_info`). They must be given [when the communicator
    /// is made](Communicator::duplicate_with_info).
    ///
    /// # Errors
    /// None: the pairs are its own.
    pub fn info(&self) -> Result<Info> {
        self.comm().info()
    }

    /// Whether two communicators are the same, or have the same members (`MPI_Comm_compare`).
    #[must_use]
    pub fn compare(&self, other: &Self) -> Comparison {
        self.comm().compare(other.comm())
    }

    /// Ends the job (`MPI_Abort`): all its ranks, with this exit code. A rank that is a thread panics.
    pub fn abort(&self, code: i32) -> ! {
        let text = format!(
            "weft: rank {} of {} of {} ends the job, exit code {code}\n",
            self.rank(),
            self.size(),
            self.name()
        );
        self.state().abort(code, &text)
    }
}

/// A communicator of one group.
///
/// `clone` makes another reference to the same communicator; [`duplicate`](Self::duplicate) makes another communicator.
///
/// ```
/// use weft::mpi;
///
/// mpi::test(4, |world| {
///     let half = world.split((world.rank() / 2) as i32, 0)?;
///     assert_eq!((half.size(), half.rank()), (2, world.rank() % 2));
///     let apart = half.duplicate()?; // messages of the two never meet
///     apart.barrier()
/// });
/// ```
#[derive(Clone, Debug)]
pub struct Communicator {
    base: PointToPoint,
}

impl Deref for Communicator {
    type Target = PointToPoint;

    fn deref(&self) -> &PointToPoint {
        &self.base
    }
}

impl Communicator {
    pub(super) fn new(handle: Arc<Handle>) -> Self {
        Self {
            base: PointToPoint::new(handle),
        }
    }

    /// A communicator of the same rank that was made just now.
    pub(super) fn made(&self, comm: Arc<weft_mpi::Comm>) -> Arc<Handle> {
        Handle::new(comm, Arc::clone(self.state()))
    }

    /// A communicator of the same group with separate messages (`MPI_Comm_dup`). Each [`Key`](super::Key) determines how
    /// its attribute is copied. Collective.
    ///
    /// # Errors
    /// If no context is left, or a member is lost.
    pub fn duplicate(&self) -> Result<Self> {
        Ok(self.copied(self.comm().dup()?))
    }

    /// Like [`duplicate`](Self::duplicate), with hints (`MPI_Comm_dup_with_info`). If all ranks assert
    /// `mpi_assert_no_any_tag`, no rank may receive or probe any tag, and threads that use different tags run in
    /// parallel.
    ///
    /// ```
    /// use weft::mpi;
    ///
    /// mpi::test(2, |world| {
    ///     let mut info = mpi::Info::default();
    ///     info.set("mpi_assert_no_any_tag", "true")?;
    ///     let comm = world.duplicate_with_info(&info)?;
    ///     assert_eq!(comm.info()?.get("mpi_assert_no_any_tag")?, Some("true"));
    ///     comm.barrier()?;
    ///     Ok(())
    /// });
    /// ```
    ///
    /// # Errors
    /// As for [`duplicate`](Self::duplicate).
    pub fn duplicate_with_info(&self, info: &Info) -> Result<Self> {
        Ok(self.copied(self.comm().dup_with_info(Some(info))?))
    }

    /// A copy that was made just now.
    fn copied(&self, made: Arc<weft_mpi::Comm>) -> Self {
        // The program's code: after the collective, so that nobody waits for a rank whose copying panics.
        let attributes = self.attributes().copied();
        let state = Arc::clone(self.state());
        Self::new(Handle::with(made, state, attributes))
    }

    /// Makes one communicator for each color, with its ranks ordered by `key`, then by their ranks in this one
    /// (`MPI_Comm_split`). Collective.
    ///
    /// # Errors
    /// If no context is left, or a member is lost.
    pub fn split(&self, color: i32, key: i32) -> Result<Self> {
        let made = self.split_some(Some(color), key)?;
        Ok(made.expect("who names a color gets a communicator"))
    }

    /// Like [`split`](Self::split); a rank without a color gets `None`.
    ///
    /// # Errors
    /// If no context is left, or a member is lost.
    pub fn split_some(&self, color: Option<i32>, key: i32) -> Result<Option<Self>> {
        let made = self.comm().split(color, key)?;
        Ok(made.map(|comm| Self::new(self.made(comm))))
    }

    /// A communicator of a part of the group; `None` for a rank that is not in it (`MPI_Comm_create`). Collective.
    ///
    /// ```
    /// use weft::mpi;
    ///
    /// mpi::test(4, |world| {
    ///     let odd = world.group().include(&[1, 3])?;
    ///     if let Some(odd) = world.create(&odd)? {
    ///         assert_eq!(odd.size(), 2);
    ///         odd.barrier()?;
    ///     }
    ///     Ok(())
    /// });
    /// ```
    ///
    /// # Errors
    /// `Group` if a member of the group is not in this communicator.
    pub fn create(&self, group: &Group) -> Result<Option<Self>> {
        let made = self.comm().create(group.shared())?;
        Ok(made.map(|comm| Self::new(self.made(comm))))
    }

    /// Like [`create`](Self::create), called only by the members of the group (`MPI_Comm_create_group`).
    ///
    /// # Errors
    /// As for [`create`](Self::create).
    pub fn create_group(&self, group: &Group, tag: i32) -> Result<Option<Self>> {
        let tag = super::envelope::check_tag(tag)?;
        let made = self.comm().create_group(group.shared(), tag)?;
        Ok(made.map(|comm| Self::new(self.made(comm))))
    }

    /// An intercommunicator between this group and that of `remote_leader`, a rank of `peers`, a communicator that both
    /// leaders have (`MPI_Intercomm_create`). `peers` and `remote_leader` matter only at `local_leader`, a rank of this
    /// communicator. Collective in both groups.
    ///
    /// # Errors
    /// `Comm` if the groups have a process in common, or if the leaders did not meet; `Rank` for a leader that is no rank.
    pub fn intercommunicator(
        &self,
        local_leader: usize,
        peers: &PointToPoint,
        remote_leader: usize,
        tag: i32,
    ) -> Result<Intercommunicator> {
        let bridge = weft_mpi::comm::Bridge {
            comm: peers.comm(),
            remote_leader: u32::try_from(remote_leader).unwrap_or(u32::MAX),
            tag: super::envelope::check_tag(tag)?,
        };
        let local_leader = u32::try_from(local_leader).unwrap_or(u32::MAX);
        let made = self.comm().connect(local_leader, Some(bridge))?;
        Ok(Intercommunicator::new(self.made(made)))
    }
}
