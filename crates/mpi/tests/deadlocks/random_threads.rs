//! Random programs of threads: made such that all fits, then spoilt here and there.

use rand::Rng as _;
use rand::rngs::StdRng;

use super::players::COMMS;
use super::reference::{Programs, SEMAPHORES, Step};

/// A program; `right`: one that was not spoilt.
pub fn programs(random: &mut StdRng, right: bool) -> Programs {
    let ranks = random.random_range(2..4_u8);
    let mut all: Programs = (0..ranks)
        .map(|_| vec![Vec::new(); random.random_range(1..4)])
        .collect();
    for _ in 0..random.random_range(1..8) {
        let one = random.random_range(0..usize::from(ranks));
        let thread = |random: &mut StdRng, rank: usize| random.random_range(0..all[rank].len());
        match random.random_range(0..10) {
            0 => {
                let twin = random.random_bool(0.3);
                all.iter_mut()
                    .for_each(|rank| rank[0].push(Step::Barrier { twin }));
            }
            1 => {
                let thread = thread(random, one);
                let most = if random.random_bool(0.1) { 3000 } else { 200 };
                all[one][thread].push(Step::Compute {
                    microseconds: random.random_range(1..most),
                    asleep: random.random_bool(0.3),
                });
            }
            2 | 3 => {
                let (posts, awaits) = (thread(random, one), thread(random, one));
                let which = random.random_range(0..SEMAPHORES as u8);
                all[one][posts].push(Step::Post(which));
                all[one][awaits].push(Step::Await(which));
            }
            _ => {
                let other = random.random_range(0..usize::from(ranks));
                let (sends, receives) = (thread(random, one), thread(random, other));
                let tag = random.random_range(0..2);
                let comm = random.random_range(0..COMMS);
                let from = Some(one as u8);
                all[one][sends].push(Step::Send {
                    to: other as u8,
                    tag,
                    comm,
                    synchronous: random.random_bool(0.4),
                });
                if random.random_bool(0.1) {
                    all[other][receives].push(Step::Probe { from, comm });
                }
                all[other][receives].push(Step::Receive {
                    from: from.filter(|_| random.random_bool(0.7)),
                    tag: random.random_bool(0.7).then_some(tag),
                    comm,
                });
            }
        }
    }
    let spoilt = if right { 0 } else { random.random_range(0..3) };
    for _ in 0..spoilt {
        let rank = &mut all[random.random_range(0..usize::from(ranks))];
        let threads = rank.len();
        let one = &mut rank[random.random_range(0..threads)];
        if one.is_empty() {
            continue;
        }
        let at = random.random_range(0..one.len());
        match random.random_range(0..3) {
            0 => _ = one.remove(at),
            1 => one.swap(0, at),
            _ if matches!(one[at], Step::Barrier { .. }) => {}
            _ => one.insert(at, one[at]),
        }
    }
    // Barriers are of the first threads alone.
    all
}
