//! Operations against values worked out by hand.
#![allow(unsafe_code)]

use super::*;
use crate::buffer::region_of;

fn reduce(operation: Predefined, basic: Basic, operand: &[u8], into: &[u8]) -> Result<Vec<u8>> {
    let (mut operand, mut into) = (operand.to_vec(), into.to_vec());
    let count = operand.len() / basic.size();
    let op = Op::predefined(operation);
    let (one, two) = (region_of(&mut operand), region_of(&mut into));
    op.reduce(one, two, count, basic.datatype())?;
    Ok(into)
}

macro_rules! bytes {
    ($($value:expr),*) => { [$(&$value.to_ne_bytes()[..]),*].concat() };
}

#[test]
fn integers_and_reals() {
    use Predefined::*;
    let (one, two) = (bytes!(5i32, -7i32, i32::MAX), bytes!(3i32, 2i32, 1i32));
    let cases = [
        (Max, bytes!(5i32, 2i32, i32::MAX)),
        (Min, bytes!(3i32, -7i32, 1i32)),
        (Sum, bytes!(8i32, -5i32, i32::MIN)),
        (Prod, bytes!(15i32, -14i32, i32::MAX)),
        (Band, bytes!(1i32, 0i32, 1i32)),
        (Bor, bytes!(7i32, -5i32, i32::MAX)),
        (Bxor, bytes!(6i32, -5i32, i32::MAX - 1)),
        (Land, bytes!(1i32, 1i32, 1i32)),
        (Lxor, bytes!(0i32, 0i32, 0i32)),
        (Replace, one.clone()),
        (NoOp, two.clone()),
    ];
    for (operation, expected) in cases {
        assert_eq!(
            reduce(operation, Basic::Int, &one, &two).unwrap(),
            expected,
            "{operation:?}"
        );
    }
    let (one, two) = (bytes!(1.5f64, -2.0f64), bytes!(2.0f64, f64::NAN));
    assert_eq!(
        reduce(Prod, Basic::Double, &one, &one).unwrap(),
        bytes!(2.25f64, 4.0f64)
    );
    assert_eq!(
        reduce(Max, Basic::Double, &one, &two).unwrap(),
        bytes!(2.0f64, -2.0f64)
    );
    let unsigned = reduce(Max, Basic::Uint8, &[200, 3], &[100, 4]).unwrap();
    assert_eq!(unsigned, [200, 4]);
    let signed = reduce(Max, Basic::SignedChar, &[200, 3], &[100, 4]).unwrap();
    assert_eq!(signed, [100, 4]);
    let truth = reduce(Lor, Basic::Bool, &[0, 2, 0], &[0, 0, 1]).unwrap();
    assert_eq!(truth, [0, 1, 1]);
}

#[test]
fn complex_numbers() {
    let (one, two) = (bytes!(1.0f32, 2.0f32), bytes!(3.0f32, -4.0f32));
    let sum = reduce(Predefined::Sum, Basic::FortranComplex, &one, &two).unwrap();
    assert_eq!(sum, bytes!(4.0f32, -2.0f32));
    let product = reduce(Predefined::Prod, Basic::FloatComplex, &one, &two).unwrap();
    assert_eq!(product, bytes!(11.0f32, 2.0f32));
}

/// The bytes of a small whole number as `long double`.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn extended(value: i64) -> Vec<u8> {
    let mut bytes = vec![0; 16];
    if value != 0 {
        let magnitude = value.unsigned_abs();
        let shift = magnitude.leading_zeros();
        bytes[..8].copy_from_slice(&(magnitude << shift).to_le_bytes());
        let exponent = (16383 + 63 - shift) as u16 | if value < 0 { 0x8000 } else { 0 };
        bytes[8..10].copy_from_slice(&exponent.to_le_bytes());
    }
    bytes
}

#[test]
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn long_double() {
    use Predefined::*;
    for (one, two) in [
        (3, 4),
        (-5, 2),
        (0, 7),
        (i64::from(i32::MAX), -9),
        (1 << 40, 3),
    ] {
        let cases = [
            (Sum, one + two),
            (Prod, one * two),
            (Max, one.max(two)),
            (Min, one.min(two)),
        ];
        for (operation, expected) in cases {
            let result = reduce(operation, Basic::LongDouble, &extended(one), &extended(two));
            assert_eq!(
                result.unwrap()[..10],
                extended(expected)[..10],
                "{operation:?} {one} {two}"
            );
        }
    }
    let (one, two) = (
        [extended(1), extended(2)].concat(),
        [extended(3), extended(-4)].concat(),
    );
    let product = reduce(Prod, Basic::LongDoubleComplex, &one, &two).unwrap();
    assert_eq!(product, [extended(11), extended(2)].concat());
    let pair = |value: i64, index: i32| [extended(value), index.to_ne_bytes().to_vec()].concat();
    let least = reduce(Minloc, Basic::LongDoubleInt, &pair(-2, 7), &pair(-2, 3)).unwrap();
    assert_eq!(least, pair(-2, 3));
}

#[test]
fn pairs_keep_the_lower_index() {
    let one = bytes!(4.0f64, 3i32, 1.0f64, 9i32, 5.0f64, 1i32);
    let two = bytes!(4.0f64, 2i32, 2.0f64, 1i32, 5.0f64, 8i32);
    let least = reduce(Predefined::Minloc, Basic::DoubleInt, &one, &two).unwrap();
    assert_eq!(least, bytes!(4.0f64, 2i32, 1.0f64, 9i32, 5.0f64, 1i32));
    let most = reduce(Predefined::Maxloc, Basic::DoubleInt, &one, &two).unwrap();
    assert_eq!(most, bytes!(4.0f64, 2i32, 2.0f64, 1i32, 5.0f64, 1i32));
    let short = reduce(
        Predefined::Maxloc,
        Basic::ShortInt,
        &bytes!(7i16, 1i32),
        &bytes!(6i16, 0i32),
    );
    assert_eq!(short.unwrap(), bytes!(7i16, 1i32));
}

#[test]
fn every_operation_is_there_or_says_why() {
    let (mut there, mut unsupported) = (0, 0);
    for &basic in Basic::ALL {
        for operation in Predefined::ALL {
            // Exactly three elements: Miri sees an access beyond them.
            let bytes = vec![1; 3 * basic.size()];
            match reduce(operation, basic, &bytes, &bytes) {
                Ok(_) => there += 1,
                Err(error) if error.class() == ErrorClass::UnsupportedOperation => unsupported += 1,
                Err(error) => {
                    assert_eq!(error.class(), ErrorClass::Op);
                    assert!(!operation.is_defined_for(basic), "{error}");
                    assert!(error.text().contains(basic.name()), "{error}");
                }
            }
        }
    }
    // Half and quadruple precision: 4 operations on 2 reals, 2 on 2 complex types.
    if extended::AVAILABLE {
        assert_eq!(unsupported, 4 * 2 + 2 * 2);
    }
    assert!(there > 400, "{there}");
    let derived = Datatype::contiguous(2, Basic::Int.datatype()).unwrap();
    let sum = Op::predefined(Predefined::Sum);
    assert_eq!(
        sum.is_allowed(&derived).unwrap_err().class(),
        ErrorClass::Op
    );
    let replace = Op::predefined(Predefined::Replace);
    assert!(replace.is_allowed(&derived).is_ok());
    assert!(
        replace
            .is_allowed_in_collectives(Basic::Int.datatype())
            .is_err()
    );
}

#[test]
fn a_function_of_the_user_sees_elements_with_their_gaps() {
    // Two 16-bit numbers, the second one first in memory: subtracts the first, keeps the second.
    let recipe = crate::datatype::Recipe::Hindexed {
        blocks: [1, 1].into(),
        displacements: [4, -2].into(),
        of: Arc::clone(Basic::Int16.datatype()),
    };
    let datatype = Datatype::build(recipe, false).unwrap();
    let op = Op::user(
        |operand, into, count, datatype| {
            let extent = datatype.extent();
            for index in 0..count.cast_signed() {
                let at = index * extent + 4;
                let (one, two) = (operand.as_ptr(), into.as_ptr());
                // SAFETY: both hold `count` elements of the datatype above.
                unsafe {
                    let one = one.wrapping_offset(at).cast::<i16>().read_unaligned();
                    let two = two.wrapping_offset(at).cast::<i16>();
                    two.write_unaligned(one - two.read_unaligned());
                }
            }
        },
        false,
    );
    let mut one = bytes!(10i16, 1i16, 20i16, 2i16);
    let mut two = bytes!(3i16, 7i16, 4i16, 8i16);
    op.reduce(region_of(&mut one), region_of(&mut two), 2, &datatype)
        .unwrap();
    assert_eq!(two, bytes!(7i16, 7i16, 16i16, 8i16));
    let long = op.reduce(region_of(&mut one), region_of(&mut two), 3, &datatype);
    assert_eq!(long.unwrap_err().class(), ErrorClass::Intern);
}

/// Loops over many elements, in whatever vectors this processor has, give what each element gives by itself.
#[test]
fn many_elements_are_combined_as_each_alone() {
    const COUNT: usize = 131;
    for (&basic, operation) in Basic::ALL
        .iter()
        .flat_map(|basic| Predefined::ALL.map(|operation| (basic, operation)))
    {
        let size = basic.size();
        // No zeros among them: which of two of different signs is larger is nobody's promise.
        let pattern = |seed: usize| -> Vec<u8> {
            let byte = |place: usize| 1 + (place * seed % 101) as u8;
            (0..COUNT * size).map(byte).collect()
        };
        let (one, two) = (pattern(37), pattern(53));
        let Ok(together) = reduce(operation, basic, &one, &two) else {
            continue;
        };
        let apart = one.chunks(size).zip(two.chunks(size));
        let apart = apart.map(|(one, two)| reduce(operation, basic, one, two).unwrap());
        let apart: Vec<u8> = apart.flatten().collect();
        assert!(together == apart, "{operation:?} of {}", basic.name());
    }
}
