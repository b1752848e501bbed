//! `long double` of x86-64: 80 bits of the x87 unit in 16 bytes of memory. Rust has no such type, so
//! the four things that reductions need are done by the unit itself.
//!
//! The six bytes of padding are kept as they came with the first operand. Elsewhere, and under Miri,
//! which knows no assembly, the operations are not available.
#![allow(unsafe_code)]

use std::cmp::Ordering;

use super::kernels::{Arithmetic, Complex, Ordered};

/// Whether there is such a unit.
pub(super) const AVAILABLE: bool = cfg!(all(target_arch = "x86_64", not(miri)));

/// A `long double` as it lies in memory.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Extended([u8; 16]);

#[cfg(all(target_arch = "x86_64", not(miri)))]
macro_rules! calculate {
    ($name:ident, $instruction:literal) => {
        fn $name(one: Extended, two: Extended) -> Extended {
            let mut result = one;
            // SAFETY: reads ten bytes of each operand and writes ten of the result, all of 16 bytes and
            // alive; the unit's stack is empty on entry by the calling convention, and again at the end.
            unsafe {
                std::arch::asm!(
                    "fld tbyte ptr [{one}]",
                    "fld tbyte ptr [{two}]",
                    $instruction,
                    "fstp tbyte ptr [{result}]",
                    one = in(reg) &raw const one,
                    two = in(reg) &raw const two,
                    result = in(reg) &raw mut result,
                    out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                    out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                    options(nostack),
                );
            }
            result
        }
    };
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod unit {
    use super::{Extended, Ordering};

    calculate!(add, "faddp st(1), st");
    calculate!(multiply, "fmulp st(1), st");
    calculate!(subtract, "fsubp st(1), st");

    pub(super) fn sum(one: Extended, two: Extended) -> Extended {
        add(one, two)
    }

    pub(super) fn product(one: Extended, two: Extended) -> Extended {
        multiply(one, two)
    }

    pub(super) fn difference(one: Extended, two: Extended) -> Extended {
        subtract(one, two)
    }

    pub(super) fn compare(one: Extended, two: Extended) -> Option<Ordering> {
        let (below, equal, unordered): (u8, u8, u8);
        // SAFETY: reads ten bytes of each operand; the unit's stack is empty again at the end.
        unsafe {
            std::arch::asm!(
                "fld tbyte ptr [{two}]",
                "fld tbyte ptr [{one}]",
                "fucomip st, st(1)",
                "fstp st(0)",
                "setb {below}",
                "sete {equal}",
                "setp {unordered}",
                one = in(reg) &raw const one,
                two = in(reg) &raw const two,
                below = lateout(reg_byte) below,
                equal = lateout(reg_byte) equal,
                unordered = lateout(reg_byte) unordered,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack),
            );
        }
        match (unordered, equal, below) {
            (1, ..) => None,
            (_, 1, _) => Some(Ordering::Equal),
            (_, _, 1) => Some(Ordering::Less),
            _ => Some(Ordering::Greater),
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod unit {
    //! Never called: `AVAILABLE` is false.
    use super::{Extended, Ordering};

    pub(super) fn sum(one: Extended, _: Extended) -> Extended {
        one
    }

    pub(super) fn product(one: Extended, _: Extended) -> Extended {
        one
    }

    pub(super) fn difference(one: Extended, _: Extended) -> Extended {
        one
    }

    pub(super) fn compare(_: Extended, _: Extended) -> Option<Ordering> {
        None
    }
}

/// Order of two numbers; `None` if one is not a number.
pub(super) fn compare(one: Extended, two: Extended) -> Option<Ordering> {
    unit::compare(one, two)
}

impl Extended {
    fn is_number(self) -> bool {
        compare(self, self).is_some()
    }

    fn pick(self, other: Self, wanted: Ordering) -> Self {
        match compare(self, other) {
            Some(order) if order == wanted => self,
            Some(_) => other,
            None if self.is_number() => self,
            None => other,
        }
    }
}

impl Arithmetic for Extended {
    fn plus(self, other: Self) -> Self {
        unit::sum(self, other)
    }

    fn times(self, other: Self) -> Self {
        unit::product(self, other)
    }
}

impl Ordered for Extended {
    fn larger(self, other: Self) -> Self {
        self.pick(other, Ordering::Greater)
    }

    fn smaller(self, other: Self) -> Self {
        self.pick(other, Ordering::Less)
    }
}

impl Arithmetic for Complex<Extended> {
    fn plus(self, other: Self) -> Self {
        Self {
            real: self.real.plus(other.real),
            imaginary: self.imaginary.plus(other.imaginary),
        }
    }

    fn times(self, other: Self) -> Self {
        let (a, b, c, d) = (self.real, self.imaginary, other.real, other.imaginary);
        Self {
            real: unit::difference(a.times(c), b.times(d)),
            imaginary: a.times(d).plus(b.times(c)),
        }
    }
}
