//! Dynamic windows: memory that is attached and detached while the window lives (MPI 5.0, section 12.2.5).

use weft_fabric::Region;

use super::{Flavor, Window};
use crate::engine::one_sided::WindowMemory;
use crate::error::{Error, ErrorClass, Result};
use crate::exposed::{ElementLock, Exposed};

impl Window {
    /// `MPI_Win_attach`: lets the others use this memory, by its addresses, until it is detached.
    ///
    /// # Errors
    /// `RmaFlavor` if the window is not dynamic; `RmaAttach` if a part of it is attached already.
    pub fn attach_memory(&self, region: Region) -> Result<()> {
        self.check_dynamic("MPI_Win_attach")?;
        self.with_attached(|all| {
            let start = region.as_ptr().addr();
            let end = start.saturating_add(region.len());
            let overlaps = |exposed: &&Exposed| {
                let other = exposed.region();
                let first = other.as_ptr().addr();
                (first < end && start < first.saturating_add(other.len())) || first == start
            };
            if let Some(other) = all.iter().find(overlaps) {
                return Err(Error::new(
                    ErrorClass::RmaAttach,
                    format!(
                        "{region:?} overlaps with {:?}, which is attached to the window; detach that before",
                        other.region()
                    ),
                ));
            }
            all.push(Exposed::new(region, ElementLock::Engine));
            Ok(())
        })
    }

    /// `MPI_Win_detach`, by the address that was attached.
    ///
    /// # Errors
    /// `RmaFlavor` if the window is not dynamic; `RmaAttach` if nothing is attached there.
    pub fn detach_memory(&self, start: usize) -> Result<()> {
        self.check_dynamic("MPI_Win_detach")?;
        self.with_attached(|all| {
            let at_start = |exposed: &Exposed| exposed.region().as_ptr().addr() == start;
            let place = all.iter().position(at_start).ok_or_else(|| {
                Error::new(
                    ErrorClass::RmaAttach,
                    format!(
                        "no memory that begins at {start:#x} is attached to the window; pass the address that was attached"
                    ),
                )
            })?;
            all.swap_remove(place);
            Ok(())
        })
    }

    fn check_dynamic(&self, call: &str) -> Result<()> {
        if self.flavor == Flavor::Dynamic {
            return Ok(());
        }
        Err(Error::new(
            ErrorClass::RmaFlavor,
            format!("{call} on a window that is not dynamic; make it by MPI_Win_create_dynamic"),
        ))
    }

    fn with_attached(&self, change: impl FnOnce(&mut Vec<Exposed>) -> Result<()>) -> Result<()> {
        let mut engine = self.engine();
        match engine.window_memory(self.context()) {
            WindowMemory::Attached(all) => change(all),
            WindowMemory::Fixed(_) => Ok(()),
        }
    }
}
