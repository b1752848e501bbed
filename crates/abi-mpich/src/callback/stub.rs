//! Stubs: pieces of code that differ only in their address.
//!
//! A function in C++ is called by a function of the foreign implementation's library for C++, which is told apart, when the object was made: that
//! is the [second address](Stubs::functions) of a stub.

use weft_bare::Mutex;
use weft_bare::atomics::{AtomicUsize, Ordering};

/// How many functions of one kind a program can have.
pub const STUBS: usize = 1024;
/// Bytes from one to the next.
const STRIDE: usize = 16;

/// The functions of the program for the stubs of one kind.
pub struct Stubs {
    functions: [AtomicUsize; STUBS],
    /// The handle of the object that was made last with each.
    handles: [AtomicUsize; STUBS],
    /// What the library for C++ has told for each; zero for functions in C.
    in_cxx: [AtomicUsize; STUBS],
    taken: Mutex<usize>,
}

impl Stubs {
    /// None taken.
    pub const fn new() -> Self {
        Self {
            functions: [const { AtomicUsize::new(0) }; STUBS],
            handles: [const { AtomicUsize::new(0) }; STUBS],
            in_cxx: [const { AtomicUsize::new(0) }; STUBS],
            taken: Mutex::new(0),
        }
    }

    /// The address of the stub for a function of the program, in the code that begins at `code`; `None` if
    /// all stubs are taken.
    pub fn take(&'static self, code: usize, function: usize) -> Option<usize> {
        self.take_if(code, function, true)
    }

    /// As [`take`](Self::take), but never one that is in use.
    #[cfg(feature = "openmpi")]
    pub fn take_new(&'static self, code: usize, function: usize) -> Option<usize> {
        self.take_if(code, function, false)
    }

    fn take_if(&'static self, code: usize, function: usize, may_be_known: bool) -> Option<usize> {
        let mut taken = self.taken.lock();
        let known = self.functions[..*taken]
            .iter()
            .position(|other| may_be_known && other.load(Ordering::Relaxed) == function);
        let place = match known {
            Some(place) => place,
            None if *taken == STUBS => return None,
            None => {
                // SYNC stub.function: pairs with the load of the thread that runs the stub.
                self.functions[*taken].store(function, Ordering::Release);
                *taken += 1;
                *taken - 1
            }
        };
        Some(first(code) + place * STRIDE)
    }

    /// An object was made with the stub at an address; zero is none.
    pub fn made(&self, code: usize, stub: usize, handle: usize) {
        if stub != 0 {
            self.handles[place(code, stub)].store(handle, Ordering::Relaxed);
        }
    }

    /// The library for C++ tells what calls the function of an object that this thread has just made. False if it was made with none of these stubs.
    pub fn tell(&self, handle: usize, in_cxx: usize) -> bool {
        let mut handles = self.handles.iter();
        // The last one: with an earlier stub an object may have been made that was freed, and whose handle this one has.
        let found = handles.rposition(|other| other.load(Ordering::Relaxed) == handle);
        if let Some(place) = found {
            // SYNC stub.cxx: pairs with the load of the thread that runs the stub.
            self.in_cxx[place].store(in_cxx, Ordering::Release);
        }
        found.is_some()
    }

    /// The function of the program that belongs to the stub at an address, and what the library for C++ has [told](Self::tell) for it, or zero.
    pub fn functions(&self, code: usize, stub: usize) -> (usize, usize) {
        let place = place(code, stub);
        // SYNC stub.function
        let function = self.functions[place].load(Ordering::Acquire);
        // SYNC stub.cxx
        (function, self.in_cxx[place].load(Ordering::Acquire))
    }
}

/// The place of the stub at an address.
fn place(code: usize, stub: usize) -> usize {
    (stub - first(code)) / STRIDE
}

/// The address of the first stub in the code at `code`, which begins with an alignment.
const fn first(code: usize) -> usize {
    code.next_multiple_of(STRIDE)
}

/// Defines a function that consists of stubs; each jumps to `target` with its own address in a register.
macro_rules! stubs {
    ($name:ident => $target:path, $x86:literal, $arm:literal) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(
                ".p2align 4",
                ".rept {count}",
                ".p2align 4",
                "2:",
                concat!("lea ", $x86, ", [rip + 2b]"),
                "jmp {target}",
                ".endr",
                count = const $crate::callback::stub::STUBS,
                target = sym $target,
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(
                ".p2align 4",
                ".rept {count}",
                ".p2align 4",
                "2:",
                concat!("adr ", $arm, ", 2b"),
                "b {target}",
                ".endr",
                count = const $crate::callback::stub::STUBS,
                target = sym $target,
            );
        }
    };
}
pub(crate) use stubs;

#[cfg(test)]
mod tests {
    use super::*;

    static STUBS_OF_TEST: Stubs = Stubs::new();

    stubs!(code => target, "rsi", "x1");

    unsafe extern "C" fn target(given: usize, stub: usize) -> usize {
        let (function, in_cxx) = STUBS_OF_TEST.functions(code as *const () as usize, stub);
        function * 1000 + in_cxx + given
    }

    #[test]
    fn each_stub_stands_for_one_function() {
        let code = code as *const () as usize;
        let mut last = 0;
        for function in 1..=STUBS {
            let stub = STUBS_OF_TEST.take(code, function).expect("one is left");
            assert_eq!(
                STUBS_OF_TEST.take(code, function),
                Some(stub),
                "it keeps its stub"
            );
            // SAFETY: it is the address of a stub, which jumps to `target`.
            let call: unsafe extern "C" fn(usize) -> usize = unsafe { core::mem::transmute(stub) };
            // SAFETY: as above.
            assert_eq!(unsafe { call(7) }, function * 1000 + 7);
            assert_ne!(stub, last);
            last = stub;
        }
        assert_eq!(STUBS_OF_TEST.take(code, STUBS + 1), None);
        STUBS_OF_TEST.made(code, first(code), 77);
        STUBS_OF_TEST.made(code, last, 77);
        assert!(STUBS_OF_TEST.tell(77, 100) && !STUBS_OF_TEST.tell(78, 9));
        // SAFETY: as above.
        let last: unsafe extern "C" fn(usize) -> usize = unsafe { std::mem::transmute(last) };
        // SAFETY: as above.
        assert_eq!(unsafe { last(7) }, STUBS * 1000 + 107);
    }
}
