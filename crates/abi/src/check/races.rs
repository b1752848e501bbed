//! Message races: a receive from any source that messages of several senders could match. Chance decides
//! which one it takes.

use std::ffi::c_int;

use super::{find_communicator, findings};
use crate::c;
use crate::generated::constants as k;
use crate::handle::creation::NamedCallSite;

/// A receive, or a probe, with these arguments is about to be made.
#[cold]
pub fn look(call: &'static str, source: c_int, tag: c_int, comm: c::Comm) {
    if source != k::MPI_ANY_SOURCE {
        return;
    }
    let Some(comm) = find_communicator(comm) else {
        return;
    };
    let tag = (tag != k::MPI_ANY_TAG).then_some(tag);
    let messages = comm.unreceived(tag);
    let Some(first) = messages.first() else {
        return;
    };
    let Some(other) = messages.iter().find(|one| one.0 != first.0) else {
        return;
    };
    let group = comm.remote_group().unwrap_or(comm.group());
    let said = |(peer, tag): (weft_fabric::Peer, i32)| {
        let rank = group.rank_of(peer).unwrap_or(peer.0);
        format!("of rank {rank} with tag {tag}")
    };
    findings::tell(&format!(
        "{} takes a message from any source, and one {} and one {} on {} are here: which it gets is chance; name the source \
         unless either is right",
        NamedCallSite::here(call).describe(),
        said(*first),
        said(*other),
        comm.extras().name_or("a communicator without name"),
    ));
}
