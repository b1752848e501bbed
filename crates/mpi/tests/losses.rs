//! A rank dies: who waits for it is told, in an error that names it; the others go on.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Part, over, pattern};
use weft_fabric::Peer;
use weft_fabric_sim::{Config, Fault, World};
use weft_mpi::coll::{self, Members};
use weft_mpi::{Error, ErrorClass, Process, SendMode, Source, TagPattern, Target};

/// Runs `rank` as so many ranks of which the last one dies, under several seeds.
fn without_the_last(ranks: u32, rank: impl Fn(Arc<Process>) + Sync) {
    but_the_last(ranks, &rank);
}

fn but_the_last(ranks: u32, rank: Part<'_>) {
    let dead = Peer(ranks - 1);
    for seed in 0..16 {
        let death = Fault::Death {
            peer: dead,
            at: Duration::from_micros(20 * seed),
        };
        let config = Config::new(ranks as usize, seed).with(death);
        let outcome = World::new(config).run(|endpoint| {
            let process = Process::new(Box::new(endpoint));
            if process.me() == dead {
                // Waits for what nobody sends, until it is ended.
                let world = process.world();
                let _ = world.recv(over(&mut [0]), Source::Rank(0), TagPattern::Exact(77));
                return;
            }
            rank(Arc::clone(&process));
            process.drain();
        });
        if let Err(failure) = outcome {
            panic!("seed {seed}: {failure}");
        }
    }
}

fn names_the_dead(error: &Error, dead: u32) {
    assert_eq!(error.class(), ErrorClass::ProcFailed, "{error}");
    // In the same words, whether it was waited for or is asked for later.
    let named = format!("rank {dead} of MPI_COMM_WORLD is lost: ");
    assert!(error.text().contains(&named), "{error}");
}

#[test]
fn receives_from_anybody_end_until_the_loss_is_acknowledged() {
    without_the_last(3, |process| {
        let world = process.world();
        let mut got = [0];
        let error = world
            .recv(over(&mut got), Source::Any, TagPattern::Exact(1))
            .unwrap_err();
        names_the_dead(&error, 2);
        assert_eq!(world.acknowledge_failed(1), 1);
        // The two that are left go on.
        let other = Target::Rank(1 - world.rank());
        let waiting = world
            .irecv(over(&mut got), Source::Any, TagPattern::Any)
            .unwrap();
        world
            .send(SendMode::Standard, over(&mut [5]), other, 0)
            .unwrap();
        process.wait(waiting).unwrap();
        assert_eq!(got, [5]);
    });
}

#[test]
fn probes_and_receives_from_it_end() {
    without_the_last(3, |process| {
        let world = process.world();
        let dead = Source::Rank(2);
        names_the_dead(&world.probe(dead, TagPattern::Any).unwrap_err(), 2);
        names_the_dead(&world.iprobe(dead, TagPattern::Any).unwrap_err(), 2);
        names_the_dead(
            &world
                .recv(over(&mut [0]), dead, TagPattern::Any)
                .unwrap_err(),
            2,
        );
        names_the_dead(&world.iprobe(Source::Any, TagPattern::Any).unwrap_err(), 2);
        world.acknowledge_failed(1);
        assert_eq!(world.iprobe(Source::Any, TagPattern::Any).unwrap(), None);
    });
}

#[test]
fn a_probe_of_anybody_is_told() {
    without_the_last(2, |process| {
        let world = process.world();
        names_the_dead(&world.probe(Source::Any, TagPattern::Any).unwrap_err(), 1);
        // Nobody else is there: what is begun later would wait for ever.
        let late = world.recv(over(&mut [0]), Source::Any, TagPattern::Any);
        names_the_dead(&late.unwrap_err(), 1);
        names_the_dead(
            &world
                .mprobe(Source::Any, TagPattern::Any)
                .map(drop)
                .unwrap_err(),
            1,
        );
    });
}

#[test]
fn collectives_with_it_end_and_those_without_it_do_not() {
    without_the_last(5, |process| {
        let world = process.world();
        // Data that travel by both protocols.
        for bytes in [8, 20_000] {
            let mut data = pattern(bytes, 1);
            let members = Members::of(&world);
            let schedule = coll::bcast(&members, &over(&mut data), 4).unwrap();
            names_the_dead(&world.run(schedule).unwrap_err(), 4);
        }
        let barrier = coll::barrier(&Members::of(&world)).unwrap();
        names_the_dead(&world.run(barrier).unwrap_err(), 4);
        let group = Arc::new(world.group().exclude(&[4]).unwrap());
        let rest = world.create_group(&group, 1).unwrap().unwrap();
        let barrier = coll::barrier(&Members::of(&rest)).unwrap();
        rest.run(barrier).unwrap();
        let mut got = [0];
        let (next, waiting) = (
            Target::Rank((rest.rank() + 1) % 4),
            rest.irecv(over(&mut got), Source::Any, TagPattern::Any),
        );
        rest.send(SendMode::Standard, over(&mut [9]), next, 0)
            .unwrap();
        process.wait(waiting.unwrap()).unwrap();
        assert_eq!(got, [9]);
    });
}
