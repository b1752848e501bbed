//! Libraries of MPI that a program is linked with: one of another implementation does not know our job, and each rank would be
//! a rank 0 of its own. Unless it asks by PMI, which is answered; then there is something to say.

use super::environment::our_libraries;
use super::{PlanError, Program};
use crate::linkage;

/// The libraries of MPI that a program may run with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Libraries {
    /// Ours, and one that is told its job over PMI.
    WithPmi,
    /// Ours.
    Ours,
}

impl Libraries {
    /// Refuses a program that would run with another library. Answers what the user is to know of one that may run.
    pub(super) fn check(self, program: &Program) -> Result<Option<String>, PlanError> {
        let Some(name) = program.words.first() else {
            return Ok(None);
        };
        let ours = our_libraries();
        let Some(foreign) = linkage::foreign_library(&program.executable, ours.as_deref()) else {
            return Ok(None);
        };
        let (name, library, whose) = (name.display(), &foreign.library, foreign.whose);
        let told = self == Self::WithPmi && foreign.asks_by_pmi();
        let text = match &foreign.before_ours {
            Some(file) if told => {
                return Ok(Some(format!(
                    "the program {name} names the folder of its library of MPI (DT_RPATH) and runs over {}, that of {whose}, as a \
                     job by PMI; to run it over Weft, take the folder out (patchelf --remove-rpath)",
                    file.display()
                )));
            }
            None => format!(
                "the program {name} was linked with {library}, the library of {whose}: under this launcher each \
                 of its ranks would believe to be alone. Build it with Weft's mpicc (or against the MPI 5 \
                 ABI of any implementation), or start it with the mpiexec of {whose}"
            ),
            Some(file) => format!(
                "the program {name} names the folder in which it looks for {library} (DT_RPATH), so that it runs with {} and not \
                 with the library of this name that Weft has: under this launcher each of its ranks would believe to be alone. \
                 Take the folder out (patchelf --remove-rpath), link it with -Wl,--enable-new-dtags, or start it with the mpiexec \
                 of {whose}",
                file.display()
            ),
        };
        Err(PlanError::request(text))
    }
}
