//! What happens when memory is touched that may not be: a look at the address before the process dies.
//!
//! The handler runs on a stack of its own ([`AlternateStack`]), because the usual reason is that the
//! stack of whoever runs is used up. It asks the one [`Explain`] that was installed for a sentence,
//! writes it to standard error, and lets the fault happen again under the handler that was there before:
//! whoever wanted to know of it, a debugger or the kernel that writes a core, still does.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{check, failed};
use crate::memory::Mapping;

/// Says what an address means: writes a sentence into the buffer and answers its length, 0 for "nothing
/// of mine". Runs within a signal handler: no allocation, no lock.
pub type Explain = fn(address: usize, buffer: &mut [u8]) -> usize;

/// Bytes of a stack for the handler. AVX-512 state alone takes about three thousand.
const HANDLER_STACK: usize = 64 * 1024;

/// The function to ask. A signal's handler belongs to the process, so this is a global.
static EXPLAIN: AtomicUsize = AtomicUsize::new(0);

/// What was there before, by signal.
static BEFORE: [OnceLock<libc::sigaction>; 2] = [OnceLock::new(), OnceLock::new()];

const SIGNALS: [libc::c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// Has `explain` asked when memory is touched that may not be. The first one that is installed stays.
///
/// # Errors
/// If the kernel refuses.
pub fn explain_with(explain: Explain) -> io::Result<()> {
    if EXPLAIN
        .compare_exchange(0, explain as usize, Ordering::AcqRel, Ordering::Acquire)
        .is_err()
    {
        return Ok(());
    }
    for (signal, before) in SIGNALS.into_iter().zip(&BEFORE) {
        let purpose = || format!("handle signal {signal}");
        let mut old = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: nothing is changed; the answer is written into `old`.
        let asked = unsafe { libc::sigaction(signal, ptr::null(), old.as_mut_ptr()) };
        check(asked, "sigaction", purpose)?;
        // SAFETY: the kernel has filled it.
        _ = before.set(unsafe { old.assume_init() });
        // SAFETY: a sigaction of zeros is a valid value.
        let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
        new.sa_sigaction = handle as *const () as usize;
        new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
        // SAFETY: the handler has the signature that SA_SIGINFO asks for and lives as long as the
        // program.
        let set = unsafe { libc::sigaction(signal, &raw const new, ptr::null_mut()) };
        check(set, "sigaction", purpose)?;
    }
    Ok(())
}

extern "C" fn handle(
    signal: libc::c_int,
    information: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the kernel hands a valid siginfo to a handler installed with SA_SIGINFO.
    let address = unsafe { (*information).si_addr() } as usize;
    let explain = EXPLAIN.load(Ordering::Acquire);
    let mut buffer = [0u8; 512];
    let length = if explain == 0 {
        0
    } else {
        // SAFETY: only an `Explain` was ever stored there.
        let explain: Explain = unsafe { std::mem::transmute::<usize, Explain>(explain) };
        explain(address, &mut buffer).min(buffer.len())
    };
    if length > 0 {
        // SAFETY: the kernel reads `length` bytes of the buffer. Nothing can be done if it fails.
        unsafe { libc::write(2, buffer.as_ptr().cast(), length) };
    }
    let place = SIGNALS.iter().position(|known| *known == signal);
    let before = place.and_then(|place| BEFORE[place].get());
    match before {
        Some(before) if length == 0 && before.sa_sigaction > libc::SIG_IGN => {
            // Not ours: as if we had never been here.
            if before.sa_flags & libc::SA_SIGINFO != 0 {
                // SAFETY: installed with SA_SIGINFO, so it has this signature.
                let before: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                    unsafe { std::mem::transmute(before.sa_sigaction) };
                before(signal, information, context);
            } else {
                // SAFETY: installed without SA_SIGINFO, so it has this signature.
                let before: extern "C" fn(libc::c_int) =
                    unsafe { std::mem::transmute(before.sa_sigaction) };
                before(signal);
            }
        }
        _ => {
            // SAFETY: a sigaction of zeros is the default action; the faulting instruction runs again
            // and ends the process under it.
            unsafe {
                let default: libc::sigaction = std::mem::zeroed();
                libc::sigaction(signal, &raw const default, ptr::null_mut());
            }
        }
    }
}

/// The stack on which this thread's handlers run, until dropped (by the same thread).
#[derive(Debug)]
pub struct AlternateStack {
    memory: Option<Mapping>,
    /// A stack belongs to its thread.
    home: std::marker::PhantomData<*mut u8>,
}

impl AlternateStack {
    /// Gives the calling thread one, unless it has one already.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn install() -> io::Result<Self> {
        let home = std::marker::PhantomData;
        let mut now = MaybeUninit::<libc::stack_t>::zeroed();
        // SAFETY: asks only; the answer is written into `now`, which was zeroed before.
        let now = unsafe {
            libc::sigaltstack(ptr::null(), now.as_mut_ptr());
            now.assume_init()
        };
        if now.ss_flags & libc::SS_DISABLE == 0 && !now.ss_sp.is_null() {
            return Ok(Self { memory: None, home });
        }
        let memory = Mapping::private(HANDLER_STACK)?;
        let stack = libc::stack_t {
            ss_sp: memory.as_ptr().cast(),
            ss_flags: 0,
            ss_size: memory.len(),
        };
        // SAFETY: the memory is ours and stays mapped until the stack is disabled in `drop`.
        if unsafe { libc::sigaltstack(&raw const stack, ptr::null_mut()) } != 0 {
            return Err(failed("sigaltstack", "give a thread a stack for signals"));
        }
        Ok(Self {
            memory: Some(memory),
            home,
        })
    }
}

impl Drop for AlternateStack {
    fn drop(&mut self) {
        if self.memory.is_some() {
            let none = libc::stack_t {
                ss_sp: ptr::null_mut(),
                ss_flags: libc::SS_DISABLE,
                ss_size: 0,
            };
            // SAFETY: takes our stack away from this thread before it is unmapped.
            unsafe { libc::sigaltstack(&raw const none, ptr::null_mut()) };
        }
    }
}
