//! `MPI_Barrier`: signals only, no data.

use super::Members;
use super::choice::Barrier;
use super::plan::Plan;
use crate::error::Result;
use crate::schedule::Schedule;

/// Nobody leaves before everybody has come.
///
/// # Errors
/// None.
pub fn barrier(members: &Members) -> Result<Schedule> {
    let mut plan = Plan::new("MPI_Barrier");
    match members.barrier() {
        _ if members.size == 1 => {}
        Barrier::Flat => flat(members, &mut plan),
        Barrier::Dissemination => dissemination(members, &mut plan),
    }
    plan.finish()
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
