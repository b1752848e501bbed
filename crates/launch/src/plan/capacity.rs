//! Capacity of a job: how many processes it may have beside its ranks, and in place of dead ones.

use weft_fabric_shm::MAX_RANKS;

use super::PlanError;
use crate::options::OnDeath;

/// Processes that a job may start anew (`--on-death=restart`): enough for accidents, and a limit for a program that dies
/// at each start. Each costs address space for its lanes.
const SPARES: u32 = 16;

/// Default for the number of processes in a job of this many ranks: room for each rank to start several. It costs address
/// space, for the lanes between all of them.
pub(crate) fn default_universe(ranks: u32) -> u32 {
    let room = ranks.saturating_mul(4).clamp(64, 512);
    ranks.saturating_add(room).min(MAX_RANKS)
}

/// Number of processes beside its ranks that each host of a job may have by default.
pub(crate) fn room_of_host(ranks: u32, hosts: u32) -> u32 {
    divide_room(default_universe(ranks) - ranks, hosts)
}

/// Number of the processes beside the ranks that each host of a job may have: all numbers must be told apart in a context
/// (see `weft_mpi::comm::agree`).
pub(crate) fn divide_room(more: u32, hosts: u32) -> u32 {
    more.min(MAX_RANKS / hosts.max(1))
}

/// Number of processes in a job of this many ranks, of which the user may have `wanted` a number.
pub(super) fn universe(
    ranks: u32,
    wanted: Option<u32>,
    on_death: OnDeath,
) -> Result<u32, PlanError> {
    match wanted {
        // A process that is started anew takes room as well, and does not know who came later.
        _ if on_death == OnDeath::Restart => Ok(ranks),
        Some(wanted) if (ranks..=MAX_RANKS).contains(&wanted) => Ok(wanted),
        Some(wanted) => Err(PlanError::request(format!(
            "room for {wanted} processes was asked for (--universe); between {ranks}, the ranks, and \
             {MAX_RANKS} are possible"
        ))),
        None => Ok(default_universe(ranks)),
    }
}

/// Number of processes that a job of this many ranks may start in place of dead ones.
pub(super) fn spares(ranks: u32, on_death: OnDeath) -> u32 {
    match on_death {
        OnDeath::Restart => SPARES.min(MAX_RANKS - ranks),
        OnDeath::End | OnDeath::Report => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_unless_it_was_said_otherwise() {
        let room =
            |ranks, wanted, on_death| universe(ranks, wanted, on_death).expect("possible") - ranks;
        assert_eq!(room(1, None, OnDeath::End), 64);
        assert_eq!(room(32, None, OnDeath::Report), 128);
        assert_eq!(room(4096, None, OnDeath::End), 0);
        assert_eq!(room(4, None, OnDeath::Restart), 0);
        assert_eq!(room(4, Some(6), OnDeath::End), 2);
        assert_eq!(room(4, Some(4), OnDeath::End), 0);
        for wrong in [3, 5000] {
            let error = universe(4, Some(wrong), OnDeath::End).expect_err("no such room");
            assert!(error.to_string().contains("--universe"), "{error}");
        }
    }

    #[test]
    fn processes_are_started_anew_while_numbers_are_left() {
        assert_eq!(spares(4, OnDeath::Restart), SPARES);
        assert_eq!(spares(MAX_RANKS - 1, OnDeath::Restart), 1);
        assert_eq!(spares(4, OnDeath::Report), 0);
    }

    #[test]
    fn hosts_share_the_numbers_of_later_processes() {
        assert_eq!(room_of_host(4, 1), 64);
        assert_eq!(room_of_host(4, MAX_RANKS), 1);
        assert_eq!(divide_room(3, 2), 3);
    }
}
