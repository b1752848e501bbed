//! Memory that processes share without a name: sealed [memory files](MemoryFile), and [mappings](Mapping) of them.
//!
//! If the kernel refuses memory files (a filter of system calls), an unnamed file in a folder of the host takes their place
//! ([`FOLDERS`]). It cannot be sealed, so only members of one job, which are processes of one user, accept it from each other.

mod mapping;
mod memory_file;
mod memory_node;

use crate::error::keep_errno;

pub use mapping::Mapping;
pub(crate) use memory_file::is_refused;
pub use memory_file::{FOLDERS, MemoryFile};
pub use memory_node::MemoryNode;

/// Bytes of a page, as this machine maps it.
#[must_use]
pub fn page_size() -> usize {
    rustix::param::page_size()
}

/// Asks for large pages for the whole pages of ordinary memory that has not been touched yet: the first touch of
/// each small page is a fault. Getting them only changes the speed.
pub fn prefer_large_pages(bytes: &mut [u8]) {
    let page = page_size();
    let skip = bytes.as_ptr().addr().wrapping_neg() % page;
    let length = bytes.len().saturating_sub(skip) / page * page;
    if length == 0 || cfg!(miri) {
        return;
    }
    // SAFETY: advice about whole pages that are borrowed mutably; contents do not change.
    unsafe {
        let start = bytes.as_mut_ptr().add(skip);
        keep_errno(|| libc::madvise(start.cast(), length, libc::MADV_HUGEPAGE));
    }
}
