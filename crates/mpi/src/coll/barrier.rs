//! `MPI_Barrier`: signals only, no data.

use super::Members;
use super::choice::Barrier;
use super::hosts::{Leader, Levels};
use super::plan::Plan;
use crate::error::Result;
use crate::schedule::Schedule;

/// No rank leaves before all have entered.
///
/// # Errors
/// None.
pub fn barrier(members: &Members) -> Result<Schedule> {
    let mut plan = Plan::new("MPI_Barrier");
    meet(members, &mut plan);
    plan.finish()
}

fn meet(members: &Members, plan: &mut Plan) {
    match members.barrier() {
        _ if members.size == 1 => {}
        Barrier::Flat => flat(members, plan),
        Barrier::Dissemination => dissemination(members, plan),
        Barrier::HostsFirst => hosts_first(members, plan),
    }
}

/// The leader of each host hears its ranks, then the leaders meet, then each tells its ranks.
fn hosts_first(members: &Members, plan: &mut Plan) {
    let levels = Levels::of(members, Leader::First);
    let others = 1..levels.here.size;
    if !levels.leads() {
        return levels.within(plan, |_, plan| {
            plan.signal(0);
            plan.wait(0);
        });
    }
    levels.within(plan, |_, plan| {
        others.clone().for_each(|rank| plan.wait(rank))
    });
    plan.fence();
    levels.between(plan, meet);
    plan.fence();
    levels.within(plan, |_, plan| others.for_each(|rank| plan.signal(rank)));
}

/// Rank 0 hears everybody, then tells everybody.
fn flat(members: &Members, plan: &mut Plan) {
    if members.rank == 0 {
        (1..members.size).for_each(|rank| plan.wait(rank));
        plan.fence();
        (1..members.size).for_each(|rank| plan.signal(rank));
    } else {
        plan.signal(0);
        plan.wait(0);
    }
}

/// In round k everybody tells the rank 2^k further on: after log2(n) rounds each has heard of all. The
/// partners of the rounds differ, so that signals of different rounds are not mixed up.
fn dissemination(members: &Members, plan: &mut Plan) {
    let mut distance = 1;
    while distance < members.size {
        plan.signal(members.after(distance));
        plan.wait(members.before(distance));
        plan.fence();
        distance *= 2;
    }
}
