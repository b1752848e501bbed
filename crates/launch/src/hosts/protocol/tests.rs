use super::*;
use crate::hosts::message::{LaterProcess, LaterProcesses};
use weft_mpi::waits::RankWaits;

fn hello() -> FromAgent {
    FromAgent::Hello(Hello {
        release: super::super::message::RELEASE,
        host: "a".into(),
        ranks: 2,
        program: false,
        adopted: Vec::new(),
    })
}

fn start() -> ToAgent {
    ToAgent::Start(Box::new(Assignment {
        key: [0; 32],
        hosts: String::new(),
        size: 6,
        ranks: vec![(2, 0), (3, 0)],
        programs: Vec::new(),
        silence: 1000,
        input: true,
        room: 0,
        first_later: 0,
        capacity: 0,
        watched: true,
        binding: Default::default(),
        profile: None,
    }))
}

fn exited(rank: u32) -> FromAgent {
    FromAgent::Exited { rank, status: 0 }
}

fn output(rank: u32, bytes: &[u8]) -> FromAgent {
    FromAgent::Output {
        rank,
        error: false,
        bytes: bytes.to_vec(),
    }
}

fn put(rank: u32, name: &str, length: usize) -> FromAgent {
    let value = PublishedValue {
        rank,
        name: name.into(),
        value: vec![0; length],
    };
    FromAgent::Put {
        values: vec![value],
    }
}

fn assigned() -> Protocol {
    let mut agent = Protocol::new();
    assert_eq!(agent.heard(&hello()), Ok(()));
    agent.said(&start());
    agent
}

#[test]
fn only_an_agent_that_was_asked_sends_profiles_and_clocks() {
    let piece = |rank, length| FromAgent::Profile {
        rank,
        piece: vec![0; length],
        last: true,
    };
    let clock = FromAgent::Clock { asked: 1, now: 2 };
    let mut agent = assigned();
    assert!(
        agent.heard(&piece(2, 1)).is_err(),
        "no profile was asked for"
    );
    assert!(agent.heard(&clock).is_err());
    agent.said(&ToAgent::AskClock { asked: 1 });
    assert_eq!(agent.heard(&clock), Ok(()));
    assert!(agent.heard(&clock).is_err(), "once");
    let mut agent = Protocol::new();
    assert_eq!(agent.heard(&hello()), Ok(()));
    let ToAgent::Start(mut assignment) = start() else {
        panic!("it is one");
    };
    assignment.profile = Some("table".into());
    agent.said(&ToAgent::Start(assignment));
    assert_eq!(agent.heard(&piece(2, 1 << 20)), Ok(()));
    assert!(agent.heard(&piece(4, 1)).is_err(), "another's rank");
    let most = (2 * LONGEST_PROFILE) >> 20;
    for _ in 1..most {
        assert_eq!(agent.heard(&piece(3, 1 << 20)), Ok(()));
    }
    assert!(agent.heard(&piece(3, 1)).is_err(), "too much");
}

#[test]
fn the_life_of_an_honest_agent_is_allowed() {
    let mut agent = assigned();
    agent.said(&ToAgent::Input { bytes: vec![0; 9] });
    let abort = Notice::Abort {
        code: 3,
        text: "why".into(),
    };
    for message in [
        FromAgent::Started {
            rank: 2,
            process: 7,
            cores: None,
        },
        FromAgent::Started {
            rank: 3,
            process: 8,
            cores: None,
        },
        FromAgent::InputTaken { bytes: 4 },
        FromAgent::InputTaken { bytes: 5 },
        put(2, "a", 4096),
        FromAgent::Fence,
        FromAgent::Alive,
    ] {
        assert_eq!(agent.heard(&message), Ok(()), "{message:?}");
    }
    agent.said(&ToAgent::Fenced);
    for message in [
        FromAgent::Fence,
        output(2, b"x"),
        exited(2),
        output(2, b"y"),
        output(2, b""),
        FromAgent::Notice {
            rank: 3,
            told: abort,
        },
        FromAgent::Exited {
            rank: 3,
            status: libc::SIGKILL,
        },
        FromAgent::Ended { clean: true },
        FromAgent::Alive,
    ] {
        assert_eq!(agent.heard(&message), Ok(()), "{message:?}");
    }
}

#[test]
fn it_says_what_ranks_wait_for_once_for_each_inquiry() {
    let waits = |rank, inquiry| FromAgent::Waits {
        rank,
        waits: Box::new(RankWaits {
            inquiry,
            ..RankWaits::default()
        }),
    };
    let inquire = |number| ToAgent::Inquire {
        number,
        full: false,
    };
    let mut agent = assigned();
    agent.said(&inquire(1));
    assert_eq!(agent.heard(&waits(2, 1)), Ok(()));
    agent.said(&inquire(2));
    // One was late.
    for message in [waits(3, 1), waits(3, 2), waits(2, 2)] {
        assert_eq!(agent.heard(&message), Ok(()), "{message:?}");
    }
    for message in [waits(2, 2), waits(2, 3), waits(2, 0), waits(4, 2)] {
        let mut agent = assigned();
        agent.said(&inquire(2));
        assert_eq!(agent.heard(&waits(2, 2)), Ok(()));
        assert!(agent.heard(&message).is_err(), "{message:?}");
    }
    let rest = FromAgent::Rest { shown: Some(7) };
    assert_eq!(agent.heard(&rest), Ok(()));
    let ToAgent::Start(mut assignment) = start() else {
        unreachable!("see above");
    };
    assignment.watched = false;
    let mut agent = Protocol::new();
    assert_eq!(agent.heard(&hello()), Ok(()));
    agent.said(&ToAgent::Start(assignment));
    assert!(agent.heard(&rest).is_err(), "nobody wants to know");
}

#[test]
fn it_offers_and_starts_only_what_it_was_asked_for() {
    let ToAgent::Start(mut assignment) = start() else {
        unreachable!("see above");
    };
    (assignment.room, assignment.first_later) = (4, 10);
    let assigned = || {
        let mut agent = Protocol::new();
        assert_eq!(agent.heard(&hello()), Ok(()));
        agent.said(&ToAgent::Start(assignment.clone()));
        agent
    };
    let room = |free: &[u32]| {
        FromAgent::Room(Room {
            free: free.to_vec(),
            soon: 1,
            behind: None,
        })
    };
    let process = |number: u32| LaterProcess {
        number,
        slot: number - 8,
        rank: 0,
        appnum: 0,
    };
    let told = ToAgent::StartLater(Box::new(LaterProcesses {
        size: 3,
        processes: vec![process(10), process(12)],
        programs: Vec::new(),
        parent: 0,
    }));
    let started = |numbers: &[u32]| FromAgent::StartedLater {
        processes: numbers.iter().map(|number| (*number, 77)).collect(),
        reason: None,
    };
    let mut agent = assigned();
    assert!(agent.heard(&room(&[2])).is_err(), "not asked");
    assert!(assigned().heard(&FromAgent::AddressesRecorded).is_err());
    assert!(assigned().heard(&started(&[10])).is_err(), "not told");
    for wrong in [&[1][..], &[6], &[3, 2], &[2, 2]] {
        let mut agent = assigned();
        agent.said(&ToAgent::AskRoom);
        assert!(agent.heard(&room(wrong)).is_err(), "{wrong:?}");
    }
    for wrong in [&[11][..], &[2], &[10, 10]] {
        let mut agent = assigned();
        agent.said(&told);
        assert!(agent.heard(&started(wrong)).is_err(), "{wrong:?}");
    }
    agent.said(&ToAgent::AskRoom);
    assert_eq!(agent.heard(&room(&[2, 3, 5])), Ok(()));
    agent.said(&told);
    assert!(
        agent.heard(&output(10, b"x")).is_err(),
        "it does not run yet"
    );
    assert_eq!(agent.heard(&started(&[10, 12])), Ok(()));
    agent.said(&ToAgent::AskRoom);
    assert!(agent.heard(&room(&[2])).is_err(), "somebody runs there");
    for message in [output(12, b"x"), exited(12)] {
        assert_eq!(agent.heard(&message), Ok(()), "{message:?}");
    }
    assert!(agent.heard(&exited(12)).is_err(), "twice");
    // The next one under the same number.
    agent.said(&told);
    assert!(agent.heard(&started(&[10])).is_err(), "it runs");
    let mut agent = assigned();
    for _ in 0..2 {
        agent.said(&told);
        assert_eq!(agent.heard(&started(&[12])), Ok(()));
        assert_eq!(agent.heard(&exited(12)), Ok(()));
    }
}

#[test]
fn what_it_may_not_say_is_named() {
    let long = "x".repeat(TEXT + 1);
    let told = |rank, told| FromAgent::Notice { rank, told };
    for (first, forged, said) in [
        (None, hello(), "twice who it is"),
        (None, exited(1), "rank 1, which is not one of its own"),
        (None, exited(u32::MAX), "not one of its own"),
        (None, output(4, b"x"), "not one of its own"),
        (None, told(0, Notice::Finalised), "not one of its own"),
        (None, put(5, "a", 1), "not one of its own"),
        (Some(exited(2)), exited(2), "twice that rank 2"),
        (Some(output(2, b"")), output(2, b"x"), "has closed"),
        (Some(FromAgent::Fence), FromAgent::Fence, "at one"),
        (Some(FromAgent::Fence), put(2, "a", 1), "at a fence"),
        (Some(exited(2)), FromAgent::Ended { clean: true }, "rank 3"),
        (None, FromAgent::InputTaken { bytes: 1 }, "0 were sent"),
        (None, put(2, "a", 4097), "no rank can do that"),
        (None, put(2, "a b", 1), "no rank can do that"),
        (None, put(2, &"a".repeat(33), 1), "no rank can do that"),
        (
            None,
            FromAgent::Exited {
                rank: 2,
                status: 0x137f,
            },
            "wait status",
        ),
        (
            None,
            FromAgent::Exited {
                rank: 2,
                status: i32::MIN,
            },
            "wait status",
        ),
        (
            None,
            FromAgent::NotStarted {
                rank: 0,
                reason: String::new(),
            },
            "not one of its own",
        ),
        (
            None,
            FromAgent::NotStarted {
                rank: 2,
                reason: long.clone(),
            },
            "at most",
        ),
        (
            None,
            told(
                2,
                Notice::Abort {
                    code: 0,
                    text: long,
                },
            ),
            "at most",
        ),
    ] {
        let mut agent = assigned();
        if let Some(first) = first {
            assert_eq!(agent.heard(&first), Ok(()));
        }
        let error = agent.heard(&forged).expect_err(said);
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn what_comes_too_early_or_too_late_is_named() {
    let mut agent = Protocol::new();
    assert!(agent.heard(&FromAgent::Fence).is_err());
    assert_eq!(agent.heard(&hello()), Ok(()));
    for early in [
        FromAgent::Fence,
        exited(2),
        FromAgent::Ended { clean: true },
    ] {
        let error = agent.heard(&early).expect_err("nothing was assigned");
        assert!(error.contains("before it was given any"), "{error}");
    }
    let mut agent = assigned();
    agent.said(&ToAgent::End);
    assert_eq!(agent.heard(&FromAgent::Ended { clean: true }), Ok(()));
    let error = agent.heard(&exited(2)).expect_err("it is over");
    assert!(error.contains("goes on"), "{error}");
}
