//! Objects that exist in the binding only.

use std::ffi::c_int;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

use weft_atomic::{AtomicU32, AtomicUsize, Ordering};
use weft_mpi::Message;
use weft_mpi::info::Info;
use weft_mpi::io::File;
use weft_mpi::rma::{Flavor, Window};

use super::open;
use crate::generated::constants as k;
use crate::{c, handle};

/// An info object.
#[derive(Debug, Default)]
pub struct InfoObject(Mutex<Info>);

impl InfoObject {
    /// An object of these pairs.
    pub fn new(info: Info) -> Self {
        Self(Mutex::new(info))
    }

    /// The pairs.
    pub fn open(&self) -> MutexGuard<'_, Info> {
        open(&self.0)
    }
}

/// `MPI_INFO_ENV`.
pub fn environment_info() -> &'static InfoObject {
    static ENVIRONMENT: LazyLock<InfoObject> = LazyLock::new(|| {
        let mut info = Info::default();
        let mut arguments = std::env::args();
        let pairs = [
            ("command", arguments.next().unwrap_or_default()),
            ("argv", arguments.collect::<Vec<_>>().join(" ")),
            ("thread_level", "MPI_THREAD_MULTIPLE".to_owned()),
            (
                "wdir",
                std::env::current_dir()
                    .map(|path| path.to_string_lossy().into_owned())
                    .unwrap_or_default(),
            ),
            ("arch", std::env::consts::ARCH.to_owned()),
        ];
        for (key, value) in pairs {
            // A value that is empty or too long is omitted.
            let _ = info.set(key, &value);
        }
        InfoObject::new(info)
    });
    &ENVIRONMENT
}

/// Kind of object that an error handler of the user is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Handled {
    Comm,
    File,
    Session,
    Win,
}

impl Handled {
    /// The call that makes such a handler.
    pub const fn creator(self) -> &'static str {
        match self {
            Self::Comm => "MPI_Comm_create_errhandler",
            Self::File => "MPI_File_create_errhandler",
            Self::Session => "MPI_Session_create_errhandler",
            Self::Win => "MPI_Win_create_errhandler",
        }
    }
}

/// An error handler of the user.
///
/// It stays until its handle was freed and no object uses it any more: `references` counts both.
#[derive(Debug)]
pub struct ErrhandlerObject {
    function: usize,
    handled: Handled,
    references: AtomicU32,
}

impl ErrhandlerObject {
    /// A handler; the function must not be null.
    pub fn new(function: c::Callback, handled: Handled) -> Self {
        Self {
            function: function.0,
            handled,
            references: AtomicU32::new(1),
        }
    }

    /// The kind of object that it is for.
    pub fn handled(&self) -> Handled {
        self.handled
    }

    /// Adds a reference.
    pub fn retain(handle: c::Errhandler) {
        if let Some(object) = handle::find::<Self>(handle.0) {
            object.references.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Removes a reference.
    pub fn release(handle: c::Errhandler) {
        if let Some(object) = handle::find::<Self>(handle.0)
            && object.references.fetch_sub(1, Ordering::Relaxed) == 1
        {
            handle::remove::<Self>(handle.0);
        }
    }

    /// Calls it with the object's handle and a code.
    pub fn call(&self, object: usize, code: c_int) {
        if self.function == 0 {
            return;
        }
        let (mut object, mut code) = (object, code);
        // SAFETY: the user passed a function of this type to `MPI_Comm_create_errhandler` or a similar
        // function, and all four types differ only in the handle's type, which is a word in each.
        unsafe {
            let function: unsafe extern "C" fn(*mut usize, *mut c_int, ...) =
                std::mem::transmute(self.function);
            function(&raw mut object, &raw mut code);
        }
    }
}

/// A message that a matched probe has taken, until it is received.
#[derive(Debug)]
pub struct MessageObject {
    call: &'static str,
    context: u32,
    message: Mutex<Option<Message>>,
}

impl MessageObject {
    /// Keeps a message, which this call has found.
    #[inline]
    pub fn new(call: &'static str, message: Message) -> Self {
        Self {
            call,
            context: message.context(),
            message: Mutex::new(Some(message)),
        }
    }

    /// The place of a message that this call is about to find, on the communicator with this context.
    #[inline]
    pub fn awaiting(call: &'static str, context: u32) -> Self {
        Self {
            call,
            context,
            message: Mutex::new(None),
        }
    }

    /// It was found.
    #[inline]
    pub fn fill(&self, message: Message) {
        *open(&self.message) = Some(message);
    }

    /// The call that has found it.
    pub fn call(&self) -> &'static str {
        self.call
    }

    /// The context of the communicator that it was probed on.
    pub fn context(&self) -> u32 {
        self.context
    }

    /// Takes it; `None` if it was taken already.
    pub fn take(&self) -> Option<Message> {
        open(&self.message).take()
    }

    /// Takes it, if `receive` can receive it.
    #[inline(always)]
    pub fn take_if<T>(&self, receive: impl FnOnce(&mut Message) -> Option<T>) -> Option<T> {
        let mut message = open(&self.message);
        let received = receive(message.as_mut()?)?;
        *message = None;
        Some(received)
    }
}

/// A session. It knows its own handle, to pass it to callbacks.
#[derive(Debug)]
pub struct SessionObject {
    handle: AtomicUsize,
    errhandler: AtomicUsize,
}

impl SessionObject {
    /// The handle of a new session with an error handler; `None` when the table is full.
    pub fn create(errhandler: c::Errhandler) -> Option<c::Session> {
        ErrhandlerObject::retain(errhandler);
        let handle = handle::insert(Self {
            handle: AtomicUsize::new(0),
            errhandler: AtomicUsize::new(errhandler.0),
        })?;
        // Nobody else has the handle yet.
        if let Some(object) = handle::find::<Self>(handle) {
            object.handle.store(handle, Ordering::Relaxed);
        }
        Some(c::Session(handle))
    }

    /// Its own handle.
    pub fn handle(&self) -> c::Session {
        c::Session(self.handle.load(Ordering::Relaxed))
    }

    /// Its error handler.
    pub fn errhandler(&self) -> c::Errhandler {
        c::Errhandler(self.errhandler.load(Ordering::Relaxed))
    }

    /// Sets its error handler.
    pub fn set_errhandler(&self, handler: c::Errhandler) {
        ErrhandlerObject::retain(handler);
        ErrhandlerObject::release(c::Errhandler(
            self.errhandler.swap(handler.0, Ordering::Relaxed),
        ));
    }
}

impl Drop for SessionObject {
    fn drop(&mut self) {
        ErrhandlerObject::release(self.errhandler());
    }
}

/// The values that the predefined attributes of a window point to (MPI 5.0, section 12.2.6).
#[derive(Debug)]
pub struct WinFacts {
    pub size: c::Aint,
    pub disp_unit: c_int,
    pub flavor: c_int,
    pub model: c_int,
}

/// A window. It knows its own handle, to pass it to callbacks.
#[derive(Debug)]
pub struct WinObject {
    handle: AtomicUsize,
    window: Arc<Window>,
    facts: WinFacts,
}

impl WinObject {
    /// The handle of a new window; `None` when the table is full.
    pub fn create(window: Arc<Window>) -> Option<c::Win> {
        let facts = WinFacts {
            size: window.memory().len().cast_signed(),
            disp_unit: c_int::try_from(window.displacement_unit()).unwrap_or(c_int::MAX),
            flavor: match window.flavor() {
                Flavor::Create => k::MPI_WIN_FLAVOR_CREATE,
                Flavor::Allocate => k::MPI_WIN_FLAVOR_ALLOCATE,
                Flavor::Dynamic => k::MPI_WIN_FLAVOR_DYNAMIC,
                Flavor::Shared => k::MPI_WIN_FLAVOR_SHARED,
            },
            // Others see loads and stores of the processor directly.
            model: k::MPI_WIN_UNIFIED,
        };
        let handle = handle::insert(Self {
            handle: AtomicUsize::new(0),
            window,
            facts,
        })?;
        // Nobody else has the handle yet.
        if let Some(object) = handle::find::<Self>(handle) {
            object.handle.store(handle, Ordering::Relaxed);
        }
        Some(c::Win(handle))
    }

    /// Its own handle.
    pub fn handle(&self) -> c::Win {
        c::Win(self.handle.load(Ordering::Relaxed))
    }

    /// The variables to which its predefined attributes point.
    pub fn facts(&self) -> &WinFacts {
        &self.facts
    }

    /// The window itself.
    #[inline]
    pub fn window(&self) -> &Arc<Window> {
        &self.window
    }
}

/// A file.
#[derive(Debug)]
pub struct FileObject(Arc<File>);

impl FileObject {
    /// The handle of a new file; `None` when the table is full.
    pub fn create(file: Arc<File>) -> Option<c::File> {
        handle::insert(Self(file)).map(c::File)
    }

    /// The file itself.
    pub fn file(&self) -> &Arc<File> {
        &self.0
    }
}
