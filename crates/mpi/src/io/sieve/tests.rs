//! Sieves beside others who write the same file: gaps keep what others bring there.

use std::sync::Arc;

use weft_atomic::{AtomicUsize, Ordering};

use super::super::memory_storage::MemoryStorage;
use super::super::storage::Storage;
use super::super::tests::{
    access, check_patterns, file, filetype, interleaved, ranks, set_view, write_all,
};
use super::super::{Direction, File, FilePosition};

const BLOCKS: usize = 100;

/// Writes blocks of 8 bytes at each 32nd byte; answers how many calls have written.
fn write_blocks(file: &File, storage: &MemoryStorage) -> usize {
    storage.calls();
    let mut data = vec![7; 8 * BLOCKS];
    file.access(access(
        Direction::Write,
        FilePosition::At(0),
        false,
        &mut data,
    ))
    .unwrap();
    storage.calls().1
}

fn blocks() -> Arc<crate::Datatype> {
    filetype(&[(0, 8)], 32)
}

#[test]
fn small_blocks_are_written_by_one_call_unless_a_hint_forbids_it() {
    for (hints, expected) in [
        (&[][..], 1),
        (&[("ind_wr_buffer_size", "1000")][..], 4),
        (&[("romio_ds_write", "disable")][..], BLOCKS),
    ] {
        let storage = MemoryStorage::default();
        write_all(&storage, &[1; 5000]);
        ranks(1, |process| {
            let file = file(&process, &storage, hints);
            set_view(&file, 0, &blocks());
            assert_eq!(write_blocks(&file, &storage), expected, "{hints:?}");
            let reads = storage.calls().0;
            let mut read = vec![0; 8 * BLOCKS];
            file.access(access(
                Direction::Read,
                FilePosition::At(0),
                false,
                &mut read,
            ))
            .unwrap();
            assert_eq!(read, [7; 8 * BLOCKS]);
            assert_eq!((reads, storage.calls()), (0, (1, 0)));
            file.close().unwrap();
        });
        let bytes = storage.bytes();
        let kept = bytes.iter().enumerate().all(|(place, byte)| {
            let block = place < 32 * BLOCKS && place % 32 < 8;
            *byte == if block { 7 } else { 1 }
        });
        assert!(kept && bytes.len() == 5000);
    }
}

#[test]
fn blocks_that_are_few_or_long_or_far_apart_are_written_one_by_one() {
    let storage = MemoryStorage::default();
    ranks(1, |process| {
        let file = file(&process, &storage, &[]);
        for (length, extent, count) in [(8, 32, 7), (600, 700, 20), (8, 5000, 20)] {
            set_view(&file, 0, &filetype(&[(0, length)], extent));
            storage.calls();
            let mut data = vec![7; length as usize * count];
            file.access(access(
                Direction::Write,
                FilePosition::At(0),
                false,
                &mut data,
            ))
            .unwrap();
            assert_eq!(storage.calls(), (0, count), "{length} of {extent}");
        }
        file.close().unwrap();
    });
}

/// Between reading and writing a window, whoever wants to write into a gap has to wait, by way of this opening or of another one; and
/// nobody can become one who does not ask.
#[test]
fn nobody_writes_into_a_gap_meanwhile() {
    let storage = MemoryStorage::default();
    write_all(&storage, &[1; 5000]);
    let (other, looked) = (storage.clone(), Arc::new(AtomicUsize::new(0)));
    let looks = Arc::clone(&looked);
    storage.after_read(move || {
        let gap = other.try_lock(false, 17, 1).unwrap();
        let register = other.try_lock(true, super::super::writers::REGISTER + 12345, 1);
        assert!(!gap && !register.unwrap());
        let behind = other.try_lock(false, 32 * BLOCKS as u64, 1).unwrap();
        assert!(behind, "what lies behind the window is free");
        other.unlock(32 * BLOCKS as u64, 1).unwrap();
        looks.fetch_add(1, Ordering::Relaxed);
    });
    ranks(1, |process| {
        let file = file(&process, &storage, &[]);
        set_view(&file, 0, &blocks());
        assert_eq!(write_blocks(&file, &storage), 1);
        file.close().unwrap();
    });
    assert_eq!(looked.load(Ordering::Relaxed), 1);
}

/// An opening without gaps takes no locks; while it is there, others rewrite none.
#[test]
fn beside_an_opening_that_takes_no_locks_nobody_sieves() {
    let storage = MemoryStorage::default();
    ranks(2, |process| {
        let rank = process.world().rank();
        let world = process.world();
        let barrier = || {
            let members = crate::coll::Members::of(&world);
            world.run(crate::coll::barrier(&members).unwrap()).unwrap();
        };
        let plain = file(&process, &storage, &[]);
        plain.register_writers().unwrap();
        assert!(!plain.writers.are_guarded());
        let gaps = file(&process, &storage, &[]);
        set_view(&gaps, 0, &blocks());
        if rank == 0 {
            assert_eq!(write_blocks(&gaps, &storage), BLOCKS);
        }
        barrier();
        plain.close().unwrap();
        drop(plain);
        barrier();
        if rank == 0 {
            assert_eq!(write_blocks(&gaps, &storage), 1);
        }
        barrier();
        gaps.close().unwrap();
    });
}

/// All change together: a rank without gaps takes locks, too, until no rank has any.
#[test]
fn the_manner_is_that_of_all_ranks() {
    let storage = MemoryStorage::default();
    ranks(3, |process| {
        let rank = process.world().rank();
        let file = file(&process, &storage, &[]);
        file.register_writers().unwrap();
        for gaps in [false, true, true, false, true] {
            let tile = if gaps && rank == 1 {
                blocks()
            } else {
                filetype(&[(0, 32)], 32)
            };
            set_view(&file, 0, &tile);
            assert_eq!(file.writers.are_guarded(), gaps);
        }
        file.close().unwrap();
    });
}

/// Ranks whose blocks lie in each other's gaps, at the same time: some sieve, one writes block by block, all of it is there.
#[test]
fn blocks_of_all_ranks_are_there() {
    for (block, bytes) in [(1, 3000), (16, 20_000), (60, 50_000)] {
        let window = &[("ind_wr_buffer_size", "700")][..];
        for hints in [&[][..], window] {
            check_patterns(&interleaved(4, block, bytes), hints, false, 0);
        }
    }
}

/// Independent writes under way beside a collective one, by aggregators, into their gaps.
#[test]
fn a_collective_write_beside_independent_ones() {
    let hints: &[(&str, &str)] = &[("romio_cb_write", "enable"), ("cb_nodes", "2")];
    for _ in 0..20 {
        let storage = MemoryStorage::default();
        ranks(2, |process| {
            let rank = process.world().rank() as usize;
            let file = file(&process, &storage, hints);
            // Two columns of 16 bytes.
            set_view(&file, 16 * rank as i64, &filetype(&[(0, 16)], 32));
            set_view(
                &file,
                0,
                &filetype(&[(16 * rank as i64, 8), (16 * rank as i64 + 8, 8)], 32),
            );
            let count = 16 * 500;
            let mut alone = vec![1 + rank as u8; count];
            let mut together = vec![11 + rank as u8; count];
            let begun = file
                .begin(access(
                    Direction::Write,
                    FilePosition::At(0),
                    false,
                    &mut alone,
                ))
                .unwrap();
            let place = FilePosition::At(count as i64);
            file.access(access(Direction::Write, place, true, &mut together))
                .unwrap();
            process.wait(begun).unwrap();
            file.close().unwrap();
        });
        let bytes = storage.bytes();
        assert_eq!(bytes.len(), 32 * 1000);
        for (place, byte) in bytes.iter().enumerate() {
            let rank = (place % 32 / 16) as u8;
            let expected = if place < 32 * 500 {
                1 + rank
            } else {
                11 + rank
            };
            assert_eq!(*byte, expected, "{place}");
        }
    }
}
