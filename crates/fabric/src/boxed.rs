//! Boxed fabric: implements the contract, so that a wrapper can wrap any fabric.

use crate::{Fabric, forward_fabric};

impl<F: Fabric + ?Sized> Fabric for Box<F> {
    forward_fabric!(self => (**self); me, peers, incarnation, cause_of_loss, has_unreported_members, may_return, limits, bell, now, route, try_send, try_send_part, inject, writers, announce, take_next, poll,
        grant, offer, revoke, get, put, signal, signals, take_signals, forget,
        shares_memory, allocate_shared, release_shared, attach_shared, is_asleep, wake, is_any_beside, is_flushed, traffic,
        say_goodbye, abandon_unreached, announce_absence, channels, open_channel);
}
