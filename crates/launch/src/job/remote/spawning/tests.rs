use super::*;
use crate::job_request::SpawnProgram;
use crate::options::{CommandLine, ProgramLine};
use crate::plan;

/// A job of two ranks, each on a host of its own, with room for two processes more, on either.
fn job() -> (RemoteSpawning, Plan) {
    let plan = plan::make(CommandLine {
        programs: vec![ProgramLine {
            ranks: Some(2),
            words: vec!["sh".into()],
            ..ProgramLine::default()
        }],
        universe: Some(4),
        ..CommandLine::default()
    });
    let plan = plan.expect("right");
    let mut spawning = RemoteSpawning::new(&plan);
    let host = |agent: usize| Host {
        agent,
        names: ["a", "b"].map(|name| format!("{name}{agent}")),
        first: 1,
    };
    assert_eq!(spawning.assign(vec![host(0), host(1)]), 2);
    (spawning, plan)
}

/// Rank 0 asks for processes; both agents are asked for room.
fn ask(spawning: &mut RemoteSpawning, count: u32) {
    let JobAnswer::Port(port) = answer_of(spawning.serve(0, JobRequest::OpenPort)) else {
        panic!("no port");
    };
    let program = SpawnProgram {
        words: vec![b"sh".to_vec()],
        counts: vec![count],
        folder: Vec::new(),
        path: None,
        host: None,
        error_handler: None,
    };
    let programs = vec![program];
    let then = spawning.serve(0, JobRequest::Spawn(SpawnRequest { programs, port }));
    let asked = [(0, ToAgent::AskRoom), (1, ToAgent::AskRoom)];
    assert_eq!(then.say, asked);
}

/// Both places of a host are free.
fn room() -> Room {
    Room {
        free: vec![1, 2],
        soon: 0,
        behind: None,
    }
}

fn answer_of(then: Consequences) -> JobAnswer {
    let mut answers = then.answers.into_iter();
    answers.next().expect("an answer").1
}

/// The agents that are told to start processes, and how many.
fn started(then: &Consequences) -> Vec<(usize, usize)> {
    let told = then.say.iter().filter_map(|(agent, told)| match told {
        ToAgent::StartLater(later) => Some((*agent, later.processes.len())),
        _ => None,
    });
    told.collect()
}

#[test]
fn processes_are_started_on_the_hosts_that_are_left() {
    let (mut late, plan) = job();
    // It is lost while it is asked, whether it has answered or not; or before.
    for answers in [false, true] {
        let (mut spawning, _) = job();
        ask(&mut spawning, 2);
        if answers {
            assert_eq!(started(&spawning.hear_room(&plan, 1, room())), []);
        }
        let mut then = spawning.lose_host(1, "b", &[1], &plan);
        assert_eq!(started(&then), []);
        then = spawning.hear_room(&plan, 0, room());
        assert_eq!(started(&then), [(0, 2)]);
    }
    ask(&mut late, 2);
    late.hear_room(&plan, 0, room());
    let then = late.lose_host(1, "b", &[1], &plan);
    assert_eq!(started(&then), [(0, 2)], "nobody else is asked");
    let then = late.started(0, "a", vec![(2, 1), (3, 2)], None);
    assert!(matches!(answer_of(then), JobAnswer::Spawned { .. }));
}

#[test]
fn a_world_is_given_up_when_a_host_is_lost_that_starts_a_part_of_it() {
    let (mut spawning, plan) = job();
    ask(&mut spawning, 2);
    spawning.hear_room(&plan, 0, room());
    let then = spawning.hear_room(&plan, 1, room());
    assert_eq!(started(&then), [(0, 1), (1, 1)]);
    spawning.started(0, "a", vec![(2, 1)], None);
    let then = spawning.lose_host(1, "b", &[1], &plan);
    assert_eq!(then.end, [2], "what was started of it");
    let JobAnswer::Refused { reason, .. } = answer_of(then) else {
        panic!("it was refused");
    };
    assert!(reason.contains("b: the host is lost"), "{reason}");
}

/// Addresses are recorded before anybody goes on, on all hosts that are left.
#[test]
fn no_record_of_a_lost_host_is_waited_for() {
    let (mut spawning, plan) = job();
    ask(&mut spawning, 1);
    spawning.hear_room(&plan, 0, room());
    let then = spawning.hear_room(&plan, 1, room());
    let [(agent, 1)] = started(&then)[..] else {
        panic!("one is started");
    };
    let number = 2 + 2 * agent as u32;
    spawning.started(agent, "a", vec![(number, 1)], None);
    let address = "here".into();
    let then = spawning.serve(number, JobRequest::Introduce { address });
    assert_eq!(then.say.len(), 2, "both record it");
    assert!(spawning.recorded(agent).answers.is_empty());
    let then = spawning.lose_host(1 - agent, "b", &[], &plan);
    assert_eq!(then.answers, [(number, JobAnswer::Done)]);
}
