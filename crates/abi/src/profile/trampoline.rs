//! Trampoline: the code that profiled entry points jump to. There is one for all calls, as all arguments are
//! integers or addresses.
//!
//! ```text
//!   program ──call──► MPI_Send ──jmp──► stub 17 ──jmp──► trampoline      frame: arguments, return address
//!                                        its number       │ enter   ─► counts, looks at the clock
//!                                                         │ call PMPI_Send, with the arguments anew
//!                                                         │ leave   ─► looks at the clock
//!                                                         ▼
//!                                                     program
//! ```
//!
//! A call that is left out because it is frequent takes another way, which counts it and continues:
//!
//! ```text
//!   MPI_Send ──jmp──► light stub 17 ──jmp──► PMPI_Send
//!                      the thread's count of it
//! ```
//!
//! The count is in the memory that the launcher has made, and a thread finds its own by a word of its static block. If only the thread of the first
//! area makes calls, the rows of that area are also at an address known to the code, and stubs of half the length count there.
//!
//! A call that is only counted does not return to the trampoline. The stack can be unwound through it, so
//! that errors and reports name the caller as before.

use weft_atomic::AtomicU64;
use weft_launch::profile::layout::{CALL_ROWS, call as row};

use crate::c;
use crate::generated::profiled::CALLS;

/// The trampoline's data of a call while it runs, at the lower end of its frame.
#[repr(C)]
pub struct Frame {
    /// The first six arguments.
    pub first: [u64; 6],
    /// Address of the further ones. They belong to the called function.
    pub further: *mut u64,
    /// How many further ones there are.
    pub count: u64,
    /// The number of the call.
    pub call: u64,
    /// Its return address.
    pub back: u64,
    /// Its result.
    pub result: u64,
    /// The site's place in the area of the thread, and whether it is timed.
    pub token: u64,
    /// When it began; 0 if it is not timed.
    pub begun: u64,
    /// The collective at which it arrives, if that is recorded.
    pub arrival: u64,
    /// 1 if nothing is to be done when it has returned: it continues without the trampoline.
    pub plain: u32,
    /// The number in the job of the first member of its communicator.
    pub leader: u32,
    /// A status, for calls that were given none.
    pub status: c::Status,
    /// Statuses, for calls that were given no array of them.
    pub lent: *mut Box<[c::Status]>,
    /// The mark of the message that it sends.
    pub mark: u64,
}

/// Bytes that the trampoline takes for a [`Frame`].
const ROOM: usize = 176;
const _: () = assert!(size_of::<Frame>() <= ROOM && ROOM.is_multiple_of(16));
const _: () = assert!(std::mem::offset_of!(Frame, further) == 48);
const _: () = assert!(std::mem::offset_of!(Frame, count) == 56);
const _: () = assert!(std::mem::offset_of!(Frame, call) == 64);
const _: () = assert!(std::mem::offset_of!(Frame, back) == 72);
const _: () = assert!(std::mem::offset_of!(Frame, result) == 80);

impl Frame {
    /// An argument.
    ///
    /// # Safety
    /// The call has as many.
    #[inline]
    pub unsafe fn argument(&self, number: usize) -> u64 {
        match self.first.get(number) {
            Some(first) => *first,
            // SAFETY: the caller promises that it is there.
            None => unsafe { self.further.add(number - 6).read() },
        }
    }

    /// Gives the call another argument.
    ///
    /// # Safety
    /// As for [`argument`](Self::argument).
    pub unsafe fn set_argument(&mut self, number: usize, value: u64) {
        match self.first.get_mut(number) {
            Some(first) => *first = value,
            // SAFETY: as above; the memory belongs to the called function (System V ABI, section 3.2.3).
            None => unsafe { self.further.add(number - 6).write(value) },
        }
    }
}

/// Bytes of a stub.
const STUB: usize = 16;

/// The jump target of a profiled entry point; `None` on machines without the trampoline.
pub fn stub(call: usize) -> Option<*mut ()> {
    #[cfg(target_arch = "x86_64")]
    {
        let first = stubs as unsafe extern "C" fn() as *mut u8;
        (call < STUBS).then(|| first.wrapping_add(call * STUB).cast())
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = call;
        None
    }
}

/// How many stubs there are.
const STUBS: usize = CALLS.len();
const _: () = assert!(STUBS <= CALL_ROWS);

/// Bytes of a light stub.
#[cfg(target_arch = "x86_64")]
const LIGHT: usize = 32;

/// The jump target of an entry point that is only counted.
pub fn light_stub(call: usize) -> Option<*mut ()> {
    #[cfg(target_arch = "x86_64")]
    {
        let first = light_stubs as unsafe extern "C" fn() as *mut u8;
        (call < STUBS).then(|| first.wrapping_add(call * LIGHT).cast())
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = call;
        None
    }
}

/// Bytes of a light stub when one thread makes calls.
#[cfg(target_arch = "x86_64")]
const LIGHTEST: usize = 16;

/// As [`light_stub`], when only the thread of the first area makes calls and [`FIRST`] are its rows.
pub fn stub_of_one_thread(call: usize) -> Option<*mut ()> {
    #[cfg(target_arch = "x86_64")]
    {
        let first = stubs_of_one_thread as unsafe extern "C" fn() as *mut u8;
        (call < STUBS).then(|| first.wrapping_add(call * LIGHTEST).cast())
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = call;
        None
    }
}

/// Rows of calls, by their numbers: see [`row`].
pub type Rows = [AtomicU64; CALL_ROWS * row::WORDS];

/// Rows that fill whole pages.
#[repr(C, align(4096))]
pub struct Pages(pub Rows);

/// The rows of the first area, once their pages of the file are
/// [mapped](weft_launch::profile::ProfileMemory::map_rows_of_first) here.
pub static FIRST: Pages = Pages([const { AtomicU64::new(0) }; CALL_ROWS * row::WORDS]);

/// The rows in which threads without an area count.
pub static NOBODY: Rows = [const { AtomicU64::new(0) }; CALL_ROWS * row::WORDS];

// For each thread: the rows in which it counts. A word of the thread's static block, since a stub cannot call
// a function to find it.
#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".pushsection .tdata.weft_profile_rows,\"awT\",@progbits",
    ".balign 8",
    ".globl weft_profile_rows",
    ".hidden weft_profile_rows",
    ".type weft_profile_rows, @object",
    ".size weft_profile_rows, 8",
    "weft_profile_rows:",
    ".quad {nobody}",
    ".popsection",
    nobody = sym NOBODY,
);

/// Makes the calling thread count in these rows.
///
/// # Safety
/// They live as long as the process, and no other thread counts in them.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn set_rows(rows: *const AtomicU64) {
    core::arch::naked_asm!(
        "movq weft_profile_rows@gottpoff(%rip), %rax",
        "movq %rdi, %fs:(%rax)",
        "ret",
        options(att_syntax),
    );
}

/// Makes the calling thread count in these rows, in which no other thread counts.
pub fn count_in(rows: &'static [AtomicU64]) {
    assert!(rows.len() >= CALL_ROWS * row::WORDS);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: they are static and long enough; the caller says that they belong to this thread. Even if they did not,
    // counts would be wrong, and nothing else.
    unsafe {
        set_rows(rows.as_ptr());
    };
}

/// For each call: counts it in the thread's row, then jumps to `PMPI_X`.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn light_stubs() {
    core::arch::naked_asm!(
        ".set weft_light_row, {left_out}",
        ".set weft_light_whole, {whole}",
        ".rept {stubs}",
        ".balign {size}",
        "movq weft_profile_rows@gottpoff(%rip), %r11",
        "movq %fs:(%r11), %r11",
        "incq weft_light_row(%r11)",
        "jmpq *{calls}+weft_light_whole(%rip)",
        ".set weft_light_row, weft_light_row + {row}",
        ".set weft_light_whole, weft_light_whole + {call}",
        ".endr",
        stubs = const STUBS,
        size = const LIGHT,
        left_out = const row::LEFT_OUT * 8,
        row = const row::WORDS * 8,
        whole = const std::mem::offset_of!(crate::profile::call::Call, whole),
        call = const size_of::<crate::profile::call::Call>(),
        calls = sym CALLS,
        options(att_syntax),
    );
}

/// For each call: counts it in the only thread's row, then jumps to `PMPI_X`.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn stubs_of_one_thread() {
    core::arch::naked_asm!(
        ".set weft_lightest_row, {left_out}",
        ".set weft_lightest_whole, {whole}",
        ".rept {stubs}",
        ".balign {size}",
        "incq {first}+weft_lightest_row(%rip)",
        "jmpq *{calls}+weft_lightest_whole(%rip)",
        ".set weft_lightest_row, weft_lightest_row + {row}",
        ".set weft_lightest_whole, weft_lightest_whole + {call}",
        ".endr",
        stubs = const STUBS,
        size = const LIGHTEST,
        left_out = const row::LEFT_OUT * 8,
        row = const row::WORDS * 8,
        whole = const std::mem::offset_of!(crate::profile::call::Call, whole),
        call = const size_of::<crate::profile::call::Call>(),
        first = sym FIRST,
        calls = sym CALLS,
        options(att_syntax),
    );
}

/// For each call: loads its number, then jumps to the trampoline.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn stubs() {
    core::arch::naked_asm!(
        ".set weft_stub_number, 0",
        ".rept {stubs}",
        ".balign {size}",
        "mov eax, offset weft_stub_number",
        "jmp {trampoline}",
        ".set weft_stub_number, weft_stub_number + 1",
        ".endr",
        stubs = const STUBS,
        size = const STUB,
        trampoline = sym trampoline,
    );
}

#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn trampoline() {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "sub rsp, {room}",
        "mov [rsp], rdi",
        "mov [rsp + 8], rsi",
        "mov [rsp + 16], rdx",
        "mov [rsp + 24], rcx",
        "mov [rsp + 32], r8",
        "mov [rsp + 40], r9",
        "mov [rsp + 64], rax",
        "mov rax, [rbp + 8]",
        "mov [rsp + 72], rax",
        "lea rax, [rbp + 16]",
        "mov [rsp + 48], rax",
        "mov rdi, rsp",
        "call {enter}",
        "mov r11, rax",
        "cmp dword ptr [rsp + {plain}], 0",
        "je 4f",
        "mov rdi, [rsp]",
        "mov rsi, [rsp + 8]",
        "mov rdx, [rsp + 16]",
        "mov rcx, [rsp + 24]",
        "mov r8, [rsp + 32]",
        "mov r9, [rsp + 40]",
        "xor eax, eax",
        "leave",
        ".cfi_remember_state",
        ".cfi_def_cfa rsp, 8",
        "jmp r11",
        "4:",
        ".cfi_restore_state",
        "mov rax, rsp",
        // A copy of the further arguments, so that the stack stays aligned.
        "mov rcx, [rax + 56]",
        "mov rdx, rcx",
        "and edx, 1",
        "shl edx, 3",
        "sub rsp, rdx",
        "2:",
        "test rcx, rcx",
        "je 3f",
        "push qword ptr [rbp + 8 + rcx * 8]",
        "dec rcx",
        "jmp 2b",
        "3:",
        "mov rdi, [rax]",
        "mov rsi, [rax + 8]",
        "mov rdx, [rax + 16]",
        "mov rcx, [rax + 24]",
        "mov r8, [rax + 32]",
        "mov r9, [rax + 40]",
        "xor eax, eax",
        "call r11",
        "lea rsp, [rbp - {room}]",
        "mov [rsp + 80], rax",
        "mov rdi, rsp",
        "call {leave}",
        "mov rax, [rsp + 80]",
        "leave",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
        room = const ROOM,
        plain = const std::mem::offset_of!(Frame, plain),
        enter = sym super::enter,
        leave = sym super::leave,
    );
}
