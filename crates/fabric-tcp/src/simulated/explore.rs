//! Exploration: many plays, one for each seed; a failure is shown with as few steps as possible.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::job::Tally;
use super::locked;
use super::play::Play;

fn steps_of(seed: u64) -> usize {
    let most = [20, 100, 100, 400][(seed % 4) as usize];
    StdRng::seed_from_u64(!seed).random_range(5..most)
}

/// Plays one seed; returns what is wrong, and what happened if that was asked for.
fn one(
    seed: u64,
    steps: usize,
    trace: bool,
    tally: &mut Tally,
) -> Result<(), (String, Vec<String>)> {
    let mut play = Play::new(seed, trace);
    let world = play.world().clone();
    let played = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| play.play(steps, tally)));
    let wrong = match played {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(wrong)) => wrong,
        Err(_) => "it panicked".into(),
    };
    play.job().show();
    let trace = locked(&world).trace.take();
    Err((wrong, trace.unwrap_or_default()))
}

/// Shows a failure with as few steps as possible.
fn fail(seed: u64, steps: usize) -> ! {
    let wrong = |steps: &usize| one(seed, *steps, false, &mut Tally::default()).is_err();
    let mut tried = (0..40)
        .map(|part| steps * part / 40)
        .filter(|fewer| *fewer < steps);
    let fewest = tried.find(wrong).unwrap_or(steps);
    let (wrong, trace) = match one(seed, fewest, true, &mut Tally::default()) {
        Err(failed) => failed,
        Ok(()) => (
            "it does not fail again: something is decided elsewhere".into(),
            Vec::new(),
        ),
    };
    let from = trace.len().saturating_sub(200);
    panic!(
        "{}\nseed {seed}, {fewest} steps: {wrong}\nagain: WEFT_SEED={seed} WEFT_STEPS={fewest} cargo test -p weft-fabric-tcp simulated",
        trace[from..].join("\n")
    );
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}: a number was expected, not {text:?}")),
    )
}

fn explore(seeds: std::ops::Range<u64>) -> Tally {
    let mut tally = Tally::default();
    for seed in seeds {
        if one(seed, steps_of(seed), false, &mut tally).is_err() {
            fail(seed, steps_of(seed));
        }
    }
    tally
}

#[test]
fn nothing_is_lost_or_doubled_whatever_the_network_does() {
    if let Some(seed) = number("WEFT_SEED") {
        let steps = number("WEFT_STEPS").map_or(steps_of(seed), |steps| steps as usize);
        if one(seed, steps, false, &mut Tally::default()).is_err() {
            fail(seed, steps);
        }
        return;
    }
    let tally = explore(0..number("WEFT_SEEDS").unwrap_or(800));
    println!("{tally:?}");
}
