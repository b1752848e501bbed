//! Frames of Python 3.9 and 3.10: objects with the same layout in both.
//!
//! Each object identifies itself: it begins with the address of its type, which the interpreter exports. So with the layout of another
//! build nothing is found. The interpreter's own function computes lines; it changes nothing and needs no lock, as the calling thread's
//! frames do not change during the call.

use std::ffi::{CStr, c_char, c_int, c_void};

use super::{NAME, ScriptLine, symbol, word};
use crate::attach::read_own;

// Bytes from the beginning of an object, of 64 bits.
const TYPE: usize = 8;
const THREAD_FRAME: usize = 24;
const FRAME_CODE: usize = 32;
const CODE_FILE: usize = 104;
const CODE_FUNCTION: usize = 112;
const TEXT_LENGTH: usize = 16;
const TEXT_STATE: usize = 32;
const TEXT_START: usize = 48;

/// The state of an ASCII string that follows its header: `compact` and `ascii`.
const PLAIN: u8 = 0b0110_0000;

type LineOf = unsafe extern "C" fn(*mut c_void) -> c_int;
type VersionOf = unsafe extern "C" fn() -> *const c_char;

/// The symbols of the interpreter that are needed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frames {
    line_of: LineOf,
    frame: usize,
    code: usize,
    text: usize,
}

impl Frames {
    /// The symbols in this process, if the interpreter is one of these versions.
    pub(super) fn find() -> Option<Self> {
        // SAFETY: the function has this type in all versions.
        let version: VersionOf = unsafe { std::mem::transmute(symbol(c"Py_GetVersion")?) };
        // SAFETY: it may be called at any time, and returns a text that stays valid.
        let version = unsafe { CStr::from_ptr(version()) }.to_bytes();
        if !version.starts_with(b"3.9.") && !version.starts_with(b"3.10.") {
            return None;
        }
        Some(Self {
            // SAFETY: the function has this type in these versions.
            line_of: unsafe {
                std::mem::transmute::<*mut c_void, LineOf>(symbol(c"PyFrame_GetLineNumber")?)
            },
            frame: symbol(c"PyFrame_Type")? as usize,
            code: symbol(c"PyCode_Type")? as usize,
            text: symbol(c"PyUnicode_Type")? as usize,
        })
    }

    /// The innermost frame of the calling thread, whose state this is.
    pub(super) fn line(&self, thread: usize) -> Option<ScriptLine> {
        let frame = object(thread + THREAD_FRAME, self.frame)?;
        let code = object(frame + FRAME_CODE, self.code)?;
        // SAFETY: it is a frame, and the caller's.
        let line = unsafe { (self.line_of)(frame as *mut c_void) };
        Some(ScriptLine {
            file: self.text(code + CODE_FILE)?,
            line: u32::try_from(line).ok()?,
            function: self.text(code + CODE_FUNCTION)?,
        })
    }

    /// The string whose address is at `place`.
    fn text(&self, place: usize) -> Option<String> {
        let text = object(place, self.text)?;
        let state = *read_own(text + TEXT_STATE, 1)?.first()?;
        if state & PLAIN != PLAIN {
            return None;
        }
        let length = word(text + TEXT_LENGTH)?.min(NAME);
        String::from_utf8(read_own(text + TEXT_START, length)?).ok()
    }
}

/// The object whose address is at `place`, if it has this type.
fn object(place: usize, kind: usize) -> Option<usize> {
    let object = word(place)?;
    (object != 0 && word(object + TYPE)? == kind).then_some(object)
}
