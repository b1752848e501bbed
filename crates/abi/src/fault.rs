//! Faults: what is wrong with a call, in as much detail as known, and the message block for people.
//!
//! ```text
//! weft: MPI error, and its handler is MPI_ERRORS_ARE_FATAL
//!   rank      1 of 4
//!   call      MPI_Send on MPI_COMM_WORLD
//!   place     heat.c:17 (exchange)
//!   class     MPI_ERR_RANK, invalid rank
//!   argument  dest
//!   expected  0 to 3, or MPI_PROC_NULL
//!   found     17
//!   remedy    send to a rank of the communicator; MPI_Comm_size tells how many there are
//! ```

use std::cell::RefCell;
use std::ffi::c_int;
use std::fmt::Write;

use weft_mpi::{Error, ErrorClass};
use weft_sys::call_site::CallSite;

use crate::generated::constants as k;

/// Outcome of a check or a call.
pub type Checked<T> = Result<T, Fault>;

/// A fault: what is wrong with a call. One pointer, so that outcomes stay small on the hot path.
#[derive(Debug)]
pub struct Fault(Box<Detail>);

#[derive(Debug)]
struct Detail {
    code: c_int,
    argument: Option<&'static str>,
    expected: String,
    found: String,
    remedy: String,
    /// A whole sentence, if the parts are not known separately.
    cause: String,
    /// Context of the communicator concerned, if the call does not name it.
    context: Option<u32>,
    /// Whether its handler has been called already.
    told: bool,
}

impl Fault {
    /// A wrong argument.
    #[cold]
    pub fn argument(
        code: c_int,
        argument: &'static str,
        expected: impl Into<String>,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self(Box::new(Detail {
            code,
            argument: Some(argument),
            expected: expected.into(),
            found: found.into(),
            remedy: remedy.into(),
            cause: String::new(),
            context: None,
            told: false,
        }))
    }

    /// Something else: a sentence with values and a remedy.
    #[cold]
    pub fn new(code: c_int, cause: impl Into<String>) -> Self {
        Self(Box::new(Detail {
            code,
            argument: None,
            expected: String::new(),
            found: String::new(),
            remedy: String::new(),
            cause: cause.into(),
            context: None,
            told: false,
        }))
    }

    /// A fault whose handler has been called already: the code is returned.
    #[cold]
    pub fn told(code: c_int) -> Self {
        let mut fault = Self::new(code, "");
        fault.0.told = true;
        fault
    }

    /// The code to be returned at once.
    pub fn told_code(&self) -> Option<c_int> {
        self.0.told.then_some(self.0.code)
    }

    /// An address that must not be null.
    #[cold]
    pub fn null(argument: &'static str) -> Self {
        Self::argument(
            k::MPI_ERR_ARG,
            argument,
            "the address of a variable",
            "a null pointer",
            "pass an address",
        )
    }

    /// The error code: a class of the standard, or a code of the user.
    pub fn code(&self) -> c_int {
        self.0.code
    }

    /// The same fault about the communicator of a request.
    #[must_use]
    pub fn on(mut self, context: Option<u32>) -> Self {
        self.0.context = context;
        self
    }

    /// Context of the communicator concerned, if the call does not name it.
    pub fn context(&self) -> Option<u32> {
        self.0.context
    }

    /// The fault in one line.
    pub fn sentence(&self) -> String {
        let detail = &self.0;
        match detail.argument {
            Some(argument) => format!(
                "argument {argument}: expected {}, found {}; {}",
                detail.expected, detail.found, detail.remedy
            ),
            None => detail.cause.clone(),
        }
    }

    /// The error that the other ranks of a collective call are told.
    pub fn as_error(&self) -> Error {
        let class = match self.0.code {
            k::MPI_ERR_ARG => ErrorClass::Arg,
            k::MPI_ERR_BUFFER => ErrorClass::Buffer,
            k::MPI_ERR_COUNT => ErrorClass::Count,
            k::MPI_ERR_INFO => ErrorClass::Info,
            k::MPI_ERR_PORT => ErrorClass::Port,
            k::MPI_ERR_SPAWN => ErrorClass::Spawn,
            k::MPI_ERR_TYPE => ErrorClass::Type,
            _ => ErrorClass::Other,
        };
        Error::new(class, self.sentence())
    }

    /// The message block, with the caller's knowledge about the call.
    pub fn block(
        &self,
        rank: Option<(u32, u32)>,
        call: &str,
        object: &str,
        handler: &str,
    ) -> String {
        let detail = &self.0;
        let mut out = format!("weft: MPI error, and its handler is {handler}\n");
        let mut row = |name: &str, value: &str| {
            if !value.is_empty() {
                let _ = writeln!(out, "  {name:<9} {value}");
            }
        };
        let rank = rank.map_or_else(
            || "not known before MPI_Init".to_owned(),
            |(rank, size)| format!("{rank} of {size}"),
        );
        row("rank", &rank);
        row(
            "call",
            &if object.is_empty() {
                call.to_owned()
            } else {
                format!("{call} on {object}")
            },
        );
        let place = CallSite::of_caller().map(|site| site.describe());
        row("place", &place.unwrap_or_default());
        row("class", &class_line(detail.code));
        row("argument", detail.argument.unwrap_or(""));
        row("expected", &detail.expected);
        row("found", &detail.found);
        row("cause", &detail.cause);
        row("remedy", &detail.remedy);
        out
    }
}

fn class_line(code: c_int) -> String {
    match k::ERROR_CLASSES.iter().find(|(value, _, _)| *value == code) {
        Some((_, name, sentence)) => format!("{name}, {sentence}"),
        None => format!("error code {code} of the program"),
    }
}

impl From<Error> for Fault {
    #[cold]
    fn from(error: Error) -> Self {
        Self::new(code_of(error.class()), error.text())
    }
}

/// The number of a class of the engine.
pub fn code_of(class: ErrorClass) -> c_int {
    match class {
        ErrorClass::Buffer => k::MPI_ERR_BUFFER,
        ErrorClass::Count => k::MPI_ERR_COUNT,
        ErrorClass::Type => k::MPI_ERR_TYPE,
        ErrorClass::Tag => k::MPI_ERR_TAG,
        ErrorClass::Comm => k::MPI_ERR_COMM,
        ErrorClass::Rank => k::MPI_ERR_RANK,
        ErrorClass::Request => k::MPI_ERR_REQUEST,
        ErrorClass::Root => k::MPI_ERR_ROOT,
        ErrorClass::Group => k::MPI_ERR_GROUP,
        ErrorClass::Op => k::MPI_ERR_OP,
        ErrorClass::Topology => k::MPI_ERR_TOPOLOGY,
        ErrorClass::Dims => k::MPI_ERR_DIMS,
        ErrorClass::Arg => k::MPI_ERR_ARG,
        ErrorClass::Truncate => k::MPI_ERR_TRUNCATE,
        ErrorClass::Other => k::MPI_ERR_OTHER,
        ErrorClass::Intern => k::MPI_ERR_INTERN,
        ErrorClass::InStatus => k::MPI_ERR_IN_STATUS,
        ErrorClass::Pending => k::MPI_ERR_PENDING,
        ErrorClass::Keyval => k::MPI_ERR_KEYVAL,
        ErrorClass::Info => k::MPI_ERR_INFO,
        ErrorClass::InfoKey => k::MPI_ERR_INFO_KEY,
        ErrorClass::InfoValue => k::MPI_ERR_INFO_VALUE,
        ErrorClass::InfoNoKey => k::MPI_ERR_INFO_NOKEY,
        ErrorClass::NoMem => k::MPI_ERR_NO_MEM,
        ErrorClass::UnsupportedOperation => k::MPI_ERR_UNSUPPORTED_OPERATION,
        ErrorClass::ProcFailed => k::MPIX_ERR_PROC_FAILED,
        ErrorClass::ProcFailedPending => k::MPIX_ERR_PROC_FAILED_PENDING,
        ErrorClass::Revoked => k::MPIX_ERR_REVOKED,
        ErrorClass::Access => k::MPI_ERR_ACCESS,
        ErrorClass::Amode => k::MPI_ERR_AMODE,
        ErrorClass::Assert => k::MPI_ERR_ASSERT,
        ErrorClass::BadFile => k::MPI_ERR_BAD_FILE,
        ErrorClass::Base => k::MPI_ERR_BASE,
        ErrorClass::Conversion => k::MPI_ERR_CONVERSION,
        ErrorClass::Disp => k::MPI_ERR_DISP,
        ErrorClass::DupDatarep => k::MPI_ERR_DUP_DATAREP,
        ErrorClass::FileExists => k::MPI_ERR_FILE_EXISTS,
        ErrorClass::FileInUse => k::MPI_ERR_FILE_IN_USE,
        ErrorClass::File => k::MPI_ERR_FILE,
        ErrorClass::Io => k::MPI_ERR_IO,
        ErrorClass::LockType => k::MPI_ERR_LOCKTYPE,
        ErrorClass::Name => k::MPI_ERR_NAME,
        ErrorClass::NotSame => k::MPI_ERR_NOT_SAME,
        ErrorClass::NoSpace => k::MPI_ERR_NO_SPACE,
        ErrorClass::NoSuchFile => k::MPI_ERR_NO_SUCH_FILE,
        ErrorClass::Port => k::MPI_ERR_PORT,
        ErrorClass::Quota => k::MPI_ERR_QUOTA,
        ErrorClass::ReadOnly => k::MPI_ERR_READ_ONLY,
        ErrorClass::RmaAttach => k::MPI_ERR_RMA_ATTACH,
        ErrorClass::RmaConflict => k::MPI_ERR_RMA_CONFLICT,
        ErrorClass::RmaRange => k::MPI_ERR_RMA_RANGE,
        ErrorClass::RmaShared => k::MPI_ERR_RMA_SHARED,
        ErrorClass::RmaSync => k::MPI_ERR_RMA_SYNC,
        ErrorClass::RmaFlavor => k::MPI_ERR_RMA_FLAVOR,
        ErrorClass::Service => k::MPI_ERR_SERVICE,
        ErrorClass::Session => k::MPI_ERR_SESSION,
        ErrorClass::Size => k::MPI_ERR_SIZE,
        ErrorClass::Spawn => k::MPI_ERR_SPAWN,
        ErrorClass::UnsupportedDatarep => k::MPI_ERR_UNSUPPORTED_DATAREP,
        ErrorClass::ValueTooLarge => k::MPI_ERR_VALUE_TOO_LARGE,
        ErrorClass::Win => k::MPI_ERR_WIN,
    }
}

thread_local! {
    /// The last fault of this thread: code, and what `MPI_Error_string` adds to the class.
    static LAST: RefCell<(c_int, String)> = const { RefCell::new((0, String::new())) };
}

/// Stores a fault for [`last`].
pub fn remember(call: &str, fault: &Fault) {
    let sentence = fault.sentence();
    // A fault that is reported to all members of a collective names the call already.
    let names_it = sentence
        .strip_prefix(call)
        .is_some_and(|rest| rest.starts_with(": "));
    let text = match names_it {
        true => sentence,
        false => format!("{call}: {sentence}"),
    };
    LAST.with(|last| *last.borrow_mut() = (fault.code(), text));
}

/// Sentence on the last fault of this thread, if it had this code.
pub fn last(code: c_int) -> Option<String> {
    LAST.with(|last| {
        let last = last.borrow();
        (last.0 == code && !last.1.is_empty()).then(|| last.1.clone())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_names_everything() {
        let fault = Fault::argument(
            k::MPI_ERR_RANK,
            "dest",
            "0 to 3",
            "17",
            "send to a rank of the communicator",
        );
        let block = fault.block(
            Some((1, 4)),
            "MPI_Send",
            "MPI_COMM_WORLD",
            "MPI_ERRORS_ARE_FATAL",
        );
        for part in [
            "1 of 4",
            "MPI_Send on MPI_COMM_WORLD",
            "MPI_ERR_RANK",
            "dest",
            "0 to 3",
            "17",
            "send to a rank",
        ] {
            assert!(block.contains(part), "{part} is missing in {block}");
        }
    }

    #[test]
    fn the_last_fault_names_its_call_once() {
        for cause in ["the port is gone", "MPI_Comm_connect: the port is gone"] {
            remember("MPI_Comm_connect", &Fault::new(k::MPI_ERR_PORT, cause));
            let told = "MPI_Comm_connect: the port is gone".to_owned();
            assert_eq!(last(k::MPI_ERR_PORT), Some(told));
        }
    }

    #[test]
    fn the_last_fault_explains_its_code_only() {
        remember("MPI_Send", &Fault::new(k::MPI_ERR_TAG, "a tag of -7"));
        assert_eq!(
            last(k::MPI_ERR_TAG).as_deref(),
            Some("MPI_Send: a tag of -7")
        );
        assert_eq!(last(k::MPI_ERR_RANK), None);
    }
}
