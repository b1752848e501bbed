//! Arrivals: changes of transfers by frames of other nodes, and by the fabric.

use weft_fabric::{Operation, SharedBytes};

use super::{Leave, Portals, Step, refused, too_long};
use crate::error::Error;
use crate::frame::{DONE, Frame, TOO_LONG};

impl Portals {
    /// A reader permits us to put.
    pub(crate) fn permitted(&mut self, from: u32, frame: Frame) -> bool {
        let pair = (from, frame.target, frame.source);
        // Our offer crosses this permit: the reader will get by it.
        let offered = self
            .writing(pair)
            .is_some_and(|(_, transfer)| matches!(transfer.step, Step::Granted(_)));
        if !offered {
            let (token, size) = (frame.token, frame.size);
            self.permits.insert(pair, Leave { token, size });
        }
        true
    }

    /// A writer lets us get.
    pub(crate) fn offered(&mut self, from: u32, frame: Frame) -> bool {
        let pair = (from, frame.target, frame.source);
        let leave = Leave {
            token: frame.token,
            size: frame.size,
        };
        if let Some((id, transfer)) = self.reading(pair)
            && let Step::Granted(token) = transfer.step
        {
            transfer.stale = Some(token);
            transfer.accept(leave);
            self.work.push(id);
        } else {
            // For a read to come; the one before may have ended without anybody having looked yet.
            self.offers.insert(pair, leave);
        }
        true
    }

    /// The data of a transfer that we permitted.
    pub(crate) fn data(&mut self, from: u32, frame: Frame, data: SharedBytes<'_>) -> bool {
        let Some((id, transfer)) = self.reading((from, frame.target, frame.source)) else {
            return false;
        };
        let Step::Granted(token) = transfer.step else {
            return false;
        };
        // The writer checks the length before it sends; one that does not spoils its own transfer.
        let fitted = data.copy_to_region(&transfer.region);
        transfer.stale = Some(token);
        transfer.end(Ok(fitted));
        self.work.push(id);
        true
    }

    /// A writer has put, or cannot.
    pub(crate) fn placed(&mut self, from: u32, frame: Frame) -> bool {
        let Some((id, transfer)) = self.reading((from, frame.target, frame.source)) else {
            return false;
        };
        let Step::Granted(token) = transfer.step else {
            return false;
        };
        transfer.stale = Some(token);
        let room = transfer.region.len();
        transfer.end(match frame.number {
            DONE if frame.size <= room as u64 => Ok(frame.size as usize),
            TOO_LONG => Err(too_long(from, frame.size, room)),
            _ => Err(refused(from)),
        });
        self.work.push(id);
        true
    }

    /// A reader has taken what we offered, or cannot.
    pub(crate) fn taken(&mut self, from: u32, frame: Frame) -> bool {
        let Some((id, transfer)) = self.writing((from, frame.target, frame.source)) else {
            return false;
        };
        let Step::Granted(token) = transfer.step else {
            return false;
        };
        transfer.stale = Some(token);
        let size = transfer.size;
        transfer.end(match frame.number {
            DONE => Ok(size),
            TOO_LONG => Err(too_long(from, size as u64, frame.size as usize)),
            _ => Err(refused(from)),
        });
        self.work.push(id);
        true
    }

    /// A transfer of the fabric has ended.
    pub(crate) fn transfer_completed(
        &mut self,
        operation: Operation,
        result: weft_fabric::Result<()>,
    ) {
        let found = self.ends.all().find_map(|(id, end)| {
            let transfer = end.transfer.as_mut()?;
            (transfer.step == Step::Moving(operation)).then_some((id, transfer))
        });
        if let Some((id, transfer)) = found {
            let size = transfer.size;
            transfer.end(result.map(|()| size).map_err(Error::from));
            // The other side is told by `settle`.
            transfer.step = Step::Moving(Operation(0));
            self.work.push(id);
        }
    }
}
