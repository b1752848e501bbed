//! The properties of the services, on every fabric.

mod errors;
mod losses;
mod mail;
mod names;
mod portals;
mod servers;
mod syncs;
mod threads;

use weft_fabric::Fabric;
use weft_fabric::conformance::{RankBody, Stage, boxed};
use weft_fabric_local::Local;
use weft_fabric_shm::{Options, Shm, Use};
use weft_fabric_sim::{Config, World};
use weft_fabric_tcp::Tcp;
use weft_service::sync::SyncKind;
use weft_service::{Code, Node, Result};

/// The simulation as a stage.
struct Simulated(fn(usize) -> Config);

impl Stage for Simulated {
    fn endpoints(&self, count: usize) -> Vec<Box<dyn Fabric>> {
        boxed(World::new(self.0(count)).endpoints())
    }

    fn run(&self, count: usize, part: RankBody<'_>) {
        let world = World::new(self.0(count));
        if let Err(failure) = world.run(|endpoint| part(Box::new(endpoint))) {
            panic!("{failure}");
        }
    }
}

/// Plays one part per node, and lets all leave in order.
fn play(stage: &dyn Stage, count: usize, part: impl Fn(&Node) + Sync) {
    stage.run(count, &|endpoint| {
        let node = Node::alone(endpoint);
        part(&node);
        barrier(&node);
        node.leave();
    });
}

/// Waits for all nodes.
fn barrier(node: &Node) {
    if node.nodes() < 2 {
        return;
    }
    let all: Vec<u32> = (0..node.nodes()).collect();
    if node.me() == 0 {
        let up = node.waiter(SyncKind::AllToOne, &all).expect("the one");
        let down = node.signaller(SyncKind::OneToAll, &all).expect("the one");
        up.wait().expect("all are there");
        down.signal().expect("all are there");
    } else {
        let up = node
            .signaller(SyncKind::AllToOne, &all)
            .expect("one of many");
        let down = node.waiter(SyncKind::OneToAll, &all).expect("one of many");
        up.signal().expect("the one is there");
        down.wait().expect("the one is there");
    }
}

/// The code of what must have failed.
fn code<T: std::fmt::Debug>(result: Result<T>) -> Code {
    result.expect_err("must fail").code()
}

macro_rules! conformance {
    ($name:ident, $stage:expr) => {
        mod $name {
            use super::*;
            conformance!(@each $stage;
                mail::volume_is_the_sum,
                mail::ports_are_read_in_any_order,
                mail::two_writers_write_a_hundred_each_before_anyone_reads,
                mail::a_selective_read_takes_one_source_in_order,
                mail::a_selective_read_counts_once,
                mail::unlink_waits_for_the_unread,
                mail::early_messages_are_kept,
                mail::a_message_that_does_not_fit_stays,
                mail::crossing_writes_get_through,
                mail::a_full_window_waits_and_goes_on,
                mail::one_full_port_does_not_stop_another,
                mail::a_node_writes_to_itself,
                mail::begun_operations_end_by_wait,
                portals::every_size_arrives,
                portals::one_allow_is_one_read,
                portals::writers_are_served_in_the_order_of_allow,
                portals::reader_or_writer_first,
                portals::allgather_for_any_number,
                portals::both_sides_hear_of_a_wrong_size,
                portals::a_node_moves_to_itself,
                portals::many_transfers_at_once,
                syncs::early_and_double_signals_count,
                syncs::syncs_are_kept_apart,
                syncs::made_again_is_the_same,
                syncs::barriers_hold,
                names::a_name_is_found_when_it_comes,
                names::a_name_is_one_nodes,
                errors::of_mailboxes,
                errors::of_portals,
                errors::of_syncs,
                errors::of_names,
                errors::ids_and_source_ports_run_out,
                servers::values_go_both_ways,
                servers::wrong_sizes_are_told_and_change_nothing,
                losses::a_waiter_for_a_node_that_left_is_told,
            );
        }
    };
    (@each $stage:expr; $($group:ident::$property:ident,)*) => {
        /// One for all properties, as in the conformance suite of fabrics.
        fn stage() -> impl Stage {
            $stage
        }

        $(
            #[test]
            fn $property() {
                $group::$property(&stage());
            }
        )*
    };
}

conformance!(sim_1, Simulated(|count| Config::new(count, 1)));
conformance!(sim_2, Simulated(|count| Config::new(count, 2)));
conformance!(
    sim_one_credit,
    Simulated(|count| Config {
        credits: 1,
        late: 1000,
        refuse: 300,
        jitter: 1000,
        ..Config::new(count, 4)
    })
);
conformance!(local, |count| boxed(Local::group(count)));
conformance!(shm, |count| boxed(
    Shm::group(count as u32).expect("endpoints")
));
conformance!(shm_by_chunks, |count| {
    let options = Options {
        cross_memory: Use::Off,
        ..Options::default()
    };
    boxed(Shm::group_with(count as u32, &options).expect("endpoints"))
});
conformance!(tcp, |count| boxed(
    Tcp::group(count as u32, |_| ()).expect("loopback is there")
));
