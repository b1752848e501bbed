//! Decoys: addresses that do not work cost little, in virtual time, where bounds are meaningful.

use super::locked;
use super::play::Play;

/// Despite addresses of nobody, of a black hole, of another rank and without a route, the first message
/// arrives within 200 ms, several round trips of at most 8 ms included.
#[test]
fn decoys_cost_at_most_200_ms() {
    const LIMIT: u64 = 200_000_000;
    let mut worst = 0;
    for seed in 0..400 {
        let mut play = Play::new(seed, false);
        {
            let mut world = locked(play.world());
            // Breaks are not tested here.
            (world.conditions.doomed, world.conditions.cuts) = (0, 0);
        }
        let posted = play.job().post(0, 1, Some(8)).expect("the peer is there");
        assert!(posted, "seed {seed}: the first message has room");
        play.settle(|job| job.items() > 0)
            .unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        assert!(play.job().items() > 0, "seed {seed}: nothing came");
        let took = locked(play.world()).now();
        assert!(
            took <= LIMIT,
            "seed {seed}: it took {} ms",
            took / 1_000_000
        );
        worst = worst.max(took);
    }
    println!("at most {} ms", worst / 1_000_000);
}
