//! Memory nodes: on a machine with several nodes, memory is near to some cores and far from others. A page lies in the node of the core
//! that touches it first, unless something else was preferred for it.

use std::io;

use super::{Mapping, page_size};
use crate::error::{check, last_errno, with_errno};

/// More nodes than any kernel is built for.
const MOST: usize = 1024;
const WORD: usize = u64::BITS as usize;

/// Of `mbind` and `get_mempolicy`; the C library has no declarations of them.
const MPOL_PREFERRED: libc::c_int = 1;
const MPOL_F_ADDR: libc::c_ulong = 2;
const MPOL_F_MEMS_ALLOWED: libc::c_ulong = 4;

/// A set of nodes as the kernel has it.
type Nodes = [u64; MOST / WORD];

/// A memory node of this machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryNode(u32);

impl MemoryNode {
    /// The node of the caller's core; `None` if the kernel does not say, or has more nodes than are
    /// supported.
    #[must_use]
    pub fn here() -> Option<Self> {
        let mut node: libc::c_uint = 0;
        // SAFETY: the kernel writes one word of ours; the core is not asked for.
        let asked = unsafe {
            libc::syscall(
                libc::SYS_getcpu,
                std::ptr::null_mut::<libc::c_uint>(),
                &raw mut node,
                std::ptr::null_mut::<libc::c_void>(),
            )
        };
        (asked == 0 && (node as usize) < MOST).then_some(Self(node))
    }

    /// … if this process may use several nodes; otherwise there is nothing to choose.
    #[must_use]
    pub fn to_choose() -> Option<Self> {
        let mut nodes: Nodes = [0; MOST / WORD];
        // SAFETY: the kernel writes as many bits as it is told that there are; no address is asked for.
        let asked = unsafe {
            libc::syscall(
                libc::SYS_get_mempolicy,
                std::ptr::null_mut::<libc::c_int>(),
                nodes.as_mut_ptr(),
                MOST as libc::c_ulong,
                0 as libc::c_ulong,
                MPOL_F_MEMS_ALLOWED,
            )
        };
        let several = nodes.iter().map(|word| word.count_ones()).sum::<u32>() > 1;
        (asked == 0 && several).then(Self::here).flatten()
    }
}

impl Mapping {
    /// Makes those pages of these bytes that have not been touched yet lie in a node if it has room, whichever core touches them first;
    /// also through other mappings of the same [`MemoryFile`](super::MemoryFile).
    ///
    /// # Errors
    /// If they lie outside, do not begin with a page, or the kernel refuses.
    pub fn prefer_node(&self, offset: usize, length: usize, node: MemoryNode) -> io::Result<()> {
        let purpose = || format!("keep {length} bytes at {offset} in memory node {}", node.0);
        let place = self
            .place(offset, length, page_size())
            .ok_or_else(|| with_errno("mbind", libc::EINVAL, purpose()))?;
        let mut nodes: Nodes = [0; MOST / WORD];
        nodes[node.0 as usize / WORD] = 1 << (node.0 as usize % WORD);
        // SAFETY: within this mapping; where pages lie changes nothing that is in them. The set is read.
        let made = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                place.as_ptr(),
                length,
                MPOL_PREFERRED,
                nodes.as_ptr(),
                MOST as libc::c_ulong,
                0 as libc::c_uint,
            )
        };
        check(made as libc::c_int, "mbind", purpose).map(drop)
    }

    /// Which node was preferred for the page at `offset`.
    ///
    /// # Errors
    /// If it lies outside, or the kernel does not say.
    pub fn preferred_node(&self, offset: usize) -> io::Result<Option<MemoryNode>> {
        let purpose = || format!("find the memory node of the page at {offset}");
        let place = self
            .place(offset, 1, 1)
            .ok_or_else(|| with_errno("get_mempolicy", libc::EINVAL, purpose()))?;
        let mut mode: libc::c_int = 0;
        let mut nodes: Nodes = [0; MOST / WORD];
        // SAFETY: the kernel writes a word and as many bits as it is told that there are; the address is only looked up.
        let asked = unsafe {
            libc::syscall(
                libc::SYS_get_mempolicy,
                &raw mut mode,
                nodes.as_mut_ptr(),
                MOST as libc::c_ulong,
                place.as_ptr(),
                MPOL_F_ADDR,
            )
        };
        if asked != 0 {
            return Err(with_errno("get_mempolicy", last_errno(), purpose()));
        }
        let numbered = nodes.iter().zip((0u32..).step_by(WORD));
        let first = numbered
            .filter(|(word, _)| **word != 0)
            .map(|(word, from)| MemoryNode(from + word.trailing_zeros()))
            .next();
        Ok(first.filter(|_| mode == MPOL_PREFERRED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryFile;

    #[test]
    fn what_one_mapping_prefers_holds_for_all() {
        let Some(node) = MemoryNode::here() else {
            return;
        };
        let page = page_size();
        let file = MemoryFile::create("weft-test", 8 * page).expect("memory files exist here");
        let [one, other] = [0, 1].map(|_| file.map_part(0, 8 * page).expect("it can be mapped"));
        if let Err(refused) = one.prefer_node(2 * page, 3 * page, node) {
            println!("skipped: {refused}");
            return;
        }
        let preferred = |index: usize| other.preferred_node(index * page).expect("asked");
        let found: Vec<_> = (0..8).map(preferred).collect();
        let [no, yes] = [None, Some(node)];
        assert_eq!(found, [no, no, yes, yes, yes, no, no, no]);
        assert!(one.prefer_node(1, page, node).is_err(), "no whole page");
        assert!(one.prefer_node(8 * page, page, node).is_err(), "outside");
    }
}
