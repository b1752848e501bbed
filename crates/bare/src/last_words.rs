//! What a panic says before the process ends; nothing is unwound.

use core::panic::PanicInfo;

#[panic_handler]
fn panic(info: &PanicInfo) -> ! {
    crate::say!("weft: {info}");
    crate::abort()
}

// Libraries that the standard library would name. The second has the function by which compiled code of `alloc` would go on unwinding.
#[link(name = "c")]
#[link(name = "gcc_s")]
unsafe extern "C" {}

// The compiled `core` and `alloc` can unwind: their tables name the function that the standard library has for that. Since nothing
// unwinds, it is never called. The number is an instruction that
// no processor of ours has: `ud2`, `udf`.
core::arch::global_asm!(
    ".globl rust_eh_personality",
    ".hidden rust_eh_personality",
    ".type rust_eh_personality, %function",
    ".balign 4",
    "rust_eh_personality:",
    ".long 0x0b0f",
);
