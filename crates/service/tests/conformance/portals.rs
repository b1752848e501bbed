//! Properties of portals.

use super::*;

fn pattern(seed: usize, size: usize) -> Vec<u8> {
    (0..size)
        .map(|place| (seed * 31 + place * 7 + place / 256) as u8)
        .collect()
}

pub fn every_size_arrives(stage: &dyn Stage) {
    let sizes = [
        1, 100, 2047, 2048, 4096, 8191, 8192, 16_385, 65_536, 300_000,
    ];
    play(stage, 2, |node| {
        if node.me() == 0 {
            let portal = node.inportal(0).expect("free");
            for (seed, size) in sizes.into_iter().enumerate() {
                let mut buffer = vec![0; size + 3];
                assert_eq!(portal.read(1, 0, &mut buffer), Ok(size));
                assert_eq!(buffer[..size], pattern(seed, size));
                assert_eq!(buffer[size..], [0, 0, 0], "no more than was written");
            }
            let sum: usize = sizes.iter().sum();
            assert_eq!(node.portal_ioctl(portal.id(), 1), Ok(sum as u64));
            assert!(node.portal_ioctl(portal.id(), 2).expect("known") > 0);
        } else {
            let portal = node.outportal(0, 0).expect("opens");
            assert_eq!(portal.source(), Ok(0));
            for (seed, size) in sizes.into_iter().enumerate() {
                assert_eq!(portal.write(&pattern(seed, size)), Ok(size));
            }
        }
    });
}

pub fn one_allow_is_one_read(stage: &dyn Stage) {
    play(stage, 2, |node| {
        if node.me() == 0 {
            let portal = node.inportal(9).expect("free");
            let mut buffer = [0; 10];
            assert_eq!(
                code(node.portal_read(portal.id(), &mut buffer)),
                Code::Access
            );
            node.portal_allow(portal.id(), 1, 0).expect("allows");
            assert_eq!(code(node.portal_allow(portal.id(), 1, 0)), Code::Busy);
            assert_eq!(node.portal_read(portal.id(), &mut buffer), Ok(10));
            assert_eq!(
                code(node.portal_read(portal.id(), &mut buffer)),
                Code::Access
            );
            assert_eq!(portal.read(1, 0, &mut buffer), Ok(10));
        } else {
            let portal = node.outportal(0, 9).expect("opens");
            portal.write(&[1; 10]).expect("goes");
            portal.write(&[2; 10]).expect("goes");
        }
    });
}

pub fn writers_are_served_in_the_order_of_allow(stage: &dyn Stage) {
    play(stage, 5, |node| {
        if node.me() == 0 {
            let portal = node.inportal(0).expect("free");
            for writer in [3, 1, 4, 2] {
                let mut buffer = vec![0; 10_000];
                portal.read(writer, 0, &mut buffer).expect("comes");
                assert_eq!(buffer, pattern(writer as usize, 10_000));
            }
        } else {
            let portal = node.outportal(0, 0).expect("opens");
            let data = pattern(node.me() as usize, 10_000);
            portal.write(&data).expect("goes");
        }
    });
}

/// Whoever comes first, the data arrive: by a barrier between the two halves, both orders come to
/// pass for certain.
pub fn reader_or_writer_first(stage: &dyn Stage) {
    for size in [64, 50_000] {
        for reader_first in [true, false] {
            play(stage, 2, |node| {
                let data = pattern(1, size);
                let mut buffer = vec![0; size];
                // SAFETY: neither is touched until `wait` has answered.
                let (from, into) = unsafe {
                    (
                        weft_fabric::Region::new(data.as_ptr().cast_mut(), size),
                        weft_fabric::Region::new(buffer.as_mut_ptr(), size),
                    )
                };
                let reads = node.me() == 0;
                let id = if reads {
                    node.portal_create(0, 0).expect("free")
                } else {
                    node.portal_open(1, 0, 0).expect("opens")
                };
                let begin = || {
                    if reads {
                        node.portal_allow(id, 1, 0).expect("allows");
                        node.portal_aread(id, into).expect("begins");
                    } else {
                        node.portal_awrite(id, from).expect("begins");
                    }
                };
                if reads == reader_first {
                    begin();
                }
                barrier(node);
                if reads != reader_first {
                    begin();
                }
                assert_eq!(node.portal_wait(id), Ok(size));
                assert!(!reads || buffer == data);
            });
        }
    }
}

/// The exchange of the source, whose later public form deadlocks for composite numbers of nodes.
pub fn allgather_for_any_number(stage: &dyn Stage) {
    for count in [2, 3, 4, 6, 8, 9, 12] {
        play(stage, count, |node| {
            let (me, size) = (node.me(), 5000);
            let mine = pattern(me as usize, size);
            let inportal = node.inportal(0).expect("free");
            for step in 1..node.nodes() {
                let to = (me + step) % node.nodes();
                let from = (me + node.nodes() - step) % node.nodes();
                let out = node.outportal(to, 0).expect("opens");
                let mut buffer = vec![0; size];
                // SAFETY: not touched until `wait` has answered.
                let into = unsafe { weft_fabric::Region::new(buffer.as_mut_ptr(), size) };
                let id = inportal.id();
                node.portal_allow(id, from as i32, 0).expect("allows");
                node.portal_aread(id, into).expect("begins");
                out.write(&mine).expect("goes");
                assert_eq!(node.portal_wait(id), Ok(size));
                assert_eq!(buffer, pattern(from as usize, size));
            }
        });
    }
}

pub fn both_sides_hear_of_a_wrong_size(stage: &dyn Stage) {
    for (written, room) in [(100, 99), (60_000, 100), (60_000, 59_999)] {
        for reader_first in [true, false] {
            play(stage, 2, |node| {
                let reads = node.me() == 0;
                if reads != reader_first {
                    barrier(node);
                }
                let begun = if reads {
                    let portal = node.inportal(0).expect("free");
                    let mut buffer = vec![0; room];
                    // SAFETY: not touched until `wait` has answered.
                    let into = unsafe { weft_fabric::Region::new(buffer.as_mut_ptr(), room) };
                    node.portal_allow(portal.id(), 1, 0).expect("allows");
                    node.portal_aread(portal.id(), into).expect("begins");
                    if reader_first {
                        barrier(node);
                    }
                    let answer = code(node.portal_wait(portal.id()));
                    assert!(buffer.iter().all(|byte| *byte == 0), "nothing was moved");
                    answer
                } else {
                    let portal = node.outportal(0, 0).expect("opens");
                    let data = vec![1; written];
                    // SAFETY: not changed until `wait` has answered.
                    let from =
                        unsafe { weft_fabric::Region::new(data.as_ptr().cast_mut(), written) };
                    match node.portal_awrite(portal.id(), from) {
                        Err(error) => error.code(),
                        Ok(()) => {
                            if !reader_first {
                                barrier(node);
                            }
                            code(node.portal_wait(portal.id()))
                        }
                    }
                };
                assert_eq!(begun, Code::TooLong);
            });
        }
    }
}

pub fn a_node_moves_to_itself(stage: &dyn Stage) {
    play(stage, 1, |node| {
        let (inportal, out) = (
            node.inportal(0).expect("free"),
            node.outportal(0, 0).expect("opens"),
        );
        for size in [10, 100_000] {
            let data = pattern(size, size);
            let mut buffer = vec![0; size];
            // SAFETY: not touched until `wait` has answered.
            let into = unsafe { weft_fabric::Region::new(buffer.as_mut_ptr(), size) };
            node.portal_allow(inportal.id(), 0, 0).expect("allows");
            node.portal_aread(inportal.id(), into).expect("begins");
            out.write(&data).expect("goes");
            assert_eq!(node.portal_wait(inportal.id()), Ok(size));
            assert_eq!(buffer, data);
        }
    });
}

pub fn many_transfers_at_once(stage: &dyn Stage) {
    const PORTS: usize = 20;
    play(stage, 2, |node| {
        let size = 9000;
        let data: Vec<_> = (0..PORTS).map(|port| pattern(port, size)).collect();
        let mut buffers = vec![vec![0; size]; PORTS];
        let other = 1 - node.me();
        let inportals: Vec<_> = (0..PORTS)
            .map(|port| node.inportal(port as u8).expect("free"))
            .collect();
        let outs: Vec<_> = (0..PORTS)
            .map(|port| node.outportal(other, port as u8).expect("opens"))
            .collect();
        for (port, (inportal, buffer)) in inportals.iter().zip(&mut buffers).enumerate() {
            node.portal_allow(inportal.id(), other as i32, port as i32)
                .expect("allows");
            // SAFETY: not touched until `wait` has answered.
            let into = unsafe { weft_fabric::Region::new(buffer.as_mut_ptr(), size) };
            node.portal_aread(inportal.id(), into).expect("begins");
        }
        for (out, data) in outs.iter().zip(&data).rev() {
            // SAFETY: not changed until `wait` has answered.
            let from = unsafe { weft_fabric::Region::new(data.as_ptr().cast_mut(), size) };
            node.portal_awrite(out.id(), from).expect("begins");
        }
        for (inportal, out) in inportals.iter().zip(&outs) {
            assert_eq!(node.portal_wait(inportal.id()), Ok(size));
            assert_eq!(node.portal_wait(out.id()), Ok(size));
        }
        assert_eq!(buffers, data);
    });
}
