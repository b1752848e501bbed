//! Every collective against a naive result: all sizes of communicators up to 17 and some more, all
//! roots, counts around the thresholds, crowded or not, in place or not, with gaps or without.
#![allow(unsafe_code)]

mod arguments;
mod moving;
pub(super) mod reducing;

use std::sync::Arc;

use super::choice::BULK;
use super::interpreter::{Random, run};
use super::*;
use crate::buffer::Buffer;
use crate::datatype::{Basic, Datatype, Recipe};
use crate::schedule::Schedule;

/// What varies beside the collective itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub size: usize,
    pub crowded: bool,
    pub in_place: bool,
    pub gaps: bool,
    /// Elements of 8 bytes for each rank.
    pub count: usize,
    pub hosts: Arrangement,
}

/// Which ranks share a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arrangement {
    OneHost,
    /// So many ranks that follow each other.
    Runs(usize),
    /// The first host has one, the next one two, …
    Growing,
    /// Ranks are dealt out to so many hosts.
    Dealt(usize),
}

impl Arrangement {
    fn host(self, rank: usize) -> u32 {
        match self {
            Self::OneHost => 0,
            Self::Runs(length) => (rank / length) as u32,
            Self::Growing => (1..).position(|host| rank < host * (host + 1) / 2).unwrap() as u32,
            Self::Dealt(hosts) => (rank % hosts) as u32,
        }
    }
}

impl Setting {
    fn members(&self, rank: usize) -> Members {
        let hosts = (0..self.size).map(|rank| self.hosts.host(rank));
        Members {
            rank,
            size: self.size,
            // Hosts differ, and none knows of the others.
            crowded: self.crowded && self.hosts.host(rank).is_multiple_of(2),
            hosts: Hosts::of(hosts).map(Arc::new),
        }
    }

    /// Two 32-bit numbers; with gaps around, and the second one first, if wanted.
    pub fn datatype(&self) -> Arc<Datatype> {
        let number = Basic::Uint32.datatype();
        if !self.gaps {
            return Datatype::contiguous(2, number).unwrap();
        }
        let recipe = Recipe::Hindexed {
            blocks: [1, 1].into(),
            displacements: [9, 2].into(),
            of: Arc::clone(number),
        };
        Datatype::resized(0, 15, &Datatype::build(recipe, false).unwrap()).unwrap()
    }
}

fn settings(counts: &[usize]) -> Vec<Setting> {
    let sizes: Vec<usize> = match cfg!(miri) {
        true => vec![1, 3],
        false => (1..=17).chain([37, 70]).collect(),
    };
    let mut all = Vec::new();
    for size in sizes {
        for &count in counts {
            // The large ones are slow, and have fewer ways to go wrong.
            let slow = count * size > 3000 || size > 17;
            let large = count * size > 60_000;
            if large && ![3, 8, 9, 13, 37].contains(&size) || cfg!(miri) && count > 3 {
                continue;
            }
            for bits in 0..8 {
                let flag = |bit: usize| bits >> bit & 1 == 1;
                let (crowded, in_place, gaps) = (flag(0), flag(1), flag(2));
                let rare = cfg!(miri) && (bits as u32).count_ones() % 2 == 1;
                let skipped = rare || slow && in_place != gaps || large && gaps;
                if skipped {
                    continue;
                }
                let setting = Setting {
                    size,
                    count,
                    crowded,
                    in_place,
                    gaps,
                    hosts: Arrangement::OneHost,
                };
                all.push(setting);
                let arrangements = [
                    Arrangement::Runs(size.div_ceil(2)),
                    Arrangement::Growing,
                    Arrangement::Dealt(2),
                    Arrangement::Runs(2),
                    Arrangement::Dealt(3),
                ];
                if size > 2 && size <= 17 {
                    let hosts = arrangements[(size + count + bits) % arrangements.len()];
                    all.push(Setting { hosts, ..setting });
                }
            }
        }
    }
    all
}

fn roots(setting: &Setting) -> Vec<usize> {
    let size = setting.size;
    if size <= 17 && setting.count <= 3 {
        return (0..size).collect();
    }
    let mut roots = vec![0, size / 2, size - 1];
    roots.dedup();
    roots
}

fn put_word(bytes: &mut [u8], at: usize, word: u32) {
    let [a, b, c, d] = word.to_le_bytes();
    (bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]) = (a, b, c, d);
}

/// Elements of what rank `rank` contributes, as data without gaps.
pub(super) fn elements(rank: usize, indices: std::ops::Range<usize>) -> Vec<u8> {
    let mut all = vec![0; indices.len() * 8];
    let (rank, mut at) = (rank as u32, 0);
    while at < all.len() {
        let index = (indices.start + at / 8) as u32;
        put_word(&mut all, at, rank * 7919 + index * 31 + 1);
        put_word(&mut all, at + 4, rank * 104_729 + index * 17 + 5);
        at += 8;
    }
    all
}

/// So many bytes of this value; `vec!` of anything but zeros is a loop in a debug build.
pub(super) fn filled(byte: u8, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    bytes.fill(byte);
    bytes
}

/// Memory of `count` elements of one rank.
pub(super) struct Memory {
    bytes: Vec<u8>,
    datatype: Arc<Datatype>,
}

impl Memory {
    pub fn new(setting: &Setting, count: usize) -> Self {
        let datatype = setting.datatype();
        let length = count * datatype.extent() as usize;
        Self {
            bytes: filled(0xcc, length),
            datatype,
        }
    }

    pub fn holding(setting: &Setting, data: &[u8]) -> Self {
        let mut memory = Self::new(setting, data.len() / 8);
        memory.put(0, data);
        memory
    }

    fn put(&mut self, at: usize, data: &[u8]) {
        let count = self.bytes.len() / self.datatype.extent() as usize;
        // SAFETY: the memory holds `count` elements.
        let written = unsafe {
            self.datatype
                .unpack(self.bytes.as_mut_ptr(), count, at * 8, data)
        };
        assert_eq!(written, data.len());
    }

    pub fn buffer(&mut self, count: usize) -> Buffer {
        assert!(count * self.datatype.extent() as usize <= self.bytes.len());
        // SAFETY: the memory holds `count` elements, and nobody looks at it while schedules run.
        unsafe { Buffer::new(self.bytes.as_mut_ptr(), count, &self.datatype) }
    }

    pub fn even(&mut self, count: usize, ranks: usize) -> Blocks {
        // SAFETY: as for `buffer`.
        unsafe { Blocks::even(self.bytes.as_mut_ptr(), count, &self.datatype, ranks) }.unwrap()
    }

    pub fn listed(&mut self, counts: &[usize]) -> Blocks {
        let displacements = counts.iter().scan(0, |sum, count| {
            *sum += *count as i64;
            Some(*sum - *count as i64)
        });
        let counts = counts.iter().map(|count| *count as i64);
        let base = self.bytes.as_mut_ptr();
        // SAFETY: as for `buffer`.
        unsafe { Blocks::listed(base, counts, displacements, &self.datatype) }.unwrap()
    }

    /// The data without gaps; what lies in the gaps must be as it was.
    pub fn data(&self) -> Vec<u8> {
        let count = self.bytes.len() / self.datatype.extent() as usize;
        let mut data = vec![0; count * 8];
        // SAFETY: the memory holds `count` elements.
        unsafe { self.datatype.pack(self.bytes.as_ptr(), count, 0, &mut data) };
        let mut other = filled(0xcc, self.bytes.len());
        // SAFETY: `other` is as long.
        unsafe { self.datatype.unpack(other.as_mut_ptr(), count, 0, &data) };
        assert!(
            other == self.bytes,
            "bytes between the elements were written"
        );
        data
    }
}

const UNTOUCHED: [u8; 1] = [0xcc];

fn execute(setting: &Setting, what: &str, build: impl FnMut(usize) -> Result<Schedule>) {
    let mut random = Random(0x1234_5678_9abc_def1 + setting.size as u64);
    let schedules = (0..setting.size).map(build).collect::<Result<Vec<_>>>();
    let schedules = schedules.unwrap_or_else(|error| panic!("{what} {setting:?}: {error}"));
    run(schedules, &mut random).unwrap_or_else(|error| panic!("{what} {setting:?}: {error}"));
}

/// Sizes of blocks that differ from rank to rank.
fn uneven(setting: &Setting) -> Vec<usize> {
    (0..setting.size)
        .map(|rank| (setting.count + rank * 5) % (setting.count + 3))
        .collect()
}

fn starts(counts: &[usize]) -> Vec<usize> {
    counts
        .iter()
        .scan(0, |sum, count| {
            *sum += count;
            Some(*sum - count)
        })
        .collect()
}

const BCAST: [usize; 5] = [0, 1, 3, BULK / 8, BULK / 2 + 1];
const GATHER: [usize; 6] = [0, 1, 3, 64, 65, 700];
const ALLGATHER: [usize; 6] = [0, 1, 3, 60, 300, 4097];
const ALLTOALL: [usize; 6] = [0, 1, 3, 32, 33, 500];
const REDUCE: [usize; 7] = [0, 1, 3, 70, 1000, BULK / 8, BULK / 8 + 9];
const SCAN: [usize; 4] = [0, 1, 3, 900];
const REDUCE_SCATTER: [usize; 4] = [0, 1, 3, 700];

/// What `choose` answers for these counts must be all of `choices`.
fn check_covered<T: PartialEq + std::fmt::Debug>(
    counts: &[usize],
    choices: &[T],
    choose: impl Fn(&Members, &Setting) -> T,
) {
    let settings = settings(counts)
        .into_iter()
        .filter(|setting| setting.size > 1);
    let chosen: Vec<T> = settings.map(|one| choose(&one.members(0), &one)).collect();
    for choice in choices {
        assert!(chosen.contains(choice), "{choice:?} is not tested");
    }
}

#[test]
#[cfg_attr(miri, ignore = "fewer sizes are tested there")]
fn every_algorithm_is_tested() {
    use choice::*;
    check_covered(
        &[0],
        &[Barrier::Flat, Barrier::Dissemination, Barrier::HostsFirst],
        |members, _| members.barrier(),
    );
    check_covered(
        &BCAST,
        &[
            Bcast::Flat,
            Bcast::Binomial,
            Bcast::ScatterAllgather,
            Bcast::HostsFirst,
        ],
        |members, setting| members.bcast(setting.count * 8),
    );
    check_covered(
        &GATHER,
        &[Rooted::Flat, Rooted::Binomial, Rooted::HostsFirst],
        |members, setting| members.rooted(setting.count * 8),
    );
    check_covered(
        &ALLGATHER,
        &[
            Allgather::Flat,
            Allgather::Bruck,
            Allgather::Ring,
            Allgather::HostsFirst,
        ],
        |members, setting| members.allgather(setting.count * 8 * setting.size),
    );
    check_covered(
        &ALLTOALL,
        &[
            Alltoall::Bruck,
            Alltoall::Pairwise(32),
            Alltoall::HostsFirst,
        ],
        |members, setting| members.alltoall(setting.count * 8),
    );
    check_covered(
        &REDUCE,
        &[
            Reduce::Flat,
            Reduce::Binomial,
            Reduce::Parts,
            Reduce::HostsFirst,
        ],
        |members, setting| members.reduce(setting.count * 8, setting.count, true),
    );
    let all = [
        Allreduce::Flat,
        Allreduce::RecursiveDoubling,
        Allreduce::Parts,
        Allreduce::Halving,
        Allreduce::HostsFirst,
        Allreduce::PartsOfHosts,
    ];
    check_covered(&REDUCE, &all, |members, setting| {
        members.allreduce(setting.count * 8, setting.count, true)
    });
    check_covered(
        &REDUCE_SCATTER,
        &[
            ReduceScatter::Parts,
            ReduceScatter::OneRank,
            ReduceScatter::HostsFirst,
        ],
        |members, setting| members.reduce_scatter(setting.count * 8 * setting.size),
    );
    let all = [Scan::Chain, Scan::Doubling, Scan::HostsFirst];
    check_covered(&SCAN, &all, |members, _| members.scan());
}
