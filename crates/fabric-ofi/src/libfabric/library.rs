//! Library: libfabric, opened once in a process. It stays open.

use std::ffi::{CStr, CString, c_int, c_void};
use std::fmt;
use std::sync::OnceLock;

use super::dispositions;
use super::layout::{DupInfo, FreeInfo, GetInfo, GetVersion, OpenFabric, StrError};
use super::numbers::VERSION;

/// The name of the library.
pub const NAME: &str = "libfabric.so.1";

/// The variable that names another file.
pub const VARIABLE: &str = "WEFT_LIBFABRIC";

/// Functions that the library exports.
pub struct Library {
    version: u32,
    pub(super) get_info: GetInfo,
    pub(super) free_info: FreeInfo,
    pub(super) dup_info: DupInfo,
    pub(super) open_fabric: OpenFabric,
    str_error: StrError,
}

/// Why the library cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LibraryError {
    name: String,
    what: String,
}

impl fmt::Display for LibraryError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{} {}; libfabric 1.17 or later was expected (Debian: package libfabric1; Red Hat: libfabric), or its file in \
             {VARIABLE}; --fabric auto and --fabric tcp need none",
            self.name, self.what
        )
    }
}

impl std::error::Error for LibraryError {}

impl Library {
    /// The library of this process, opened on first use: the file that [`VARIABLE`] names, or [`NAME`].
    ///
    /// # Errors
    /// If it is not there, lacks functions, or is too old.
    pub fn get() -> Result<&'static Self, LibraryError> {
        static LIBRARY: OnceLock<Result<Library, LibraryError>> = OnceLock::new();
        let opened = LIBRARY.get_or_init(|| {
            let named = std::env::var(VARIABLE).ok().filter(|name| !name.is_empty());
            Self::open(named.as_deref().unwrap_or(NAME))
        });
        opened.as_ref().map_err(Clone::clone)
    }

    fn open(name: &str) -> Result<Self, LibraryError> {
        let unusable = |what: String| LibraryError {
            name: name.to_owned(),
            what,
        };
        let file = CString::new(name).map_err(|_| unusable("is no name of a file".into()))?;
        // SAFETY: a name that ends; the library's initialisers are those of a library that any program may open.
        let load = || unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        let library = dispositions::kept(load);
        if library.is_null() {
            return Err(unusable("cannot be opened".to_owned() + &last_error()));
        }
        let find = |name: &CStr| {
            // SAFETY: the library was opened and is never closed; the name ends.
            let found = unsafe { libc::dlsym(library, name.as_ptr()) };
            match found.is_null() {
                true => Err(unusable(format!("has no {}", name.to_string_lossy()))),
                false => Ok(found),
            }
        };
        // SAFETY: the functions have these types in all versions with this name of the library.
        let library = unsafe {
            let get_version = std::mem::transmute::<*mut c_void, GetVersion>(find(c"fi_version")?);
            Self {
                version: get_version(),
                get_info: std::mem::transmute::<*mut c_void, GetInfo>(find(c"fi_getinfo")?),
                free_info: std::mem::transmute::<*mut c_void, FreeInfo>(find(c"fi_freeinfo")?),
                dup_info: std::mem::transmute::<*mut c_void, DupInfo>(find(c"fi_dupinfo")?),
                open_fabric: std::mem::transmute::<*mut c_void, OpenFabric>(find(c"fi_fabric")?),
                str_error: std::mem::transmute::<*mut c_void, StrError>(find(c"fi_strerror")?),
            }
        };
        if library.version < VERSION {
            return Err(unusable(format!("is version {}", library.version())));
        }
        Ok(library)
    }

    /// Its version, for people.
    #[must_use]
    pub fn version(&self) -> String {
        format!("{}.{}", self.version >> 16, self.version & 0xFFFF)
    }

    /// The text of a negative return value, for people.
    #[must_use]
    pub fn error(&self, answer: i64) -> String {
        let number = c_int::try_from(answer.abs()).unwrap_or(c_int::MAX);
        // SAFETY: any number has a text, which is null or ends and stays as it is.
        let text = unsafe { (self.str_error)(number) };
        match text.is_null() {
            true => format!("error {number}"),
            // SAFETY: not null, see above.
            false => unsafe { CStr::from_ptr(text) }
                .to_string_lossy()
                .into_owned(),
        }
    }
}

/// The loader's text for its last error.
fn last_error() -> String {
    // SAFETY: it returns null or a text that ends, which stays until the next call of this thread.
    let text = unsafe { libc::dlerror() };
    match text.is_null() {
        true => String::new(),
        // SAFETY: not null, see above; copied at once.
        false => format!(" ({})", unsafe { CStr::from_ptr(text) }.to_string_lossy()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_there_is_named_with_a_remedy() {
        let error = Library::open("/nowhere/libfabric.so.1")
            .err()
            .expect("not there");
        let text = error.to_string();
        assert!(
            text.starts_with("/nowhere/libfabric.so.1 cannot be opened"),
            "{text}"
        );
        assert!(
            text.contains("package libfabric1") && text.contains(VARIABLE),
            "{text}"
        );
    }

    #[test]
    fn another_library_is_not_taken_for_it() {
        let error = Library::open("libc.so.6").err().expect("another one");
        assert!(
            error.to_string().contains("libc.so.6 has no fi_version"),
            "{error}"
        );
    }
}
