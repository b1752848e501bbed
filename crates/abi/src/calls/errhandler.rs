//! Error handlers, classes and codes (MPI 5.0, sections 9.3 to 9.5).

use std::ffi::{CStr, c_int};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weft_atomic::{AtomicI32, Ordering};

use weft_mpi::Comm;

use crate::args::{InOut, Out, TextOut, text_of};
use crate::calls::abi::full;
use crate::fault::{self, Checked, Fault};
use crate::generated::constants as k;
use crate::state::{self, ErrhandlerObject, Handled, SessionObject, WinObject};
use crate::{c, check, entry, handle, losses};

pub fn comm_create_errhandler(
    function: c::Callback,
    errhandler: Out<c::Errhandler>,
) -> Checked<()> {
    create(function, Handled::Comm, "comm_errhandler_fn", errhandler)
}

pub fn win_create_errhandler(function: c::Callback, errhandler: Out<c::Errhandler>) -> Checked<()> {
    create(function, Handled::Win, "win_errhandler_fn", errhandler)
}

pub fn session_create_errhandler(
    function: c::Callback,
    errhandler: Out<c::Errhandler>,
) -> Checked<()> {
    create(
        function,
        Handled::Session,
        "session_errhandler_fn",
        errhandler,
    )
}

pub(crate) fn create(
    function: c::Callback,
    handled: Handled,
    name: &'static str,
    mut errhandler: Out<c::Errhandler>,
) -> Checked<()> {
    if function.0 == 0 {
        return Err(Fault::argument(
            k::MPI_ERR_ARG,
            name,
            "a function",
            "a null pointer",
            "pass the handler's address",
        ));
    }
    let new = handle::insert(ErrhandlerObject::new(function, handled))
        .ok_or_else(|| full("error handlers"))?;
    errhandler.set(c::Errhandler(new));
    Ok(())
}

pub fn errhandler_free(mut errhandler: InOut<c::Errhandler>) -> Checked<()> {
    let handler = check::errhandler(errhandler.get(), "errhandler")?;
    handle::creation::forget(handler.0);
    ErrhandlerObject::release(handler);
    errhandler.set(k::MPI_ERRHANDLER_NULL);
    Ok(())
}

pub fn comm_set_errhandler(comm: &Arc<Comm>, errhandler: c::Errhandler) -> Checked<()> {
    check::handler_of(errhandler, Handled::Comm, "errhandler")?;
    ErrhandlerObject::retain(errhandler);
    ErrhandlerObject::release(entry::handler_of(comm));
    comm.extras().set_errhandler(errhandler.0);
    losses::note_errhandler(errhandler);
    state::note_handler();
    Ok(())
}

pub fn comm_get_errhandler(comm: &Arc<Comm>, mut errhandler: Out<c::Errhandler>) -> Checked<()> {
    let handler = entry::handler_of(comm);
    ErrhandlerObject::retain(handler);
    errhandler.set(handler);
    Ok(())
}

pub fn comm_call_errhandler(comm: &Arc<Comm>, errorcode: c_int) -> Checked<()> {
    entry::call_handler(comm, errorcode);
    Ok(())
}

pub fn session_set_errhandler(session: &SessionObject, errhandler: c::Errhandler) -> Checked<()> {
    check::handler_of(errhandler, Handled::Session, "errhandler")?;
    session.set_errhandler(errhandler);
    Ok(())
}

pub fn session_get_errhandler(
    session: &SessionObject,
    mut errhandler: Out<c::Errhandler>,
) -> Checked<()> {
    ErrhandlerObject::retain(session.errhandler());
    errhandler.set(session.errhandler());
    Ok(())
}

pub fn session_call_errhandler(session: &SessionObject, errorcode: c_int) -> Checked<()> {
    entry::call_session_handler(session.handle(), errorcode);
    Ok(())
}

pub fn win_set_errhandler(win: &WinObject, errhandler: c::Errhandler) -> Checked<()> {
    check::handler_of(errhandler, Handled::Win, "errhandler")?;
    ErrhandlerObject::retain(errhandler);
    ErrhandlerObject::release(entry::handler_of_window(win.window()));
    win.window().extras().set_errhandler(errhandler.0);
    Ok(())
}

pub fn win_get_errhandler(win: &WinObject, mut errhandler: Out<c::Errhandler>) -> Checked<()> {
    let handler = entry::handler_of_window(win.window());
    ErrhandlerObject::retain(handler);
    errhandler.set(handler);
    Ok(())
}

pub fn win_call_errhandler(win: &WinObject, errorcode: c_int) -> Checked<()> {
    entry::call_window_handler(win.handle(), errorcode);
    Ok(())
}

/// Classes and codes that the program has added.
static ADDED: Mutex<Added> = Mutex::new(Added { codes: Vec::new() });

/// Live and removed codes; the last one is live. Numbers after it are reused.
struct Added {
    codes: Vec<Code>,
}

/// The code `MPI_ERR_LASTCODE + 1 + place`.
struct Code {
    /// Its class; itself for a class.
    class: c_int,
    text: String,
    live: bool,
    /// How many live codes a class has.
    codes: usize,
}

fn place_of(code: c_int) -> Option<usize> {
    usize::try_from(code.checked_sub(k::MPI_ERR_LASTCODE + 1)?).ok()
}

impl Added {
    fn open() -> MutexGuard<'static, Self> {
        ADDED.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&mut self, code: c_int) -> Option<&mut Code> {
        let place = place_of(code)?;
        self.codes.get_mut(place).filter(|code| code.live)
    }

    fn add(&mut self, class: Option<c_int>) -> c_int {
        let code = self.last() + 1;
        if let Some(class) = class.and_then(|class| self.get(class)) {
            class.codes += 1;
        }
        self.codes.push(Code {
            class: class.unwrap_or(code),
            text: String::new(),
            live: true,
            codes: 0,
        });
        code
    }

    /// Removes a live code or class: in constant time on average, since each one that is dropped was added
    /// once.
    fn remove(&mut self, code: c_int) {
        let Some(found) = self.get(code) else { return };
        found.live = false;
        let class = found.class;
        if let Some(class) = self.get(class) {
            class.codes -= 1;
        }
        while self.codes.last().is_some_and(|code| !code.live) {
            self.codes.pop();
        }
    }

    /// The largest code in use.
    fn last(&self) -> c_int {
        k::MPI_ERR_LASTCODE + self.codes.len() as c_int
    }
}

/// Address of the largest code in use (`MPI_LASTUSEDCODE`): programs keep the address.
pub(crate) fn last_used_code() -> *const c_int {
    static LAST: AtomicI32 = AtomicI32::new(k::MPI_ERR_LASTCODE);
    LAST.store(Added::open().last(), Ordering::Relaxed);
    LAST.as_ptr()
}

fn predefined(code: c_int) -> Option<&'static (c_int, &'static str, &'static str)> {
    k::ERROR_CLASSES.iter().find(|(value, _, _)| *value == code)
}

#[cold]
fn unknown(argument: &'static str, code: c_int) -> Fault {
    Fault::argument(
        k::MPI_ERR_ARG,
        argument,
        "a code of the standard, or one added by the program",
        code.to_string(),
        "pass what a call has returned or MPI_Add_error_code has made",
    )
}

pub fn error_class(errorcode: c_int, mut errorclass: Out<c_int>) -> Checked<()> {
    let class = match predefined(errorcode) {
        Some((class, _, _)) => *class,
        None => {
            Added::open()
                .get(errorcode)
                .ok_or_else(|| unknown("errorcode", errorcode))?
                .class
        }
    };
    errorclass.set(class);
    Ok(())
}

/// The class in words, and details of the last error of this thread if it had this code.
pub fn error_string(
    errorcode: c_int,
    mut string: TextOut,
    mut resultlen: Out<c_int>,
) -> Checked<()> {
    let mut text = match predefined(errorcode) {
        Some((_, name, sentence)) => format!("{name}: {sentence}"),
        None => Added::open()
            .get(errorcode)
            .ok_or_else(|| unknown("errorcode", errorcode))?
            .text
            .clone(),
    };
    if errorcode != k::MPI_SUCCESS
        && predefined(errorcode).is_some()
        && let Some(more) = fault::last(errorcode)
    {
        text = format!("{text}; {more}");
    }
    resultlen.set(string.set(&text, k::MPI_MAX_ERROR_STRING as usize) as c_int);
    Ok(())
}

pub fn add_error_class(mut errorclass: Out<c_int>) -> Checked<()> {
    errorclass.set(Added::open().add(None));
    Ok(())
}

pub fn add_error_code(errorclass: c_int, mut errorcode: Out<c_int>) -> Checked<()> {
    let mut added = Added::open();
    let is_class = predefined(errorclass)
        .is_some_and(|(class, _, _)| *class != k::MPI_ERR_LASTCODE)
        || added
            .get(errorclass)
            .is_some_and(|code| code.class == errorclass);
    if !is_class {
        return Err(unknown("errorclass", errorclass));
    }
    errorcode.set(added.add(Some(errorclass)));
    Ok(())
}

pub fn add_error_string(errorcode: c_int, string: &CStr) -> Checked<()> {
    let mut added = Added::open();
    let code = added
        .get(errorcode)
        .ok_or_else(|| unknown("errorcode", errorcode))?;
    code.text = text_of(string);
    let most = k::MPI_MAX_ERROR_STRING as usize - 1;
    code.text.truncate(code.text.floor_char_boundary(most));
    Ok(())
}

/// A code that still has a text is not removed.
fn check_no_text(code: &Code, argument: &'static str) -> Checked<()> {
    if code.text.is_empty() {
        return Ok(());
    }
    Err(Fault::argument(
        k::MPI_ERR_OTHER,
        argument,
        "a code without a text",
        format!("one with the text \"{}\"", code.text),
        "call MPI_Remove_error_string first",
    ))
}

pub fn remove_error_class(errorclass: c_int) -> Checked<()> {
    let mut added = Added::open();
    let class = added
        .get(errorclass)
        .filter(|code| code.class == errorclass)
        .ok_or_else(|| unknown("errorclass", errorclass))?;
    check_no_text(class, "errorclass")?;
    if class.codes > 0 {
        return Err(Fault::argument(
            k::MPI_ERR_OTHER,
            "errorclass",
            "a class without codes",
            format!("one with {}", class.codes),
            "remove its codes first",
        ));
    }
    added.remove(errorclass);
    Ok(())
}

pub fn remove_error_code(errorcode: c_int) -> Checked<()> {
    let mut added = Added::open();
    let code = added
        .get(errorcode)
        .filter(|code| code.class != errorcode)
        .ok_or_else(|| unknown("errorcode", errorcode))?;
    check_no_text(code, "errorcode")?;
    added.remove(errorcode);
    Ok(())
}

pub fn remove_error_string(errorcode: c_int) -> Checked<()> {
    let mut added = Added::open();
    let code = added
        .get(errorcode)
        .ok_or_else(|| unknown("errorcode", errorcode))?;
    code.text.clear();
    Ok(())
}
