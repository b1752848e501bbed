//! Call site: the place in a program from which this library was called.
//!
//! Taking one unwinds the stack, from which only the frames of this library are left, most of them by known [`steps`]: some forty
//! instructions for each. Where these do not lead to the place, or on another processor, it takes a microsecond or more. Naming it
//! reads debug information and costs milliseconds at first.
//!
//! ```text
//!   program        main ── exchange ─┐  heat.c:17   ◀── the call site
//!   this library                     └── MPI_Send ── … ── CallSite::of_caller
//! ```
//!
//! In a Python program it is the current line of the interpreter ([`python`]): the extension, which called
//! MPI, means nothing to the user.

mod fortran;
mod python;
mod rust;
#[cfg(target_arch = "x86_64")]
mod steps;

use std::collections::HashSet;
use std::ffi::c_void;
use std::fmt;
use std::ops::{ControlFlow, Range};
use std::panic::Location;
use std::sync::{Mutex, OnceLock, PoisonError};

use python::ScriptLine;
pub use rust::RustCall;

/// Most frames that are searched: this library has fewer.
const FRAMES: usize = 128;

/// A place in a program. See the [module page](self).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CallSite(Place);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Place {
    /// The return address of a call.
    Return(usize),
    /// A place known to the compiler.
    Known(&'static Location<'static>),
    /// A place known to the interpreter.
    Script(&'static ScriptLine),
}

impl From<&'static Location<'static>> for CallSite {
    fn from(location: &'static Location<'static>) -> Self {
        Self(Place::Known(location))
    }
}

impl CallSite {
    /// The place at which a call returns to this address.
    #[must_use]
    pub fn at(back: usize) -> Self {
        Self(Place::Return(back))
    }

    /// The return address; `None` if only the compiler knows the place.
    #[must_use]
    pub fn address(&self) -> Option<usize> {
        match self.0 {
            Place::Return(address) => Some(address),
            Place::Known(_) | Place::Script(_) => None,
        }
    }

    /// The place as file and offset, which needs no debug information: `heat+0x1f2a`.
    #[must_use]
    pub fn object(&self) -> String {
        match self.0 {
            Place::Return(address) => {
                let (object, offset) =
                    object_of(address).unwrap_or_else(|| ("?".to_owned(), address));
                format!("{object}+{offset:#x}")
            }
            Place::Known(_) | Place::Script(_) => self.describe(),
        }
    }

    /// The place that called the shared library which this code is part of. `None` if it is part of the program itself,
    /// which has [`Location::caller`], or if the stack cannot be unwound.
    #[must_use]
    pub fn of_caller() -> Option<Self> {
        entry_and_site().1
    }

    /// As [`of_caller`](Self::of_caller), but in a Python program the place in the extension: this takes a
    /// microsecond there, too.
    #[must_use]
    #[inline(always)]
    pub fn of_return() -> Option<Self> {
        unwind().1
    }

    /// The line of the interpreter that runs in this thread, if this place is in an extension.
    fn in_script(self) -> Option<Self> {
        static LINES: Mutex<Option<HashSet<&'static ScriptLine>>> = Mutex::new(None);
        if self.is_in_program() {
            return None;
        }
        let line = python::line_of_caller()?;
        let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = lines.get_or_insert_default();
        // Kept for ever: there are at most as many as the program has lines.
        let kept = match lines.get(&line) {
            Some(kept) => *kept,
            None => {
                let kept: &'static ScriptLine = Box::leak(Box::new(line));
                lines.insert(kept);
                kept
            }
        };
        Some(Self(Place::Script(kept)))
    }

    /// Whether it is in the program itself, not in a library that it uses. A call from a line of Python is in an extension, which
    /// also makes calls of its own.
    #[must_use]
    pub fn is_in_program(&self) -> bool {
        match self.0 {
            Place::Return(address) => program_code().contains(&address),
            Place::Known(_) => true,
            Place::Script(_) => false,
        }
    }

    /// The place for people: `heat.c:17 (exchange)`; without debug information `exchange in heat+0x1f2a`.
    #[must_use]
    pub fn describe(&self) -> String {
        let address = match self.0 {
            Place::Return(address) => address,
            Place::Known(location) => {
                return format!("{}:{}", file_name(location.file()), location.line());
            }
            Place::Script(line) => {
                let file = file_name(&line.file);
                return format!("{file}:{} ({})", line.line, line.function);
            }
        };
        let mut named = None;
        let mut line = None;
        // The look-up uses the address before: there the call is.
        backtrace::resolve(address as *mut c_void, |symbol| {
            let name = symbol.name().map(|name| {
                let own = name.as_str().and_then(fortran::own_name);
                own.unwrap_or_else(|| format!("{name:#}"))
            });
            if line.is_none()
                && let (Some(file), Some(number)) = (symbol.filename(), symbol.lineno())
            {
                let file = file_name(&file.to_string_lossy()).to_owned();
                line = Some((file, number, name.clone()));
            }
            named = named.take().or(name);
        });
        if let Some((file, number, name)) = line {
            let name = name.map_or_else(String::new, |name| format!(" ({name})"));
            return format!("{file}:{number}{name}");
        }
        let (object, offset) = object_of(address).unwrap_or_else(|| ("?".to_owned(), address));
        match named {
            Some(name) => format!("{name} in {object}+{offset:#x}"),
            None => format!("{object}+{offset:#x}"),
        }
    }
}

/// Returns the name of the entry point that begins at an address; `None` if none does.
pub type NameOfEntryPoint = fn(usize) -> Option<&'static str>;

static NAMES: OnceLock<NameOfEntryPoint> = OnceLock::new();

/// Sets how entry points of the shared library that contains this code are named. The first call counts.
pub fn set_names_of_entry_points(names: NameOfEntryPoint) {
    let _ = NAMES.set(names);
}

/// The function by which the shared library that contains this code was entered.
#[derive(Clone, Copy, Debug)]
pub struct EntryPoint {
    /// Addresses in that function, and in the function that it has called.
    entered: usize,
    within: Option<usize>,
}

impl EntryPoint {
    /// The entry point of the caller. `None` if this code is part of the program itself, or the stack cannot
    /// be unwound.
    #[must_use]
    pub fn of_caller() -> Option<Self> {
        entry_and_site().0
    }

    /// `MPI_Recv`, also if the program called `PMPI_Recv`. Calls of MPI [are known](set_names_of_entry_points); names of other functions
    /// are read from the debug information of the library, which takes long and may have been stripped.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        // The function within, if profiled calls pass through other code first.
        let mut functions = [Some(self.entered), self.within].into_iter().flatten();
        let known = NAMES
            .get()
            .and_then(|names| functions.find_map(|back| names(function_at(back)?)));
        match known {
            Some(name) => Some(name.to_owned()),
            None => self.name_by_debug_information(),
        }
    }

    fn name_by_debug_information(&self) -> Option<String> {
        let mut found = None;
        backtrace::resolve(self.entered as *mut c_void, |symbol| {
            // Inlined functions come first.
            found = symbol
                .name()
                .map(|name| format!("{name:#}"))
                .or(found.take());
        });
        found
    }
}

/// The start of the function that contains this return address, by the tables for unwinding, which are never stripped.
fn function_at(back: usize) -> Option<usize> {
    unsafe extern "C" {
        fn _Unwind_FindEnclosingFunction(address: *mut c_void) -> *mut c_void;
    }
    // SAFETY: any address may be asked for.
    let found = unsafe { _Unwind_FindEnclosingFunction(back as *mut c_void) };
    (!found.is_null()).then_some(found as usize)
}

/// The function by which the shared library that contains this code was entered, and the place of that call, by one unwinding of the
/// stack. `None` as for [`EntryPoint::of_caller`] and [`CallSite::of_caller`].
#[must_use]
pub fn entry_and_site() -> (Option<EntryPoint>, Option<CallSite>) {
    let (entry, site) = unwind();
    (entry, site.map(|site| site.in_script().unwrap_or(site)))
}

/// What the frames of a stack have shown, the innermost first.
struct Seen<'a> {
    own: &'a Range<usize>,
    /// The outermost place in this library, and the one within that.
    last: Option<usize>,
    within: Option<usize>,
    has_left: bool,
    site: Option<usize>,
}

impl<'a> Seen<'a> {
    fn of(own: &'a Range<usize>) -> Self {
        Self {
            own,
            last: None,
            within: None,
            has_left: false,
            site: None,
        }
    }

    /// The next return address. False once it is the call site.
    #[inline(always)]
    fn see(&mut self, address: usize) -> bool {
        let inside = self.own.contains(&address);
        self.has_left |= !inside;
        if !self.has_left {
            self.within = self.last.replace(address);
        }
        if !inside && !is_in_translation(address) {
            self.site = Some(address);
        }
        self.site.is_none()
    }
}

/// Part of its caller, like all that it does unless something is unusual: each function on the way would be one more frame to
/// be unwound.
#[inline(always)]
fn unwind() -> (Option<EntryPoint>, Option<CallSite>) {
    let Some(own) = own_code() else {
        return (None, None);
    };
    let mut seen = Seen::of(&own.addresses);
    if !walk(own, &mut seen) {
        seen = seen_by_tables(own);
    }
    let Seen { last, within, .. } = seen;
    let entry = last.map(|entered| EntryPoint { entered, within });
    (entry, seen.site.map(CallSite::at))
}

/// The way to the call site by the tables for unwinding.
#[cold]
#[inline(never)]
fn seen_by_tables(own: &Code) -> Seen<'_> {
    let mut seen = Seen::of(&own.addresses);
    let mut left = FRAMES;
    backtrace::trace(|frame| {
        left -= 1;
        seen.see(frame.ip() as usize) && left > 0
    });
    seen
}

/// Goes to the call site by known steps. False if they do not lead there.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn walk(own: &Code, seen: &mut Seen<'_>) -> bool {
    steps::trace(own, |address| seen.see(address))
}

#[cfg(not(target_arch = "x86_64"))]
fn walk(_own: &Code, _seen: &mut Seen<'_>) -> bool {
    false
}

impl fmt::Display for CallSite {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.describe())
    }
}

/// The last part of a path.
fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The shared library that contains this code; `None` if that is the program.
#[inline]
fn own_code() -> Option<&'static Code> {
    static OWN: OnceLock<Option<Code>> = OnceLock::new();
    let here = own_code as fn() -> Option<&'static Code> as usize;
    let own = OWN.get_or_init(|| {
        let (code, is_program) = object_with(here)?;
        (!is_program).then_some(code)
    });
    own.as_ref()
}

/// The object that contains an address, and whether that is the program.
fn object_with(address: usize) -> Option<(Code, bool)> {
    let mut found = None;
    // The program is the first of all.
    let mut is_program = true;
    each_object(|object| {
        if object.code.addresses.contains(&address) {
            found = Some((object.code.clone(), is_program));
            return ControlFlow::Break(());
        }
        is_program = false;
        ControlFlow::Continue(())
    });
    found
}

/// The addresses of the program.
fn program_code() -> &'static Range<usize> {
    static PROGRAM: OnceLock<Range<usize>> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let mut found = 0..0;
        each_object(|object| {
            // It is the first of all.
            found = object.code.addresses.clone();
            ControlFlow::Break(())
        });
        found
    })
}

/// Libraries that translate calls, for programs of MPICH's and Open MPI's ABIs and in Fortran; they are not places of
/// the program.
const TRANSLATIONS: [&str; 5] = [
    "libmpi.so.12",
    "libmpi.so.40",
    "libmpi_fortran.so.1",
    "libmpifort.so.12",
    "libmpi_mpifh.so.40",
];

/// Whether an address is in a library between the program and MPI that translates calls, and so is not a
/// place of the program.
#[must_use]
#[inline]
pub fn is_in_translation(address: usize) -> bool {
    static FOUND: OnceLock<Vec<Range<usize>>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let mut found = Vec::new();
        each_object(|object| {
            if TRANSLATIONS.contains(&file_name(&object.name)) {
                found.push(object.code.addresses.clone());
            }
            ControlFlow::Continue(())
        });
        found
    });
    found.iter().any(|addresses| addresses.contains(&address))
}

/// The file that an address was loaded from, and where in it.
fn object_of(address: usize) -> Option<(String, usize)> {
    let mut found = None;
    each_object(|object| {
        if !object.code.addresses.contains(&address) {
            return ControlFlow::Continue(());
        }
        let name = match object.name.is_empty() {
            // The kernel knows the program's.
            true => std::env::current_exe()
                .map(|path| path.to_string_lossy().into_owned())
                .unwrap_or_default(),
            false => object.name.clone(),
        };
        found = Some((file_name(&name).to_owned(), address - object.base));
        ControlFlow::Break(())
    });
    found
}

/// Something that was loaded: the program, or a shared library.
struct Object {
    /// Empty for the program.
    name: String,
    base: usize,
    code: Code,
}

/// Code of one object, and the tables to unwind it.
#[derive(Clone, Debug)]
struct Code {
    /// Where it is.
    addresses: Range<usize>,
    /// The index of the tables (`.eh_frame_hdr`); empty if it has none.
    index: Range<usize>,
    /// The segment that holds the index.
    segment: Range<usize>,
}

fn each_object(mut each: impl FnMut(&Object) -> ControlFlow<()>) {
    type Each<'a> = &'a mut dyn FnMut(&Object) -> ControlFlow<()>;
    unsafe extern "C" fn one(
        info: *mut libc::dl_phdr_info,
        _size: libc::size_t,
        each: *mut c_void,
    ) -> libc::c_int {
        // SAFETY: dl_iterate_phdr hands out what it describes, for the time of this call, and what it was given.
        let (info, each) = unsafe { (&*info, &mut *each.cast::<Each<'_>>()) };
        let base = info.dlpi_addr as usize;
        let headers = match info.dlpi_phdr.is_null() {
            true => &[][..],
            // SAFETY: there are that many headers, as long as the object is loaded.
            false => unsafe {
                std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum))
            },
        };
        let range_of = |header: &libc::Elf64_Phdr| {
            let start = base.wrapping_add(header.p_vaddr as usize);
            start..start.wrapping_add(header.p_memsz as usize)
        };
        let loaded = headers
            .iter()
            .filter(|header| header.p_type == libc::PT_LOAD);
        let segments = loaded.map(range_of);
        let addresses = segments
            .clone()
            .reduce(|all, one| all.start.min(one.start)..all.end.max(one.end));
        let index = headers
            .iter()
            .find(|header| header.p_type == libc::PT_GNU_EH_FRAME)
            .map_or(0..0, range_of);
        let segment = segments
            .clone()
            .find(|segment| segment.contains(&index.start));
        let code = Code {
            addresses: addresses.unwrap_or(0..0),
            index,
            segment: segment.unwrap_or(0..0),
        };
        let name = match info.dlpi_name.is_null() {
            true => String::new(),
            // SAFETY: a string, as long as the object is loaded.
            false => unsafe { std::ffi::CStr::from_ptr(info.dlpi_name) }
                .to_string_lossy()
                .into_owned(),
        };
        let object = Object { name, base, code };
        libc::c_int::from(each(&object).is_break())
    }
    let mut each: Each<'_> = &mut each;
    // SAFETY: `one` is called with each object and a reference to `each`, which lives until this returns.
    unsafe {
        libc::dl_iterate_phdr(Some(one), (&raw mut each).cast());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_the_compiler_knows() {
        let site = CallSite::from(Location::caller());
        assert_eq!(
            site.describe(),
            format!("call_site.rs:{}", line!() - 3),
            "the path is left out"
        );
    }

    #[test]
    fn a_program_has_no_place_outside_of_itself() {
        assert_eq!(CallSite::of_caller(), None);
    }

    #[test]
    fn addresses_are_named_by_line_or_by_object() {
        let here = addresses_are_named_by_line_or_by_object as fn() as usize;
        let said = CallSite(Place::Return(here + 1)).describe();
        assert!(said.starts_with("call_site.rs:"), "{said}");
        let libc = CallSite(Place::Return(libc::getppid as *const () as usize + 1)).describe();
        assert!(libc.contains("getppid"), "{libc}");
        let nowhere = CallSite(Place::Return(8)).describe();
        assert_eq!(nowhere, "?+0x8");
        let places = [here, libc::getppid as *const () as usize, 8];
        let own = places.map(|place| CallSite(Place::Return(place + 1)).is_in_program());
        assert_eq!(own, [true, false, false]);
    }
}
