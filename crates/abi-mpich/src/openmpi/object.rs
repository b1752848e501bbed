//! Objects whose addresses are predefined handles. Executables at a fixed address have copies of them, which the dynamic linker fills and
//! makes the only ones: so they have the sizes of those of Open MPI, and this library finds them as any other does, through its relocations.

use core::cell::UnsafeCell;

use crate::generated::handles::ADDRESSES;
use crate::handle::WILD;

/// Predefined handles of the standard ABI have ten bits.
const HANDLES: usize = 1 << 10;

/// An object of `SIZE` bytes. Only its first two words are used: the handle of the standard ABI, and the integer of Fortran, which the binding for
/// Fortran reads.
///
/// Nothing writes these two, but the memory can be written: Open MPI's library for C++ stores addresses of functions of its own further on.
#[repr(C, align(32))]
pub struct Object<const SIZE: usize> {
    bytes: UnsafeCell<[u8; SIZE]>,
}

// SAFETY: its words are only read here.
unsafe impl<const SIZE: usize> Sync for Object<SIZE> {}

impl<const SIZE: usize> Object<SIZE> {
    /// An object that is no handle of the standard ABI.
    pub const fn none() -> Self {
        Self::of(WILD, -1)
    }

    /// The object of a handle of the standard ABI, with the integer of Fortran.
    pub const fn of(standard: usize, fortran: i64) -> Self {
        let words = [standard.to_le_bytes(), fortran.to_le_bytes()];
        let mut bytes = [0; SIZE];
        let mut place = 0;
        while place < 16 {
            bytes[place] = words[place / 8][place % 8];
            place += 1;
        }
        Self {
            bytes: UnsafeCell::new(bytes),
        }
    }
}

impl<const SIZE: usize> Object<SIZE> {
    /// The word at a place, which the library for C++ may have written.
    pub fn word(&self, place: usize) -> usize {
        assert!(place.is_multiple_of(8) && place + 8 <= SIZE);
        // SAFETY: within the object, and aligned, as it is; the library writes before the object is used as a handle.
        unsafe {
            self.bytes
                .get()
                .cast::<u8>()
                .add(place)
                .cast::<usize>()
                .read()
        }
    }
}

/// The handle of the standard ABI of an object.
///
/// # Safety
/// The address is that of an object.
#[inline(always)]
pub unsafe fn standard(address: usize) -> usize {
    // SAFETY: as this function demands.
    unsafe { core::ptr::with_exposed_provenance::<usize>(address).read_unaligned() }
}

/// Addresses of objects, by the handle of the standard ABI; null without an object.
pub struct Addresses([*const u8; HANDLES]);

// SAFETY: nobody writes through them.
unsafe impl Sync for Addresses {}

impl Addresses {
    /// None yet.
    pub const fn none() -> Self {
        Self([core::ptr::null(); HANDLES])
    }

    /// Adds one.
    pub const fn set<const SIZE: usize>(&mut self, standard: usize, object: &'static Object<SIZE>) {
        self.0[standard] = (&raw const *object).cast();
    }
}

/// The address of the object for a predefined handle of the standard ABI, if there is one.
#[inline(always)]
pub fn address(standard: usize) -> Option<usize> {
    let address = *ADDRESSES.0.get(standard)?;
    (!address.is_null()).then(|| address.expose_provenance())
}
