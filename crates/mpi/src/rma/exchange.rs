//! Exchange: data of the members of a window about its epochs, if the program asks for checks.

use weft_fabric::Region;

use super::Window;
use crate::buffer::{self, Buffer};
use crate::coll::{self, Blocks, Members};
use crate::error::Result;
use crate::memory;

impl Window {
    /// Gives bytes to each member, and answers what each gives to this one. Collective.
    ///
    /// # Errors
    /// When a member is lost.
    ///
    /// # Panics
    /// Unless there are bytes, perhaps none, for each member.
    pub fn exchange(&self, mut out: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
        let members = Members::of(&self.comm);
        assert_eq!(out.len(), members.size, "one for each member");
        let mut lengths: Vec<[u8; 8]> = out
            .iter()
            .map(|bytes| (bytes.len() as u64).to_le_bytes())
            .collect();
        let mut sizes = vec![[0; 8]; members.size];
        let given = blocks(lengths.iter_mut().map(|length| &mut length[..]));
        let got = blocks(sizes.iter_mut().map(|size| &mut size[..]));
        let name = "MPI_Alltoallv";
        self.comm
            .run(coll::alltoallv(name, &members, Some(&given), &got)?)?;
        let room = |size: &[u8; 8]| {
            let bytes = usize::try_from(u64::from_le_bytes(*size)).unwrap_or(usize::MAX);
            memory::zeroed(bytes).map(Vec::from)
        };
        let mut into: Vec<Vec<u8>> = sizes.iter().map(room).collect::<Result<_>>()?;
        let given = blocks(out.iter_mut().map(|bytes| &mut bytes[..]));
        let got = blocks(into.iter_mut().map(|bytes| &mut bytes[..]));
        self.comm
            .run(coll::alltoallv(name, &members, Some(&given), &got)?)?;
        Ok(into)
    }

    /// Waits for all members.
    ///
    /// # Errors
    /// When a member is lost.
    pub fn meet(&self) -> Result<()> {
        self.barrier()
    }

    /// Bytes of a displacement at a member.
    #[must_use]
    pub fn unit_of(&self, rank: u32) -> Option<i64> {
        self.targets.get(rank as usize).map(super::Target::unit)
    }
}

fn blocks<'a>(all: impl Iterator<Item = &'a mut [u8]>) -> Blocks {
    let region = |bytes: &'a mut [u8]| -> Region { buffer::region_of(bytes) };
    Blocks::of(all.map(|bytes| Buffer::untyped(region(bytes))).collect())
}
