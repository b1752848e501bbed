//! What a peer may say: anything. Nothing outside of a window is touched, nobody panics, and no message takes long.

use std::sync::Arc;

use weft_fabric::{Peer, SharedBytes};

use super::message::{OneSidedHead, write_blocks};
use super::{Attached, OneSided, WindowMemory, WindowState};
use crate::buffer::region_of;
use crate::datatype::StridedBlock;
use crate::exposed::{ElementLock, Exposed};
use crate::group::Group;

/// A sequence that looks random (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Small numbers most of the time, where much can go right; any at times.
    fn number(&mut self) -> i64 {
        match self.next() % 8 {
            0 => self.next().cast_signed(),
            1 => i64::MAX - (self.next() % 4) as i64,
            2 => -((self.next() % 200) as i64),
            _ => (self.next() % 120) as i64,
        }
    }
}

#[test]
fn any_message_of_a_peer_stays_within_the_window() {
    let rounds = if cfg!(miri) { 300 } else { 200_000 };
    let mut memory = vec![0xA5u8; 4096 + 128 + 4096];
    let window = region_of(&mut memory).part(4096, 128).expect("within");
    let mut one_sided = OneSided::default();
    let exposed = Exposed::new(window, ElementLock::Engine);
    let group = Arc::new(Group::identity(3));
    let state = WindowState::new(WindowMemory::Fixed(exposed), &group);
    one_sided.windows.insert(4, state);
    let mut attached = Attached::default();
    // Two that touch, a gap, and a third.
    for (at, length) in [(32, 16), (0, 32), (64, 64)] {
        let region = window.part(at, length).expect("within");
        attached.attach(region).expect("nothing overlaps");
    }
    let state = WindowState::new(WindowMemory::Attached(attached), &group);
    one_sided.windows.insert(8, state);
    let start = window.as_ptr().addr() as i64;
    let mut dice = Random(0x9E37_79B9_7F4A_7C15);
    let mut taken = 0u32;
    for _ in 0..rounds {
        let mut head = [0; 32];
        for bytes in head.as_chunks_mut::<8>().0 {
            *bytes = dice.next().to_le_bytes();
        }
        let context = [4u32, 8, 5][(dice.next() % 3) as usize];
        (head[0], head[1]) = (0x20, (dice.next() % 18) as u8);
        head[2] %= 15;
        head[3] %= 80;
        head[4..8].copy_from_slice(&context.to_le_bytes());
        let mut base = dice.number();
        if context == 8 && !dice.next().is_multiple_of(8) {
            base = base.wrapping_add(start);
        }
        head[16..24].copy_from_slice(&base.to_le_bytes());
        head[24..32].copy_from_slice(&dice.number().to_le_bytes());
        let Some(head) = OneSidedHead::from_head(&head) else {
            continue;
        };
        let mut data = Vec::new();
        let blocks: Vec<StridedBlock> = (0..dice.next() % 3)
            .map(|_| StridedBlock {
                offset: dice.number() as isize,
                bytes: dice.number().cast_unsigned() as usize,
                count: dice.number().cast_unsigned() as usize % 20,
                stride: dice.number() as isize,
            })
            .collect();
        write_blocks(&blocks, &mut data);
        let sum = blocks
            .iter()
            .fold(0usize, |sum, block| sum.saturating_add(block.data()));
        let payload = match dice.next() % 4 {
            0 => dice.next() % 300,
            1 => 2 * sum.min(2000) as u64,
            _ => sum.min(2000) as u64,
        };
        data.extend((0..payload).map(|_| 0x5A));
        data.truncate(data.len() - (dice.next() % 64 / 60) as usize);
        let from = Peer((dice.next() % 5) as u32);
        taken += u32::from(one_sided.arrive(from, &head, SharedBytes::of(&data)));
        one_sided.outgoing.clear();
        one_sided.untold.clear();
    }
    assert!(
        cfg!(miri) || taken > rounds / 20,
        "{taken} of {rounds} were understood"
    );
    drop(one_sided);
    let around = memory[..4096].iter().chain(&memory[4096 + 128..]);
    assert!(around.into_iter().all(|byte| *byte == 0xA5));
    assert!(memory[4096..4096 + 128].iter().any(|byte| *byte != 0xA5));
}
