//! Section: a choice buffer of MPICH's `mpi_f08`, which is a descriptor instead of an address.
//!
//! MPICH declares its buffers as `type(*), dimension(..)`, so that a section with gaps is not copied: gfortran passes its own descriptor, with the
//! address of the first element and the distances. If there are no gaps, the address, the count and the datatype of the program are passed on. If there
//! are some, count and datatype are replaced by one datatype that has the gaps, which is freed when the call returns.
//!
//! The data of a section are the elements in the order of the array, as if they were adjacent; the program's datatype describes them as adjacent
//! (MPI 5.0, section 19.1.12).

use alloc::vec;
use alloc::vec::Vec;
use core::ffi::{c_int, c_void};

use crate::data::int;
use crate::error::finish;
use crate::generated::constants::{MPI_BYTE, MPI_COMM_WORLD, MPI_ERR_BUFFER};
use crate::sentinel;

/// The most dimensions that an array of Fortran has.
const MOST_DIMENSIONS: i8 = 15;

/// A descriptor of gfortran 8 and later, as a procedure that is not `bind(C)` gets it. It is another one than that of `ISO_Fortran_binding.h`.
#[repr(C)]
pub struct Descriptor {
    base: *mut c_void,
    offset: isize,
    element_length: usize,
    version: c_int,
    rank: i8,
    kind: i8,
    attribute: i16,
    /// The bytes between positions whose indices differ by one: those of the variable that the elements are parts of.
    span: isize,
    dimensions: [Dimension; 0],
}

/// A dimension of a descriptor.
#[repr(C)]
#[derive(Clone, Copy)]
struct Dimension {
    stride: isize,
    lower: isize,
    upper: isize,
}

/// A dimension: how many elements, and the bytes between two of them.
#[derive(Clone, Copy)]
struct Row {
    extent: usize,
    step: isize,
}

/// Functions of the C binding by names that tools do not interpose: the program has not called them.
mod p {
    use core::ffi::c_int;

    unsafe extern "C" {
        pub fn PMPI_Type_size_c(datatype: c_int, size: *mut i64) -> c_int;
        pub fn PMPI_Type_get_extent(datatype: c_int, lb: *mut isize, extent: *mut isize) -> c_int;
        pub fn PMPI_Type_get_true_extent(
            datatype: c_int,
            lb: *mut isize,
            extent: *mut isize,
        ) -> c_int;
        pub fn PMPI_Type_contiguous_c(count: i64, of: c_int, new: *mut c_int) -> c_int;
        pub fn PMPI_Type_create_hvector_c(
            count: i64,
            length: i64,
            stride: i64,
            of: c_int,
            new: *mut c_int,
        ) -> c_int;
        pub fn PMPI_Type_create_struct_c(
            count: i64,
            lengths: *const i64,
            displacements: *const i64,
            types: *const c_int,
            new: *mut c_int,
        ) -> c_int;
        pub fn PMPI_Type_create_resized(
            of: c_int,
            lb: isize,
            extent: isize,
            new: *mut c_int,
        ) -> c_int;
        pub fn PMPI_Type_commit(datatype: *mut c_int) -> c_int;
        pub fn PMPI_Type_free(datatype: *mut c_int) -> c_int;
        pub fn PMPI_Add_error_code(class: c_int, code: *mut c_int) -> c_int;
        pub fn PMPI_Add_error_string(code: c_int, text: *const core::ffi::c_char) -> c_int;
        pub fn PMPI_Comm_call_errhandler(comm: c_int, code: c_int) -> c_int;
    }
}

impl Descriptor {
    /// Whether gfortran has made it. Programs of compilers with other descriptors ask for the same linker names: flang has version, rank and type where
    /// the length of an element is here, Intel's compilers have bits that are never all zero where version is, and zeros where rank and type are.
    fn is_of_gfortran(&self) -> bool {
        self.element_length >> 32 == 0
            && (self.version == 0 || self.kind != 0)
            && (0..=MOST_DIMENSIONS).contains(&self.rank)
    }

    /// The bytes between positions whose indices differ by one.
    fn span(&self) -> isize {
        match self.span {
            0 => self.element_length.cast_signed(),
            span => span,
        }
    }

    /// Its dimensions.
    ///
    /// # Safety
    /// gfortran has made it.
    unsafe fn rows(&self) -> impl Iterator<Item = Row> {
        let first = (&raw const self.dimensions).cast::<Dimension>();
        let rank = usize::try_from(self.rank).unwrap_or(0);
        (0..rank).map(move |place| {
            // SAFETY: as many follow the head as the rank says.
            let Dimension {
                stride,
                lower,
                upper,
            } = unsafe { first.add(place).read() };
            Row {
                // The last extent of an array of assumed size is negative.
                extent: usize::try_from(upper - lower + 1).unwrap_or(usize::MAX),
                step: stride * self.span(),
            }
        })
    }

    /// Whether some elements are not adjacent to those before them.
    ///
    /// # Safety
    /// As for [`rows`](Self::rows).
    unsafe fn has_gaps(&self) -> bool {
        let mut adjacent = self.element_length.cast_signed();
        // SAFETY: as this function demands.
        for Row { extent, step } in unsafe { self.rows() } {
            if extent == 0 {
                return false;
            }
            if extent > 1 && step != adjacent {
                return true;
            }
            adjacent = adjacent.wrapping_mul(extent.cast_signed());
        }
        false
    }

    /// The address of the first element, in the form of `mpif.h` if it has a meaning of its own.
    fn address(&self) -> *mut c_void {
        sentinel::buffer_of_f08(self.base)
    }
}

/// A buffer in the form of the other bindings.
pub struct Section<Count> {
    address: *mut c_void,
    count: *const Count,
    datatype: *const c_int,
    /// The datatype with the gaps; 0, which is no handle, if there are none.
    made: c_int,
}

/// The count that goes with a datatype for a whole section.
static ONE: i64 = 1;

impl<Count: Copy + Into<i64>> Section<Count> {
    /// What a call without descriptors gets for one; nothing if there is no such form, which is reported.
    ///
    /// # Safety
    /// The arguments are those of a procedure of MPICH.
    pub unsafe fn of(
        buffer: *const Descriptor,
        count: *const Count,
        datatype: *const c_int,
        ierror: *mut c_int,
    ) -> Option<Self> {
        // SAFETY: as this function demands.
        unsafe {
            let buffer = &*buffer;
            if !buffer.is_of_gfortran() {
                return refuse(Refusal::Descriptor, ierror);
            }
            let mut section = Self {
                address: buffer.address(),
                count,
                datatype,
                made: 0,
            };
            if buffer.has_gaps() {
                match with_gaps(buffer, count.read_unaligned().into(), int(datatype)) {
                    Ok(made) => section.made = made,
                    Err(refusal) => return refuse(refusal, ierror),
                }
            }
            Some(section)
        }
    }

    /// Its address.
    pub fn address(&self) -> *mut c_void {
        self.address
    }

    /// How many elements.
    pub fn count(&self) -> *const Count {
        match self.made {
            0 => self.count,
            // On a little-endian machine the address of a short integer, too.
            _ => (&raw const ONE).cast(),
        }
    }

    /// Of which datatype.
    pub fn datatype(&self) -> *const c_int {
        match self.made {
            0 => self.datatype,
            _ => &raw const self.made,
        }
    }
}

impl<Count> Drop for Section<Count> {
    fn drop(&mut self) {
        if self.made != 0 {
            // SAFETY: it was made for this call alone.
            unsafe { p::PMPI_Type_free(&raw mut self.made) };
        }
    }
}

/// The address of a buffer that no count and datatype describe, for a call that only needs where it begins.
///
/// # Safety
/// The address is that of a descriptor.
pub unsafe fn start(buffer: *const Descriptor, ierror: *mut c_int) -> Option<*mut c_void> {
    // SAFETY: as this function demands.
    unsafe {
        match (*buffer).is_of_gfortran() {
            true => Some((*buffer).address()),
            false => refuse(Refusal::Descriptor, ierror),
        }
    }
}

/// The address of a buffer that must have no gaps: several counts or datatypes describe it, or it is combined with another one.
///
/// # Safety
/// The address is that of a descriptor.
pub unsafe fn whole(buffer: *const Descriptor, ierror: *mut c_int) -> Option<*mut c_void> {
    // SAFETY: as this function demands.
    unsafe {
        let address = start(buffer, ierror)?;
        match (*buffer).has_gaps() {
            true => refuse(Refusal::Gaps, ierror),
            false => Some(address),
        }
    }
}

/// Why a buffer cannot be passed on.
#[derive(Clone, Copy)]
enum Refusal {
    /// It is not described as by gfortran.
    Descriptor,
    /// It has gaps where none may be.
    Gaps,
    /// It has gaps, and the elements of the datatype are not those of the array.
    Datatype,
    /// MPI has reported an error of this code.
    Reported(c_int),
}

/// Reports that a buffer cannot be passed on.
///
/// # Safety
/// The address is null or that of an integer.
#[cold]
unsafe fn refuse<T>(why: Refusal, ierror: *mut c_int) -> Option<T> {
    let text = match why {
        Refusal::Descriptor => {
            c"a buffer of use mpi_f08 is not described as by gfortran: compile the program with mpifort of this installation"
        }
        Refusal::Gaps => {
            c"an array section with gaps, where a call of MPICH's mpi_f08 needs a buffer without: pass a copy"
        }
        Refusal::Datatype => {
            c"an array section with gaps, whose elements are not those of the datatype: pass a copy, or a datatype of the size of an element"
        }
        Refusal::Reported(code) => {
            // SAFETY: as this function demands.
            unsafe { finish(ierror, code) };
            return None;
        }
    };
    let mut code = MPI_ERR_BUFFER;
    // SAFETY: the addresses are those of a variable and of a text.
    unsafe {
        if p::PMPI_Add_error_code(MPI_ERR_BUFFER, &raw mut code) == 0 {
            p::PMPI_Add_error_string(code, text.as_ptr());
        }
        p::PMPI_Comm_call_errhandler(MPI_COMM_WORLD, code);
        finish(ierror, code);
    }
    None
}

/// Datatypes that are needed only to make another one.
struct Steps(Vec<c_int>);

impl Steps {
    /// Keeps one that a call has made.
    fn keep(&mut self, code: c_int, made: c_int) -> Result<c_int, Refusal> {
        if code != 0 {
            return Err(Refusal::Reported(code));
        }
        self.0.push(made);
        Ok(made)
    }

    /// So many of a datatype, at equal distances.
    fn row(&mut self, Row { extent, step }: Row, of: c_int) -> Result<c_int, Refusal> {
        let (mut new, extent) = (0, extent.cast_signed() as i64);
        // SAFETY: the address is that of a variable.
        let code =
            unsafe { p::PMPI_Type_create_hvector_c(extent, 1, step as i64, of, &raw mut new) };
        self.keep(code, new)
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        for datatype in &mut self.0 {
            // SAFETY: it was made here.
            unsafe { p::PMPI_Type_free(datatype) };
        }
    }
}

/// One datatype for `count` of a datatype in a section with gaps; 0 if the call has something else to report.
///
/// # Safety
/// gfortran has made the descriptor.
#[cold]
unsafe fn with_gaps(buffer: &Descriptor, count: i64, datatype: c_int) -> Result<c_int, Refusal> {
    let (mut size, mut bounds, mut true_bounds) = (0, [0; 2], [0; 2]);
    // SAFETY: the addresses are those of variables.
    unsafe {
        let [lower, extent] = bounds.each_mut().map(core::ptr::from_mut);
        let [true_lower, true_extent] = true_bounds.each_mut().map(core::ptr::from_mut);
        for code in [
            p::PMPI_Type_size_c(datatype, &raw mut size),
            p::PMPI_Type_get_extent(datatype, lower, extent),
            p::PMPI_Type_get_true_extent(datatype, true_lower, true_extent),
        ] {
            if code != 0 {
                return Err(Refusal::Reported(code));
            }
        }
    }
    if count <= 0 || size <= 0 || buffer.element_length == 0 {
        return Ok(0);
    }
    let dense = [0, size as isize];
    if bounds != dense || true_bounds != dense {
        return Err(Refusal::Datatype);
    }
    let (size, element) = (size as usize, buffer.element_length);
    let count = usize::try_from(count).map_err(|_| Refusal::Datatype)?;
    // SAFETY: as this function demands.
    let mut rows: Vec<Row> = unsafe { buffer.rows() }.collect();
    let mut steps = Steps(Vec::new());
    let (unit, count) = if element.is_multiple_of(size) {
        // A complex number of two reals, a text of many letters: one dimension more, without gaps.
        if element > size {
            let step = size.cast_signed();
            let extent = element / size;
            rows.insert(0, Row { extent, step });
        }
        (datatype, count)
    } else if size.is_multiple_of(element) {
        let mut bytes = 0;
        // SAFETY: the address is that of a variable.
        let code = unsafe { p::PMPI_Type_contiguous_c(element as i64, MPI_BYTE, &raw mut bytes) };
        (steps.keep(code, bytes)?, count * (size / element))
    } else {
        return Err(Refusal::Datatype);
    };
    parts(&rows, unit, count, &mut steps)
}

/// The datatype of the first `count` units in the order of an array.
fn parts(rows: &[Row], unit: c_int, count: usize, steps: &mut Steps) -> Result<c_int, Refusal> {
    // Datatypes of a unit, a row, a plane, …, up to the largest of which there is one, and how many units they have.
    let mut blocks: Vec<(c_int, usize)> = vec![(unit, 1)];
    for row in &rows[..rows.len() - 1] {
        let &(of, units) = blocks.last().expect("there is the unit");
        match units
            .checked_mul(row.extent)
            .filter(|units| *units <= count)
        {
            Some(units) => blocks.push((steps.row(*row, of)?, units)),
            None => break,
        }
    }
    // Whole blocks, the largest first, and where each of them begins.
    let (mut lengths, mut places, mut types) = (Vec::new(), Vec::new(), Vec::new());
    let (mut left, mut place) = (count, 0);
    for (&(of, units), row) in blocks.iter().zip(rows).rev() {
        let extent = left / units;
        if extent > 0 {
            types.push(steps.row(Row { extent, ..*row }, of)?);
            places.push(place as i64);
            lengths.push(1_i64);
        }
        place += row.step * extent.cast_signed();
        left %= units;
    }
    let (mut joined, mut new) = (0, 0);
    // SAFETY: all arrays have as many elements; the addresses are those of variables.
    unsafe {
        let code = p::PMPI_Type_create_struct_c(
            types.len() as i64,
            lengths.as_ptr(),
            places.as_ptr(),
            types.as_ptr(),
            &raw mut joined,
        );
        let joined = steps.keep(code, joined)?;
        // The next one of these, in a buffer for several processes, begins at the unit after the last one.
        let code = p::PMPI_Type_create_resized(joined, 0, place, &raw mut new);
        if code != 0 {
            return Err(Refusal::Reported(code));
        }
        let code = p::PMPI_Type_commit(&raw mut new);
        match code {
            0 => Ok(new),
            _ => Err(Refusal::Reported(code)),
        }
    }
}

// The head of a descriptor of gfortran.
const _: () = assert!(size_of::<Descriptor>() == 40 && size_of::<Dimension>() == 24);
