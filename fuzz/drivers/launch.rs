//! What the launcher reads from others: lines of a launcher that we did not write, messages between head
//! and agents, what an agent may say and when, names of hosts.

use weft_launch::bootstrap::pmi::client::{Client, Scripted};
use weft_launch::bootstrap::pmi::line::PmiLine;
use weft_launch::hosts::message::{
    Assignment, FromAgent, Hello, Notice, PublishedValue, ToAgent, decode, encode,
};
use weft_launch::hosts::protocol::Protocol;
use weft_launch::mapping::{HostSlots, distribute};
use weft_mpi::waits::RankWaits;

use super::script::Script;

/// The first byte chooses who reads the rest.
pub fn run(bytes: &[u8]) {
    let Some((which, rest)) = bytes.split_first() else {
        return;
    };
    match which % 5 {
        0 => {
            if let Ok(line) = PmiLine::parse(rest) {
                assert_eq!(PmiLine::parse(&line.encode()).as_ref(), Ok(&line));
            }
        }
        1 => {
            let mut client = Client::new(Scripted::new(rest));
            match client.begin() {
                Ok(limits) => assert!(limits.name >= 31 && limits.value >= 31),
                Err(error) => assert!(!error.to_string().is_empty()),
            }
            let _ = client.request(&PmiLine::new("barrier_in"), "barrier_out");
        }
        2 => {
            if let Some(message) = decode::<FromAgent>(rest) {
                assert_eq!(decode(&encode(&message)).as_ref(), Some(&message));
            }
            if let Some(message) = decode::<ToAgent>(rest) {
                assert_eq!(decode(&encode(&message)).as_ref(), Some(&message));
            }
        }
        3 => converse(&mut Script::new(rest)),
        _ => {
            let text = String::from_utf8_lossy(rest);
            let hosts: Result<Vec<_>, _> = text.split(',').map(HostSlots::parse).collect();
            if let Ok(hosts) = hosts {
                for cyclic in [false, true] {
                    let placed = distribute(&hosts, 100, cyclic);
                    assert_eq!(placed.len(), 100);
                    assert!(placed.is_sorted() || cyclic);
                    assert!(placed.iter().all(|host| (*host as usize) < hosts.len()));
                }
            }
        }
    }
}

/// The ranks that the agent of [`converse`] is given.
const OWN: [u32; 2] = [2, 3];

/// An agent that says anything, and a head that goes on with it: what is allowed is of its own ranks alone, in
/// order, and as much as was agreed.
fn converse(script: &mut Script<'_>) {
    let mut agent = Protocol::new();
    let (mut greeted, mut assigned, mut ending, mut over) = (false, false, false, false);
    let mut exited = Vec::new();
    let mut refused = false;
    let (mut sent, mut taken) = (0, 0);
    let mut at_fence = false;
    let (mut asked, mut answered) = (0, Vec::new());
    while !script.is_over() {
        if script.byte().is_multiple_of(4) {
            let message = match script.byte() % 9 {
                0 => ToAgent::End,
                1..4 => ToAgent::Start(Box::new(Assignment {
                    key: [0; 32],
                    hosts: String::new(),
                    size: 6,
                    ranks: OWN.map(|rank| (rank, 0)).to_vec(),
                    programs: Vec::new(),
                    silence: script.long(),
                    input: true,
                    room: 0,
                    first_later: 0,
                    capacity: 0,
                    watched: true,
                    binding: weft_launch::binding::BindingRequest::default(),
                    profile: None,
                })),
                4 | 5 => ToAgent::Fenced,
                6 => ToAgent::Inquire {
                    number: asked + u32::from(assigned),
                    full: false,
                },
                _ => ToAgent::Input {
                    bytes: vec![0; usize::from(script.byte())],
                },
            };
            agent.said(&message);
            match message {
                ToAgent::End => ending = true,
                ToAgent::Start(_) => assigned |= greeted && !over,
                ToAgent::Fenced => at_fence = false,
                ToAgent::Inquire { number, .. } => asked = number,
                ToAgent::Input { bytes } if assigned => sent += bytes.len() as u64,
                _ => {}
            }
            continue;
        }
        let message = forged(script);
        let Ok(()) = agent.heard(&message) else {
            // It is cut off.
            return;
        };
        assert!(
            greeted != matches!(message, FromAgent::Hello(_)),
            "{message:?}"
        );
        assert!(!over || matches!(message, FromAgent::Alive), "{message:?}");
        let of = match &message {
            FromAgent::Started { rank, .. }
            | FromAgent::NotStarted { rank, .. }
            | FromAgent::Output { rank, .. }
            | FromAgent::Notice { rank, .. }
            | FromAgent::Waits { rank, .. }
            | FromAgent::Exited { rank, .. } => vec![*rank],
            FromAgent::Put { values } => values.iter().map(|value| value.rank).collect(),
            _ => Vec::new(),
        };
        assert!(of.is_empty() || assigned, "{message:?}");
        assert!(of.iter().all(|rank| OWN.contains(rank)), "{message:?}");
        match message {
            FromAgent::Hello(_) => greeted = true,
            FromAgent::Exited { rank, .. } => {
                assert!(!exited.contains(&rank), "rank {rank} ends twice");
                exited.push(rank);
            }
            FromAgent::NotStarted { .. } => refused = true,
            FromAgent::Waits { rank, waits } => {
                let one = (rank, waits.inquiry);
                assert!(waits.inquiry <= asked && !answered.contains(&one));
                answered.push(one);
            }
            FromAgent::InputTaken { bytes } => {
                taken += bytes;
                assert!(taken <= sent, "{taken} of {sent} bytes");
            }
            FromAgent::Fence => {
                assert!(assigned && !std::mem::replace(&mut at_fence, true));
            }
            FromAgent::Ended { .. } => {
                assert!(ending || refused || assigned && exited.len() == OWN.len());
                over = true;
            }
            _ => {}
        }
    }
}

/// What an agent may make up.
fn forged(script: &mut Script<'_>) -> FromAgent {
    let any = [2, 3, 2, 3, 0, 1, 4, u32::MAX];
    let rank = any[usize::from(script.byte() % 8)];
    let small = script.byte();
    let text = || "x".repeat(usize::from(small) * usize::from(small));
    match script.byte() % 16 {
        0 | 1 => FromAgent::Hello(Hello {
            release: script.byte().into(),
            host: text(),
            ranks: script.short().into(),
            program: small.is_multiple_of(2),
            adopted: if small > 128 {
                vec![rank; usize::from(small % 4)]
            } else {
                Vec::new()
            },
        }),
        2 => FromAgent::Started {
            rank,
            process: small.into(),
            cores: small.is_multiple_of(2).then(text),
        },
        3 => FromAgent::NotStarted {
            rank,
            reason: text(),
        },
        4 | 5 => FromAgent::Output {
            rank,
            error: small.is_multiple_of(2),
            bytes: vec![0; usize::from(small % 4)],
        },
        6 => FromAgent::Notice {
            rank,
            told: match small % 3 {
                0 => Notice::Initialised,
                1 => Notice::Finalised,
                _ => Notice::Abort {
                    code: script.long() as i32,
                    text: text(),
                },
            },
        },
        7 => FromAgent::Exited {
            rank,
            status: i32::from(small) << 8,
        },
        8 => FromAgent::Exited {
            rank,
            status: script.long() as i32,
        },
        9 => FromAgent::InputTaken {
            bytes: script.byte().into(),
        },
        10 => FromAgent::Put {
            values: vec![PublishedValue {
                rank,
                name: "x".repeat(usize::from(small % 40)),
                value: vec![0; usize::from(script.short() % 5000)],
            }],
        },
        11 => FromAgent::Fence,
        12 => FromAgent::Ended { clean: true },
        13 => FromAgent::Rest {
            shown: small.is_multiple_of(2).then_some(7),
        },
        14 => FromAgent::Waits {
            rank,
            waits: Box::new(RankWaits {
                inquiry: u32::from(small % 4),
                ..RankWaits::default()
            }),
        },
        _ => FromAgent::Leaving {
            signal: script.long() as i32,
        },
    }
}
