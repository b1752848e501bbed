//! Fences: the pair of fences of a protocol in which one side announces and looks again, while the other
//! publishes and looks for announcements.
//!
//! ```text
//!   the rare side (sleeper)          the frequent side (ringer)
//!   A  announce = 1                  P  publish
//!   heavy fence                      light fence
//!   L  look at what is published     S  look for an announcement
//! ```
//!
//! What must never happen: L misses P *and* S misses A. Then one side sleeps and the other believes that
//! nobody sleeps.
//!
//! # Symmetric
//! Both sides execute a full fence. The fences have a total order. If the sleeper's is first, S sees A; if
//! the ringer's is first, L sees P.
//!
//! # Asymmetric
//! The ringer executes no instruction; its fence only keeps the compiler from exchanging P and S. The
//! sleeper asks the kernel ([`Kernel::barrier`]) to make every core that runs a thread of a
//! registered process execute a full fence, somewhere in the thread's instruction stream, between
//! the sleeper's A and L. Call that point X on the ringer's core. A thread that does not run at that
//! moment passed a full fence when it was switched out and another when it is switched in: its X.
//!
//! * X falls before P in the program order of the ringer: then S comes after X as well. A was visible
//!   before the fence on the ringer's core was asked for, so S, executed after it, sees A.
//! * X falls after P: the fence drains the ringer's store buffer, so P is visible before the kernel
//!   reports completion to the sleeper, and L, after that, sees P.
//!
//! There is no third case, so one of the two sees the other. The argument needs that *all* ringers registered
//! with the kernel before they first rang in this mode, and that all parties of one doorbell agree on the
//! mode: two ringers may use different modes without harm, but a sleeper and a ringer that both fence lightly
//! lose wake-ups. Hence the mode is decided once.
//!
//! The light side costs about 0 instead of 5 ns; the heavy side a system call and an interrupt of each core
//! that runs a thread of the job, instead of 5 ns. The asymmetric mode pays off where messages outnumber
//! sleeps. Where they do not, the owner of a [doorbell](mod@crate::doorbell) has its ringers fence all the same.

use crate::{Kernel, Ordering};

/// Which pair of fences the parties of a doorbell use. All must use the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u32)]
pub enum FenceMode {
    /// Both sides execute a full fence. Works everywhere.
    #[default]
    Symmetric = 0,
    /// The ringer only orders the compiler, the sleeper makes the kernel fence all cores. Only when every
    /// party has registered for it.
    Asymmetric = 1,
}

impl FenceMode {
    /// The mode from its number in a shared header; `None` for anything else.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::Symmetric),
            1 => Some(Self::Asymmetric),
            _ => None,
        }
    }

    /// The fence of the side that publishes, after publishing and before looking for sleepers.
    #[inline]
    pub fn light(self) {
        match self {
            Self::Symmetric => full(),
            Self::Asymmetric => core::sync::atomic::compiler_fence(Ordering::SeqCst),
        }
    }

    /// As [`light`](Self::light), for a side that has just published by an atomic read-modify-write
    /// (`fetch_or`, `swap`, …) and by nothing later. On x86 that instruction is the fence already.
    #[inline]
    pub fn light_after_exchange(self) {
        if cfg!(all(target_arch = "x86_64", not(loom), not(miri))) {
            // The compiler must not move the next load before the locked instruction.
            core::sync::atomic::compiler_fence(Ordering::SeqCst);
        } else {
            self.light();
        }
    }

    /// The fence of the side that announces, after announcing and before looking again.
    #[inline]
    pub fn heavy(self, kernel: &(impl Kernel + ?Sized)) {
        match self {
            Self::Symmetric => full(),
            Self::Asymmetric => {
                // The compiler moves nothing across these two; the call orders the processor.
                core::sync::atomic::compiler_fence(Ordering::SeqCst);
                kernel.barrier();
                core::sync::atomic::compiler_fence(Ordering::SeqCst);
            }
        }
    }
}

/// A full fence, in its fastest form: on x86 a locked instruction on the thread's own stack takes 5 ns where
/// `mfence` takes 12, and orders ordinary memory equally.
#[inline]
fn full() {
    #[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
    // SAFETY: `or` of zero into the word at the top of the stack changes no memory and leaves the
    // stack as it is; the flags are declared clobbered by default, as is memory.
    unsafe {
        core::arch::asm!("lock or dword ptr [rsp], 0");
    }
    #[cfg(not(all(target_arch = "x86_64", not(loom), not(miri))))]
    crate::fence(Ordering::SeqCst);
}
