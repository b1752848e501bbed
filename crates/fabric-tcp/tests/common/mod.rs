//! Two ranks in this process, and a proxy between them.

#![allow(dead_code)]

pub mod proxy;

use std::net::SocketAddr;
use std::time::Duration;

use weft_fabric::conformance::{Memory, Player, TransferKind};
use weft_fabric::{Fabric, Operation, Peer, Rights, SyncKey, Uses};
use weft_fabric_tcp::{Card, Config, Listen, Offer, Opening, Tcp};
use weft_secure::Key;

pub const KEY: [u8; Key::BYTES] = [42; Key::BYTES];

/// The configuration of a rank of two on loopback.
pub fn config(rank: u32) -> Config {
    let mut config = Config::new(rank, 2, Key::from_bytes(KEY));
    config.listen = Listen::Loopback;
    config.neighbours = 2;
    config
}

/// An offer whose interface is named `interface`.
pub fn offer(interface: &str, address: SocketAddr) -> Offer {
    Offer {
        interface: interface.into(),
        address,
    }
}

/// Two endpoints that listen already.
pub fn openings(change: impl Fn(&mut Config)) -> [Opening; 2] {
    [0, 1].map(|rank| {
        let mut config = config(rank);
        change(&mut config);
        Opening::new(config).expect("loopback is there")
    })
}

/// Joins them, each with its own view of where both are.
pub fn join([left, right]: [Opening; 2], views: [Vec<Card>; 2]) -> [Tcp; 2] {
    let [of_left, of_right] = views;
    [
        left.join(of_left).expect("two cards"),
        right.join(of_right).expect("two cards"),
    ]
}

/// A card with the same host and other offers.
pub fn with_offers(card: &Card, offers: Vec<Offer>) -> Card {
    Card {
        host: card.host.clone(),
        offers,
    }
}

/// Length of message `number`, up to the limit.
pub fn length(number: u64) -> usize {
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
    let room = if mixed.is_multiple_of(16) {
        60_000
    } else {
        600
    };
    (mixed / 16) as usize % room
}

const SIGNAL: SyncKey = SyncKey(3);

/// The actions of each of two ranks: streams of messages both ways, with signals, gets and puts in between.
pub fn converse(fabric: Box<dyn Fabric>, messages: u64, transfers: u64, bytes: usize) {
    let mut player = Player::new(fabric);
    let (me, other) = (player.me(), 1 - player.me());
    let granted: Vec<(Memory, Memory)> = (0..transfers)
        .map(|number| (Memory::patterned(bytes, number), Memory::filled(bytes, 0)))
        .collect();
    let mut sent = 0;
    for (readable, writable) in &granted {
        let to = Some(Peer(other as u32));
        for (memory, rights) in [(readable, Rights::Read), (writable, Rights::Write)] {
            let token = player
                .fabric
                .grant(memory.region(), to, rights, Uses::Once)
                .expect("fits");
            player.send_token(other, token);
            sent += 1;
        }
    }
    player.await_messages(sent);
    let tokens: Vec<u64> = player
        .inbox
        .of(other)
        .map(|(head, _)| weft_fabric::conformance::number_of(head))
        .collect();
    // Messages of the other follow our signal.
    player.inbox = Default::default();
    player.signal(other, SIGNAL);
    player.await_signals(other, SIGNAL, 1);
    for number in 0..messages.max(transfers) {
        if number < messages {
            player.send(other, number, length(number));
        }
        if number < transfers {
            let index = number as usize;
            let at = |which: usize| (weft_fabric::Token(tokens[2 * index + which]), 0);
            let mine = Memory::filled(bytes, 0);
            player
                .transfer(
                    TransferKind::Get,
                    other,
                    at(0),
                    mine.region(),
                    Operation(2 * number),
                )
                .expect("granted");
            assert!(mine.bytes() == granted[index].0.bytes(), "what was read");
            let source = Memory::patterned(bytes, number + 1000 * (me as u64 + 1));
            player
                .transfer(
                    TransferKind::Put,
                    other,
                    at(1),
                    source.region(),
                    Operation(2 * number + 1),
                )
                .expect("granted");
        }
    }
    player.signal(other, SIGNAL);
    player.await_signals(other, SIGNAL, 1);
    player.await_messages(messages as usize);
    player.inbox.check(other, messages, length);
    for (number, (_, writable)) in granted.iter().enumerate() {
        let expected = Memory::patterned(bytes, number as u64 + 1000 * (other as u64 + 1));
        assert!(writable.bytes() == expected.bytes(), "what was written");
    }
    player.signal(other, SIGNAL);
    player.await_signals(other, SIGNAL, 1);
    player.repeat("all to be handed over", |player| player.fabric.is_flushed());
}

/// Runs both at the same time, each on a thread of its own.
pub fn both(pair: [Tcp; 2], part: impl Fn(Box<dyn Fabric>) + Sync) {
    let part = &part;
    std::thread::scope(|scope| {
        for one in pair {
            scope.spawn(move || part(Box::new(one)));
        }
    });
}

pub const MOMENT: Duration = Duration::from_millis(5);

/// An inbox that also records why a peer was lost.
#[derive(Default)]
pub struct Recorder {
    pub inbox: weft_fabric::conformance::Inbox,
    pub lost: Option<String>,
}

impl weft_fabric::Sink for Recorder {
    fn message(
        &mut self,
        from: Peer,
        head: &weft_fabric::Head,
        data: weft_fabric::SharedBytes<'_>,
    ) {
        weft_fabric::Sink::message(&mut self.inbox, from, head, data);
    }
    fn transfer_completed(&mut self, operation: Operation, result: weft_fabric::Result<()>) {
        weft_fabric::Sink::transfer_completed(&mut self.inbox, operation, result);
    }
    fn lost(&mut self, peer: Peer, reason: &str) {
        assert_eq!(self.lost, None, "{peer} is lost twice");
        self.lost = Some(reason.to_owned());
    }
    fn signalled(&mut self, from: Peer, key: SyncKey) {
        weft_fabric::Sink::signalled(&mut self.inbox, from, key);
    }
}
