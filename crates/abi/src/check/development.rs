//! Development checks: enabled by `mpiexec --check`. A check reports, once for each process, uses that work here but
//! need not work elsewhere, and lets the program continue.

use std::sync::Once;

use weft_mpi::datatype::BasicKind;
use weft_mpi::op::Predefined;
use weft_mpi::{Datatype, Op};

use crate::state;

/// A reduction: characters are not numbers (MPI 5.0, section 6.9.2), although all implementations add them.
#[inline]
pub fn reduction(op: &Op, datatype: &Datatype) {
    if super::mode().is_full()
        && let (Some(operation), Some(basic)) = (op.as_predefined(), datatype.basic())
        && matches!(basic.kind(), BasicKind::Character(_))
    {
        warn_of_characters(operation, basic.name());
    }
}

#[cold]
fn warn_of_characters(operation: Predefined, datatype: &str) {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        let rank = state::runtime().map_or(0, |runtime| runtime.world.rank());
        state::warn(&format!(
            "weft: warning: rank {rank} of MPI_COMM_WORLD reduces {datatype} with {}; MPI 5.0, section 6.9.2, defines it for \
             numbers only, and other libraries may refuse it: use MPI_SIGNED_CHAR, MPI_UNSIGNED_CHAR or MPI_INT8_T\n",
            operation.name()
        ));
    });
}
