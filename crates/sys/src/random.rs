//! Random numbers: unpredictable bytes for keys and nonces.

use std::io;

use crate::error::{failed, last_errno};

/// Fills `bytes` from the kernel's generator.
///
/// # Errors
/// If the kernel refuses (a filter).
pub fn fill(bytes: &mut [u8]) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        let rest = &mut bytes[done..];
        // SAFETY: the kernel writes at most the bytes of `rest`.
        let count = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
        match usize::try_from(count) {
            Ok(count) => done += count,
            Err(_) if last_errno() == libc::EINTR => {}
            Err(_) => {
                return Err(failed(
                    "getrandom",
                    format!("get {} random bytes", rest.len()),
                ));
            }
        }
    }
    Ok(())
}

/// `N` unpredictable bytes.
///
/// # Errors
/// As [`fill`].
pub fn bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    fill(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #[test]
    fn two_secrets_differ() {
        let secret = || super::bytes::<32>().expect("the kernel has a generator");
        assert_ne!(secret(), secret());
    }
}
