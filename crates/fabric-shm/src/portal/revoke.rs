//! Revoking: waiting for the users of a grant that is revoked. `grants.rs` has the guarantees.

use std::time::Duration;

use weft_fabric::Peer;
use weft_sys::clock;

use super::grants::{GrantTable, Inside};

/// Looks before the waiting gets slower: a copy of a few MiB has ended by then.
const QUICK_LOOKS: u32 = 2000;

/// Between two looks after that.
const PAUSE: Duration = Duration::from_micros(100);

/// Waits until nobody is inside of a closed grant, or only readers that have had their time; then the grant's place is
/// free, or put aside until they have left. `notices`: whether a peer that reads will notice that it was not waited for.
pub(super) fn wait_for_users(
    grants: &mut GrantTable,
    index: u32,
    patience: Duration,
    notices: impl Fn(Peer) -> bool,
) {
    match grants.inside(index, &notices) {
        Inside::Nobody => grants.free(index),
        Inside::Readers | Inside::Others => keep_waiting(grants, index, patience, notices),
    }
}

#[cold]
fn keep_waiting(
    grants: &mut GrantTable,
    index: u32,
    patience: Duration,
    notices: impl Fn(Peer) -> bool,
) {
    let patience = clock::deadline_after(patience);
    let mut looks = 0;
    loop {
        match grants.inside(index, &notices) {
            Inside::Nobody => return grants.free(index),
            Inside::Readers if clock::monotonic() >= patience => return grants.give_up(index),
            Inside::Readers | Inside::Others => {}
        }
        if looks < QUICK_LOOKS {
            looks += 1;
            std::thread::yield_now();
        } else {
            std::thread::sleep(PAUSE);
        }
    }
}
