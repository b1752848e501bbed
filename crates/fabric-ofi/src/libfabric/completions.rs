//! Completions that a queue has reported and nobody has taken yet.

use std::ffi::{CStr, c_void};
use std::ops::Range;
use std::ptr;

use super::layout::{CqEntry, CqErrEntry, FidCq};
use super::library::Library;
use super::numbers::EAVAIL;

/// Most completions that one query returns.
const AT_ONCE: usize = 16;

/// One completion.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The address that was lent with the operation; compared, not dereferenced.
    pub context: *mut c_void,
    /// Bytes that have arrived.
    pub length: usize,
    /// Why it has failed.
    pub failure: Option<String>,
}

/// Completions of one queue.
///
/// *Invariant:* `unread` lies within what the last answer has written to `read`.
pub struct Completions {
    read: [CqEntry; AT_ONCE],
    unread: Range<usize>,
    /// The queue has a failure to report.
    has_failed: bool,
}

impl Default for Completions {
    fn default() -> Self {
        Self {
            read: [CqEntry {
                op_context: ptr::null_mut(),
                flags: 0,
                len: 0,
            }; AT_ONCE],
            unread: 0..0,
            has_failed: false,
        }
    }
}

impl Completions {
    /// Whether all were taken.
    #[inline]
    pub fn are_taken(&self) -> bool {
        self.unread.is_empty() && !self.has_failed
    }

    /// Queries the provider once, unless some completions of the last query are left. The provider does its own work in this
    /// call, which over the kernel's network costs a system call or two.
    ///
    /// # Safety
    /// The queue is open, with entries in the format `FI_CQ_FORMAT_MSG`; nobody else queries it at the same
    /// time.
    #[inline]
    pub unsafe fn ask(&mut self, queue: *mut FidCq) {
        if !self.unread.is_empty() {
            return;
        }
        let read = self.read.as_mut_ptr();
        // SAFETY: the queue is open, as the caller says; at most that many entries are written.
        let count = unsafe { ((*(*queue).ops).read)(queue, read, AT_ONCE) };
        match usize::try_from(count) {
            Ok(count) => self.unread = 0..count.min(AT_ONCE),
            Err(_) => self.has_failed = count == -EAVAIL,
        }
    }

    /// The next one of the last query.
    ///
    /// # Safety
    /// As for [`ask`](Self::ask), of the same queue.
    #[inline]
    pub unsafe fn take(&mut self, queue: *mut FidCq, library: &Library) -> Option<Completion> {
        match self.unread.next() {
            Some(index) => Some(Completion {
                context: self.read[index].op_context,
                length: self.read[index].len,
                failure: None,
            }),
            // SAFETY: as the caller says.
            None if self.has_failed => unsafe { self.failure(queue, library) },
            None => None,
        }
    }

    /// The failure that the queue reports.
    ///
    /// # Safety
    /// As for [`ask`](Self::ask).
    #[cold]
    unsafe fn failure(&mut self, queue: *mut FidCq, library: &Library) -> Option<Completion> {
        self.has_failed = false;
        let mut entry = CqErrEntry {
            op_context: ptr::null_mut(),
            flags: 0,
            len: 0,
            buf: ptr::null_mut(),
            data: 0,
            tag: 0,
            olen: 0,
            err: 0,
            prov_errno: 0,
            err_data: ptr::null_mut(),
            err_data_size: 0,
            more: [0; 4],
        };
        let mut text = [0; 128];
        // SAFETY: the queue is open; one entry is written, and at most that many bytes of text, which is null
        // or ends.
        let said = unsafe {
            if ((*(*queue).ops).readerr)(queue, &raw mut entry, 0) < 0 {
                return None;
            }
            let said = ((*(*queue).ops).strerror)(
                queue,
                entry.prov_errno,
                entry.err_data,
                text.as_mut_ptr(),
                text.len(),
            );
            match said.is_null() {
                true => String::new(),
                false => CStr::from_ptr(said).to_string_lossy().into_owned(),
            }
        };
        let error = library.error(i64::from(entry.err));
        let reason = match said.is_empty() || said == error {
            true => error,
            false => format!("{error} ({said})"),
        };
        Some(Completion {
            context: entry.op_context,
            length: 0,
            failure: Some(reason),
        })
    }
}
