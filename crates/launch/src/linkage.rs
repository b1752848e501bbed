//! Linkage of a program: the MPI library that it was linked with, read from its file. A program of another
//! implementation would run under this launcher as many copies of rank 0, each believing that it is alone.
//!
//! Only what stands in the program itself is seen; a script that loads MPI later is not looked into.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Libraries of other implementations, by the beginning of their names, and whose they are.
const FOREIGN: [(&str, &str); 5] = [
    ("libmpi.so.40", "Open MPI"),
    ("libmpi.so.20", "Open MPI"),
    ("libmpi.so.12", "MPICH or Intel MPI"),
    ("libmpich.so.", "MPICH"),
    ("libmpifort.so.12", "MPICH or Intel MPI"),
];

/// The name of the library of another implementation that a program needs, and whose it is.
pub fn foreign_library(program: &Path) -> Option<(String, &'static str)> {
    let needed = needed(&File::open(program).ok()?)?;
    needed.into_iter().find_map(|library| {
        let foreign = FOREIGN.iter();
        let found = foreign.copied().find(|(name, _)| library.starts_with(name));
        found.map(|(_, who)| (library, who))
    })
}

/// More than any program has; what claims more is not read.
const MOST: u64 = 1 << 20;

/// The libraries that a 64-bit ELF file names; `None` if it is something else, or broken.
fn needed(file: &File) -> Option<Vec<String>> {
    let read = |at: u64, length: u64| -> Option<Vec<u8>> {
        if length > MOST {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        file.read_exact_at(&mut bytes, at).ok()?;
        Some(bytes)
    };
    let file_header = read(0, 64)?;
    // 64 bits, little-endian: what this launcher runs on.
    if file_header[..6] != *b"\x7fELF\x02\x01" {
        return None;
    }
    let (table, size, count) = (
        long(&file_header, 32)?,
        short(&file_header, 54)?,
        short(&file_header, 56)?,
    );
    let entries = read(table, u64::from(size) * u64::from(count))?;
    let headers: Vec<ProgramHeader> = entries
        .chunks_exact(usize::from(size.max(56)))
        .filter_map(ProgramHeader::parse)
        .collect();
    let dynamic = headers
        .iter()
        .find(|header| header.kind == ProgramHeader::DYNAMIC)?;
    let records = read(dynamic.offset, dynamic.length)?;
    let records = records.chunks_exact(16);
    let pairs: Vec<(u64, u64)> = records
        .filter_map(|record| Some((long(record, 0)?, long(record, 8)?)))
        .take_while(|(tag, _)| *tag != 0)
        .collect();
    let value = |wanted| Some(pairs.iter().find(|(tag, _)| *tag == wanted)?.1);
    let (address, length) = (value(5)?, value(10)?);
    // The names are told by where they will be in memory.
    let loaded = |header: &&ProgramHeader| {
        header.kind == ProgramHeader::LOAD
            && (header.address..header.address.saturating_add(header.length)).contains(&address)
    };
    let header = headers.iter().find(loaded)?;
    let names = read(header.offset.checked_add(address - header.address)?, length)?;
    let name = |at: u64| -> Option<String> {
        let rest = names.get(usize::try_from(at).ok()?..)?;
        let end = rest.iter().position(|&byte| byte == 0)?;
        Some(String::from_utf8_lossy(&rest[..end]).into_owned())
    };
    let wanted = pairs.iter().filter(|(tag, _)| *tag == 1);
    Some(wanted.filter_map(|(_, at)| name(*at)).collect())
}

/// One row of the table of program headers.
struct ProgramHeader {
    kind: u32,
    offset: u64,
    address: u64,
    length: u64,
}

impl ProgramHeader {
    const LOAD: u32 = 1;
    const DYNAMIC: u32 = 2;

    fn parse(row: &[u8]) -> Option<Self> {
        Some(Self {
            kind: u32::from_le_bytes(row.get(..4)?.try_into().ok()?),
            offset: long(row, 8)?,
            address: long(row, 16)?,
            length: long(row, 32)?,
        })
    }
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_libraries_of_this_very_test_are_found() {
        let us = File::open("/proc/self/exe").expect("we are a program");
        let needed = needed(&us).expect("an ELF file");
        assert!(
            needed.iter().any(|name| name.starts_with("libc.so")),
            "{needed:?}"
        );
        assert_eq!(foreign_library(Path::new("/proc/self/exe")), None);
    }

    #[test]
    fn broken_files_are_nothing() {
        let whole = std::fs::read("/proc/self/exe").expect("readable");
        let mut file = tempfile::tempfile().expect("a file");
        // Cut short, and with each byte of the header spoiled in turn.
        file.write_all(&whole[..200]).expect("writes");
        assert_eq!(needed(&file), None);
        for at in 0..64 {
            for value in [0, 0x7f, 0xff] {
                let mut spoiled = whole[..4096].to_vec();
                spoiled[at] = value;
                file.set_len(0).expect("empties");
                file.write_all_at(&spoiled, 0).expect("writes");
                let _ = needed(&file);
            }
        }
        assert_eq!(foreign_library(Path::new("/etc/passwd")), None);
    }
}
