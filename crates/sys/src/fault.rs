//! Memory faults: the faulting address is explained before the process dies.
//!
//! The handler runs on a stack of its own ([`AlternateStack`]), because the usual cause is an exhausted stack.
//! For a fault of this thread it asks the installed [`Explain`] for a sentence, and writes it to standard
//! error. Then the signal goes where it would have gone without us:
//!
//! | before | a fault | a signal that was sent (`kill`, `sigqueue`) |
//! |---|---|---|
//! | a handler | is called, with its mask and flags | is called, with its mask and flags |
//! | default | happens again, under the default action | is sent again, under the default action |
//! | ignored | as the default: the kernel ignores no fault | nothing |
//!
//! So a debugger, or the kernel that writes a core, still gets it. One difference: the previous handler runs
//! on the stack of this one, even without `SA_ONSTACK`.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use weft_atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::error::{check, failed, keep_errno};
use crate::memory::Mapping;

/// Explains the address of a fault: writes a sentence into the buffer and returns its length, 0 for "not
/// mine". Runs within a signal handler: no allocation, no lock.
pub type Explain = fn(address: usize, buffer: &mut [u8]) -> usize;

/// Bytes of a stack for the handler. AVX-512 state alone takes about three thousand.
const HANDLER_STACK: usize = 64 * 1024;

/// The installed function. A signal's handler belongs to the process, so this is a global.
static EXPLAIN: AtomicUsize = AtomicUsize::new(0);

/// The previous dispositions, by signal.
static BEFORE: [Before; 2] = [Before::new(), Before::new()];

const SIGNALS: [libc::c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// The previous disposition of a signal.
struct Before {
    action: OnceLock<libc::sigaction>,
    /// It asked to be called once (`SA_RESETHAND`), and was.
    spent: AtomicBool,
}

impl Before {
    const fn new() -> Self {
        Self {
            action: OnceLock::new(),
            spent: AtomicBool::new(false),
        }
    }
}

/// Installs `explain` for accesses to forbidden memory. The first one that is installed stays.
///
/// # Errors
/// If the kernel refuses.
pub fn explain_with(explain: Explain) -> io::Result<()> {
    // Miri has neither faults nor handlers.
    if cfg!(miri)
        || EXPLAIN
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
        let old = unsafe { old.assume_init() };
        // SAFETY: a sigaction of zeros is a valid value.
        let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
        new.sa_sigaction = handle as *const () as usize;
        new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
        // Whether an interrupted call is restarted stays as before. A signal that is ignored interrupts none.
        new.sa_flags |= match old.sa_sigaction {
            libc::SIG_IGN => libc::SA_RESTART,
            _ => old.sa_flags & libc::SA_RESTART,
        };
        _ = before.action.set(old);
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
    // The interrupted code may be between a call and its look at errno.
    keep_errno(|| {
        // SAFETY: the kernel hands a valid siginfo to a handler installed with SA_SIGINFO.
        let (code, address) =
            unsafe { ((*information).si_code, (*information).si_addr() as usize) };
        // Codes of the kernel are positive. A signal that was sent has no address.
        let sent = code <= 0;
        if !sent {
            tell(address);
        }
        pass_on(signal, information, context, sent);
    });
}

/// Writes the explanation of the address, if there is one.
fn tell(address: usize) {
    let explain = EXPLAIN.load(Ordering::Acquire);
    if explain == 0 {
        return;
    }
    // SAFETY: only an `Explain` was ever stored there.
    let explain: Explain = unsafe { std::mem::transmute::<usize, Explain>(explain) };
    let mut buffer = [0u8; 512];
    let length = explain(address, &mut buffer).min(buffer.len());
    if length > 0 {
        // SAFETY: the kernel reads `length` bytes of the buffer. Nothing can be done if it fails.
        unsafe { libc::write(2, buffer.as_ptr().cast(), length) };
    }
}

/// Passes the signal on as if this handler did not exist.
fn pass_on(
    signal: libc::c_int,
    information: *mut libc::siginfo_t,
    context: *mut libc::c_void,
    sent: bool,
) {
    let before = SIGNALS
        .iter()
        .position(|known| *known == signal)
        .map(|place| &BEFORE[place]);
    let action = before.and_then(|before| before.action.get());
    match (before, action) {
        (_, Some(action)) if action.sa_sigaction == libc::SIG_IGN && sent => {}
        (Some(before), Some(action)) if action.sa_sigaction > libc::SIG_IGN => {
            let once = action.sa_flags & libc::SA_RESETHAND != 0;
            if once && before.spent.swap(true, Ordering::Relaxed) {
                by_default(signal, information, sent);
            } else {
                call(action, signal, information, context);
            }
        }
        _ => by_default(signal, information, sent),
    }
}

/// Calls a handler as the kernel would have.
fn call(
    action: &libc::sigaction,
    signal: libc::c_int,
    information: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    let mut mask = action.sa_mask;
    // SAFETY: works on a set of our own, and adds to what is blocked in this thread; the kernel takes that
    // back when our handler returns.
    unsafe {
        if action.sa_flags & libc::SA_NODEFER == 0 {
            libc::sigaddset(&raw mut mask, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const mask, ptr::null_mut());
    }
    if action.sa_flags & libc::SA_SIGINFO != 0 {
        // SAFETY: installed with SA_SIGINFO, so it has this signature.
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
            unsafe { std::mem::transmute(action.sa_sigaction) };
        handler(signal, information, context);
    } else {
        // SAFETY: installed without SA_SIGINFO, so it has this signature.
        let handler: extern "C" fn(libc::c_int) =
            unsafe { std::mem::transmute(action.sa_sigaction) };
        handler(signal);
    }
}

/// The default action: for a fault when the instruction runs again, for a sent signal in this function.
fn by_default(signal: libc::c_int, information: *mut libc::siginfo_t, sent: bool) {
    // SAFETY: a sigaction of zeros is the default action. The signal is not blocked, since it has come, so it
    // ends the process before the call returns; it keeps saying who sent it.
    unsafe {
        let default: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, &raw const default, ptr::null_mut());
        if sent {
            let (process, thread) = (libc::getpid(), libc::gettid());
            libc::syscall(
                libc::SYS_rt_tgsigqueueinfo,
                process,
                thread,
                signal,
                information,
            );
            libc::raise(signal);
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
    /// Gives the calling thread such a stack, unless it has one already.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn install() -> io::Result<Self> {
        let home = std::marker::PhantomData;
        if cfg!(miri) {
            return Ok(Self { memory: None, home });
        }
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

#[cfg(all(test, not(miri)))]
mod tests;
