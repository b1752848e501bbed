//! Access: put, get and the accumulating operations (MPI 5.0, section 12.3), from arguments to a path.
//!
//! Everything that can be checked here is: rank, displacement, range, sizes, operation, epoch. The target checks the
//! contents of a message again.

use std::sync::Arc;

use weft_atomic::Ordering::Relaxed;

use super::{Flavor, Window};
use crate::buffer::Buffer;
use crate::datatype::{Basic, Datatype, SignatureCode};
use crate::engine::RequestId;
use crate::engine::one_sided::{self, Access, ELEMENT_MAX, Operation};
use crate::error::{Error, ErrorClass, Result};
use crate::exposed::{Exposed, lost_after_sleeps};
use crate::op::{Combine, Op, Predefined};

/// Elements in the memory of a member.
#[derive(Clone, Copy, Debug)]
pub struct TargetBuffer<'a> {
    /// The target.
    pub rank: u32,
    /// From the start of its memory, in its displacement units; in a dynamic window, an address.
    pub displacement: i64,
    /// Number of elements.
    pub count: usize,
    /// Their datatype.
    pub datatype: &'a Arc<Datatype>,
}

/// Whether an operation ends with a request, or at the next synchronisation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ends {
    /// At the next synchronisation.
    WithEpoch,
    /// With a request.
    WithRequest,
}

impl Window {
    /// `MPI_Put`, `MPI_Rput`. The answer is a request if it was asked for, else [`RequestId::DONE`].
    ///
    /// # Errors
    /// `Rank`, `Disp`, `RmaRange`, `RmaSync`, `Count` if both sides differ in size; `ProcFailed` if the target is lost.
    #[inline]
    pub fn put(&self, source: Buffer, target: &TargetBuffer<'_>, ends: Ends) -> Result<RequestId> {
        if ends == Ends::WithEpoch && self.put_directly(&source, target) {
            return Ok(RequestId::DONE);
        }
        self.access(Access::Put(source), target, ends)
    }

    /// `MPI_Get`, `MPI_Rget`.
    ///
    /// # Errors
    /// As for [`Self::put`].
    #[inline]
    pub fn get(&self, into: Buffer, target: &TargetBuffer<'_>, ends: Ends) -> Result<RequestId> {
        if ends == Ends::WithEpoch && self.get_directly(&into, target) {
            return Ok(RequestId::DONE);
        }
        self.access(Access::Get(into), target, ends)
    }

    /// `MPI_Accumulate`, `MPI_Raccumulate`: each element at once.
    ///
    /// # Errors
    /// As for [`Self::put`]; `Op` if the operation is a user's, `MPI_NO_OP` or not defined for the elements, `Type` if the
    /// elements of both sides are not all of one predefined datatype.
    pub fn accumulate(
        &self,
        source: Buffer,
        target: &TargetBuffer<'_>,
        op: &Op,
        ends: Ends,
    ) -> Result<RequestId> {
        if ends == Ends::WithEpoch && self.accumulate_directly(&source, target, op) {
            return Ok(RequestId::DONE);
        }
        if op.as_predefined() == Some(Predefined::NoOp) {
            return Err(only_fetched());
        }
        if is_nothing(target) {
            return self.access(Access::Put(source), target, ends);
        }
        let combine = combine(op, target.datatype)?;
        check_elements(&combine, &source)?;
        self.access(Access::Accumulate(combine, source), target, ends)
    }

    /// `MPI_Get_accumulate`, `MPI_Rget_accumulate`, `MPI_Fetch_and_op`: like [`Self::accumulate`], with the former values
    /// in `into`. For `MPI_NO_OP`, which is allowed here, `source` is not used and may be missing.
    ///
    /// # Errors
    /// As for [`Self::accumulate`].
    pub fn get_accumulate(
        &self,
        source: Option<Buffer>,
        into: Buffer,
        target: &TargetBuffer<'_>,
        op: &Op,
        ends: Ends,
    ) -> Result<RequestId> {
        if is_nothing(target) {
            return self.access(Access::Get(into), target, ends);
        }
        let combine = combine(op, target.datatype)?;
        let source = source.filter(|_| combine.operation() != Predefined::NoOp);
        for buffer in source.iter().chain([&into]) {
            check_elements(&combine, buffer)?;
        }
        self.access(Access::GetAccumulate(combine, source, into), target, ends)
    }

    /// `MPI_Compare_and_swap`: one element, replaced by `new` if it is `compare`; the former value goes to `into`.
    ///
    /// # Errors
    /// As for [`Self::put`]; `Type` if the datatype is none that the standard allows: an integer, a logical or a byte.
    pub fn compare_and_swap(
        &self,
        compare: &Buffer,
        new: &Buffer,
        into: Buffer,
        target: &TargetBuffer<'_>,
    ) -> Result<RequestId> {
        let basic = target.datatype.basic().filter(Basic::is_compared);
        let Some(basic) = basic else {
            return Err(Error::new(
                ErrorClass::Type,
                format!(
                    "MPI_Compare_and_swap of {:?}; it is defined for integers, logicals and MPI_BYTE (MPI 5.0, section 12.3.4)",
                    target.datatype
                ),
            ));
        };
        let element = |from: &Buffer| {
            let mut bytes = [0; ELEMENT_MAX];
            from.pack_from(0, &mut bytes[..basic.size()]);
            bytes
        };
        let access = Access::CompareAndSwap {
            basic,
            compare: element(compare),
            new: element(new),
            result: into,
        };
        self.access(access, target, Ends::WithEpoch)
    }

    #[inline]
    fn access(&self, access: Access, target: &TargetBuffer<'_>, ends: Ends) -> Result<RequestId> {
        if target.rank >= self.size() {
            return Err(self.no_such_rank(target.rank));
        }
        check_sizes(&access, target)?;
        let base = self.base_of(target)?;
        if ends == Ends::WithRequest {
            self.epoch.check_request(target.rank)?;
        }
        let ready = self.epoch.check_operation(target.rank)?;
        if is_nothing(target) {
            return Ok(RequestId::DONE);
        }
        // What is only stored is not ahead of stores.
        if !ready || !matches!(access, Access::Put(_)) {
            self.stores.drain();
        }
        if let Some(exposed) = self.reach(target.rank)? {
            if !ready {
                self.prepare(target.rank, true)?;
            }
            return self.access_direct(exposed, &access, base, target);
        }
        self.stores.drain();
        if !ready {
            self.prepare(target.rank, target.rank == self.comm.rank())?;
        }
        if target.rank == self.comm.rank() {
            return self.access_own(&access, base, target);
        }
        self.access_by_messages(access, base, target, ends)
    }

    /// Memory that this rank can load and store.
    #[inline]
    fn access_direct(
        &self,
        exposed: &Exposed,
        access: &Access,
        base: i64,
        target: &TargetBuffer<'_>,
    ) -> Result<RequestId> {
        let is_lost = |rank| self.is_lost(rank);
        let done = one_sided::apply(
            exposed,
            access,
            base,
            target.count,
            target.datatype,
            &is_lost,
        );
        self.stores.note();
        if done {
            self.count();
            Ok(RequestId::DONE)
        } else {
            Err(self.outside(target))
        }
    }

    /// Whether a member is lost, as far as is known after a look. Others may combine elements of the same memory: a waiter for one of them
    /// learns it so.
    #[cold]
    pub(super) fn is_lost(&self, rank: u32) -> bool {
        let mut engine = self.engine();
        engine.look();
        engine.window(self.context()).is_lost(rank)
    }

    /// Memory of the program of this rank, which the engine guards.
    #[cold]
    fn access_own(
        &self,
        access: &Access,
        base: i64,
        target: &TargetBuffer<'_>,
    ) -> Result<RequestId> {
        let mut engine = self.engine();
        let memory = engine.window(self.context()).memory();
        let is_lost = lost_after_sleeps();
        if one_sided::apply(
            memory,
            access,
            base,
            target.count,
            target.datatype,
            &is_lost,
        ) {
            Ok(RequestId::DONE)
        } else {
            Err(self.outside(target))
        }
    }

    /// Memory that the target's engine, or the fabric, reaches.
    fn access_by_messages(
        &self,
        access: Access,
        base: i64,
        target: &TargetBuffer<'_>,
        ends: Ends,
    ) -> Result<RequestId> {
        let context = self.context();
        self.targets[target.rank as usize].note_used();
        self.used.store(true, Relaxed);
        let mut engine = self.engine();
        let request = match ends {
            Ends::WithEpoch => None,
            Ends::WithRequest => Some(engine.start_one_sided_request(context)?),
        };
        let portal = self.targets[target.rank as usize].portal();
        let operation =
            Operation::new(access, base, target.count, target.datatype, request, portal);
        let started = engine.start_operation(context, target.rank, operation);
        if let (Err(_), Some(request)) = (&started, request) {
            engine.forget_one_sided_request(request);
        }
        engine.look();
        started.map(|()| request.unwrap_or(RequestId::DONE))
    }

    /// The first byte of the target's elements, from the start of its memory; an address in a dynamic window.
    #[inline]
    fn base_of(&self, target: &TargetBuffer<'_>) -> Result<i64> {
        if self.flavor == Flavor::Dynamic {
            return Ok(target.displacement);
        }
        let member = &self.targets[target.rank as usize];
        let base = target
            .displacement
            .checked_mul(member.unit())
            .filter(|base| *base >= 0)
            .ok_or_else(|| no_displacement(target.displacement))?;
        let (lower, length) = match target.datatype.flat(target.count) {
            Some(span) => span,
            None => target.datatype.footprint(target.count)?,
        };
        let first = base.checked_add(lower as i64);
        let within = first.is_some_and(|first| {
            u64::try_from(first).is_ok_and(|first| {
                first
                    .checked_add(length as u64)
                    .is_some_and(|end| end <= member.size())
            })
        });
        if within || length == 0 {
            Ok(base)
        } else {
            Err(self.outside(target))
        }
    }

    #[cold]
    fn outside(&self, target: &TargetBuffer<'_>) -> Error {
        let TargetBuffer {
            rank,
            displacement,
            count,
            ..
        } = *target;
        let member = &self.targets[rank as usize];
        let text = if self.flavor == Flavor::Dynamic {
            format!(
                "{count} elements at address {displacement:#x} are not within memory that is attached to the window at rank {rank}; pass an address that MPI_Get_address gave there"
            )
        } else {
            format!(
                "{count} elements of {} bytes (extent {}) at displacement {displacement} of rank {rank} do not lie within its {} bytes, with {} bytes for each displacement; check displacement and count against what that rank passed when the window was made",
                target.datatype.size(),
                target.datatype.extent(),
                member.size(),
                member.unit()
            )
        };
        Error::new(ErrorClass::RmaRange, text)
    }
}

/// Whether there are no data: then it does not matter of which datatype they are not.
#[inline]
fn is_nothing(target: &TargetBuffer<'_>) -> bool {
    target.count == 0 || target.datatype.size() == 0
}

#[cold]
fn no_displacement(displacement: i64) -> Error {
    Error::new(
        ErrorClass::Disp,
        format!("a displacement of {displacement}; it must be at least 0, and lead to an address"),
    )
}

/// The operation on the elements of a datatype.
fn combine(op: &Op, datatype: &Datatype) -> Result<Combine> {
    let Some(operation) = op.as_predefined() else {
        return Err(Error::new(
            ErrorClass::Op,
            "a user's operation; only predefined operations accumulate (MPI 5.0, section 12.3.4)",
        ));
    };
    let Some(basic) = datatype.element() else {
        return Err(Error::new(
            ErrorClass::Type,
            format!(
                "{} on {datatype:?}, whose elements are of several predefined datatypes; accumulate one kind of element at a time",
                op.name()
            ),
        ));
    };
    Combine::new(operation, basic)
}

#[cold]
fn only_fetched() -> Error {
    Error::new(
        ErrorClass::Op,
        "MPI_NO_OP changes nothing at the target; it is for MPI_Get_accumulate and MPI_Fetch_and_op, which return what is there",
    )
}

/// A buffer at the origin has elements like those that the target combines (MPI 5.0, section 12.3.4).
#[inline]
fn check_elements(combine: &Combine, buffer: &Buffer) -> Result<()> {
    let code = buffer.code();
    if code.fits(SignatureCode::of(combine.basic())) {
        return Ok(());
    }
    Err(elements_differ(combine, code))
}

#[cold]
fn elements_differ(combine: &Combine, code: SignatureCode) -> Error {
    Error::new(
        ErrorClass::Type,
        format!(
            "{} at the origin but {} at the target; build the datatypes of both sides from the same predefined one",
            code.name(),
            combine.basic().name()
        ),
    )
}

/// Both sides have as many bytes.
#[inline]
fn check_sizes(access: &Access, target: &TargetBuffer<'_>) -> Result<()> {
    let bytes = target.datatype.bytes(target.count)?;
    let fits = |buffer: Option<&Buffer>| buffer.is_none_or(|buffer| buffer.bytes() == bytes);
    if fits(access.source()) && fits(access.result()) {
        return Ok(());
    }
    Err(sizes_differ(access, bytes))
}

#[cold]
fn sizes_differ(access: &Access, bytes: usize) -> Error {
    let sides = [access.source(), access.result()];
    let other = sides.into_iter().flatten().map(Buffer::bytes);
    let other = other.into_iter().find(|other| *other != bytes);
    Error::new(
        ErrorClass::Count,
        format!(
            "{} bytes at the origin but {bytes} bytes at the target; count and datatype of both sides must describe as many",
            other.unwrap_or_default()
        ),
    )
}
