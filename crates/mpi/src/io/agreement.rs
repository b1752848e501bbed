//! Agreement: all ranks of a collective call learn the error that one of them met. The text is sent only if something
//! failed.

use crate::buffer::{Buffer, region_of};
use crate::coll::{self, Blocks, Members};
use crate::comm::Comm;
use crate::error::{Error, ErrorClass, Result};

/// Classes that ranks tell each other, by number from 1.
const CLASSES: &[ErrorClass] = &[
    ErrorClass::Other,
    ErrorClass::Access,
    ErrorClass::Amode,
    ErrorClass::Arg,
    ErrorClass::BadFile,
    ErrorClass::Buffer,
    ErrorClass::Comm,
    ErrorClass::Conversion,
    ErrorClass::Count,
    ErrorClass::Disp,
    ErrorClass::DupDatarep,
    ErrorClass::File,
    ErrorClass::FileExists,
    ErrorClass::FileInUse,
    ErrorClass::Info,
    ErrorClass::Intern,
    ErrorClass::Io,
    ErrorClass::NoMem,
    ErrorClass::NoSpace,
    ErrorClass::NoSuchFile,
    ErrorClass::NotSame,
    ErrorClass::Quota,
    ErrorClass::ReadOnly,
    ErrorClass::Type,
    ErrorClass::UnsupportedDatarep,
    ErrorClass::UnsupportedOperation,
];

fn number_of(class: ErrorClass) -> u64 {
    let place = CLASSES.iter().position(|one| *one == class);
    place.map_or(1, |place| place as u64 + 1)
}

fn class_of(number: u64) -> ErrorClass {
    let place = number.wrapping_sub(1) as usize;
    CLASSES.get(place).copied().unwrap_or(ErrorClass::Other)
}

/// What each rank has to say, by rank.
///
/// # Errors
/// When a rank is lost.
pub(super) fn exchange<const N: usize>(comm: &Comm, own: [u64; N]) -> Result<Vec<[u64; N]>> {
    let size = comm.size() as usize;
    let mut sent: Vec<u8> = own.iter().flat_map(|word| word.to_le_bytes()).collect();
    if size == 1 {
        return Ok(vec![own]);
    }
    let each = sent.len();
    let mut received = vec![0; each * size];
    let whole = region_of(&mut received);
    let block = |rank: usize| Buffer::untyped(whole.part(rank * each, each).expect("one of them"));
    let blocks = Blocks::of((0..size).map(block).collect());
    let own = Buffer::untyped(region_of(&mut sent));
    comm.run(coll::allgather(&Members::of(comm), Some(&own), &blocks)?)?;
    Ok(received.chunks_exact(each).map(words).collect())
}

/// A block of words for each rank; answers those that each rank had for this one.
///
/// # Errors
/// When a rank is lost.
pub(super) fn exchange_each<const N: usize>(
    comm: &Comm,
    own: &[[u64; N]],
) -> Result<Vec<[u64; N]>> {
    let size = comm.size() as usize;
    if size == 1 {
        return Ok(own.to_vec());
    }
    let bytes = |block: &[u64; N]| block.map(u64::to_le_bytes);
    let mut sent: Vec<u8> = own.iter().flat_map(bytes).flatten().collect();
    let mut received = vec![0; sent.len()];
    let blocks = |bytes: &mut [u8]| {
        let whole = region_of(bytes);
        let block = |rank: usize| whole.part(rank * N * 8, N * 8).expect("one of them");
        Blocks::of((0..size).map(|rank| Buffer::untyped(block(rank))).collect())
    };
    let (out, into) = (blocks(&mut sent), blocks(&mut received));
    comm.run(coll::alltoall(&Members::of(comm), Some(&out), &into)?)?;
    Ok(received.chunks_exact(N * 8).map(words).collect())
}

fn words<const N: usize>(bytes: &[u8]) -> [u64; N] {
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    }
    words
}

/// The outcome of all ranks: an error if any of them has one.
///
/// # Errors
/// This rank's own, else that of the lowest rank that has one; when a rank is lost.
pub(super) fn agree<T>(comm: &Comm, own: Result<T>) -> Result<T> {
    agree_with(comm, own, [0; 1]).map(|(own, _)| own)
}

/// As [`agree`], with words of each rank.
///
/// # Errors
/// As for [`agree`].
pub(super) fn agree_with<T, const N: usize>(
    comm: &Comm,
    own: Result<T>,
    words: [u64; N],
) -> Result<(T, Vec<[u64; N]>)> {
    if comm.size() == 1 {
        return own.map(|own| (own, vec![words]));
    }
    let told = own.as_ref().err().map(|error| {
        // A sentence that ends: what is longer is no sentence.
        let mut text = error.text().as_bytes().to_vec();
        text.truncate(1000);
        (number_of(error.class()), text)
    });
    let (number, length) = told
        .as_ref()
        .map_or((0, 0), |(number, text)| (*number, text.len() as u64));
    // Two exchanges of different widths would be two collectives.
    let outcomes = exchange_pair(comm, [number, length], words)?;
    let failed = outcomes
        .iter()
        .enumerate()
        .find(|(_, (outcome, _))| outcome[0] != 0);
    if let Some((rank, ([number, length], _))) = failed {
        let mut text = vec![0; *length as usize];
        if rank == comm.rank() as usize
            && let Some((_, own)) = &told
        {
            text.copy_from_slice(own);
        }
        let buffer = Buffer::untyped(region_of(&mut text));
        comm.run(coll::bcast(&Members::of(comm), &buffer, rank)?)?;
        own?;
        return Err(Error::new(
            class_of(*number),
            format!(
                "rank {rank} of the file's communicator: {}",
                String::from_utf8_lossy(&text)
            ),
        ));
    }
    let said = outcomes.into_iter().map(|(_, words)| words).collect();
    own.map(|own| (own, said))
}

fn exchange_pair<const N: usize>(
    comm: &Comm,
    outcome: [u64; 2],
    said: [u64; N],
) -> Result<Vec<([u64; 2], [u64; N])>> {
    const MOST: usize = 24;
    const { assert!(N + 2 <= MOST) };
    let mut all = [0; MOST];
    all[..2].copy_from_slice(&outcome);
    all[2..2 + N].copy_from_slice(&said);
    let split = |block: [u64; MOST]| {
        let mut said = [0; N];
        said.copy_from_slice(&block[2..2 + N]);
        ([block[0], block[1]], said)
    };
    Ok(exchange(comm, all)?.into_iter().map(split).collect())
}
