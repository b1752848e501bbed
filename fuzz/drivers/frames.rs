//! The fabric between hosts beside a member that lies: it knows the key and then sends any frames. It
//! can end its own connection and move bytes within what was granted to it, and nothing else.

use std::io::{Read, Write};
use std::net::TcpStream;

use weft_fabric::{
    Fabric, HEAD, Head, Operation, Peer, Region, Result, Rights, SharedBytes, Sink, SyncKey, Token,
    Uses,
};
use weft_fabric_tcp::wire::{
    Ask, CHUNK_HEAD, ChunkHead, End, FrameKind, HEADER, Header, Hello, Offer, Outcome, TransferKind,
};
use weft_fabric_tcp::{Card, Config, Listen, Opening, Tcp};
use weft_secure::{Handshake, Key, SECOND, Step};

use super::script::Script;

#[derive(Default)]
struct Reader {
    bytes: u64,
    lost: u32,
}

impl Sink for Reader {
    fn message(&mut self, from: Peer, _: &Head, data: SharedBytes<'_>) {
        assert!(from.0 == 1, "a message from {from}");
        self.bytes += data.to_vec().len() as u64;
    }
    fn transfer_completed(&mut self, _: Operation, _: Result<()>) {}
    fn lost(&mut self, _: Peer, _: &str) {
        self.lost += 1;
    }
    fn signalled(&mut self, _: Peer, _: SyncKey) {}
}

/// What the honest side says, while it looks.
fn read(
    honest: &mut Tcp,
    mut stream: &TcpStream,
    reader: &mut Reader,
    bytes: &mut [u8],
) -> Option<()> {
    let mut done = 0;
    for _ in 0..10_000 {
        honest.poll(reader, 8);
        done += stream.read(&mut bytes[done..]).unwrap_or(0);
        if done == bytes.len() {
            return Some(());
        }
    }
    None
}

/// An honest rank 0, and the stream of a rank 1 that it has let in and taken.
fn meet(reader: &mut Reader) -> Option<(Tcp, TcpStream)> {
    let key = Key::from_bytes([9; Key::BYTES]);
    let mut config = Config::new(0, 2, key.clone());
    config.listen = Listen::Loopback;
    let opening = Opening::new(config).ok()?;
    let card = opening.card().clone();
    let nowhere = Card {
        host: "liar".into(),
        offers: Vec::new(),
    };
    let mut stream = TcpStream::connect(card.offers[0].address).ok()?;
    let mut honest = opening.join(vec![card, nowhere]).ok()?;
    let hello = Hello {
        rank: 1,
        target: 0,
        generation: 0,
        incarnation: 0,
        target_incarnation: 0,
    };
    let mut handshake = Handshake::initiator(&key, "fabric plain", &hello.emit());
    stream.write_all(&handshake.take_outgoing()).ok()?;
    stream.set_nonblocking(true).ok()?;
    let mut second = [0; SECOND];
    read(&mut honest, &stream, reader, &mut second)?;
    let Ok((_, Step::Done(_))) = handshake.feed(&second) else {
        panic!("the honest side does not know the key");
    };
    let third = handshake.take_outgoing();
    (&stream).write_all(&third).ok()?;
    let mut select = [0; HEADER + 4];
    read(&mut honest, &stream, reader, &mut select)?;
    let header = Header {
        kind: FrameKind::Resume,
        length: 4,
        processed: 0,
    };
    (&stream).write_all(&header.emit()).ok()?;
    (&stream).write_all(&1u32.to_le_bytes()).ok()?;
    for _ in 0..4 {
        honest.poll(reader, 8);
    }
    Some((honest, stream))
}

/// Frames as the bytes say.
pub fn run(bytes: &[u8]) {
    // The parsers by themselves.
    if let Some(first) = bytes.first_chunk::<HEADER>() {
        let _ = Header::parse(first);
    }
    if let Some(first) = bytes.first_chunk::<CHUNK_HEAD>() {
        let _ = ChunkHead::parse(first);
    }
    let (_, _, _) = (Ask::parse(bytes), End::parse(bytes), Hello::parse(bytes));
    let _ = String::from_utf8_lossy(bytes).parse::<Card>();

    let mut reader = Reader::default();
    let (mut honest, mut stream) = meet(&mut reader).expect("a member is let in");
    let memory: &'static mut [u8] = Box::leak(vec![0u8; 3000].into_boxed_slice());
    // SAFETY: parts of leaked memory that is read only after both sides are gone.
    let (granted, own) = unsafe {
        (
            Region::new(memory.as_mut_ptr().add(1000), 1000),
            Region::new(memory.as_mut_ptr(), 500),
        )
    };
    let token = honest
        .grant(granted, None, Rights::ReadWrite, Uses::Many)
        .expect("a grant");
    let once = honest
        .grant(granted, Some(Peer(1)), Rights::Read, Uses::Once)
        .expect("a grant");
    honest.offer(Peer(1), once);
    let _ = honest.get(Peer(1), Token(7), 0, own, Operation(1));
    let mut script = Script::new(bytes);
    while !script.is_over() && reader.lost == 0 {
        let any = u64::from(script.byte()) << 32 | u64::from(script.byte()) << 8;
        let small = u64::from(script.byte());
        let length = [0usize, 8, 100, 600][script.byte() as usize % 4];
        let transfer = u32::from(script.byte() % 3);
        let kind =
            [TransferKind::Get, TransferKind::Put, TransferKind::Offer][script.byte() as usize % 3];
        let outcome = [Outcome::Done, Outcome::NotGranted, Outcome::Outside][small as usize % 3];
        let ask = Ask {
            transfer,
            offer: u32::from(script.byte() % 3),
            token: match script.byte() % 8 {
                0 | 1 => any,
                2 | 3 => once.0,
                _ => token.0,
            },
            offset: if script.byte().is_multiple_of(4) {
                any
            } else {
                small * 8
            },
            length: length as u64,
        };
        let (kind, body) = match script.byte() % 11 {
            0 => (FrameKind::Message, vec![5; HEAD + length]),
            1 => (FrameKind::Signal, vec![6; 8]),
            2 => (FrameKind::Get, ask.emit().to_vec()),
            3 => (FrameKind::Put, ask.emit().to_vec()),
            4 | 5 => {
                let offset = ask.offset;
                let head = ChunkHead {
                    transfer,
                    kind,
                    offset,
                };
                (
                    FrameKind::Chunk,
                    [&head.emit()[..], &vec![255; length]].concat(),
                )
            }
            6 => {
                let end = End {
                    transfer,
                    kind,
                    outcome,
                };
                (FrameKind::End, end.emit().to_vec())
            }
            7 => (
                [FrameKind::Acknowledge, FrameKind::Flush][small as usize % 2],
                Vec::new(),
            ),
            8 => {
                let offer = Offer {
                    number: transfer,
                    token: 7 + small % 2,
                    length: length as u64,
                };
                (FrameKind::Offer, offer.emit().to_vec())
            }
            9 => {
                // What was offered is asked for.
                let _ = honest.get(Peer(1), Token(7 + small % 2), 0, own, Operation(2));
                (FrameKind::Acknowledge, Vec::new())
            }
            _ => (FrameKind::Resume, vec![1, 0, 0, 0]),
        };
        let header = Header {
            kind,
            length: body.len(),
            processed: small / 64,
        };
        let mut frame = [&header.emit()[..], &body].concat();
        if script.byte().is_multiple_of(16) {
            let place = script.byte() as usize % frame.len();
            frame[place] ^= script.byte();
        }
        if stream.write_all(&frame).is_err() {
            break;
        }
        honest.poll(&mut reader, 8);
        let _ = stream.read(&mut [0; 4096]);
    }
    for _ in 0..4 {
        honest.poll(&mut reader, 64);
    }
    assert!(reader.lost <= 1, "said more than once");
    drop(stream);
    honest.die();
    let outside = memory[500..1000].iter().chain(&memory[2000..]);
    assert!(
        outside.into_iter().all(|byte| *byte == 0),
        "memory that was not granted has changed"
    );
}
