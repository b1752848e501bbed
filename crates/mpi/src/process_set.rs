//! Process sets: groups of processes with names, and communicators that are made of a group alone (MPI 5.0, sections
//! 7.4.2 and 11.3).

use std::sync::Arc;

use crate::comm::Comm;
use crate::error::Result;
use crate::group::Group;
use crate::info::Info;
use crate::process::Process;

/// All processes that the job has started together.
pub const WORLD: &str = "mpi://WORLD";
/// The process itself.
pub const ITSELF: &str = "mpi://SELF";
/// The names of all sets.
pub const NAMES: [&str; 2] = [WORLD, ITSELF];

/// Largest tag that is made of a text.
const MOST: u32 = (1 << 30) - 1;

/// A tag that depends on the text (FNV-1a).
#[must_use]
pub fn tag_of(text: &[u8]) -> i32 {
    let hash = text.iter().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    });
    (hash & MOST).cast_signed()
}

impl Process {
    /// The group with a name, in upper or lower case; `None` if there is no such set.
    #[must_use]
    pub fn process_set(self: &Arc<Self>, name: &str) -> Option<Arc<Group>> {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        let comm = match () {
            () if is(WORLD) => self.world(),
            () if is(ITSELF) => self.itself(),
            () => return None,
        };
        Some(Arc::clone(comm.group()))
    }

    /// A communicator of a group, which only its members call (`MPI_Comm_create_from_group`): they meet over the world,
    /// separated from all others by a text, with these hints. `None` for a process that is not in it.
    ///
    /// # Errors
    /// As for [`Comm::create_group`].
    pub fn create_from_group(
        self: &Arc<Self>,
        group: &Arc<Group>,
        tag: &[u8],
        info: Option<&Info>,
    ) -> Result<Option<Arc<Comm>>> {
        self.world().create_from_group(group, tag_of(tag), info)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_of_texts_differ_and_are_tags() {
        let tags = [&b""[..], b"a", b"b", b"org.example"].map(tag_of);
        assert!(tags.iter().all(|tag| (0..1 << 30).contains(tag)));
        assert!((1..4).all(|at| !tags[..at].contains(&tags[at])), "{tags:?}");
    }
}
