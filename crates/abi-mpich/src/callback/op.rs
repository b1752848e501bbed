//! Operations of the program: the function receives the handle of the datatype.

#![allow(non_snake_case, missing_docs, clippy::missing_safety_doc)]

use core::ffi::{c_int, c_void};

use super::stub::{Stubs, stubs};
use crate::generated::names::index;
use crate::generated::numbers::OTHER;
use crate::handle::{self, Datatype, Handle, Op, Word};
use crate::{alias, error, own, standard};

/// Defines functions that make operations: what the function of the program gets for the datatype, and how that is made.
macro_rules! operations {
    ($($create:ident $(= $direct:ident)?, $name:ident $stubs:ident $code:ident $run:ident $count:ty, $seen:ty = $see:expr;)*) => {$(
        static $stubs: Stubs = Stubs::new();

        stubs!($code => $run, "r8", "x4");

        unsafe extern "C" fn $run(
            operand: *mut c_void,
            into: *mut c_void,
            count: *mut $count,
            datatype: *mut usize,
            stub: usize,
        ) {
            let (function, in_cxx) = $stubs.functions($code as *const () as usize, stub);
            // SAFETY: the program has passed a function of this type when the operation was made; the standard ABI passes the
            // address of a handle.
            unsafe {
                if in_cxx != 0 {
                    let datatype = Datatype::encode(*datatype);
                    own::cxx::reduce((function, in_cxx), operand, into, *count as c_int, datatype);
                    return;
                }
                let mut datatype: $seen = $see(*datatype);
                let function: unsafe extern "C" fn(*mut c_void, *mut c_void, *mut $count, *mut $seen) =
                    core::mem::transmute(function);
                function(operand, into, count, &raw mut datatype);
            }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $create(function: usize, commute: c_int, op: *mut Word) -> c_int {
            let stub = match function {
                0 => Some(0),
                #[cfg(feature = "openmpi")]
                _ if own::cxx::is_intercept(function) => $stubs.take_new($code as *const () as usize, function),
                _ => $stubs.take($code as *const () as usize, function),
            };
            let Some(stub) = stub else {
                return OTHER;
            };
            let mut made = 0;
            // SAFETY: the addresses come from the caller, which keeps the promises of the C binding.
            unsafe {
                let call: unsafe extern "C" fn(usize, c_int, *mut usize) -> c_int = standard::function(index::$name);
                let code = call(stub, commute, handle::out_pointer(op, &mut made));
                if code == 0 {
                    $stubs.made($code as *const () as usize, stub, made);
                    handle::store::<Op>(op, made);
                }
                error::encode(code)
            }
        }
        $(alias!($direct => $create);)?
    )*};
}

operations! {
    PMPI_Op_create = MPI_Op_create, MPI_OP_CREATE SMALL small run_small c_int, Word = Datatype::encode;
    PMPI_Op_create_c = MPI_Op_create_c, MPI_OP_CREATE_C LARGE large run_large i64, Word = Datatype::encode;
}

/// The library for C++ tells what calls the function of an operation that was just made.
pub fn tell(op: Word, in_cxx: usize) {
    SMALL.tell(Op::decode(op), in_cxx);
}

/// Operations that Fortran makes, whose function gets the integer of the datatype.
#[cfg(feature = "openmpi")]
mod of_fortran {
    use super::*;
    use crate::own::fortran::number;

    operations! {
        weft_fortran_op_create, MPI_OP_CREATE SMALL small run_small c_int, c_int = number::<Datatype>;
        weft_fortran_op_create_c, MPI_OP_CREATE_C LARGE large run_large i64, c_int = number::<Datatype>;
    }
}
