//! Last error of each thread: what was wrong with its last call of `weft.h` or `weft_fiber.h` that failed.

use std::cell::RefCell;
use std::ffi::{CString, c_char};

thread_local! {
    static LAST: RefCell<CString> = RefCell::new(CString::default());
}

/// Stores a sentence until the next one of this thread.
#[cold]
pub fn keep(text: impl Into<String>) {
    let text = CString::new(text.into().replace('\0', " ")).unwrap_or_default();
    LAST.with(|last| *last.borrow_mut() = text);
}

/// `weft.h`
#[unsafe(no_mangle)]
pub extern "C" fn weft_error() -> *const c_char {
    LAST.with(|last| last.borrow().as_ptr())
}
