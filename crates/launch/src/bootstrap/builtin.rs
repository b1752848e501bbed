//! The launcher of this crate, as a rank sees it, and no launcher at all.

use std::io::ErrorKind;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Mutex;

use weft_sys::{MemoryFile, descriptor, lifeline};

use super::environment::Place;
use super::{BootstrapError, Launcher};
use crate::control::Message;

/// A rank that our own launcher started.
#[derive(Debug)]
pub struct Builtin {
    place: Place,
    segment: Mutex<Option<OwnedFd>>,
    control: OwnedFd,
    /// Kept open: when its other end closes, the kernel ends us.
    _lifeline: OwnedFd,
}

impl Builtin {
    /// Takes over the descriptors that the launcher has left open.
    pub fn join(place: Place) -> Result<Self, BootstrapError> {
        let take = |number: RawFd| {
            descriptor::inherited(number).map_err(|error| gone(&place, &error.to_string()))
        };
        let segment = take(place.job)?;
        // Not just open: the very thing. A program in between may have closed it and opened another.
        let segment = MemoryFile::adopt(segment)
            .map_err(|error| gone(&place, &error.to_string()))?
            .into_descriptor();
        let control = take(place.control)?;
        let lifeline = take(place.lifeline)?;
        lifeline::tie(&lifeline).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => taken(&place, &error),
            _ => gone(&place, &error.to_string()),
        })?;
        let rank = Self {
            place,
            segment: Mutex::new(Some(segment)),
            control,
            _lifeline: lifeline,
        };
        Ok(rank)
    }
}

/// The variables are there, the launcher is not.
fn gone(place: &Place, reason: &str) -> BootstrapError {
    BootstrapError::new(format!(
        "the environment says that this process is rank {} of {} of a Weft job, but the way to its \
         launcher is gone: {reason}. A program between mpiexec and this one has closed the \
         descriptors (in Python: subprocess with close_fds=False keeps them), or the variables were \
         kept from an earlier job; remove all variables named WEFT_… to run the program alone",
        place.rank, place.size
    ))
}

/// Another process is this rank.
fn taken(place: &Place, reason: &std::io::Error) -> BootstrapError {
    BootstrapError::new(format!(
        "a second process claims to be rank {} of {}: {reason}. One process of each rank may \
         initialise MPI; start further ones with mpiexec -n",
        place.rank, place.size
    ))
}

impl Launcher for Builtin {
    fn rank(&self) -> u32 {
        self.place.rank
    }

    fn size(&self) -> u32 {
        self.place.size
    }

    fn appnum(&self) -> u32 {
        self.place.appnum
    }

    fn local_rank(&self) -> u32 {
        self.place.local_rank
    }

    fn local_size(&self) -> u32 {
        self.place.local_size
    }

    fn is_singleton(&self) -> bool {
        false
    }

    fn segment(&self) -> Option<OwnedFd> {
        self.segment.lock().ok()?.take()
    }

    // If the launcher is gone, the lifeline ends us at this very moment: nothing to be done about it.
    fn initialised(&self) {
        let _ = Message::Initialised.send(&self.control);
    }

    fn finalised(&self) {
        let _ = Message::Finalised.send(&self.control);
    }

    fn abort(&self, code: i32, text: &str) {
        let text = text.to_owned();
        let _ = Message::Abort { code, text }.send(&self.control);
    }
}

/// A process that nobody started as a rank: a job of one.
#[derive(Debug)]
pub struct Singleton;

impl Launcher for Singleton {
    fn rank(&self) -> u32 {
        0
    }

    fn size(&self) -> u32 {
        1
    }

    fn appnum(&self) -> u32 {
        0
    }

    fn is_singleton(&self) -> bool {
        true
    }

    fn segment(&self) -> Option<OwnedFd> {
        None
    }

    fn initialised(&self) {}

    fn finalised(&self) {}

    fn abort(&self, code: i32, text: &str) {
        let said = if text.is_empty() { "" } else { ": " };
        eprintln!("weft: the program called MPI_Abort with code {code}{said}{text}");
    }
}

#[cfg(test)]
mod tests {
    use super::super::join_from;

    #[test]
    fn nothing_set_is_a_job_of_one() {
        let launcher = join_from(&|_| None).expect("alone");
        assert!(launcher.is_singleton() && launcher.segment().is_none());
        assert_eq!((launcher.rank(), launcher.size()), (0, 1));
    }

    #[test]
    fn a_closed_or_wrong_descriptor_is_a_clear_error() {
        // Descriptor 0 is open, but no memory file; the other number is open nowhere.
        for number in ["0", "123456"] {
            let error = join_from(&|name| {
                Some(match name {
                    "WEFT_RANK" | "WEFT_LOCAL_RANK" | "WEFT_APPNUM" => "0".to_owned(),
                    name if name.ends_with("_FD") => number.to_owned(),
                    name if name.starts_with("WEFT_") => "2".to_owned(),
                    _ => return None,
                })
            })
            .expect_err("no launcher there")
            .to_string();
            assert!(
                error.contains("rank 0 of 2") && error.contains("WEFT_"),
                "{error}"
            );
        }
    }
}
