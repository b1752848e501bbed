//! Partitioned communication (MPI 5.0, chapter 4): a message whose parts become ready one by one.

use std::ops::Range;

use super::Target;
use crate::buffer::Buffer;
use crate::comm::Comm;
use crate::engine::RequestId;
use crate::error::Result;
use crate::process::Process;

impl Comm {
    /// `MPI_Psend_init`: `buffer` consists of this many equal partitions. Sends and receives of one peer and tag are
    /// matched in the order in which they are initialised.
    ///
    /// # Errors
    /// `Rank` for a rank that does not exist; `ProcFailed` when the receiver is lost; `NoMem` for more partitions than
    /// memory has room to count.
    pub fn psend_init(
        &self,
        buffer: Buffer,
        partitions: u32,
        to: Target,
        tag: i32,
    ) -> Result<RequestId> {
        let comm = self.of_tag(tag);
        let context = comm.context();
        let Target::Rank(rank) = to else {
            return comm.lock().keep_partitioned_nothing(context);
        };
        let to = self.target(rank)?;
        let mut engine = comm.lock();
        engine.keep_partitioned_send(context, buffer, partitions, to, tag)
    }

    /// `MPI_Precv_init`. The number of partitions may be another one than that of the sender.
    ///
    /// # Errors
    /// As for [`Self::psend_init`].
    pub fn precv_init(
        &self,
        buffer: Buffer,
        partitions: u32,
        from: Target,
        tag: i32,
    ) -> Result<RequestId> {
        let comm = self.of_tag(tag);
        let context = comm.context();
        let Target::Rank(rank) = from else {
            return comm.lock().keep_partitioned_nothing(context);
        };
        let from = self.target(rank)?;
        let named = (context, comm.translation());
        let mut engine = comm.lock();
        engine.keep_partitioned_receive(named, buffer, partitions, from, tag)
    }
}

impl Process {
    /// `MPI_Pready_range`, and with one partition `MPI_Pready`: the end of the range is not part of it. Any number of
    /// threads may call it at once.
    ///
    /// # Errors
    /// `Request` if the request is no partitioned send or not under way; `Arg` for partitions that do not exist, or are
    /// ready already: none of them is made ready then.
    pub fn ready(&self, id: RequestId, partitions: Range<u32>) -> Result<()> {
        let mut engine = self.lock_of(id);
        engine.ready(id, partitions)?;
        if engine.is_driven() {
            // The thread that waits for the request may be the one that sleeps on the fabric.
            self.shared_of(id).bell().ring();
        }
        Ok(())
    }

    /// `MPI_Parrived`: whether the bytes of a partition have arrived.
    ///
    /// # Errors
    /// `Request` if the request is no partitioned receive; `Arg` for a partition that does not exist.
    pub fn has_arrived(&self, id: RequestId, partition: u32) -> Result<bool> {
        let mut engine = self.lock_of(id);
        if engine.has_arrived(id, partition)? {
            return Ok(true);
        }
        engine.ask();
        engine.has_arrived(id, partition)
    }
}
