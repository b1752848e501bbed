//! Parameterised datatypes, by the numbers that they must hold: those of Fortran's `selected_real_kind` and
//! `selected_int_kind` (MPI 5.0, section 19.1.5).

use std::sync::Arc;

use super::basic::{Basic, TypeClass};
use super::{Datatype, Recipe};
use crate::error::{Error, ErrorClass, Result};

/// Decimal digits that any number of an integer type has, from the smallest type on.
const INTEGERS: [(i64, Basic); 5] = [
    (2, Basic::Integer1),
    (4, Basic::Integer2),
    (9, Basic::Integer4),
    (18, Basic::Integer8),
    (38, Basic::Integer16),
];

/// Decimal digits, and the decimal exponent, that a type of IEEE 754 holds.
const REALS: [((i64, i64), Basic, Basic); 3] = [
    ((6, 37), Basic::Real4, Basic::Complex8),
    ((15, 307), Basic::Real8, Basic::Complex16),
    ((33, 4931), Basic::Real16, Basic::Complex32),
];

impl Datatype {
    /// The smallest integers with this many decimal digits (`MPI_Type_create_f90_integer`).
    ///
    /// # Errors
    /// `Arg` if there are none.
    pub fn f90_integer(range: i64) -> Result<Arc<Self>> {
        let found = INTEGERS.iter().find(|(digits, _)| range <= *digits);
        let (_, basic) = found.ok_or_else(|| none(&format!("integers of {range} digits"), 38))?;
        Self::parameterised(TypeClass::Integer, [range].into(), *basic)
    }

    /// The smallest real or complex numbers with this many decimal digits and this range of exponents
    /// (`MPI_Type_create_f90_real`, `MPI_Type_create_f90_complex`). `None` (`MPI_UNDEFINED`) if one does not matter;
    /// `given` is both as the program gave them.
    ///
    /// # Errors
    /// `Arg` if there are none, or neither is given.
    pub fn f90_real(
        class: TypeClass,
        precision: Option<i64>,
        range: Option<i64>,
        given: [i64; 2],
    ) -> Result<Arc<Self>> {
        if precision.is_none() && range.is_none() {
            return Err(Error::new(
                ErrorClass::Arg,
                "neither precision nor range is given; MPI_UNDEFINED may stand for one of them only",
            ));
        }
        let (digits, exponent) = (precision.unwrap_or(0), range.unwrap_or(0));
        let found = REALS
            .iter()
            .find(|((most, largest), ..)| digits <= *most && exponent <= *largest);
        let (_, real, complex) = found.ok_or_else(|| {
            none(
                &format!("numbers of {digits} digits with exponents up to {exponent}"),
                33,
            )
        })?;
        let basic = match class {
            TypeClass::Complex => complex,
            TypeClass::Real | TypeClass::Integer => real,
        };
        Self::parameterised(class, given.into(), *basic)
    }

    fn parameterised(class: TypeClass, parameters: Box<[i64]>, basic: Basic) -> Result<Arc<Self>> {
        let of = Arc::clone(basic.datatype());
        let recipe = Recipe::Parameterised {
            class,
            parameters,
            of,
        };
        Self::build(recipe, false)
    }
}

#[cold]
fn none(what: &str, digits: i64) -> Error {
    Error::new(
        ErrorClass::Arg,
        format!("there is no type of {what}; the largest has {digits} digits"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::Combiner;

    #[test]
    fn the_smallest_type_that_fits() {
        for (range, bytes) in [(1, 1), (2, 1), (3, 2), (9, 4), (10, 8), (18, 8), (19, 16)] {
            let datatype = Datatype::f90_integer(range).unwrap();
            assert_eq!(datatype.size(), bytes, "{range} digits");
            assert_eq!(datatype.contents().integers, [range]);
        }
        assert!(Datatype::f90_integer(39).is_err());
        let real = |precision, range| {
            Datatype::f90_real(TypeClass::Real, precision, range, [0, 0]).map(|found| found.size())
        };
        assert_eq!(real(Some(6), Some(30)).unwrap(), 4);
        assert_eq!(real(Some(6), Some(38)).unwrap(), 8);
        assert_eq!(real(Some(15), None).unwrap(), 8);
        assert_eq!(real(None, Some(308)).unwrap(), 16);
        assert_eq!(real(None, None).unwrap_err().class(), ErrorClass::Arg);
        assert_eq!(real(Some(34), None).unwrap_err().class(), ErrorClass::Arg);
    }

    #[test]
    fn it_is_ready_for_use_and_tells_how_it_was_made() {
        let complex = Datatype::f90_real(TypeClass::Complex, Some(15), Some(300), [15, 300]);
        let complex = complex.unwrap();
        assert_eq!(complex.combiner(), Combiner::F90Complex);
        assert!(complex.is_committed());
        assert_eq!(complex.basic(), Some(Basic::Complex16));
        let contents = complex.contents();
        assert_eq!(contents.integers, [15, 300]);
        assert!(contents.datatypes.is_empty());
    }
}
