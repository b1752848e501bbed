//! An endpoint beside a peer that sends anything it can write into its lane.

use super::*;
use crate::Use;

#[derive(Default)]
struct Quiet {
    lost: usize,
}

impl Sink for Quiet {
    fn message(&mut self, _: Peer, _: &Head, data: SharedBytes<'_>) {
        let _ = data.to_vec();
    }
    fn transfer_completed(&mut self, _: Operation, _: Result<()>) {}
    fn lost(&mut self, _: Peer, _: &str) {
        self.lost += 1;
    }
    fn signalled(&mut self, _: Peer, _: SyncKey) {}
}

/// A peer that says anything at all about transfers can end its own connection and move bytes
/// within what was granted to it, and nothing else.
#[test]
fn a_peer_may_say_what_it_wants() {
    const KINDS: [PacketKind; 8] = [
        PacketKind::Message,
        PacketKind::Signal,
        PacketKind::Get,
        PacketKind::Put,
        PacketKind::Chunk,
        PacketKind::End,
        PacketKind::Assist,
        PacketKind::Ask,
    ];
    let options = Options {
        cross_memory: Use::Off,
        ..Options::default()
    };
    let mut state = 88_172_645_463_325_252u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut lost = 0;
    for _ in 0..300 {
        let mut group = Shm::group_with(2, &options).expect("two endpoints");
        let (mut victim, mut liar) = (group.remove(0), group.remove(0));
        let mut memory = vec![0u8; 3000];
        let edge = 1000..2000;
        // SAFETY: within `memory`, which outlives both endpoints and is read only at the end.
        let granted = unsafe { Region::new(memory.as_mut_ptr().add(edge.start), edge.len()) };
        let token = victim
            .grant(granted, None, Rights::ReadWrite, Uses::Many)
            .expect("a grant");
        // SAFETY: the part before it; the same holds.
        let own = unsafe { Region::new(memory.as_mut_ptr(), 500) };
        let asked = victim.get(Peer(1), Token(next()), 0, own, Operation(1));
        assert_eq!(asked, Ok(Posted::Pending));
        let mut sink = Quiet::default();
        for _ in 0..60 {
            let kind = KINDS[next() as usize % KINDS.len()];
            let mut word = |usual: u64| match next() % 4 {
                0 => next(),
                1 => next() % 2000,
                _ => usual,
            };
            let words = match kind {
                PacketKind::Get | PacketKind::Put | PacketKind::Assist | PacketKind::Ask => {
                    [word(0), word(token.0), word(100), word(900)]
                }
                _ => [word(0), word(0), word(1), word(0)],
            };
            let data = vec![255; [0, 8, 88, 500, 900, 4000][next() as usize % 6]];
            liar.post_anything(Peer(0), kind, words, &data);
            victim.poll(&mut sink, 4);
        }
        lost += sink.lost;
        assert!(sink.lost <= 1, "said once");
        drop(victim);
        assert!(memory[500..edge.start].iter().all(|&byte| byte == 0));
        assert!(memory[edge.end..].iter().all(|&byte| byte == 0));
    }
    assert!(lost > 0, "some of it is found out");
}
