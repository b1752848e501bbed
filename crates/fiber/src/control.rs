//! Control block and payload at the top of each fiber's stack: its closure first, its result after, and the completion.
//!
//! ```text
//!   … frames ◄── first context │ payload: closure, then result │ Control │
//! ```
//!
//! # Who may touch what
//! The thread that starts the fiber writes all of it. Only the fiber touches the payload until its end is published by
//! [`Completion`]; then the joiner or the one who cleans up does, once.

use std::any::Any;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic::{self, AssertUnwindSafe};

use crate::completion::Completion;
use crate::stack;
use crate::switch::{Context, prepare};
use crate::waiter::Waiter;

/// The result of a fiber: what its closure returned, or what it panicked with.
pub type Result<T> = std::result::Result<T, Box<dyn Any + Send>>;

/// What runs first in a fiber: calls [`Control::run`] of the block that it is given.
pub(crate) type Begin = unsafe extern "C-unwind" fn(*mut u8) -> !;

/// What stands at the top of each fiber's stack.
#[repr(C, align(64))]
pub(crate) struct Control {
    pub completion: Completion<Waiter>,
    /// What the fiber does when it is first run: the closure, whose result it leaves in its place. Once.
    pub run: unsafe fn(*mut Control),
    /// Moves the result to an address that has room for it.
    pub take: unsafe fn(*mut Control, *mut u8),
    /// Drops the result that nobody will take. A panic of that ends there.
    pub discard: unsafe fn(*mut Control),
}

const _: () = assert!(size_of::<Control>() == stack::BLOCK);

/// What stands below the control block: the closure first, its result after.
union Payload<F, T> {
    body: ManuallyDrop<F>,
    result: ManuallyDrop<Result<T>>,
}

/// Bytes of a payload. Larger closures and results are kept on the heap, so that small stacks are not filled
/// by them.
pub(crate) const LARGEST_PAYLOAD: usize = 1024;

#[inline]
fn payload<F, T>(control: *mut Control) -> *mut Payload<F, T> {
    let size = size_of::<Payload<F, T>>();
    let align = align_of::<Payload<F, T>>().max(16);
    control
        .cast::<u8>()
        .map_addr(|address| (address - size) & !(align - 1))
        .cast()
}

/// Makes a fiber that will run `body`: writes its block and its payload; answers its first context.
///
/// # Safety
/// The block must be that of a free number that is the caller's, so that nobody else uses its stack, which has at
/// least [`SMALLEST_STACK`](stack::SMALLEST_STACK) bytes. `take` must be [`take`] of these types, or [`take_boxed`]
/// where `F` and `T` are its types. `begin` must run the block.
#[inline]
pub(crate) unsafe fn install<F: FnOnce() -> T, T>(
    control: *mut Control,
    body: F,
    take: unsafe fn(*mut Control, *mut u8),
    begin: Begin,
) -> Context {
    // SAFETY: the stack is the caller's, as it promises; the block lies at its top and the payload
    // and the first context below it, within a stack of at least 16 KiB.
    unsafe {
        control.write(Control {
            completion: Completion::new(),
            run: run::<F, T>,
            take,
            discard: discard::<F, T>,
        });
        let place = payload::<F, T>(control);
        (*place).body = ManuallyDrop::new(body);
        prepare(place.cast(), begin, control.cast())
    }
}

unsafe fn run<F: FnOnce() -> T, T>(control: *mut Control) {
    let place = payload::<F, T>(control);
    // SAFETY: the closure was written there when the fiber was made, and this is called once.
    let body = unsafe { ManuallyDrop::take(&mut (*place).body) };
    let result = panic::catch_unwind(AssertUnwindSafe(body));
    // SAFETY: the place is the fiber's own until its end is published, and then whoever joins finds the
    // result there. Detached, nobody else touches either.
    unsafe {
        (*place).result = ManuallyDrop::new(result);
        if (*control).completion.is_unwanted() {
            drop_result(control);
        }
    }
}

unsafe fn discard<F: FnOnce() -> T, T>(control: *mut Control) {
    // SAFETY: the result is there; called once, by whoever cleans up.
    let dropped = panic::catch_unwind(AssertUnwindSafe(|| unsafe {
        ManuallyDrop::drop(&mut (*payload::<F, T>(control)).result);
    }));
    if let Err(panic) = dropped {
        // The hook has told of it. To drop what it was thrown with may panic as well, and so on.
        let dropped = panic::catch_unwind(AssertUnwindSafe(|| drop(panic)));
        if let Err(panic) = dropped {
            std::mem::forget(panic);
        }
    }
}

/// Drops the result of a fiber that was detached, as a part of that fiber.
unsafe fn drop_result(control: *mut Control) {
    // SAFETY: detached, with the result there: nobody else touches it, and this is called once.
    unsafe {
        ((*control).discard)(control);
        (*control).completion.result_dropped();
    }
}

/// A context in which a fiber that has ended drops its result.
///
/// # Safety
/// It must be detached and off its stack, and its result must be there. `begin` must run the block.
pub(crate) unsafe fn to_drop_result(control: *mut Control, begin: Begin) -> Context {
    // Below the payload, whatever its type is.
    let top = control
        .cast::<u8>()
        .map_addr(|address| (address - LARGEST_PAYLOAD - 64) & !15);
    // SAFETY: nobody else touches the block and the stack of a fiber that is detached and off its stack;
    // the smallest stack has more than these bytes.
    unsafe {
        (*control).run = drop_result;
        prepare(top, begin, control.cast())
    }
}

/// Moves the result of a fiber to `into`.
///
/// # Safety
/// The fiber must have ended and been made with these types; once; `into` must have room for a [`Result`] of `T`.
pub(crate) unsafe fn take<F: FnOnce() -> T, T>(control: *mut Control, into: *mut u8) {
    // SAFETY: the fiber has ended, so the result is there; taken once, by who joins, who has room for it.
    unsafe {
        let result = ManuallyDrop::take(&mut (*payload::<F, T>(control)).result);
        into.cast::<Result<T>>().write(result);
    }
}

/// As [`take`], of a fiber whose closure and result were boxed.
///
/// # Safety
/// As for [`take`].
pub(crate) unsafe fn take_boxed<T>(control: *mut Control, into: *mut u8) {
    type Body<T> = Box<dyn FnOnce() -> Box<T> + Send>;
    let mut boxed = MaybeUninit::<Result<Box<T>>>::uninit();
    // SAFETY: as for `take`; what is taken was spawned with these types.
    unsafe {
        take::<Body<T>, Box<T>>(control, boxed.as_mut_ptr().cast());
        let result = boxed.assume_init().map(|value| *value);
        into.cast::<Result<T>>().write(result);
    }
}
