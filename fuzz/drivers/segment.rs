//! The shared segment of processes of one host beside a peer that writes anything into it.
//!
//! The peer sends as it should, and then some of the words that this changed get other values: that
//! reaches the fields that a receiver reads much sooner than writing at random. What may happen is
//! written in `fabric-shm`: the job is spoiled, memory outside of the segment is not touched.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;

use weft_fabric::{
    Fabric, HEAD, Head, Operation, Peer, Region, Result, Rights, SharedBytes, Sink, SyncKey, Uses,
};
use weft_fabric_shm::{Options, Shm, Use, initialise, segment_size};
use weft_sys::{Mapping, MemoryFile};

use super::script::Script;

/// Bytes that are granted and fetched.
const ROOM: usize = 1 << 17;

/// Words of a page.
const PAGE: usize = 512;

/// Reads everything that arrives.
#[derive(Default)]
struct Reader {
    bytes: u64,
}

impl Sink for Reader {
    fn message(&mut self, from: Peer, _: &Head, data: SharedBytes<'_>) {
        assert!(from.0 < 2, "a message from {from}");
        self.bytes += data
            .to_vec()
            .iter()
            .map(|byte| u64::from(*byte))
            .sum::<u64>();
    }
    fn transfer_completed(&mut self, _: Operation, _: Result<()>) {}
    fn lost(&mut self, _: Peer, _: &str) {}
    fn signalled(&mut self, _: Peer, _: SyncKey) {}
}

struct Scene {
    honest: Shm,
    liar: Shm,
    /// The same segment, as the liar sees it.
    mapping: Mapping,
    words: usize,
    before: Vec<u64>,
    changed: Vec<usize>,
}

fn scene() -> Option<Scene> {
    let length = segment_size(2)?;
    let file = MemoryFile::create("fuzz", length).ok()?;
    let mapping = file.map().ok()?;
    initialise(&mapping, 2, 2).ok()?;
    let descriptor: OwnedFd = file.into_descriptor();
    // Without the direct way: what goes through the segment is what is to be tried here.
    let options = Options {
        cross_memory: Use::Off,
        ..Options::default()
    };
    let join = |rank| {
        Shm::attach_with(
            descriptor.as_fd().try_clone_to_owned().ok()?,
            rank,
            &options,
        )
        .ok()
    };
    Some(Scene {
        honest: join(0)?,
        liar: join(1)?,
        words: mapping.len() / 8,
        mapping,
        before: Vec::new(),
        changed: Vec::new(),
    })
}

impl Scene {
    fn word(&self, place: usize) -> Option<&weft_atomic::AtomicU64> {
        self.mapping.atomic_u64(place * 8)
    }

    /// The words of these pages.
    fn snapshot(&self, pages: &[usize]) -> Vec<u64> {
        let words = pages.iter().flat_map(|page| page * PAGE..(page + 1) * PAGE);
        let load = |word: &weft_atomic::AtomicU64| word.load(weft_atomic::Ordering::Relaxed);
        words
            .map(|place| self.word(place).map_or(0, load))
            .collect()
    }

    /// Remembers which words an act of the liar has changed.
    fn watch(&mut self, pages: &[usize], act: impl FnOnce(&mut Shm)) {
        if self.before.is_empty() {
            self.before = self.snapshot(pages);
        }
        act(&mut self.liar);
        let after = self.snapshot(pages);
        let differs = |place: &usize| self.before[*place] != after[*place];
        self.changed = (0..after.len())
            .filter(differs)
            .map(|place| pages[place / PAGE] * PAGE + place % PAGE)
            .collect();
        self.before = after;
    }
}

/// The pages of a segment that a peer writes when it sends, signals and asks for a transfer. Found once,
/// by trying: a segment is mostly room that such a short play does not reach.
fn pages() -> &'static [usize] {
    static PAGES: OnceLock<Vec<usize>> = OnceLock::new();
    PAGES.get_or_init(|| {
        let Some(mut scene) = scene() else {
            return Vec::new();
        };
        let all: Vec<usize> = (0..scene.words.div_ceil(PAGE)).collect();
        let mut written = BTreeSet::new();
        let mut memory = vec![0; ROOM];
        // SAFETY: `memory` lives longer than the scene, which is dropped first, and is not looked at.
        let region = unsafe { Region::new(memory.as_mut_ptr(), ROOM) };
        let token = scene
            .honest
            .grant(region, Some(Peer(1)), Rights::ReadWrite, Uses::Many);
        for turn in 0..6 {
            scene.watch(&all, |liar| {
                let _ = liar.try_send(Peer(0), &[1; HEAD], &[1; 8]);
                let _ = liar.try_send(Peer(0), &[1; HEAD], &[1; 3000]);
                let _ = liar.signal(Peer(0), SyncKey(1));
                if let Ok(token) = token {
                    let _ = liar.get(Peer(0), token, 0, region, Operation(turn));
                }
                liar.poll(&mut Reader::default(), 8);
            });
            written.extend(scene.changed.iter().map(|place| place / PAGE));
            scene.honest.poll(&mut Reader::default(), 8);
        }
        drop(scene);
        assert!(
            written.len() > 2,
            "what a peer writes has not been found: {written:?}"
        );
        written.into_iter().collect()
    })
}

/// Plays one script.
pub fn run(bytes: &[u8]) {
    let mut script = Script::new(bytes);
    let pages = pages();
    let Some(mut scene) = scene() else { return };
    let mut reader = Reader::default();
    let mut own = vec![1; ROOM];
    let mut theirs = vec![2; ROOM];
    // SAFETY: both live longer than the endpoints use them: the scene is dropped first, below.
    let (region, lent) = unsafe {
        (
            Region::new(own.as_mut_ptr(), ROOM),
            Region::new(theirs.as_mut_ptr(), ROOM),
        )
    };
    let given = scene
        .honest
        .grant(region, Some(Peer(1)), Rights::ReadWrite, Uses::Many);
    let taken = scene
        .liar
        .grant(lent, Some(Peer(0)), Rights::ReadWrite, Uses::Many);
    let mut into = vec![0; ROOM];
    for turn in 0..64 {
        if script.is_over() {
            break;
        }
        match script.byte() % 8 {
            0 | 1 => {
                let length = usize::from(script.short()) % 9000;
                scene.watch(pages, |liar| {
                    drop(liar.try_send(Peer(0), &[turn; HEAD], &vec![3; length]))
                });
            }
            2 => {
                let key = SyncKey(script.long());
                scene.watch(pages, |liar| drop(liar.signal(Peer(0), key)));
            }
            3 => {
                let (offset, length) = (u64::from(script.short()), usize::from(script.short()));
                // SAFETY: `into` lives longer than the scene, and is not looked at.
                let into = unsafe { Region::new(into.as_mut_ptr(), length.min(ROOM)) };
                if let Ok(token) = given {
                    scene.watch(pages, |liar| {
                        drop(liar.get(Peer(0), token, offset, into, Operation(1)))
                    });
                }
            }
            4 | 5 => {
                let Some(place) = scene
                    .changed
                    .get(usize::from(script.short()) % scene.changed.len().max(1))
                else {
                    continue;
                };
                let change = if script.byte().is_multiple_of(2) {
                    1 << (script.byte() % 64)
                } else {
                    script.long()
                };
                if let Some(word) = scene.word(*place) {
                    word.fetch_xor(change, weft_atomic::Ordering::Relaxed);
                }
            }
            6 => {
                if let Ok(token) = taken {
                    // SAFETY: as above; the own buffer is granted, which is the worst case.
                    let into =
                        unsafe { Region::new(own.as_mut_ptr(), usize::from(script.short())) };
                    let _ = scene.honest.get(
                        Peer(1),
                        token,
                        u64::from(script.short()),
                        into,
                        Operation(2),
                    );
                }
                let _ = scene.honest.try_send(
                    Peer(1),
                    &[9; HEAD],
                    &vec![4; usize::from(script.short()) % 5000],
                );
            }
            _ => {
                scene.honest.poll(&mut reader, 32);
                scene.watch(pages, |liar| _ = liar.poll(&mut Reader::default(), 32));
            }
        }
    }
    for _ in 0..8 {
        scene.honest.poll(&mut reader, 64);
    }
    drop(scene);
}
