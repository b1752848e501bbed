//! Two hundred random kills: whichever process is killed, and whenever, no process of the job is left.

mod harness;

use std::thread::sleep;
use std::time::Duration;

use harness::{Job, OWN_NAMESPACES, Running, namespaces, new_names_in_shared_memory, rank, signal};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const KILLS: u32 = 200;

/// The process to kill.
#[derive(Clone, Copy, Debug)]
enum Victim {
    Rank,
    Frontend,
    Supervisor,
    Group,
    FrontendAndRank,
    /// Both launcher processes at once: then only processes that are ranks themselves, or have initialised
    /// MPI, are promised to end.
    SupervisorAndFrontend,
}

const VICTIMS: [Victim; 6] = [
    Victim::Rank,
    Victim::Frontend,
    Victim::Supervisor,
    Victim::Group,
    Victim::FrontendAndRank,
    Victim::SupervisorAndFrontend,
];

/// Kills a process of that kind; returns false if there was none yet.
fn kill(running: &Running, victim: Victim, random: &mut StdRng) -> bool {
    let frontend = running.frontend();
    let supervisor = running.supervisor();
    let ranks = running.ranks();
    let rank = (!ranks.is_empty()).then(|| ranks[random.random_range(0..ranks.len())]);
    let victims = match victim {
        Victim::Rank => vec![rank],
        Victim::Frontend => vec![Some(frontend)],
        Victim::Supervisor => vec![supervisor],
        Victim::Group => {
            return weft_sys::process::signal_group(frontend, libc::SIGKILL).is_ok();
        }
        Victim::FrontendAndRank => vec![Some(frontend), rank],
        Victim::SupervisorAndFrontend => vec![supervisor, Some(frontend)],
    };
    let victims: Vec<u32> = victims.into_iter().flatten().collect();
    for id in &victims {
        signal(*id, libc::SIGKILL);
    }
    !victims.is_empty()
}

#[test]
fn nothing_is_left_however_it_dies() {
    let before = new_names_in_shared_memory(&[]);
    let seed = rand::rng().random();
    let mut random = StdRng::seed_from_u64(seed);
    let rank = rank();
    let shell = format!("setsid sleep 600 & setsid sh -c 'sleep 601 & sleep 602' & {rank} wait");
    // The last programs have children that are not ranks.
    let mut programs: Vec<Vec<&str>> = vec![
        vec!["sleep", "600"],
        vec![&rank, "wait"],
        vec![&rank, "spin"],
    ];
    if namespaces() {
        programs.push([&OWN_NAMESPACES[..], &[&rank, "wait"]].concat());
    }
    let plain = programs.len();
    programs.push(vec!["sh", "-c", &shell]);
    if namespaces() {
        programs.push([&OWN_NAMESPACES[..], &["sh", "-c", &shell]].concat());
    }
    let (mut slowest, mut early) = (Duration::ZERO, 0);
    for kill_number in 0..KILLS {
        let victim = VICTIMS[random.random_range(0..VICTIMS.len())];
        let both = matches!(victim, Victim::SupervisorAndFrontend);
        let program = &programs[random.random_range(0..if both { plain } else { programs.len() })];
        let ranks = random.random_range(1..=5);
        let words = ["-n".to_owned(), ranks.to_string()];
        let words = words
            .into_iter()
            .chain(program.iter().map(|word| (*word).to_owned()));
        let mut running = Job::new(words).start();
        let context =
            format!("seed {seed}, kill {kill_number}: {victim:?} of {ranks} × {program:?}");
        // The kill is at any time from the first moment on. Ranks in namespaces can only promise to end by
        // themselves once they have initialised.
        if both && program.contains(&"unshare") {
            let mut heard = 0;
            while heard < ranks {
                heard += running.hear("ing\n").matches("ing\n").count();
            }
        } else {
            sleep(Duration::from_micros(random.random_range(0..60_000)));
        }
        if running.ranks().len() < ranks {
            early += 1;
        }
        if !kill(&running, victim, &mut random) {
            signal(running.frontend(), libc::SIGKILL);
        }
        let time = match running.until_nothing() {
            Some(time) => time,
            None => {
                let left = running.left();
                panic!("{context}: still there after 5 s: {left:?}");
            }
        };
        slowest = slowest.max(time);
    }
    let left = new_names_in_shared_memory(&before);
    assert!(left.is_empty(), "{left:?}");
    println!(
        "{KILLS} kills, {early} before all ranks were there; nothing left, after at most {slowest:?}"
    );
}
