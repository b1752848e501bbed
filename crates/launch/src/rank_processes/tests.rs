use std::io::Read;

use super::rank::{AT_ONCE, Rank};
use super::*;
use crate::binding::BindingRequest;
use crate::control::Message;
use weft_secure::Key;
use weft_sys::descriptor::{self, Carries};
use weft_sys::passing;

/// Ranks without processes, and their ends of the control sockets.
fn ranks(count: u32, others: Option<OtherHosts>) -> (RankProcesses, Vec<OwnedFd>) {
    let share = HostShare {
        size: 2 * count,
        ranks: (0..count).map(|local| (count + local, 0)).collect(),
        room: 0,
        spares: 0,
        addresses: 0,
        binding: BindingRequest::default(),
    };
    let mut ranks = RankProcesses::prepare(share, others, false).expect("memory files exist here");
    let mut ends = Vec::new();
    for local in 0..count {
        let (ours, its) = descriptor::socket_pair(Carries::Messages).expect("descriptors");
        descriptor::set_nonblocking(&ours, true).expect("may be set");
        let lifeline = descriptor::pipe().expect("descriptors").1;
        let numbers = ranks.share.numbers(local as usize);
        let rank = Rank::new(numbers, 1000 + local, ours, lifeline);
        ranks.ranks.put(local as usize, rank);
        ends.push(its);
    }
    (ranks, ends)
}

fn say(end: &OwnedFd, message: Message) {
    message.send(end).expect("connected");
}

/// What the launcher has answered, so far.
fn heard(end: &OwnedFd) -> Vec<Answer> {
    descriptor::set_nonblocking(end, true).expect("may be set");
    let mut end = File::from(end.try_clone().expect("descriptors"));
    let mut bytes = [0; 1024];
    let mut answers = Vec::new();
    while let Ok(count @ 1..) = end.read(&mut bytes) {
        answers.extend(Answer::decode(&bytes[..count]));
    }
    answers
}

#[test]
fn what_a_rank_said_comes_before_its_end() {
    let (mut ranks, ends) = ranks(2, None);
    let well = ExitStatus::from_raw(0);
    say(&ends[0], Message::Notice(Notice::Initialised));
    say(&ends[0], Message::Notice(Notice::Finalised));
    let told = |told| Event::Notice { rank: 2, told };
    assert_eq!(
        ranks.record(vec![(1000, well), (77, well)]),
        [
            told(Notice::Initialised),
            told(Notice::Finalised),
            Event::Exited {
                ended: vec![(2, well)]
            }
        ]
    );
    assert_eq!(ranks.record(vec![(1000, well)]), [], "it has ended already");
    assert_eq!(ranks.ranks.children(), [1001]);
    assert!(!ranks.have_ended());
    assert_eq!(ranks.record(vec![(1001, well)]).len(), 1);
    assert!(ranks.have_ended());
}

/// A rank that tells something without end gets its turn, and no more.
#[test]
fn a_rank_that_never_stops_keeps_nobody_waiting() {
    let (mut ranks, ends) = ranks(1, None);
    descriptor::set_nonblocking(&ends[0], true).expect("may be set");
    let mut told = 0;
    while Message::Notice(Notice::Initialised).send(&ends[0]).is_ok() {
        told += 1;
    }
    assert!(told > AT_ONCE, "the socket holds {told}");
    assert_eq!(ranks.listen(0).len(), AT_ONCE);
    // What it said before it ended counts, all of it.
    let events = ranks.record(vec![(1000, ExitStatus::from_raw(0))]);
    assert_eq!(events.len(), told - AT_ONCE + 1);
}

#[test]
fn nonsense_over_the_socket_is_ignored_and_its_end_is_noticed() {
    let (mut ranks, mut ends) = ranks(1, None);
    passing::send(&ends[0], b"\xff nonsense", &[]).expect("connected");
    assert_eq!(ranks.listen(0), []);
    assert_eq!(ranks.controls().count(), 1);
    ends.clear();
    assert_eq!(ranks.listen(0), []);
    assert_eq!(ranks.controls().count(), 0);
}

#[test]
fn a_fence_of_one_host_opens_by_itself_and_one_of_several_when_told() {
    let put = || Message::Put {
        name: "a".into(),
        value: vec![7],
    };
    let (mut alone, ends) = ranks(1, None);
    say(&ends[0], put());
    say(&ends[0], Message::Fence);
    assert_eq!(alone.listen(0), []);
    assert_eq!(heard(&ends[0]), [Answer::Taken, Answer::Taken]);
    assert_eq!(alone.open_fence(), Err(NobodyWaits));

    let key = Key::random().expect("random");
    let map = "0*1,1*1 a b".into();
    let (mut several, ends) = ranks(1, Some(OtherHosts { key, map }));
    let value = |rank| PublishedValue {
        rank,
        name: "a".into(),
        value: vec![7],
    };
    assert_eq!(several.keep_values(&[value(0)]), Err(NobodyWaits));
    say(&ends[0], put());
    say(&ends[0], Message::Fence);
    let values = vec![value(1)];
    assert_eq!(several.listen(0), [Event::Fence { values }]);
    assert_eq!(heard(&ends[0]), [Answer::Taken]);
    assert_eq!(several.keep_values(&[value(2)]), Err(NobodyWaits));
    assert_eq!(several.keep_values(&[value(0)]), Ok(()));
    assert_eq!(several.open_fence(), Ok(()));
    assert_eq!(heard(&ends[0]), [Answer::Taken]);
    let get = |rank| Message::Get {
        rank,
        name: "a".into(),
    };
    say(&ends[0], get(0));
    assert_eq!(several.listen(0), []);
    assert_eq!(heard(&ends[0]), [Answer::Value(Some(vec![7]))]);
}

#[test]
fn a_request_to_the_job_comes_in_pieces_and_is_handed_on_whole() {
    let (mut ranks, ends) = ranks(1, None);
    let request = JobRequest::LookUp {
        service: "x".repeat(3000),
    };
    let bytes = crate::hosts::message::encode(&request);
    let (first, second) = bytes.split_at(1000);
    let piece = |last, piece: &[u8]| Message::Ask {
        last,
        piece: piece.to_vec(),
    };
    say(&ends[0], piece(false, first));
    assert_eq!(ranks.listen(0), []);
    say(&ends[0], piece(true, second));
    assert_eq!(ranks.listen(0), [Event::Asked { rank: 1, request }]);
    let answer = JobAnswer::Port("weft:a:0:1".into());
    ranks.answer(1, answer.clone());
    ranks.answer(7, JobAnswer::Done);
    assert_eq!(heard(&ends[0]), [Answer::Job(answer)]);
    // Nonsense is answered, and what comes next is understood.
    say(&ends[0], piece(true, b"\xff\xff"));
    assert_eq!(ranks.listen(0), []);
    assert!(matches!(heard(&ends[0])[..], [Answer::Refused { .. }]));
    let good = crate::hosts::message::encode(&JobRequest::World);
    say(&ends[0], piece(true, &good));
    assert_eq!(
        ranks.listen(0),
        [Event::Asked {
            rank: 1,
            request: JobRequest::World
        }]
    );
}

/// A process that was started later has a place, which is free again when its end was told and heard of.
#[test]
fn places_are_free_taken_and_free_again() {
    let share = HostShare {
        size: 1,
        ranks: vec![(0, 0)],
        room: 2,
        spares: 0,
        addresses: 0,
        binding: BindingRequest::default(),
    };
    let mut ranks = RankProcesses::prepare(share, None, false).expect("memory files exist here");
    let (_, started) = ranks.start(|_| Err(io::Error::other("nobody")));
    assert!(started.is_err());
    // As if it had been started.
    let (ours, _its) = descriptor::socket_pair(Carries::Messages).expect("descriptors");
    descriptor::set_nonblocking(&ours, true).expect("may be set");
    let lifeline = || descriptor::pipe().expect("descriptors").1;
    let numbers = ranks.share.numbers(0);
    ranks
        .ranks
        .put(0, Rank::new(numbers, 1000, ours, lifeline()));
    assert_eq!(ranks.places().free, [1, 2]);
    let numbers = RankNumbers {
        place: Some(LaterSlot {
            number: 1,
            slot: 1,
            several_hosts: false,
        }),
        ..numbers
    };
    let (ours, its) = descriptor::socket_pair(Carries::Messages).expect("descriptors");
    descriptor::set_nonblocking(&ours, true).expect("may be set");
    ranks
        .ranks
        .put(1, Rank::new(numbers, 1001, ours, lifeline()));
    assert_eq!((ranks.places().free, ranks.places().soon), (vec![2], 0));
    assert!(ranks.is_any_running(&[1]) && !ranks.is_any_running(&[2]));
    say(&its, Message::Notice(Notice::Independent));
    let told = Event::Notice {
        rank: 1,
        told: Notice::Independent,
    };
    assert_eq!(ranks.listen(1), [told]);
    assert_eq!(ranks.places().soon, 1, "it may end soon");
    let events = ranks.record(vec![(1001, ExitStatus::from_raw(0))]);
    assert!(matches!(&events[..], [Event::Exited { ended }] if ended[0].0 == 1));
    assert_eq!(ranks.places().free, [2], "its end was not told");
    assert!(ranks.announce_end(1, true).is_empty());
    assert_eq!(ranks.places().free, [1, 2], "nobody else is there");
    ranks.clear_places(&[1, 2]);
}
