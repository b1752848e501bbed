//! Client of PMIx: the library of that name, opened at run time, and this process as a client of the server that started it.
//!
//! ```text
//!   Library::open ── libpmix.so.2 ──▶ Library::begin ── PMIx_Init ──▶ Client
//!        put … commit                this process's values go to its server
//!        fence                       all processes have come; what they put can be read
//!        get                         a value of a process, or of the job
//! ```
//!
//! Building needs no PMIx: the declarations here are common to versions 3, 4 and 5 of the PMIx standard, which share the
//! name of the library and promise binary compatibility under it. The layouts of [`Process`], [`Value`] and [`Info`] are
//! checked below against those of their headers; all types that [`Value`] may hold take at most 24 bytes in each.
//!
//! The library has a thread of its own, which takes no signals of the program. It reports when the server is gone:
//! this process is then ended, as by a [lifeline](crate::lifeline), until [`Client::end`].

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use crate::{idle_threads, signal};

/// The library's name, under which versions 2 to 5 are compatible.
pub const LIBRARY: &str = "libpmix.so.2";

/// Name of the thread that the library starts, if it can be distinguished from those of the program.
pub const THREAD: &str = "weft-pmix";
/// Longest name of a value, in bytes, without the zero at its end.
const LONGEST_KEY: usize = 511;
/// Means the whole job, in place of a rank.
const WHOLE_JOB: u32 = u32::MAX - 1;
/// The scope of a value: processes on this host and on others.
const GLOBAL: u8 = 3;
const SUCCESS: c_int = 0;
/// There is no such value: the codes of versions 4 and later, and of earlier ones.
const NOT_THERE: [c_int; 2] = [-46, -30];
/// The server is gone: the codes of versions 4 and later, and of earlier ones.
const SERVER_LOST: [c_int; 2] = [-61, -101];

/// How long a server may take to find a value, in seconds.
const PATIENCE: u32 = 60;

/// Types of values, of which few are used here.
const BOOL: u16 = 1;
const INT: u16 = 6;
const UINT: u16 = 11;
const UINT16: u16 = 13;
const UINT32: u16 = 14;
const BYTE_OBJECT: u16 = 27;
/// A rank, which has a type of its own.
const RANK: u16 = 40;

/// `pmix_proc_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Process {
    namespace: [u8; 256],
    rank: u32,
}

/// `pmix_value_t`. What it holds depends on its type: a number in the first bytes, or an address and a length.
#[repr(C)]
#[derive(Clone, Copy)]
struct Value {
    kind: u16,
    data: Data,
}

#[repr(C)]
#[derive(Clone, Copy)]
union Data {
    number: u32,
    small: u16,
    flag: bool,
    bytes: Bytes,
    /// As large as the largest of all versions.
    all: [u64; 3],
}

/// `pmix_byte_object_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Bytes {
    address: *mut c_void,
    length: usize,
}

/// `pmix_info_t`.
#[repr(C)]
struct Info {
    key: [u8; LONGEST_KEY + 1],
    flags: u32,
    value: Value,
}

const _: () = {
    assert!(size_of::<Process>() == 260 && std::mem::offset_of!(Process, rank) == 256);
    assert!(size_of::<Value>() == 32 && std::mem::offset_of!(Value, data) == 8);
    assert!(size_of::<Info>() == 552 && std::mem::offset_of!(Info, value) == 520);
};

impl Info {
    fn new(key: &str, kind: u16, data: Data) -> Self {
        let mut info = Self {
            key: [0; LONGEST_KEY + 1],
            flags: 0,
            value: Value { kind, data },
        };
        info.key[..key.len()].copy_from_slice(key.as_bytes());
        info
    }

    /// A number, which PMIx has as `int`.
    fn number(key: &str, number: u32) -> Self {
        let mut data = Data { all: [0; 3] };
        data.number = number;
        Self::new(key, INT, data)
    }

    /// An option that is set.
    fn yes(key: &str) -> Self {
        let mut data = Data { all: [0; 3] };
        data.flag = true;
        Self::new(key, BOOL, data)
    }
}

type Completed = unsafe extern "C" fn(c_int, *mut c_void);
type HandlerDone =
    unsafe extern "C" fn(c_int, *mut c_void, usize, Option<Completed>, *mut c_void, *mut c_void);
type Handler = unsafe extern "C" fn(
    usize,
    c_int,
    *const c_void,
    *mut c_void,
    usize,
    *mut c_void,
    usize,
    Option<HandlerDone>,
    *mut c_void,
);
type Registered = unsafe extern "C" fn(c_int, usize, *mut c_void);

type Init = unsafe extern "C" fn(*mut Process, *mut Info, usize) -> c_int;
type Finalize = unsafe extern "C" fn(*const Info, usize) -> c_int;
type Put = unsafe extern "C" fn(u8, *const c_char, *mut Value) -> c_int;
type Commit = unsafe extern "C" fn() -> c_int;
type Fence = unsafe extern "C" fn(*const Process, usize, *const Info, usize) -> c_int;
type Get = unsafe extern "C" fn(
    *const Process,
    *const c_char,
    *const Info,
    usize,
    *mut *mut Value,
) -> c_int;
type Abort = unsafe extern "C" fn(c_int, *const c_char, *mut Process, usize) -> c_int;
type ErrorString = unsafe extern "C" fn(c_int) -> *const c_char;
type Version = unsafe extern "C" fn() -> *const c_char;
type Register = unsafe extern "C" fn(
    *mut c_int,
    usize,
    *mut Info,
    usize,
    Handler,
    Registered,
    *mut c_void,
) -> c_int;

/// The opened library; it stays open.
#[derive(Debug)]
pub struct Library {
    init: Init,
    finalize: Finalize,
    put: Put,
    commit: Commit,
    fence: Fence,
    get: Get,
    abort: Abort,
    error_string: ErrorString,
    version: Version,
    register: Register,
}

impl Library {
    /// Opens it: a file, or a name that the dynamic linker is to look for.
    ///
    /// # Errors
    /// If there is none, or it is not that library.
    pub fn open(name: &Path) -> io::Result<Self> {
        let shown = name.display().to_string();
        let path = CString::new(name.as_os_str().as_bytes())?;
        // SAFETY: a name that ends; the library's initialisers are those of a library that any program may open.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            // SAFETY: dlerror returns null or a text that ends, which lives until this thread's next such
            // call.
            let text = unsafe {
                let text = libc::dlerror();
                (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
            };
            let text = text.unwrap_or_else(|| format!("{shown} cannot be opened"));
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        }
        let find = |name: &CStr| {
            // SAFETY: the library was opened and is never closed; the name ends.
            let found = unsafe { libc::dlsym(library, name.as_ptr()) };
            match found.is_null() {
                true => Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!(
                        "{shown} has no function {}: it is not PMIx 3 or later",
                        name.to_string_lossy()
                    ),
                )),
                false => Ok(found),
            }
        };
        // SAFETY: the functions have these types in all versions with this name of the library.
        unsafe {
            Ok(Self {
                init: std::mem::transmute::<*mut c_void, Init>(find(c"PMIx_Init")?),
                finalize: std::mem::transmute::<*mut c_void, Finalize>(find(c"PMIx_Finalize")?),
                put: std::mem::transmute::<*mut c_void, Put>(find(c"PMIx_Put")?),
                commit: std::mem::transmute::<*mut c_void, Commit>(find(c"PMIx_Commit")?),
                fence: std::mem::transmute::<*mut c_void, Fence>(find(c"PMIx_Fence")?),
                get: std::mem::transmute::<*mut c_void, Get>(find(c"PMIx_Get")?),
                abort: std::mem::transmute::<*mut c_void, Abort>(find(c"PMIx_Abort")?),
                error_string: std::mem::transmute::<*mut c_void, ErrorString>(find(
                    c"PMIx_Error_string",
                )?),
                version: std::mem::transmute::<*mut c_void, Version>(find(c"PMIx_Get_version")?),
                register: std::mem::transmute::<*mut c_void, Register>(find(
                    c"PMIx_Register_event_handler",
                )?),
            })
        }
    }

    /// The library's version, in its own words.
    pub fn version(&self) -> String {
        // SAFETY: it takes nothing and returns a text that ends and stays valid.
        let text = unsafe { (self.version)() };
        if text.is_null() {
            return "unknown".into();
        }
        // SAFETY: as above.
        let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
        // "OpenPMIx 4.2.2 (PMIx Standard: 4.1, …) …"
        text.split(',').next().unwrap_or_default().trim().to_owned()
    }

    /// Connects to the server that has started this process, which its environment names. From then on this process ends
    /// with that server, until [`Client::end`]. To be called once in a process.
    ///
    /// # Errors
    /// If there is none, or it refuses.
    pub fn begin(self) -> io::Result<Client> {
        idle_threads::naming_started(THREAD, || self.connect())
    }

    fn connect(self) -> io::Result<Client> {
        let mut process = Process {
            namespace: [0; 256],
            rank: 0,
        };
        // The thread that it starts is none of the program's.
        // SAFETY: it fills the process, whose layout is checked above; there are no infos.
        let status = signal::without_signals(|| unsafe {
            (self.init)(&raw mut process, ptr::null_mut(), 0)
        });
        self.check("PMIx_Init", status)?;
        let mut lost = SERVER_LOST;
        // SAFETY: the codes are read before it returns that it has begun, or copied; the functions live as long as this library,
        // which is never unloaded.
        let status = unsafe {
            (self.register)(
                lost.as_mut_ptr(),
                lost.len(),
                ptr::null_mut(),
                0,
                server_lost,
                registered,
                ptr::null_mut(),
            )
        };
        // Versions answer 0 or the number of the handler.
        if status < 0 {
            self.check("PMIx_Register_event_handler", status)?;
        }
        Ok(Client {
            library: self,
            process,
        })
    }

    fn check(&self, call: &str, status: c_int) -> io::Result<()> {
        if status == SUCCESS {
            return Ok(());
        }
        // SAFETY: it takes a number and returns a text that ends and stays valid.
        let text = unsafe { (self.error_string)(status) };
        let text = if text.is_null() {
            String::new()
        } else {
            // SAFETY: as above.
            let text = unsafe { CStr::from_ptr(text) };
            format!(": {}", text.to_string_lossy())
        };
        Err(io::Error::other(format!("{call} answers {status}{text}")))
    }
}

/// Called by the library's thread.
unsafe extern "C" fn registered(_status: c_int, _handler: usize, _data: *mut c_void) {}

/// Called by the library's thread: nobody is left who would end us.
unsafe extern "C" fn server_lost(
    _handler: usize,
    status: c_int,
    _source: *const c_void,
    _infos: *mut c_void,
    _count: usize,
    _results: *mut c_void,
    _result_count: usize,
    done: Option<HandlerDone>,
    data: *mut c_void,
) {
    if SERVER_LOST.contains(&status) {
        // SAFETY: two numbers. Nobody can end process 1 of a PID namespace so, which therefore exits.
        unsafe {
            libc::kill(libc::getpid(), libc::SIGKILL);
            libc::_exit(128 + libc::SIGKILL);
        }
    }
    if let Some(done) = done {
        /// The handler has done all that it does.
        const COMPLETE: c_int = -334;
        // SAFETY: the library's function, called as it wants: no results, and nothing to be told of them.
        unsafe { done(COMPLETE, ptr::null_mut(), 0, None, ptr::null_mut(), data) };
    }
}

/// This process as a client of its server.
#[derive(Debug)]
pub struct Client {
    library: Library,
    process: Process,
}

impl std::fmt::Debug for Process {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} of {}", self.rank, text_of(&self.namespace))
    }
}

fn text_of(bytes: &[u8]) -> String {
    let bytes = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(bytes).into_owned()
}

fn key_of(name: &str) -> io::Result<CString> {
    if name.len() > LONGEST_KEY {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "a name of {} bytes; PMIx takes {LONGEST_KEY}: '{name}'",
                name.len()
            ),
        ));
    }
    Ok(CString::new(name)?)
}

impl Client {
    /// This process's rank.
    pub fn rank(&self) -> u32 {
        self.process.rank
    }

    /// The server's name for the job.
    pub fn namespace(&self) -> String {
        text_of(&self.process.namespace)
    }

    /// The library's version, in its own words.
    pub fn version(&self) -> String {
        self.library.version()
    }

    /// A number from the server about the job, by one of PMIx's own names.
    ///
    /// # Errors
    /// If the server is gone. That it knows no such number is `None`.
    pub fn number_of_job(&self, name: &str) -> io::Result<Option<u32>> {
        self.number(WHOLE_JOB, name)
    }

    /// A number from the server about this process.
    ///
    /// # Errors
    /// As [`number_of_job`](Self::number_of_job).
    pub fn number_of_this(&self, name: &str) -> io::Result<Option<u32>> {
        self.number(self.process.rank, name)
    }

    fn number(&self, rank: u32, name: &str) -> io::Result<Option<u32>> {
        let number = |value: &Value| {
            // SAFETY: the type says which of them was written, of which all bits are numbers.
            unsafe {
                match value.kind {
                    UINT32 | UINT | INT | RANK => Some(value.data.number),
                    UINT16 => Some(u32::from(value.data.small)),
                    _ => None,
                }
            }
        };
        Ok(self.look_up(rank, name, number)?.flatten())
    }

    /// The value that a process has put under a name, before a fence that both processes have passed.
    ///
    /// # Errors
    /// If the server is gone. That there is no such value is `None`.
    pub fn get(&self, rank: u32, name: &str) -> io::Result<Option<Vec<u8>>> {
        let copy = |value: &Value| {
            if value.kind != BYTE_OBJECT {
                return None;
            }
            // SAFETY: the type says that this was written.
            let bytes = unsafe { value.data.bytes };
            if bytes.address.is_null() {
                return Some(Vec::new());
            }
            // SAFETY: the library made the object for us, and nobody changes it; it lives until `look_up` frees it.
            let bytes =
                unsafe { std::slice::from_raw_parts(bytes.address.cast::<u8>(), bytes.length) };
            Some(bytes.to_vec())
        };
        Ok(self.look_up(rank, name, copy)?.flatten())
    }

    /// Asks for a value and hands it to `take`, before it is freed.
    fn look_up<T>(
        &self,
        rank: u32,
        name: &str,
        take: impl FnOnce(&Value) -> T,
    ) -> io::Result<Option<T>> {
        let of = Process {
            rank,
            ..self.process
        };
        let key = key_of(name)?;
        // The time is limited: after a fence the value exists, but may be with a server on another host.
        let patience = Info::number("pmix.timeout", PATIENCE);
        let mut found: *mut Value = ptr::null_mut();
        // SAFETY: layouts are checked above; key and info live until it returns; it writes an address.
        let status = unsafe {
            (self.library.get)(
                &raw const of,
                key.as_ptr(),
                &raw const patience,
                1,
                &raw mut found,
            )
        };
        if NOT_THERE.contains(&status) || (status == SUCCESS && found.is_null()) {
            return Ok(None);
        }
        self.library
            .check(&format!("PMIx_Get of '{name}'"), status)?;
        // SAFETY: a value that the library has made for us, which is ours from now on.
        let value = unsafe { &*found };
        let answer = take(value);
        // SAFETY: as the library's headers free a value: what it points to, then itself. For other types, which are not requested
        // here, the pointed-to memory is left.
        unsafe {
            if value.kind == BYTE_OBJECT {
                libc::free(value.data.bytes.address);
            }
            libc::free(found.cast());
        }
        Ok(Some(answer))
    }

    /// Publishes a value of this process, for all others after the next [`fence`](Self::fence).
    ///
    /// # Errors
    /// If the library does not take it.
    pub fn put(&self, name: &str, value: &[u8]) -> io::Result<()> {
        let key = key_of(name)?;
        let mut value = Value {
            kind: BYTE_OBJECT,
            data: Data {
                bytes: Bytes {
                    address: value.as_ptr().cast_mut().cast(),
                    length: value.len(),
                },
            },
        };
        // SAFETY: the library copies the value, which it does not change, before it returns.
        let status = unsafe { (self.library.put)(GLOBAL, key.as_ptr(), &raw mut value) };
        self.library.check("PMIx_Put", status)
    }

    /// Hands what was put to the server, and waits until all processes of the job have come here.
    ///
    /// # Errors
    /// If the server is gone, or says that another process is.
    pub fn fence(&self) -> io::Result<()> {
        // SAFETY: it takes nothing.
        let status = unsafe { (self.library.commit)() };
        self.library.check("PMIx_Commit", status)?;
        let collect = Info::yes("pmix.collect");
        // SAFETY: no process means all of the job; the info lives until it returns.
        let status = unsafe { (self.library.fence)(ptr::null(), 0, &raw const collect, 1) };
        self.library.check("PMIx_Fence", status)
    }

    /// Makes the server end the job with this code. It may end this process before this returns.
    ///
    /// # Errors
    /// If it does not.
    pub fn abort(&self, code: i32, text: &str) -> io::Result<()> {
        let text = CString::new(text.replace('\0', " "))?;
        // SAFETY: the text lives until it returns; no process means all of the job.
        let status = unsafe { (self.library.abort)(code, text.as_ptr(), ptr::null_mut(), 0) };
        self.library.check("PMIx_Abort", status)
    }

    /// Disconnects from the server: nothing can be asked any more, and the server's end no longer matters
    /// here.
    ///
    /// # Errors
    /// If the server is gone.
    pub fn end(&self) -> io::Result<()> {
        // SAFETY: no infos.
        let status = unsafe { (self.library.finalize)(ptr::null(), 0) };
        self.library.check("PMIx_Finalize", status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_that_library_is_named() {
        let error = Library::open(Path::new("/nowhere/libpmix.so.2")).expect_err("not there");
        assert!(error.to_string().contains("/nowhere"), "{error}");
        let error = Library::open(Path::new("libc.so.6")).expect_err("another one");
        assert!(error.to_string().contains("PMIx_Init"), "{error}");
    }

    #[test]
    fn names_are_bounded() {
        assert!(key_of(&"x".repeat(LONGEST_KEY)).is_ok());
        for name in ["a\0b", &"x".repeat(LONGEST_KEY + 1)] {
            assert!(key_of(name).is_err(), "{name}");
        }
    }
}
