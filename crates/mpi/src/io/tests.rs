//! Files against a plain array of bytes, with faults of the storage.

use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use weft_fabric_local::Local;
use weft_fabric_sim::{Config, World};

use super::memory_storage::{Fault, MemoryStorage};
use super::shared_pointer::OwnPointer;
use super::*;
use crate::buffer::{TypedBuffer, elements_of};
use crate::datatype::{Basic, Datatype, Recipe};
use crate::info::Info;
use crate::{ErrorClass, Process, Status};

const ANY: AccessMode = AccessMode {
    read_only: false,
    read_write: true,
    write_only: false,
    create: true,
    exclusive: false,
    delete_on_close: false,
    unique_open: false,
    sequential: false,
    append: false,
};

/// A file over storage in memory that the ranks share.
pub(super) fn file(
    process: &Arc<Process>,
    storage: &MemoryStorage,
    hints: &[(&str, &str)],
) -> Arc<File> {
    let comm = process.world().dup().unwrap();
    let size = comm.size();
    let mut given = Info::default();
    for (key, value) in hints {
        given.set(key, value).unwrap();
    }
    let mut hints = Hints::default();
    hints.take(&given);
    File::assemble(
        comm,
        "memory".into(),
        ANY,
        Arc::new(storage.clone()),
        hints,
        Candidates {
            order: (0..size).collect(),
            usual: size.min(2) as usize,
        },
        Box::new(OwnPointer::default()),
    )
}

struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        std::process::abort();
    }
}

/// Runs so many ranks as threads.
pub(super) fn ranks(count: usize, rank: impl Fn(Arc<Process>) + Sync) {
    std::thread::scope(|scope| {
        for endpoint in Local::group(count) {
            let rank = &rank;
            scope.spawn(move || {
                let process = Process::new(Box::new(endpoint));
                // The other ranks would wait for one that has panicked.
                let end = AbortOnPanic;
                rank(Arc::clone(&process));
                process.finish().unwrap();
                std::mem::forget(end);
            });
        }
    });
}

fn bytes_of(bytes: &mut [u8]) -> TypedBuffer {
    let count = bytes.len();
    elements_of(bytes, count, Basic::Byte.datatype())
}

pub(super) fn access(
    direction: Direction,
    place: FilePosition,
    together: bool,
    bytes: &mut [u8],
) -> Access {
    Access {
        direction,
        place,
        together,
        elements: bytes_of(bytes),
    }
}

/// Pieces in a tile, as a filetype of bytes.
pub(super) fn filetype(pieces: &[(i64, i64)], extent: i64) -> Arc<Datatype> {
    let recipe = Recipe::Hindexed {
        blocks: pieces.iter().map(|piece| piece.1).collect(),
        displacements: pieces.iter().map(|piece| piece.0).collect(),
        of: Arc::clone(Basic::Byte.datatype()),
    };
    let tile = Datatype::build(recipe, false).unwrap();
    Datatype::resized(0, extent, &tile).unwrap()
}

pub(super) fn set_view(file: &File, displacement: i64, filetype: &Arc<Datatype>) {
    let byte = Basic::Byte.datatype();
    let native = Ok(Representation::Native);
    file.set_view(Some(displacement), byte, filetype, native, &Info::default())
        .unwrap();
}

/// Places of `count` bytes of a view from byte `from`.
fn places(
    displacement: i64,
    pieces: &[(i64, i64)],
    extent: i64,
    from: usize,
    count: usize,
) -> Vec<usize> {
    let tile: Vec<i64> = pieces
        .iter()
        .flat_map(|(place, length)| *place..place + length)
        .collect();
    (from..from + count)
        .map(|byte| {
            let (tiles, within) = ((byte / tile.len()) as i64, byte % tile.len());
            (displacement + tiles * extent + tile[within]) as usize
        })
        .collect()
}

/// A view of each rank: displacement, pieces, extent; where it begins, how many bytes.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    displacement: i64,
    pieces: Vec<(i64, i64)>,
    extent: i64,
    from: usize,
    count: usize,
}

/// Tiles of blocks that are dealt to ranks or to nobody, so that no two ranks write the same byte.
fn patterns(count: usize) -> impl Strategy<Value = Vec<Pattern>> {
    let blocks = prop::collection::vec((1..40_i64, 0..=count), 1..12);
    let part = prop::collection::vec((0..300_usize, 0..900_usize), count);
    (blocks, part, 0..50_i64).prop_map(move |(blocks, parts, displacement)| {
        let mut pieces = vec![Vec::new(); count];
        let mut place = 0;
        for (length, owner) in blocks {
            if let Some(owner) = pieces.get_mut(owner) {
                owner.push((place, length));
            }
            place += length;
        }
        let pattern = |(pieces, (from, count)): (Vec<(i64, i64)>, (usize, usize))| Pattern {
            displacement,
            count: if pieces.is_empty() { 0 } else { count },
            pieces,
            extent: place,
            from,
        };
        pieces.into_iter().zip(parts).map(pattern).collect()
    })
}

impl Pattern {
    fn filetype(&self) -> Arc<Datatype> {
        filetype(&self.pieces, self.extent)
    }

    fn places(&self) -> Vec<usize> {
        if self.count == 0 {
            return Vec::new();
        }
        places(
            self.displacement,
            &self.pieces,
            self.extent,
            self.from,
            self.count,
        )
    }

    fn data(&self, rank: usize) -> Vec<u8> {
        (0..self.count)
            .map(|byte| (byte * 7 + rank * 31 + 1) as u8)
            .collect()
    }
}

/// Writes the patterns over what is there, in one of several ways, and reads them back together.
pub(super) fn check_patterns(all: &[Pattern], hints: &[(&str, &str)], together: bool, seed: u64) {
    let storage = MemoryStorage::default();
    let old: Vec<u8> = (0..700).map(|byte| byte as u8 | 0x80).collect();
    write_all(&storage, &old);
    storage.seed(seed);
    ranks(all.len(), |process| {
        let rank = process.world().rank() as usize;
        let pattern = &all[rank];
        let file = file(&process, &storage, hints);
        set_view(&file, pattern.displacement, &pattern.filetype());
        let mut data = pattern.data(rank);
        let place = FilePosition::At(pattern.from as i64);
        let wrote = file
            .access(access(Direction::Write, place, together, &mut data))
            .unwrap();
        assert_eq!(wrote.bytes, pattern.count as u64);
        file.sync().unwrap();
        let mut read = vec![0; pattern.count];
        let got = file
            .access(access(Direction::Read, place, together, &mut read))
            .unwrap();
        assert_eq!(got.bytes, pattern.count as u64);
        assert_eq!(read, data);
        file.close().unwrap();
    });
    let mut expected = old;
    for (rank, pattern) in all.iter().enumerate() {
        for (place, byte) in pattern.places().into_iter().zip(pattern.data(rank)) {
            if expected.len() <= place {
                expected.resize(place + 1, 0);
            }
            expected[place] = byte;
        }
    }
    assert!(storage.bytes() == expected, "{all:?}");
}

pub(super) fn write_all(storage: &MemoryStorage, bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    let region = crate::buffer::region_of(&mut bytes);
    super::storage::write_fully(storage, region, 0).unwrap();
}

const BY_AGGREGATORS: &[(&str, &str)] = &[
    ("romio_cb_write", "enable"),
    ("romio_cb_read", "enable"),
    ("cb_buffer_size", "4096"),
    ("cb_nodes", "2"),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn views_move_the_bytes_that_they_name(all in (1..5_usize).prop_flat_map(patterns), seed: u64) {
        check_patterns(&all, &[], false, seed);
        check_patterns(&all, &[], true, seed);
        check_patterns(&all, BY_AGGREGATORS, true, seed);
    }
}

/// Blocks of `block` bytes in turn.
pub(super) fn interleaved(count: usize, block: i64, bytes: usize) -> Vec<Pattern> {
    let pattern = |rank| Pattern {
        displacement: 13,
        pieces: vec![(rank as i64 * block, block)],
        extent: block * count as i64,
        from: 5,
        count: bytes,
    };
    (0..count).map(pattern).collect()
}

#[test]
fn windows_follow_each_other() {
    for block in [1, 60, 64, 5000] {
        check_patterns(&interleaved(3, block, 40_000), BY_AGGREGATORS, true, 0);
    }
}

/// Lists too long to travel with the sizes, to each of two aggregators, which wait for each other's data: to each of them the list of
/// the other comes after it has begun to wait for data, and before these. None is taken for the other.
#[test]
fn lists_come_before_data_that_are_awaited_already() {
    let pattern = |shift: i64| Pattern {
        displacement: 0,
        // No three of these are at equal distances: each is a run of its own.
        pieces: [(0, 3), (5, 2), (12, 4), (21, 1), (29, 5)]
            .map(|(place, length)| (place + shift, length))
            .into(),
        extent: 80,
        from: 0,
        count: 15 * 200,
    };
    let both = [pattern(0), pattern(40)];
    for seed in [0, 5] {
        check_patterns(&both, BY_AGGREGATORS, true, seed);
    }
}

#[test]
fn what_nobody_wants_costs_nothing() {
    let far = |rank: i64| Pattern {
        displacement: rank << 22,
        pieces: vec![(0, 10), (20, 10)],
        extent: 40,
        from: 0,
        count: 100,
    };
    check_patterns(&[far(0), far(3)], BY_AGGREGATORS, true, 0);
}

#[test]
fn the_end_of_the_file_ends_each_read() {
    let storage = MemoryStorage::default();
    write_all(&storage, &[1; 100]);
    for hints in [&[][..], BY_AGGREGATORS] {
        ranks(2, |process| {
            let rank = process.world().rank();
            let file = file(&process, &storage, hints);
            let offset = i64::from(rank) * 8;
            set_view(&file, 0, &filetype(&[(offset, 8)], 16));
            let mut read = [0; 80];
            let all = access(Direction::Read, FilePosition::At(0), true, &mut read);
            // 100 bytes are six tiles and four bytes of rank 0.
            let expected = if rank == 0 { 52 } else { 48 };
            assert_eq!(file.access(all).unwrap().bytes, expected);
            assert_eq!(
                read.iter().filter(|byte| **byte == 1).count() as u64,
                expected
            );
            file.close().unwrap();
        });
    }
}

#[test]
fn a_full_disk_is_told_to_all_ranks() {
    for (together, hints) in [(true, &[][..]), (true, BY_AGGREGATORS), (false, &[][..])] {
        let storage = MemoryStorage::with_room(20_000);
        let failed = Mutex::new(0);
        ranks(3, |process| {
            let rank = process.world().rank();
            let file = file(&process, &storage, hints);
            let mut data = vec![7; 10_000];
            let place = FilePosition::At(i64::from(rank) * 10_000);
            match file.access(access(Direction::Write, place, together, &mut data)) {
                Ok(_) => {}
                Err(error) => {
                    assert_eq!(error.class(), ErrorClass::NoSpace, "{error}");
                    *failed.lock().unwrap() += 1;
                }
            }
            file.close().unwrap();
        });
        let expected = if together { 3 } else { 1 };
        assert_eq!(*failed.lock().unwrap(), expected, "{hints:?}");
    }
}

#[test]
fn an_error_in_the_middle_ends_all_ranks() {
    for direction in [Direction::Write, Direction::Read] {
        let storage = MemoryStorage::default();
        write_all(&storage, &[0; 100_000]);
        storage.plan([Fault::Short(10), Fault::Interrupted, Fault::Fails(5)]);
        ranks(3, |process| {
            let file = file(&process, &storage, BY_AGGREGATORS);
            let rank = i64::from(process.world().rank());
            set_view(&file, 0, &filetype(&[(rank * 10, 10)], 30));
            let mut data = vec![7; 20_000];
            let all = access(direction, FilePosition::At(0), true, &mut data);
            let error = file.access(all).unwrap_err();
            assert_eq!(error.class(), ErrorClass::Io, "{error}");
            // The next one goes on.
            let all = access(direction, FilePosition::At(0), true, &mut data);
            file.access(all).unwrap();
            file.close().unwrap();
        });
    }
}

#[test]
fn an_error_of_one_rank_stops_nobody() {
    let storage = MemoryStorage::default();
    ranks(3, |process| {
        let file = file(&process, &storage, &[]);
        let offset = if process.world().rank() == 1 { -1 } else { 0 };
        let mut data = [1; 10];
        let all = access(Direction::Write, FilePosition::At(offset), true, &mut data);
        let error = file.access(all).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Arg, "{error}");
        file.close().unwrap();
    });
}

#[test]
fn memory_with_gaps_is_gathered_and_scattered() {
    let column = Datatype::vector(1000, 3, 5, Basic::Byte.datatype()).unwrap();
    for (together, hints) in [(false, &[][..]), (true, BY_AGGREGATORS)] {
        let storage = MemoryStorage::default();
        ranks(2, |process| {
            let rank = process.world().rank() as usize;
            let file = file(&process, &storage, hints);
            set_view(&file, 0, &filetype(&[(rank as i64 * 7, 7)], 14));
            let mut memory: Vec<u8> = (0..10_000).map(|byte| (byte * 3 + rank) as u8).collect();
            let place = FilePosition::At(0);
            let elements = elements_of(&mut memory, 2, &column);
            let write = Access {
                direction: Direction::Write,
                place,
                together,
                elements,
            };
            file.access(write).unwrap();
            let mut read = vec![0xff; 10_000];
            let elements = elements_of(&mut read, 2, &column);
            let read_back = Access {
                direction: Direction::Read,
                place,
                together,
                elements,
            };
            assert_eq!(file.access(read_back).unwrap().bytes, 6000);
            for (byte, (one, two)) in memory.iter().zip(&read).enumerate() {
                // A vector ends with its last block: 4998 bytes.
                let in_piece = byte % 4998 % 5 < 3 && byte < 2 * 4998;
                assert_eq!(*two, if in_piece { *one } else { 0xff }, "{byte}");
            }
            file.close().unwrap();
        });
    }
}

#[test]
fn requests_end_with_their_accesses() {
    let storage = MemoryStorage::default();
    ranks(3, |process| {
        let file = file(&process, &storage, BY_AGGREGATORS);
        let rank = i64::from(process.world().rank());
        set_view(&file, 0, &filetype(&[(rank * 10, 10)], 30));
        let mut parts: Vec<Vec<u8>> = (0..10).map(|part| vec![part; 50]).collect();
        let mut begun = Vec::new();
        for (number, part) in parts.iter_mut().enumerate() {
            let together = number % 2 == 0;
            let one = access(Direction::Write, FilePosition::Individual, together, part);
            begun.push(file.begin(one).unwrap());
        }
        assert_eq!(file.position().unwrap(), 500);
        for request in begun {
            assert_eq!(process.wait(request).unwrap().bytes, 50);
        }
        file.sync().unwrap();
        let mut read = [0; 500];
        file.begin_split(access(
            Direction::Read,
            FilePosition::At(0),
            true,
            &mut read,
        ))
        .unwrap();
        let other = SplitCall::All(Direction::Read);
        assert_eq!(file.end_split(other).unwrap_err().class(), ErrorClass::Io);
        let mut few = [0; 50];
        let whole = access(Direction::Read, FilePosition::At(0), true, &mut few);
        let refused = file.access(whole).unwrap_err();
        assert!(
            refused.to_string().contains("split collective access"),
            "{refused}"
        );
        // Nor is it closed: the access ends as usual.
        let refused = file.close().unwrap_err();
        assert!(
            refused.class() == ErrorClass::Io && file.is_open(),
            "{refused}"
        );
        // A rank alone may.
        let alone = access(Direction::Read, FilePosition::At(0), false, &mut few);
        assert_eq!(file.access(alone).unwrap().bytes, 50);
        let status: Status = file.end_split(SplitCall::AtAll(Direction::Read)).unwrap();
        assert_eq!(status.bytes, 500);
        for (place, byte) in read.iter().enumerate() {
            assert_eq!(usize::from(*byte), place / 50);
        }
        file.close().unwrap();
        assert!(!file.is_open());
    });
}

#[test]
fn an_error_that_nobody_waits_for_is_told_at_the_end() {
    let storage = MemoryStorage::with_room(10);
    ranks(2, |process| {
        let file = file(&process, &storage, &[]);
        let mut data = [1; 100];
        if process.world().rank() == 1 {
            let one = access(Direction::Write, FilePosition::At(0), false, &mut data);
            let request = file.begin(one).unwrap();
            process.free_request(request).unwrap();
        }
        let error = file.close().unwrap_err();
        assert_eq!(error.class(), ErrorClass::NoSpace, "{error}");
    });
}

/// It has failed before the program says that it will not ask.
#[test]
fn an_error_that_was_there_when_its_request_was_freed_is_told_at_the_end() {
    let storage = MemoryStorage::with_room(10);
    ranks(1, |process| {
        let file = file(&process, &storage, &[]);
        let mut data = [[1; 100], [2; 100]];
        let requests = data.each_mut().map(|data| {
            let one = access(Direction::Write, FilePosition::At(0), false, data);
            file.begin(one).unwrap()
        });
        for request in requests {
            while matches!(process.peek(request), Ok(None)) {
                std::thread::yield_now();
            }
        }
        // One is asked for, and told.
        process.wait(requests[0]).unwrap_err();
        process.free_request(requests[1]).unwrap();
        let error = file.close().unwrap_err();
        assert_eq!(error.class(), ErrorClass::NoSpace, "{error}");
    });
}

#[test]
fn atomic_writes_are_seen_whole() {
    let storage = MemoryStorage::default();
    storage.seed(99);
    write_all(&storage, &[0; 500]);
    ranks(3, |process| {
        let file = file(&process, &storage, &[]);
        file.set_atomicity(true).unwrap();
        let rank = process.world().rank() as u8;
        set_view(&file, 0, &filetype(&[(0, 10)], 20));
        for turn in 0..30 {
            let mut data = [rank * 50 + turn; 200];
            if rank < 2 {
                file.access(access(
                    Direction::Write,
                    FilePosition::At(0),
                    false,
                    &mut data,
                ))
                .unwrap();
            } else {
                file.access(access(
                    Direction::Read,
                    FilePosition::At(0),
                    false,
                    &mut data,
                ))
                .unwrap();
                assert!(data.iter().all(|byte| *byte == data[0]), "{data:?}");
            }
        }
        file.close().unwrap();
    });
}

#[test]
fn external_data_are_big_endian_and_have_sizes_of_their_own() {
    let storage = MemoryStorage::default();
    let long = Basic::Long.datatype();
    for (together, hints) in [(false, &[][..]), (true, BY_AGGREGATORS)] {
        ranks(2, |process| {
            let rank = process.world().rank() as usize;
            let file = file(&process, &storage, hints);
            let external = Ok(Representation::External32);
            let tile = Datatype::vector(1, 2, 4, long).unwrap();
            let shown = |displacement: i64| {
                let info = Info::default();
                // Two of four longs, of four bytes in the file.
                let tile = Datatype::resized(0, 16, &tile).unwrap();
                file.set_view(Some(displacement), long, &tile, external.clone(), &info)
            };
            shown(rank as i64 * 8).unwrap();
            assert_eq!(file.type_extent(long).unwrap(), 4);
            let mut memory: Vec<u8> = (0..10_i64)
                .flat_map(|number| (number * 2 - 7 + rank as i64 * 100).to_ne_bytes())
                .collect();
            let data = memory.clone();
            let write = Access {
                direction: Direction::Write,
                place: FilePosition::At(0),
                together,
                elements: elements_of(&mut memory, 10, long),
            };
            assert_eq!(file.access(write.clone()).unwrap().bytes, 80);
            file.sync().unwrap();
            memory.fill(0);
            let read = Access {
                direction: Direction::Read,
                ..write
            };
            assert_eq!(file.access(read).unwrap().bytes, 80);
            assert_eq!(memory, data);
            file.close().unwrap();
        });
        let bytes = storage.bytes();
        assert_eq!(bytes.len(), 80);
        assert_eq!(bytes[..8], [0xff, 0xff, 0xff, 0xf9, 0xff, 0xff, 0xff, 0xfb]);
        assert_eq!(bytes[8..16], [0, 0, 0, 93, 0, 0, 0, 95]);
    }
}

/// Collective calls need no thread of their own: they run in virtual time.
#[test]
fn ranks_of_a_simulation_write_together() {
    for seed in 0..4 {
        let storage = MemoryStorage::default();
        let world = World::new(Config::new(5, seed));
        let ran = world.run(|endpoint| {
            let process = Process::new(Box::new(endpoint));
            let rank = process.world().rank();
            let file = file(&process, &storage, BY_AGGREGATORS);
            set_view(&file, 0, &filetype(&[(i64::from(rank) * 3, 3)], 15));
            let mut data = vec![rank as u8 + 1; 3000];
            let all = access(Direction::Write, FilePosition::Individual, true, &mut data);
            file.access(all).unwrap();
            file.close().unwrap();
            process.finish().unwrap();
        });
        assert!(ran.is_ok(), "{ran:?}");
        let bytes = storage.bytes();
        assert_eq!(bytes.len(), 15_000);
        assert!(
            bytes
                .chunks(15)
                .all(|tile| tile == [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5])
        );
    }
}
