//! The engine of MPI beside a peer that sends anything: heads of its own, heads that it saw, changed.
//!
//! The peer keeps to the fabric, which is below the engine; so tokens and requests are either those
//! that the engine gave away or made up. Nothing may panic, and each look of the engine ends.

use std::sync::Arc;

use weft_fabric::{
    Fabric, HEAD, Head, Operation, Peer, Posted, Region, Result, Rights, SharedBytes, Sink,
    SyncKey, Token, Uses,
};
use weft_fabric_local::Local;
use weft_mpi::datatype::Basic;
use weft_mpi::p2p::{SendMode, Source, TagPattern, Target};
use weft_mpi::{Buffer, Process};

use super::script::Script;

/// Room for each buffer of the engine.
const ROOM: usize = 1 << 16;

/// What the peer has seen.
#[derive(Default)]
struct Seen(Vec<Head>);

impl Sink for Seen {
    fn message(&mut self, _: Peer, head: &Head, _: SharedBytes<'_>) {
        self.0.push(*head);
    }
    fn transfer_completed(&mut self, _: Operation, _: Result<()>) {}
    fn lost(&mut self, _: Peer, _: &str) {}
    fn signalled(&mut self, _: Peer, _: SyncKey) {}
}

/// Plays one script.
pub fn run(bytes: &[u8]) {
    let mut script = Script::new(bytes);
    let mut group = Local::group(2).into_iter();
    let engine = Process::new(Box::new(group.next().expect("two")));
    let mut peer = group.next().expect("two");
    let world = engine.world();
    let mut memory: Vec<Vec<u8>> = Vec::new();
    let mut requests = Vec::new();
    let mut seen = Seen::default();
    let mut lent = vec![7; ROOM];
    while !script.is_over() && requests.len() < 64 {
        match script.byte() % 9 {
            kind @ 0..=3 => {
                let length = usize::from(script.short());
                memory.push(vec![0; length]);
                let room = memory.last_mut().expect("just pushed");
                let datatype = Arc::clone(Basic::Byte.datatype());
                // SAFETY: `memory` lives as long as the engine; a vector's bytes do not move with it.
                let buffer = unsafe { Buffer::new(room.as_mut_ptr(), length, &datatype) };
                let begun = match kind {
                    0 => world.irecv(buffer, Source::Any, TagPattern::Any),
                    1 => world.irecv(
                        buffer,
                        Source::Rank(1),
                        TagPattern::Exact(i32::from(script.byte() % 4)),
                    ),
                    2 => world.isend(
                        SendMode::Standard,
                        buffer,
                        Target::Rank(1),
                        i32::from(script.byte() % 4),
                    ),
                    _ => world.isend(SendMode::Synchronous, buffer, Target::Rank(1), 1),
                };
                requests.extend(begun.ok());
            }
            4 => {
                // A head of the peer's own; its kind is often one that exists.
                let mut head: Head = [0; HEAD];
                let given = script.bytes(HEAD);
                head[..given.len()].copy_from_slice(given);
                head[0] %= 8;
                let data = script.byte();
                let _ = peer.try_send(Peer(0), &head, &vec![data; usize::from(data) * 16]);
            }
            5 => {
                // A head that the engine sent, with one byte changed.
                let Some(mut head) = seen
                    .0
                    .get(usize::from(script.byte()) % seen.0.len().max(1))
                    .copied()
                else {
                    continue;
                };
                let (place, change) = (usize::from(script.byte()) % HEAD, script.byte());
                head[place] ^= change;
                let _ = peer.try_send(Peer(0), &head, &[1; 40]);
            }
            6 => {
                // A grant of the peer, announced with a size that need not be its own.
                // SAFETY: `lent` lives as long as the peer, and is not looked at.
                let region = unsafe { Region::new(lent.as_mut_ptr(), usize::from(script.short())) };
                let Ok(token) = peer.grant(region, Some(Peer(0)), Rights::Read, Uses::Once) else {
                    continue;
                };
                let mut head: Head = [0; HEAD];
                head[0] = 3;
                head[8] = script.byte() % 4;
                head[16..24].copy_from_slice(&u64::from(script.short()).to_le_bytes());
                head[24..].copy_from_slice(&token.0.to_le_bytes());
                let _ = peer.try_send(Peer(0), &head, &[]);
            }
            7 => {
                // An answer to something that the engine sent, now or long ago: the second one counts for nothing,
                // and with the first nobody may read the buffer any more.
                peer.poll(&mut seen, 16);
                let place = usize::from(script.byte()) % seen.0.len().max(1);
                let Some(sent) = seen.0.get(place).copied() else {
                    continue;
                };
                let mut answer = sent;
                answer[0] = 4;
                let answered = peer.try_send(Peer(0), &answer, &[]) == Ok(Posted::Done);
                let _ = peer.try_send(Peer(0), &answer, &[]);
                for _ in 0..8 {
                    // A probe that finds something does not look.
                    let _ = world.iprobe(Source::Any, TagPattern::Exact(i32::MAX));
                }
                if sent[0] == 3 && answered {
                    let token = Token(u64::from_le_bytes(
                        sent[24..].try_into().expect("eight bytes"),
                    ));
                    // SAFETY: `lent` lives as long as the peer, and is not looked at.
                    let into = unsafe { Region::new(lent.as_mut_ptr(), 0) };
                    let read = peer.get(Peer(0), token, 0, into, Operation(1));
                    assert!(read.is_err(), "a buffer can be read whose send has ended");
                }
            }
            _ => {
                peer.poll(&mut seen, 16);
                let _ = world.iprobe(Source::Any, TagPattern::Any);
                requests.retain(|id| !matches!(engine.test(*id), Ok(Some(_)) | Err(_)));
            }
        }
    }
    for _ in 0..8 {
        peer.poll(&mut seen, 64);
        let _ = world.iprobe(Source::Any, TagPattern::Any);
    }
    for id in requests {
        let _ = engine.test(id);
    }
    drop(world);
    drop(engine);
}
