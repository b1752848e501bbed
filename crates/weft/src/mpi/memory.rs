//! Memory of buffers as the engine gets it: the one place in which elements become bytes that others move.
//!
//! | type | whose memory | who may touch it meanwhile |
//! |---|---|---|
//! | [`View`] | lent, for as long as it lives | whoever lent it may read |
//! | [`Arriving`] | lent for writing | nobody |
//! | [`Memory`] | its own | nobody but through it |
//!
//! # What keeps this sound
//! A region that the engine got is used until its operation has ended, and no longer. So:
//!
//! * A blocking call keeps its views until it returns, and it returns when the operation has ended.
//! * A request owns its [`Memory`], or belongs to a scope that ends after the operation. A request that is leaked
//!   leaks its memory with it: the engine goes on with memory that nobody else has.
//! * Bytes from others become a value only after they were [checked](Element::is_valid), if the type needs that:
//!   until then they lie in memory of our own, which was zero before.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::NonNull;
use std::sync::Arc;

use weft_mpi::buffer::TypedBuffer;
use weft_mpi::coll;
use weft_mpi::datatype::Datatype;
use weft_mpi::{Buffer, Error, ErrorClass, Result};

use super::Element;

/// Elements for the engine, for as long as they are lent.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a, T> {
    start: NonNull<T>,
    length: usize,
    _lent: PhantomData<&'a [T]>,
}

impl<'a, T: Element> View<'a, T> {
    /// Elements to be read.
    pub(super) fn reading(elements: &'a [T]) -> Self {
        Self {
            start: NonNull::from(elements).cast(),
            length: elements.len(),
            _lent: PhantomData,
        }
    }

    /// How many.
    pub(super) fn len(self) -> usize {
        self.length
    }

    /// All of them. The operation ends before the loan does: see the page above.
    pub(super) fn buffer(self) -> Buffer {
        const { assert!(size_of::<T>() > 0, "an element has at least one byte") };
        // SAFETY: the elements are there as long as the view is, which outlives the operation by the rules of this
        // page; only a view of memory that nobody else touches is given to be written to.
        unsafe { Buffer::new(self.start.as_ptr().cast(), self.length, T::datatype()) }
    }

    /// Like [`buffer`](Self::buffer), whether or not the elements have gaps: for files.
    ///
    /// # Errors
    /// None that elements in memory could raise.
    pub(super) fn typed(self) -> Result<TypedBuffer> {
        const { assert!(size_of::<T>() > 0, "an element has at least one byte") };
        // SAFETY: as for `buffer`.
        unsafe { TypedBuffer::checked(self.start.as_ptr().cast(), self.length, T::datatype()) }
    }

    /// One block of as many elements for each of so many ranks.
    pub(super) fn even(self, ranks: usize) -> Result<coll::Blocks> {
        let count = self.length / ranks.max(1);
        // SAFETY: as for `buffer`: all blocks lie among the elements.
        unsafe { coll::Blocks::even(self.start.as_ptr().cast(), count, T::datatype(), ranks) }
    }

    /// Blocks of these counts, one after the other.
    ///
    /// # Panics
    /// If they are more than there are.
    pub(super) fn listed(self, counts: &[usize]) -> Result<coll::Blocks> {
        assert!(
            counts.iter().sum::<usize>() <= self.length,
            "blocks of {counts:?} elements in a buffer of {}",
            self.length
        );
        let mut end = 0;
        let displacements = counts.iter().map(|count| {
            end += count;
            (end - count) as i64
        });
        let counts = counts.iter().map(|count| *count as i64);
        let start = self.start.as_ptr().cast();
        // SAFETY: as for `buffer`: the blocks lie among the elements, which was checked.
        unsafe { coll::Blocks::listed(start, counts, displacements, T::datatype()) }
    }
}

/// Elements that belong to an operation: those of a `Vec`, or new ones that are zero.
#[derive(Debug)]
pub(super) struct Memory<T> {
    start: NonNull<T>,
    length: usize,
    capacity: usize,
}

// SAFETY: it owns its elements, as a `Vec` does.
unsafe impl<T: Send> Send for Memory<T> {}
// SAFETY: as above; a shared reference gives addresses only.
unsafe impl<T: Sync> Sync for Memory<T> {}

impl<T: Element> Memory<T> {
    /// The elements of a vector.
    pub(super) fn of(elements: Vec<T>) -> Self {
        let mut elements = ManuallyDrop::new(elements);
        let start = NonNull::new(elements.as_mut_ptr()).expect("a vector has an address");
        Self {
            start,
            length: elements.len(),
            capacity: elements.capacity(),
        }
    }

    /// So many elements of zero bytes, which need not be values.
    ///
    /// # Errors
    /// `NoMem` if the system does not give them.
    pub(super) fn zeroed(count: usize) -> Result<Self> {
        weft_mpi::memory::ensure_list(count, size_of::<T>())?;
        let elements: Box<[MaybeUninit<T>]> = Box::new_zeroed_slice(count);
        let start = NonNull::from(Box::leak(elements)).cast();
        Ok(Self {
            start,
            length: count,
            capacity: count,
        })
    }

    /// The elements for the engine, to be read and written.
    pub(super) fn view(&self) -> View<'_, T> {
        View {
            start: self.start,
            length: self.length,
            _lent: PhantomData,
        }
    }

    /// An error unless the first `count` are values.
    pub(super) fn check(&self, count: usize) -> Result<()> {
        if !T::CHECKED {
            return Ok(());
        }
        assert!(count <= self.length, "as many as there are");
        // SAFETY: the element is one of ours; its bytes were zero or a value's before others were received.
        let invalid =
            (0..count).find(|place| unsafe { !T::is_valid(self.start.as_ptr().add(*place)) });
        invalid.map_or(Ok(()), |place| Err(no_value::<T>(place)))
    }

    /// The first `count` elements as a vector.
    ///
    /// # Errors
    /// `Type` if one of them is no value.
    pub(super) fn into_vec(self, count: usize) -> Result<Vec<T>> {
        self.check(count)?;
        let memory = ManuallyDrop::new(self);
        let count = count.min(memory.length);
        // SAFETY: the parts are those of a vector, or of a box, which is one without room to spare; the elements
        // are values: each was one, or was zero and could only be replaced by what was checked now.
        Ok(unsafe { Vec::from_raw_parts(memory.start.as_ptr(), count, memory.capacity) })
    }

    /// Some of the elements, which are values.
    ///
    /// # Errors
    /// `Type` if one of them is not.
    pub(super) fn part(&self, range: std::ops::Range<usize>) -> Result<&[T]> {
        assert!(
            range.start <= range.end && range.end <= self.length,
            "as many as there are"
        );
        if T::CHECKED {
            // SAFETY: as in `check`; others do not write to these elements, as below.
            let invalid = range
                .clone()
                .find(|place| unsafe { !T::is_valid(self.start.as_ptr().add(*place)) });
            if let Some(place) = invalid {
                return Err(no_value::<T>(place));
            }
        }
        // SAFETY: they are ours, they are values as in `into_vec`, and the caller has seen to it that no operation
        // writes to them as long as the reference lives.
        Ok(
            unsafe {
                std::slice::from_raw_parts(self.start.as_ptr().add(range.start), range.len())
            },
        )
    }

    /// The elements, which are values.
    ///
    /// # Errors
    /// `Type` if one of them is not.
    pub(super) fn elements_mut(&mut self) -> Result<&mut [T]> {
        self.check(self.length)?;
        // SAFETY: they are ours, they are values as in `into_vec`, and the caller has seen to it that no operation
        // uses them as long as the reference lives.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) })
    }
}

impl<T> Drop for Memory<T> {
    fn drop(&mut self) {
        // SAFETY: the parts of a vector without elements: none has anything to be dropped.
        drop(unsafe { Vec::from_raw_parts(self.start.as_ptr(), 0, self.capacity) });
    }
}

/// Elements of a caller that others write to. If what comes must be checked, it comes to other memory first, and the
/// caller's elements stay what they are until it was.
#[derive(Debug)]
pub(super) struct Arriving<'a, T> {
    into: View<'a, T>,
    staged: Option<Memory<T>>,
    _lent: PhantomData<&'a mut [T]>,
}

// SAFETY: it stands for `&mut [T]`.
unsafe impl<T: Send> Send for Arriving<'_, T> {}

impl<'a, T: Element> Arriving<'a, T> {
    /// These elements. What is there already is there for the operation, too.
    ///
    /// # Errors
    /// `NoMem` if a copy is needed and there is no memory for it.
    pub(super) fn into(elements: &'a mut [T]) -> Result<Self> {
        let staged = if T::CHECKED {
            weft_mpi::memory::ensure_list(elements.len(), size_of::<T>())?;
            Some(Memory::of(elements.to_vec()))
        } else {
            None
        };
        Ok(Self {
            into: View {
                length: elements.len(),
                start: NonNull::from(elements).cast(),
                _lent: PhantomData,
            },
            staged,
            _lent: PhantomData,
        })
    }

    /// The elements for the engine.
    pub(super) fn view(&self) -> View<'_, T> {
        self.staged.as_ref().map_or(self.into, Memory::view)
    }

    /// The operation has ended: the first `count` elements have come.
    ///
    /// # Errors
    /// `Type` if one of them is no value; then the caller's elements are as before.
    pub(super) fn finish(self, count: usize) -> Result<&'a mut [T]> {
        if let Some(staged) = &self.staged {
            staged.check(count)?;
            // SAFETY: both have `length` elements, of which `count` are no more (`check`); they do not overlap.
            unsafe {
                self.into
                    .start
                    .copy_from_nonoverlapping(staged.start, count)
            };
        }
        // SAFETY: the elements were lent for `'a`, for writing, to this value alone, which ends here; they are values,
        // as above.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.into.start.as_ptr(), self.into.length) })
    }
}

/// A function of two values as an operation of reductions: `into = function(operand, into)`.
pub(super) fn combining<T: Element>(
    function: impl Fn(&T, &T) -> T + Send + Sync + 'static,
) -> impl Fn(weft_fabric::Region, weft_fabric::Region, usize, &Arc<Datatype>) + Send + Sync + 'static
{
    move |operand, into, count, datatype| {
        // The last element may end with its data: what is padding behind it is not there.
        let Ok((first, bytes)) = datatype.footprint(count) else {
            return;
        };
        let (first, end) = (first.cast_unsigned(), first.cast_unsigned() + bytes);
        let (operand, into) = (operand.as_ptr(), into.as_ptr());
        for place in 0..count {
            let start = (place * size_of::<T>()).max(first);
            let length = ((place + 1) * size_of::<T>()).min(end) - start;
            let within = start - place * size_of::<T>();
            let value = |from: *mut u8| -> T {
                let mut value = MaybeUninit::<T>::zeroed();
                // SAFETY: the engine lends regions of `count` elements, whose data lie between `first` and `end`;
                // the value has room for one element. It is a value: its data were packed from elements, and if
                // the type has patterns that are none, it is checked.
                unsafe {
                    let to = value.as_mut_ptr().cast::<u8>().add(within);
                    from.add(start).copy_to_nonoverlapping(to, length);
                    assert!(
                        !T::CHECKED || T::is_valid(value.as_ptr()),
                        "an operand is no value of {}: all ranks must give elements of one type",
                        std::any::type_name::<T>()
                    );
                    value.assume_init()
                }
            };
            let combined = function(&value(operand), &value(into));
            // SAFETY: as above; the region is lent for writing.
            unsafe {
                let from = (&raw const combined).cast::<u8>().add(within);
                into.add(start).copy_from_nonoverlapping(from, length);
            }
        }
    }
}

#[cold]
fn no_value<T>(place: usize) -> Error {
    Error::new(
        ErrorClass::Type,
        format!(
            "what came is no value of {} (element {place}); send the same type as is received",
            std::any::type_name::<T>()
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi;

    #[test]
    fn zeroed_memory_becomes_a_vector_and_back() {
        let memory = Memory::<(u8, f64)>::zeroed(3).unwrap();
        let mut all = memory.into_vec(2).unwrap();
        assert_eq!(all, [(0, 0.0); 2]);
        all.push((7, 1.5));
        let memory = Memory::of(all);
        assert_eq!(memory.view().len(), 3);
        assert_eq!(memory.into_vec(3).unwrap()[2], (7, 1.5));
        drop(Memory::<u64>::zeroed(0).unwrap());
        drop(Memory::of(Vec::<u64>::new()));
        let much = Memory::<u64>::zeroed(1 << 58).unwrap_err();
        assert_eq!(much.class(), ErrorClass::NoMem);
    }

    /// What the other side sends is no value: an error, and what was there is there still.
    #[test]
    fn bytes_that_are_no_value_never_become_one() {
        mpi::test(2, |world| {
            if world.rank() == 0 {
                for _ in 0..4 {
                    world.send(&[1_u8, 0, 2], 1, 0)?;
                }
                return Ok(());
            }
            let class = |error: Error| error.class();
            let mut flags = [true; 3];
            let outcome = world.receive_into(&mut flags, 0, 0);
            assert_eq!(outcome.map_err(class).unwrap_err(), ErrorClass::Type);
            assert_eq!(flags, [true; 3]);
            let outcome = world.receive_vec::<bool>(0, 0);
            assert_eq!(outcome.map_err(class).unwrap_err(), ErrorClass::Type);
            let outcome = world.ireceive(vec![false; 3], 0, 0)?.wait();
            assert_eq!(outcome.map_err(class).unwrap_err(), ErrorClass::Type);
            let mut flags = [true; 3];
            let outcome =
                mpi::scope(|scope| scope.ireceive(&world, &mut flags, 0, 0)?.wait().map(drop));
            assert_eq!(outcome.map_err(class).unwrap_err(), ErrorClass::Type);
            assert_eq!(flags, [true; 3]);
            Ok(())
        });
    }
}
