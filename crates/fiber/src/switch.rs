//! Context switch of x86-64. Under Miri, [threads](../switch_of_threads.rs) emulate it.
//!
//! ```text
//!   a suspended context                    a new one
//!   sp ─► where to go on (an address)      sp ─► begin
//!         rbx                                    what `begin` hands to `main`
//!         rbp                                    0     (where a caller would stand: the end of the stack)
//!         … the frames of the fiber
//! ```
//!
//! The compiler treats everything else as clobbered by a switch, so it saves what it needs and no more: usually nothing.
//! The two registers that cannot be declared as clobbered are saved by hand. The next context is reached by a jump and
//! not by a return, which the processor would predict wrongly.
//!
//! Under ThreadSanitizer its [handle](crate::sanitizer) of the stack is above the address.
//!
//! The floating-point control words (`mxcsr`, the x87 word) stay with the worker. A shadow stack (CET) is not switched;
//! Linux gives one only to a program that asks for it.

use core::arch::{asm, naked_asm};

/// A context that does not run: its stack pointer.
pub(crate) type Context = *mut u8;

/// Stores the running context at `save` and goes on with `next`. Returns when somebody switches back.
///
/// Not to be inlined into a function that holds a reference to a thread-local across it: a fiber that
/// migrates comes back on another thread.
///
/// # Safety
/// `next` must have been stored by a switch, or be made by [`prepare`], and must not have gone on since;
/// its stack must be live. `save` must be writable, and what is stored there must go on on a thread that
/// may run what this one holds.
#[inline(always)]
pub(crate) unsafe fn switch(save: *mut Context, next: Context) {
    // SAFETY: the frame is as drawn above. Whoever switches back finds the label's address on top; what
    // stood in registers is declared lost or saved. The compiler keeps nothing below the stack pointer,
    // since the block does not promise to leave the stack alone.
    unsafe {
        #[cfg(sanitizer = "thread")]
        let handle = crate::sanitizer::current();
        #[cfg(sanitizer = "thread")]
        crate::sanitizer::before_switch(next);
        asm!(
            "push rbp",
            "push rbx",
            #[cfg(sanitizer = "thread")]
            "push rdx",
            "lea rax, [rip + 2f]",
            "push rax",
            "mov [rdi], rsp",
            "mov rsp, rsi",
            "pop rax",
            "jmp rax",
            "2:",
            #[cfg(sanitizer = "thread")]
            "pop rdx",
            "pop rbx",
            "pop rbp",
            inout("rdi") save => _,
            inout("rsi") next => _,
            #[cfg(sanitizer = "thread")]
            inout("rdx") handle => _,
            out("r12") _, out("r13") _, out("r14") _, out("r15") _,
            clobber_abi("C"),
        );
    }
}

/// As [`switch`] by a context that never goes on.
///
/// # Safety
/// As there.
#[inline(always)]
pub(crate) unsafe fn finish(save: *mut Context, next: Context) -> ! {
    // SAFETY: `save` is writable and `next` is a context that is not running, as the caller promises of `switch`.
    unsafe { switch(save, next) };
    unreachable!("a context that has finished is not run again")
}

/// The context has finished: nothing of it is left after this.
///
/// # Safety
/// It must come from [`prepare`], and be reclaimed once.
#[inline(always)]
pub(crate) unsafe fn reclaim(_: Context) {}

/// A context at the top of a fresh stack, which calls `main(argument)` when it is switched to.
///
/// # Safety
/// `top` must be aligned to 16, and the 32 bytes below it must be writable and not used otherwise while
/// the context lives. `main` must not return or unwind.
pub(crate) unsafe fn prepare(
    top: *mut u8,
    main: unsafe extern "C-unwind" fn(*mut u8) -> !,
    argument: *mut u8,
) -> Context {
    // SAFETY: all writes lie within the 32 bytes below `top`, which the caller promises to be aligned, writable and
    // unused.
    unsafe {
        let top = top.cast::<usize>();
        top.sub(1).write(main as usize);
        top.sub(2).write(argument.addr());
        #[cfg(sanitizer = "thread")]
        let top = {
            top.sub(3)
                .cast::<crate::sanitizer::Handle>()
                .write(crate::sanitizer::create());
            top.sub(1)
        };
        top.sub(3).write(begin as *const () as usize);
        top.sub(3).cast()
    }
}

/// Where a new context begins: takes its argument from the stack and calls its main function.
#[unsafe(naked)]
unsafe extern "C" fn begin() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined rip",
        #[cfg(sanitizer = "thread")]
        "pop rdi",
        "pop rdi",
        "pop rax",
        // The end of the chain of frames, for debuggers that follow it.
        "xor ebp, ebp",
        "call rax",
        "ud2",
        ".cfi_endproc",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    struct Pair {
        home: Cell<Context>,
        other: Cell<Context>,
        seen: Cell<u32>,
    }

    unsafe extern "C-unwind" fn main(pair: *mut u8) -> ! {
        // SAFETY: the test's own pair, alive as long as it switches.
        let pair = unsafe { &*pair.cast::<Pair>() };
        // Keeps registers of every kind busy across the switch.
        let (mut integer, mut real) = (1u64, 0.5f64);
        loop {
            integer = integer.wrapping_mul(3);
            real *= 1.5;
            pair.seen.set(integer as u32 ^ (real as u32));
            // SAFETY: the home context is suspended in the test's own switch.
            unsafe { switch(pair.other.as_ptr(), pair.home.get()) };
        }
    }

    #[test]
    fn two_contexts_take_turns_and_keep_their_registers() {
        #[repr(align(16))]
        struct Stack([u8; 65536]);
        let mut stack = Box::new(Stack([0; 65536]));
        let pair = Pair {
            home: Cell::new(std::ptr::null_mut()),
            other: Cell::new(std::ptr::null_mut()),
            seen: Cell::new(0),
        };
        let top = stack.0.as_mut_ptr_range().end;
        // SAFETY: the stack is ours, aligned, and outlives the context, which is never run again.
        let context = unsafe { prepare(top, main, (&raw const pair).cast_mut().cast()) };
        pair.other.set(context);
        let (mut integer, mut real) = (1u64, 0.5f64);
        for _ in 0..20 {
            // SAFETY: stored by `prepare` or by the last switch.
            unsafe { switch(pair.home.as_ptr(), pair.other.get()) };
            integer = integer.wrapping_mul(3);
            real *= 1.5;
            assert_eq!(pair.seen.get(), integer as u32 ^ (real as u32));
        }
    }
}
