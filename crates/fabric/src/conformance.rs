//! Conformance suite: tests that every fabric passes; one function per property, generic over the maker of the endpoints.
//!
//! ```text
//!   conformance!(shm, |n| boxed(group(n)));      one #[test] per property, in a module `shm`
//!        │
//!        ▼
//!   Stage ── endpoints(n) ──► Scene     properties of what arrives: one thread drives all in turn
//!         ── run(n, body) ──► Player    properties of sleeping: one thread for each rank
//! ```
//!
//! A fabric provides a [`Stage`]; a closure from a number to that many endpoints is one. Endpoints must accept being
//! driven in turn by one thread. A fabric whose ranks may not run freely beside each other (a simulation) also implements
//! [`Stage::run`] itself.
//!
//! A property that does not become true fails after [`PATIENCE`]; it does not hang.
//!
//! Beyond the words of the contract the properties assume what the layer above relies on: a sender that was refused and
//! sleeps is woken when there is room again, and so is a sleeper whose transfer ends. Data taken from a sender arrive
//! even if the sender has left (dropped its endpoint) since.

pub mod bells;
pub mod channels;
pub mod crowds;
mod inbox;
pub mod mailboxes;
#[allow(unsafe_code)]
mod memory;
mod player;
pub mod portals;
mod scene;
pub mod shares;
pub mod syncs;

use std::time::Duration;

use crate::Fabric;

pub use channels::InChannel;
pub use inbox::{Event, Inbox, message_data, number_of, numbered};
pub use memory::Memory;
pub use player::Player;
pub use scene::{Scene, TransferKind};

/// How long a property waits, in real time and in the time of the fabric, for an event.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The actions of one rank, which is given its endpoint.
pub type RankBody<'a> = &'a (dyn Fn(Box<dyn Fabric>) + Sync);

/// The environment in which a fabric is tested.
pub trait Stage: Sync {
    /// A fresh fabric of `count` members, in order, to be driven in turn by one thread.
    fn endpoints(&self, count: usize) -> Vec<Box<dyn Fabric>>;

    /// A fresh fabric of `count` members, each with a thread of its own that plays `part`. Returns
    /// when all have ended; panics if one did.
    fn run(&self, count: usize, part: RankBody<'_>) {
        each_in_a_thread(self.endpoints(count), part);
    }

    /// Whether a rank may have threads of its own beside the one that plays its part.
    fn has_helpers(&self) -> bool {
        true
    }

    /// Ends the member `rank` as its death would, from the thread that plays it; if the stage cannot simulate deaths, the
    /// member leaves.
    fn end(&self, rank: usize, endpoint: Box<dyn Fabric>) {
        let _ = rank;
        drop(endpoint);
    }

    /// Whether the others are told that a member which was [ended](Self::end) is lost.
    fn shows_deaths(&self) -> bool {
        false
    }
}

impl<F: Fn(usize) -> Vec<Box<dyn Fabric>> + Sync> Stage for F {
    fn endpoints(&self, count: usize) -> Vec<Box<dyn Fabric>> {
        self(count)
    }
}

/// One function for all stages: what starts threads is much to compile.
fn each_in_a_thread(endpoints: Vec<Box<dyn Fabric>>, part: RankBody<'_>) {
    std::thread::scope(|scope| {
        for endpoint in endpoints {
            scope.spawn(move || part(endpoint));
        }
    });
}

/// A stage whose endpoints are wrapped.
#[derive(Clone, Copy, Debug)]
pub struct Wrapped<S, W> {
    /// The stage of what is wrapped.
    pub inner: S,
    /// Wraps one endpoint.
    pub wrap: W,
}

impl<S: Stage, W: Fn(Box<dyn Fabric>) -> Box<dyn Fabric> + Sync> Stage for Wrapped<S, W> {
    fn endpoints(&self, count: usize) -> Vec<Box<dyn Fabric>> {
        let inner = self.inner.endpoints(count);
        inner.into_iter().map(&self.wrap).collect()
    }

    fn run(&self, count: usize, part: RankBody<'_>) {
        self.inner
            .run(count, &|endpoint| part((self.wrap)(endpoint)));
    }

    fn has_helpers(&self) -> bool {
        self.inner.has_helpers()
    }

    fn end(&self, rank: usize, endpoint: Box<dyn Fabric>) {
        self.inner.end(rank, endpoint);
    }

    fn shows_deaths(&self) -> bool {
        self.inner.shows_deaths()
    }
}

/// Endpoints of one kind as a stage gives them.
#[must_use]
pub fn boxed<F: Fabric + 'static>(endpoints: Vec<F>) -> Vec<Box<dyn Fabric>> {
    let boxed = |endpoint| Box::new(endpoint) as Box<dyn Fabric>;
    endpoints.into_iter().map(boxed).collect()
}

/// Expands to a module of tests, one for each property, over a [`Stage`]: a
/// closure from a number of members to their boxed endpoints, or a value of one's own.
///
/// ```ignore
/// weft_fabric::conformance!(conforms, |n| weft_fabric::conformance::boxed(Local::group(n)));
/// ```
#[macro_export]
macro_rules! conformance {
    ($name:ident, $stage:expr) => {
        #[cfg(test)]
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            $crate::conformance_properties! { $stage;
                mailboxes::messages_of_one_sender_keep_their_order,
                mailboxes::senders_are_served_in_turn,
                mailboxes::a_refused_post_has_no_effect_and_is_taken_later,
                mailboxes::injected_messages_are_like_others,
                mailboxes::written_messages_are_like_others,
                mailboxes::packed_messages_are_like_others,
                mailboxes::what_comes_next_is_taken_by_its_head,
                mailboxes::every_length_arrives_whole,
                mailboxes::random_lengths_arrive_whole,
                mailboxes::a_message_beyond_the_limit_is_refused,
                mailboxes::a_rank_reaches_itself,
                mailboxes::there_is_nobody_beyond_the_last,
                mailboxes::a_look_respects_its_budget,
                mailboxes::a_quiet_fabric_finds_nothing,
                mailboxes::the_face_is_sound,
                portals::every_length_can_be_read,
                portals::every_length_can_be_written,
                portals::parts_are_moved_and_the_rest_is_untouched,
                portals::many_grants_live_at_once,
                portals::as_many_grants_live_as_memory_holds,
                portals::one_grant_serves_many,
                portals::a_grant_for_once_serves_once,
                portals::offered_bytes_arrive_as_others,
                portals::offers_are_told_apart_and_taken_back,
                portals::a_revoked_token_is_dead,
                portals::nothing_moves_after_revoke_returns,
                portals::revoke_waits_for_living_users_beside_dying_ones,
                portals::what_is_read_is_what_was_granted_or_refused,
                portals::a_stale_token_stays_dead,
                portals::only_the_named_peer_may_move,
                portals::nothing_moves_outside_of_a_grant,
                portals::nothing_moves_without_the_right,
                portals::a_rank_moves_from_itself,
                portals::many_transfers_are_under_way_at_once,
                syncs::early_and_double_signals_are_counted,
                syncs::crossing_signals_both_arrive,
                syncs::signals_do_not_overtake_messages,
                syncs::no_more_can_be_taken_than_there_is,
                syncs::keys_and_senders_are_kept_apart,
                syncs::forgetting_a_key_drops_its_signals_alone,
                syncs::a_rank_signals_itself,
                syncs::many_signals_are_all_counted,
                shares::members_see_each_others_stores,
                shares::words_are_the_same_for_all,
                shares::counts_of_many_are_exact,
                shares::an_arrival_on_a_board_is_heard,
                shares::a_released_key_is_dead,
                shares::a_held_handle_does_not_fault,
                shares::a_key_reaches_one_block_of_one_peer,
                shares::absurd_amounts_are_refused,
                shares::many_blocks_live_at_once,
                shares::the_dead_leave_what_was_attached,
                bells::news_after_prepare_end_the_wait,
                bells::one_rings_ones_own_bell,
                bells::a_helper_rings_the_sleeper,
                bells::a_wait_ends_at_its_limit,
                bells::no_wake_up_is_lost_between_two,
                bells::what_is_written_wakes,
                bells::no_wake_up_is_lost_among_many,
                bells::a_signal_wakes,
                bells::a_refused_sender_is_woken_by_room,
                bells::the_end_of_a_transfer_wakes_its_asker,
                crowds::crossing_streams_get_through,
                crowds::crossing_streams_get_through_asleep,
                crowds::seventeen_reach_each_other,
                crowds::seventeen_reach_each_other_asleep,
                crowds::all_services_at_once,
                channels::channels_are_apart,
                channels::a_channel_waits_to_be_opened,
                channels::a_bell_is_rung_for_another_channel,
            }
        }
    };
}

/// The second half of [`conformance!`].
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_properties {
    ($stage:expr; $($group:ident::$property:ident,)*) => {
        /// One for all properties: the same expression in each of them would be as many closures to compile.
        fn stage() -> impl $crate::conformance::Stage {
            $stage
        }

        $(
            #[test]
            fn $property() {
                $crate::conformance::$group::$property(&stage());
            }
        )*
    };
}
