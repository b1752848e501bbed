//! The environment, which belongs to the whole process.

/// Removes variables, so that children started from now on do not inherit them.
///
/// # Safety
/// No other thread may read or change the environment during this call, except through the Rust standard
/// library: C has no lock for it.
pub unsafe fn remove(names: &[&str]) {
    for name in names {
        // SAFETY: no other thread reads or changes the environment meanwhile but through the standard library,
        // which locks it: the caller promises that.
        unsafe { std::env::remove_var(name) };
    }
}
