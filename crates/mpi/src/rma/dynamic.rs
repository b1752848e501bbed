//! Dynamic windows: memory that is attached and detached while the window lives (MPI 5.0, section 12.2.5).

use weft_fabric::Region;

use super::Window;
use crate::engine::one_sided::{Attached, WindowMemory};
use crate::error::{Error, ErrorClass, Result};

impl Window {
    /// `MPI_Win_attach`: lets the others use this memory, by its addresses, until it is detached.
    ///
    /// # Errors
    /// `RmaFlavor` if the window is not dynamic; `RmaAttach` if a part of it is attached already.
    pub fn attach_memory(&self, region: Region) -> Result<()> {
        let attached = self.with_attached("MPI_Win_attach", |all| all.attach(region))?;
        attached.map_err(|other| {
            Error::new(
                ErrorClass::RmaAttach,
                format!(
                    "{region:?} overlaps with {other:?}, which is attached to the window; detach that before"
                ),
            )
        })
    }

    /// `MPI_Win_detach`, by the address that was attached.
    ///
    /// # Errors
    /// `RmaFlavor` if the window is not dynamic; `RmaAttach` if nothing is attached there.
    pub fn detach_memory(&self, start: usize) -> Result<()> {
        if self.with_attached("MPI_Win_detach", |all| all.detach(start))? {
            return Ok(());
        }
        Err(Error::new(
            ErrorClass::RmaAttach,
            format!(
                "no memory that begins at {start:#x} is attached to the window; pass the address that was attached"
            ),
        ))
    }

    /// What is attached to this rank's part, for a call of this name.
    fn with_attached<R>(&self, call: &str, change: impl FnOnce(&mut Attached) -> R) -> Result<R> {
        match self.engine().window_memory(self.context()) {
            WindowMemory::Attached(all) => Ok(change(all)),
            WindowMemory::Fixed(_) => Err(Error::new(
                ErrorClass::RmaFlavor,
                format!(
                    "{call} on a window that is not dynamic; make it by MPI_Win_create_dynamic"
                ),
            )),
        }
    }
}
