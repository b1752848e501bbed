//! Line of a Python program: the current line of the interpreter in the calling thread.
//!
//! Python extensions call MPI from C, and wait in it without the interpreter's lock; the caller may hold other locks. So the
//! interpreter's lock is not taken, nothing of the interpreter is changed, and only the calling thread's own frames are read, which
//! no other thread touches during the call:
//!
//! | version of Python | by |
//! |---|---|
//! | to 3.8, 3.11, 3.12, and from 3.15 | the function by which it writes a traceback when it crashes |
//! | 3.13, 3.14 | the offsets of its structures that it publishes for debuggers; read like memory of another process, so that with a wrong one nothing is found |
//! | 3.9, 3.10 | its [frames], which have types that identify them |
//! | 3.14 without the interpreter's lock | unknown: each thread may run its own copy of a function's instructions |

mod frames;

use std::ffi::{CStr, c_int, c_void};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::sync::OnceLock;

use crate::attach::read_own;
use frames::Frames;

/// Most frames that are searched.
const FRAMES: usize = 64;

/// Characters of a name that are read.
const NAME: usize = 4096;

/// A line that the interpreter is in.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct ScriptLine {
    pub file: String,
    pub line: u32,
    pub function: String,
}

/// The line of the calling thread. `None` if there is no interpreter, or none of its frames belongs to this
/// thread.
pub(super) fn line_of_caller() -> Option<ScriptLine> {
    static INTERPRETER: OnceLock<Option<Interpreter>> = OnceLock::new();
    let interpreter = INTERPRETER.get_or_init(Interpreter::find).as_ref()?;
    // SAFETY: it may be called by any thread, at any time; after the end of the interpreter it returns null.
    let thread = unsafe { (interpreter.this_thread)() };
    if thread.is_null() {
        return None;
    }
    match &interpreter.way {
        Way::Dump(dump) => first_line(&dumped(*dump, thread).ok()?),
        Way::Offsets(offsets) => offsets.line(thread as usize),
        Way::Frames(frames) => frames.line(thread as usize),
    }
}

type ThisThread = unsafe extern "C" fn() -> *mut c_void;
type Dump = unsafe extern "C" fn(c_int, *mut c_void);

/// The interpreter of this process.
struct Interpreter {
    this_thread: ThisThread,
    way: Way,
}

enum Way {
    Dump(Dump),
    Offsets(Offsets),
    Frames(Frames),
}

impl Interpreter {
    fn find() -> Option<Self> {
        let this_thread = symbol(c"PyGILState_GetThisThreadState")?;
        Some(Self {
            way: Way::find()?,
            // SAFETY: the function has this type in all versions of the interpreter.
            this_thread: unsafe { std::mem::transmute::<*mut c_void, ThisThread>(this_thread) },
        })
    }
}

impl Way {
    fn find() -> Option<Self> {
        let dump = symbol(c"_Py_DumpTraceback").or_else(|| symbol(c"PyUnstable_DumpTraceback"));
        if let Some(dump) = dump {
            // SAFETY: the function has had this type in all versions that export it.
            return Some(Self::Dump(unsafe {
                std::mem::transmute::<*mut c_void, Dump>(dump)
            }));
        }
        match Frames::find() {
            Some(frames) => Some(Self::Frames(frames)),
            None => Offsets::at(symbol(c"_PyRuntime")? as usize).map(Self::Offsets),
        }
    }
}

/// The symbol of this name that any object of the process exports.
fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name ends; nothing is loaded by this.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// The interpreter's traceback of a thread. It fits into a pipe: at most a hundred frames.
fn dumped(dump: Dump, thread: *mut c_void) -> io::Result<String> {
    let (mut reader, writer) = io::pipe()?;
    // SAFETY: the thread is the caller, and its frames stay as they are until this returns. The function takes no lock and
    // allocates nothing: it is made for signal handlers.
    unsafe { dump(writer.as_raw_fd(), thread) };
    drop(writer);
    let mut text = Vec::new();
    reader.read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The innermost frame of a traceback: `  File "heat.py", line 17 in exchange`.
fn first_line(text: &str) -> Option<ScriptLine> {
    text.lines().find_map(|line| {
        let (file, rest) = line
            .trim_start()
            .strip_prefix("File \"")?
            .split_once("\", line ")?;
        let (number, function) = rest.split_once(" in ")?;
        Some(ScriptLine {
            file: file.to_owned(),
            line: number.parse().ok()?,
            function: function.to_owned(),
        })
    })
}

/// Offsets in the interpreter's structures, in bytes.
#[derive(Clone, Copy, Debug)]
struct Offsets {
    thread_frame: usize,
    frame_previous: usize,
    frame_executable: usize,
    frame_instruction: usize,
    frame_owner: usize,
    code_file: usize,
    code_function: usize,
    code_lines: usize,
    code_first_line: usize,
    code_instructions: usize,
    bytes_size: usize,
    bytes_start: usize,
    text_length: usize,
    text_start: usize,
}

/// Where the words about each structure begin in the table of offsets of one version.
struct Table {
    version: u64,
    thread: usize,
    frame: usize,
    code: usize,
    bytes: usize,
    text: usize,
    /// Whether this table also holds for an interpreter without its lock.
    without_lock: bool,
}

/// The known tables.
const TABLES: [Table; 2] = [
    Table {
        version: 0x030d,
        thread: 19,
        frame: 28,
        code: 34,
        bytes: 64,
        text: 67,
        without_lock: true,
    },
    Table {
        version: 0x030e,
        thread: 22,
        frame: 31,
        code: 39,
        bytes: 74,
        text: 77,
        without_lock: false,
    },
];

/// How many words of a table are read: enough for all of them.
const WORDS: usize = 81;

/// Frames with this owner or a higher one are not functions of the program, but represent calls from C.
const OF_C: u8 = 3;

/// Bits of a frame's reference that are not part of the object's address.
const MARKS: usize = 3;

impl Offsets {
    /// Reads the table at the beginning of the interpreter's state.
    fn at(state: usize) -> Option<Self> {
        let table = read_own(state, WORDS * 8)?;
        let (words, _) = table.as_chunks::<8>();
        let words: Vec<u64> = words.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        Self::of(&words)
    }

    fn of(words: &[u64]) -> Option<Self> {
        let [cookie, version, without_lock, ..] = *words else {
            return None;
        };
        let table = TABLES.iter().find(|one| one.version == version >> 16)?;
        if cookie.to_ne_bytes() != *b"xdebugpy" || without_lock != 0 && !table.without_lock {
            return None;
        }
        let offset = |index: usize| {
            let offset = usize::try_from(*words.get(index)?).ok();
            offset.filter(|at| *at < 4096)
        };
        Some(Self {
            thread_frame: offset(table.thread + 4)?,
            frame_previous: offset(table.frame + 1)?,
            frame_executable: offset(table.frame + 2)?,
            frame_instruction: offset(table.frame + 3)?,
            frame_owner: offset(table.frame + 5)?,
            code_file: offset(table.code + 1)?,
            code_function: offset(table.code + 3)?,
            code_lines: offset(table.code + 4)?,
            code_first_line: offset(table.code + 5)?,
            code_instructions: offset(table.code + 9)?,
            bytes_size: offset(table.bytes + 1)?,
            bytes_start: offset(table.bytes + 2)?,
            text_length: offset(table.text + 2)?,
            text_start: offset(table.text + 3)?,
        })
    }

    /// The innermost frame of a thread that is a function of the program.
    fn line(&self, thread: usize) -> Option<ScriptLine> {
        let mut frame = word(thread + self.thread_frame)?;
        for _ in 0..FRAMES {
            if frame == 0 {
                return None;
            }
            let owner = *read_own(frame + self.frame_owner, 1)?.first()?;
            if owner < OF_C {
                return self.line_of(frame);
            }
            frame = word(frame + self.frame_previous)?;
        }
        None
    }

    fn line_of(&self, frame: usize) -> Option<ScriptLine> {
        let code = word(frame + self.frame_executable)? & !MARKS;
        let next = word(frame + self.frame_instruction)?;
        let instruction = next.checked_sub(code + self.code_instructions)?;
        let first = read_own(code + self.code_first_line, 4)?;
        let first = i32::from_ne_bytes(first.try_into().ok()?);
        let lines = word(code + self.code_lines)?;
        let length = word(lines + self.bytes_size)?;
        let lines = read_own(lines + self.bytes_start, length.min(1 << 20))?;
        Some(ScriptLine {
            file: self.text(word(code + self.code_file)?)?,
            line: u32::try_from(line_at(&lines, first, instruction)?).ok()?,
            function: self.text(word(code + self.code_function)?)?,
        })
    }

    /// A string of the interpreter that is pure ASCII, as most names of files and functions are.
    fn text(&self, object: usize) -> Option<String> {
        let length = word(object + self.text_length)?.min(NAME);
        let text = read_own(object + self.text_start, length)?;
        // Other strings have something else there.
        let is_text = text
            .iter()
            .all(|byte| byte.is_ascii_graphic() || *byte == b' ');
        is_text.then(|| String::from_utf8(text).ok()).flatten()
    }
}

fn word(address: usize) -> Option<usize> {
    let bytes = read_own(address, size_of::<usize>())?;
    Some(usize::from_ne_bytes(bytes.try_into().ok()?))
}

/// The line of the instruction at this byte, by the location table of its function (`co_linetable`, of versions from 3.11). Each
/// entry gives the number of two-byte units of code that it covers, and the distance of its line from the one before.
fn line_at(table: &[u8], first: i32, instruction: usize) -> Option<i32> {
    let mut bytes = table.iter().copied();
    let (mut line, mut end) = (first, 0);
    while let Some(head) = bytes.next() {
        end += (usize::from(head & 7) + 1) * 2;
        let form = head >> 3 & 15;
        let (change, rest) = match form {
            15 => (None, 0),
            14 => (Some(signed(&mut bytes)?), 0),
            13 => (Some(signed(&mut bytes)?), 0),
            10..=12 => (Some(i32::from(form) - 10), 2),
            _ => (Some(0), 1),
        };
        if form == 14 {
            for _ in 0..3 {
                unsigned(&mut bytes)?;
            }
        }
        for _ in 0..rest {
            bytes.next()?;
        }
        line += change.unwrap_or(0);
        if instruction < end {
            return change.map(|_| line);
        }
    }
    None
}

/// A number in pieces of six bits, the lowest first.
fn unsigned(bytes: &mut impl Iterator<Item = u8>) -> Option<u32> {
    let (mut number, mut shift) = (0, 0);
    loop {
        let byte = bytes.next()?;
        number |= u32::from(byte & 63).checked_shl(shift)?;
        if byte & 64 == 0 {
            return Some(number);
        }
        shift += 6;
    }
}

/// Such a number whose lowest bit is the sign.
fn signed(bytes: &mut impl Iterator<Item = u8>) -> Option<i32> {
    let number = unsigned(bytes)?;
    let size = i32::try_from(number >> 1).ok()?;
    Some(if number & 1 == 1 { -size } else { size })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_frame_of_a_traceback() {
        let text = "Stack (most recent call first):\n  File \"/a b/heat.py\", line 17 in exchange\n  File \"m.py\", line 3 in <module>\n";
        let line = first_line(text).expect("a line");
        assert_eq!((&*line.file, line.line), ("/a b/heat.py", 17));
        assert_eq!(line.function, "exchange");
        assert_eq!(
            first_line("Stack (most recent call first):\n  <no Python frame>\n"),
            None
        );
    }

    /// The table of `def f():` on line 1 with calls on lines 2 and 4, and one of each form.
    #[test]
    fn a_location_table() {
        // 2 units, line + 0, short form; 1 unit, line + 1 with two columns; 1 unit, no line; 4 units, line + 2 without columns;
        // 1 unit, line - 1 in the long form.
        let table = [
            0x80 | 1,
            0x11,
            0x80 | 11 << 3,
            1,
            2,
            0x80 | 15 << 3,
            0x80 | 13 << 3 | 3,
            4,
            0x80 | 14 << 3,
            3,
            0,
            5,
            64 | 1,
            1,
        ];
        let lines = [1, 1, 2, -1, 4, 4, 4, 4, 3];
        for (unit, expected) in lines.into_iter().enumerate() {
            let found = line_at(&table, 1, unit * 2);
            assert_eq!(found, (expected > 0).then_some(expected), "unit {unit}");
        }
        assert_eq!(line_at(&table, 1, 18), None);
        assert_eq!(line_at(&[0x80 | 14 << 3, 64], 1, 0), None, "cut off");
    }

    #[test]
    fn offsets_are_taken_of_a_version_that_is_known_alone() {
        let mut words: Vec<u64> = (0..WORDS as u64).collect();
        words[0] = u64::from_ne_bytes(*b"xdebugpy");
        for (version, lock, frame) in [
            (0x030d_02f0, 0, Some(23)),
            (0x030d_02f0, 1, Some(23)),
            (0x030e_08f0, 0, Some(26)),
            (0x030e_08f0, 1, None),
            (0x030f_00f0, 0, None),
        ] {
            (words[1], words[2]) = (version, lock);
            let found = Offsets::of(&words).map(|offsets| offsets.thread_frame);
            assert_eq!(found, frame, "{version:x}, {lock}");
        }
        (words[1], words[2]) = (0x030e_08f0, 0);
        words[22 + 4] = 1 << 40;
        assert!(Offsets::of(&words).is_none(), "no offset");
        words[26] = 72;
        assert!(Offsets::of(&words[..WORDS - 1]).is_none(), "cut off");
        words[0] = 0;
        assert!(Offsets::of(&words).is_none());
    }

    #[test]
    fn without_python_there_is_no_line() {
        assert_eq!(line_of_caller(), None);
    }
}
