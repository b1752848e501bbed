//! Memory in amounts that users determine: a failed allocation is an MPI error, not the end of the process.

use crate::error::{Error, ErrorClass, Result};

/// Amounts that are simply taken: a process that cannot get these cannot report anything either.
const SMALL: usize = 1 << 20;

/// From here on memory is a mapping of its own, of which no page has been touched.
const LARGE: usize = 64 << 20;

/// The end of the memory that a process of x86-64 or AArch64 has if it does not ask for more by addresses
/// of its own choice: what would reach further is no memory. The data of all ranks of a collective
/// together can then be counted without care: blocks of 2^48 bytes for 2^14 ranks fit 62 bits.
pub(crate) const END: usize = 1 << 48;

/// Checks whether the system would give this many bytes now.
///
/// # Errors
/// `NoMem` if not.
pub fn ensure(bytes: usize) -> Result<()> {
    if bytes <= SMALL || Vec::<u8>::new().try_reserve_exact(bytes).is_ok() {
        return Ok(());
    }
    Err(Error::new(
        ErrorClass::NoMem,
        format!(
            "the system does not give {bytes} bytes of memory; use smaller counts, or raise the limit of memory (ulimit -v, -d)"
        ),
    ))
}

/// Like [`ensure`], for a list of this many elements. `each`: all bytes that an element will need.
///
/// # Errors
/// `NoMem` if not.
pub fn ensure_list(elements: usize, each: usize) -> Result<()> {
    ensure(elements.saturating_mul(each))
}

/// This many zero bytes.
///
/// # Errors
/// `NoMem` if the system does not give them.
pub fn zeroed(bytes: usize) -> Result<Box<[u8]>> {
    ensure(bytes)?;
    Ok(scratch(bytes))
}

/// As [`zeroed`], of what [`ensure`] has answered for.
pub(crate) fn scratch(bytes: usize) -> Box<[u8]> {
    let mut memory: Box<[u8]> = vec![0; bytes].into();
    if bytes >= LARGE {
        weft_sys::memory::prefer_large_pages(&mut memory);
    }
    memory
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_system_gives_is_an_error() {
        assert!(ensure(1000).is_ok());
        assert_eq!(zeroed(3).unwrap().len(), 3);
        for bytes in [usize::MAX, isize::MAX as usize, 1 << 60] {
            assert_eq!(ensure(bytes).unwrap_err().class(), ErrorClass::NoMem);
        }
        let class = ensure_list(usize::MAX, 16).unwrap_err().class();
        assert_eq!(class, ErrorClass::NoMem);
    }
}
