//! Collectives that move data.

use super::*;

#[test]
fn barriers_end() {
    for setting in settings(&[0]) {
        execute(&setting, "barrier", |rank| barrier(&setting.members(rank)));
    }
}

#[test]
fn bcast_gives_all_the_roots_data() {
    for setting in settings(&BCAST) {
        for root in roots(&setting) {
            let expected = elements(root, 0..setting.count);
            let mut memory: Vec<Memory> = (0..setting.size)
                .map(|rank| match rank == root {
                    true => Memory::holding(&setting, &expected),
                    false => Memory::new(&setting, setting.count),
                })
                .collect();
            let buffers: Vec<Buffer> = memory
                .iter_mut()
                .map(|one| one.buffer(setting.count))
                .collect();
            execute(&setting, "bcast", |rank| {
                bcast(&setting.members(rank), &buffers[rank], root)
            });
            for (rank, memory) in memory.iter().enumerate() {
                assert!(
                    memory.data() == expected,
                    "{setting:?} root {root} rank {rank}"
                );
            }
        }
    }
}

#[test]
fn gather_and_scatter_move_blocks_to_and_from_the_root() {
    for setting in settings(&GATHER) {
        let even = vec![setting.count; setting.size];
        for (counts, vector) in [(even, false), (uneven(&setting), true)] {
            for root in roots(&setting) {
                check_gather(&setting, &counts, vector, root);
                check_scatter(&setting, &counts, vector, root);
            }
        }
    }
}

fn blocks(memory: &mut Memory, setting: &Setting, counts: &[usize], vector: bool) -> Blocks {
    if vector {
        memory.listed(counts)
    } else {
        memory.even(setting.count, setting.size)
    }
}

fn check_gather(setting: &Setting, counts: &[usize], vector: bool, root: usize) {
    let at = starts(counts);
    let total = counts.iter().sum();
    let dense = Setting {
        gaps: false,
        ..*setting
    };
    let expected: Vec<u8> = (0..setting.size)
        .flat_map(|rank| elements(rank, 0..counts[rank]))
        .collect();
    // The senders' layout differs from the root's.
    let mut send: Vec<Memory> = (0..setting.size)
        .map(|rank| {
            Memory::holding(
                if rank % 2 == 0 { &dense } else { setting },
                &elements(rank, 0..counts[rank]),
            )
        })
        .collect();
    let mut receive = Memory::new(setting, total);
    if setting.in_place {
        receive.put(at[root], &elements(root, 0..counts[root]));
    }
    let send: Vec<Buffer> = send
        .iter_mut()
        .zip(counts)
        .map(|(one, count)| one.buffer(*count))
        .collect();
    let all = blocks(&mut receive, setting, counts, vector);
    execute(setting, "gather", |rank| {
        let here = rank == root;
        let send = (!(here && setting.in_place)).then_some(&send[rank]);
        let receive = here.then_some(&all);
        if vector {
            gatherv(&setting.members(rank), send, receive, root)
        } else {
            gather(&setting.members(rank), send, receive, root)
        }
    });
    assert!(
        receive.data() == expected,
        "{setting:?} root {root} {vector}"
    );
}

fn check_scatter(setting: &Setting, counts: &[usize], vector: bool, root: usize) {
    let all: Vec<u8> = (0..setting.size)
        .flat_map(|rank| elements(rank, 0..counts[rank]))
        .collect();
    let mut send = Memory::holding(setting, &all);
    let dense = Setting {
        gaps: false,
        ..*setting
    };
    let mut receive: Vec<Memory> = (0..setting.size)
        .map(|rank| Memory::new(if rank % 2 == 0 { &dense } else { setting }, counts[rank]))
        .collect();
    let into: Vec<Buffer> = receive
        .iter_mut()
        .zip(counts)
        .map(|(one, count)| one.buffer(*count))
        .collect();
    let from = blocks(&mut send, setting, counts, vector);
    execute(setting, "scatter", |rank| {
        let here = rank == root;
        let receive = (!(here && setting.in_place)).then_some(&into[rank]);
        let send = here.then_some(&from);
        if vector {
            scatterv(&setting.members(rank), send, receive, root)
        } else {
            scatter(&setting.members(rank), send, receive, root)
        }
    });
    for (rank, memory) in receive.iter().enumerate() {
        if rank == root && setting.in_place {
            assert!(memory.bytes.iter().all(|byte| UNTOUCHED.contains(byte)));
        } else {
            assert!(
                memory.data() == elements(rank, 0..counts[rank]),
                "{setting:?} {root} {rank}"
            );
        }
    }
}

#[test]
fn allgather_gives_all_blocks_to_all() {
    for setting in settings(&ALLGATHER) {
        let even = vec![setting.count; setting.size];
        for (counts, vector) in [(even, false), (uneven(&setting), true)] {
            let at = starts(&counts);
            let expected: Vec<u8> = (0..setting.size)
                .flat_map(|rank| elements(rank, 0..counts[rank]))
                .collect();
            let mut send: Vec<Memory> = (0..setting.size)
                .map(|rank| Memory::holding(&setting, &elements(rank, 0..counts[rank])))
                .collect();
            let mut receive: Vec<Memory> = (0..setting.size)
                .map(|rank| {
                    let mut memory = Memory::new(&setting, counts.iter().sum());
                    if setting.in_place {
                        memory.put(at[rank], &elements(rank, 0..counts[rank]));
                    }
                    memory
                })
                .collect();
            let from: Vec<Buffer> = send
                .iter_mut()
                .zip(&counts)
                .map(|(one, count)| one.buffer(*count))
                .collect();
            let into: Vec<Blocks> = receive
                .iter_mut()
                .map(|one| blocks(one, &setting, &counts, vector))
                .collect();
            execute(&setting, "allgather", |rank| {
                let send = (!setting.in_place).then_some(&from[rank]);
                if vector {
                    allgatherv(&setting.members(rank), send, &into[rank])
                } else {
                    allgather(&setting.members(rank), send, &into[rank])
                }
            });
            for (rank, memory) in receive.iter().enumerate() {
                assert!(
                    memory.data() == expected,
                    "{setting:?} rank {rank} {vector}"
                );
            }
        }
    }
}

#[test]
fn alltoall_transposes() {
    for setting in settings(&ALLTOALL) {
        for vector in [false, true] {
            // From rank `from` to rank `to`; alike both ways, so that it can be done in place.
            let count = |from: usize, to: usize| match vector {
                true => (setting.count + from * to) % (setting.count + 4),
                false => setting.count,
            };
            let size = setting.size;
            let block = |from: usize, to: usize| elements(from * size + to, 0..count(from, to));
            let counts = |rank: usize| (0..size).map(|to| count(rank, to)).collect::<Vec<_>>();
            let row = |rank: usize| {
                (0..size)
                    .map(|to| block(rank, to))
                    .collect::<Vec<_>>()
                    .concat()
            };
            let mut send: Vec<Memory> = (0..size)
                .map(|rank| Memory::holding(&setting, &row(rank)))
                .collect();
            let mut receive: Vec<Memory> = (0..size)
                .map(|rank| match setting.in_place {
                    true => Memory::holding(&setting, &row(rank)),
                    false => Memory::new(&setting, counts(rank).iter().sum()),
                })
                .collect();
            let all = |memory: &mut Vec<Memory>| -> Vec<Blocks> {
                let ranks = memory.iter_mut().enumerate();
                ranks
                    .map(|(rank, one)| blocks(one, &setting, &counts(rank), vector))
                    .collect()
            };
            let (from, into) = (all(&mut send), all(&mut receive));
            execute(&setting, "alltoall", |rank| {
                let send = (!setting.in_place).then_some(&from[rank]);
                if vector {
                    alltoallv("MPI_Alltoallv", &setting.members(rank), send, &into[rank])
                } else {
                    alltoall(&setting.members(rank), send, &into[rank])
                }
            });
            for (rank, memory) in receive.iter().enumerate() {
                let expected: Vec<_> = (0..size).map(|from| block(from, rank)).collect();
                assert!(
                    memory.data() == expected.concat(),
                    "{setting:?} rank {rank} {vector}"
                );
            }
        }
    }
}
