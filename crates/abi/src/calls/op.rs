//! Operations (MPI 5.0, section 6.9).

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use weft_fabric::Region;
use weft_mpi::{Datatype, Op};

use crate::args::{AddressArgument, BufferArgument, Form, InOut, Out};
use crate::calls::abi::full;
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::{c, check, handle, state};

/// Most elements that a function with `int` counts gets in one call.
const MOST: usize = c_int::MAX as usize;

pub fn op_create(
    user_fn: c::Callback,
    commute: bool,
    mut op: Out<c::Op>,
    form: Form,
) -> Checked<()> {
    if user_fn.0 == 0 {
        return Err(Fault::argument(
            k::MPI_ERR_ARG,
            "user_fn",
            "a function",
            "a null pointer",
            "pass its address",
        ));
    }
    let function =
        move |operand: Region, into: Region, count: usize, datatype: &Arc<Datatype>| match form {
            Form::Small => call_small(user_fn, operand, into, count, datatype),
            Form::Large => call_large(user_fn, operand, into, count, datatype),
        };
    let new = handle::insert(Op::user(function, commute)).ok_or_else(|| full("operations"))?;
    op.set(c::Op(new));
    Ok(())
}

fn call_small(
    user_fn: c::Callback,
    operand: Region,
    into: Region,
    count: usize,
    datatype: &Arc<Datatype>,
) {
    let mut done = 0;
    while done < count {
        let part = (count - done).min(MOST);
        let offset = datatype.extent().wrapping_mul(done.cast_signed());
        let mut length = part as c_int;
        let mut handle = state::handle_of_datatype(datatype);
        // SAFETY: the program has passed a function of this type to `MPI_Op_create`; the regions hold
        // `count` elements, of which `part` follow from `done` on.
        unsafe {
            let function: unsafe extern "C" fn(
                *mut c_void,
                *mut c_void,
                *mut c_int,
                *mut c::Datatype,
            ) = std::mem::transmute(user_fn.0);
            function(
                operand.as_ptr().wrapping_offset(offset).cast(),
                into.as_ptr().wrapping_offset(offset).cast(),
                &raw mut length,
                &raw mut handle,
            );
        }
        done += part;
    }
}

fn call_large(
    user_fn: c::Callback,
    operand: Region,
    into: Region,
    count: usize,
    datatype: &Arc<Datatype>,
) {
    let mut length = count as c::Count;
    let mut handle = state::handle_of_datatype(datatype);
    // SAFETY: the program has passed a function of this type to `MPI_Op_create_c`; the regions hold
    // `count` elements.
    unsafe {
        let function: unsafe extern "C" fn(
            *mut c_void,
            *mut c_void,
            *mut c::Count,
            *mut c::Datatype,
        ) = std::mem::transmute(user_fn.0);
        function(
            operand.as_ptr().cast(),
            into.as_ptr().cast(),
            &raw mut length,
            &raw mut handle,
        );
    }
}

pub fn op_free(mut op: InOut<c::Op>) -> Checked<()> {
    check::operation(op.get(), "op")?;
    if !handle::remove::<Arc<Op>>(op.get().0) {
        return Err(Fault::argument(
            k::MPI_ERR_OP,
            "op",
            "an operation that the program has made",
            "a predefined operation",
            "predefined operations are not freed",
        ));
    }
    op.set(k::MPI_OP_NULL);
    Ok(())
}

pub fn op_commutative(op: &Arc<Op>, mut commute: Out<c_int>) -> Checked<()> {
    commute.flag(op.is_commutative());
    Ok(())
}

pub fn reduce_local(
    inbuf: AddressArgument,
    inout: BufferArgument,
    op: &Arc<Op>,
    _form: Form,
) -> Checked<()> {
    let (count, datatype) = inout.elements()?;
    op.is_allowed(datatype)?;
    check::development::reduction(op, datatype);
    let operand = inbuf.buffer(count, datatype)?;
    Ok(op.reduce_local(&operand, &inout.buffer()?, count, datatype)?)
}
