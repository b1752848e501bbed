//! Codes of random datatypes against their sequences of basic elements, written out.

use std::sync::Arc;

use super::super::tests::{Random, random};
use super::super::{Basic, Datatype, Recipe};
use super::{BASE, Digest, PRIME, SignatureCode, representation};

/// A datatype of these elements, one behind the other, made otherwise than by chance.
fn sequence(basics: &[Basic]) -> Arc<Datatype> {
    let ends = basics.iter().scan(0, |end, basic| {
        let start = *end;
        *end += basic.size() as i64;
        Some(start)
    });
    let recipe = Recipe::Struct {
        blocks: basics.iter().map(|_| 1).collect(),
        displacements: ends.collect(),
        of: basics
            .iter()
            .map(|basic| Arc::clone(basic.datatype()))
            .collect(),
    };
    Datatype::build(recipe, false).unwrap()
}

/// Whether elements may stand for others, as the standard and many programs have it.
fn alike(one: &[Basic], other: &[Basic]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).all(|(one, other)| {
            let (one, other) = (representation(*one), representation(*other));
            one.is_none() || other.is_none() || one == other
        })
}

fn has_bytes(basics: &[Basic]) -> bool {
    basics.iter().any(|basic| representation(*basic).is_none())
}

#[test]
fn what_fits_is_never_said_not_to() {
    let mut dice = Random(0x1357_9bdf_0246_8ace);
    let rounds = if cfg!(miri) { 20 } else { 3000 };
    let mut refused = 0;
    for round in 0..rounds {
        let depth = dice.below(4) as u32;
        let (datatype, naive) = random(&mut dice, depth);
        let count = dice.between(0, 4) as usize;
        let one: Vec<Basic> = naive.map.iter().map(|(_, basic)| *basic).collect();
        let all = one.repeat(count);
        if all.len() > 400 {
            continue;
        }
        let sent = datatype.code(count);
        let what = format!("round {round}: {count} of {all:?}");
        // Received as the same, made otherwise; and as the beginning of more.
        assert!(
            all.is_empty() || sent.fits(sequence(&all).code(1)),
            "{what}"
        );
        let bytes = all.iter().map(|basic| basic.size() as u64).sum();
        let mut longer = all.clone();
        longer.extend((0..dice.below(5)).map(|_| Basic::Double));
        let longer = sequence(&longer);
        let code = longer.code_of_bytes(bytes).expect("elements end there");
        assert!(all.is_empty() || sent.fits(code), "{what}");
        if all.is_empty() {
            continue;
        }
        // One element is another: it is refused, but for a hash that is the same by chance.
        let mut wrong = all.clone();
        let place = dice.below(wrong.len() as u64) as usize;
        wrong[place] = match wrong[place].size() {
            4 if representation(wrong[place]) == representation(Basic::Int) => Basic::Float,
            4 => Basic::Int,
            8 if representation(wrong[place]) == representation(Basic::Double) => Basic::Long,
            8 => Basic::Double,
            _ => continue,
        };
        assert!(!alike(&all, &wrong) || has_bytes(&all));
        let code = sequence(&wrong).code(1);
        assert_eq!(sent.fits(code), has_bytes(&all), "{what} as {wrong:?}");
        refused += u32::from(!has_bytes(&all));
    }
    assert!(cfg!(miri) || refused > 200, "{refused}");
}

#[test]
fn a_message_that_ends_within_an_element_is_none_of_its_kind() {
    let structure = sequence(&[Basic::Int, Basic::Double]);
    assert_eq!(
        structure.code_of_bytes(4),
        Some(SignatureCode::of(Basic::Int))
    );
    assert_eq!(structure.code_of_bytes(6), None);
    assert_eq!(structure.code_of_bytes(0), Some(SignatureCode::UNKNOWN));
    assert_eq!(structure.code_of_bytes(24), Some(structure.code(2)));
}

#[test]
fn names_of_the_same_representation_fit() {
    let code = SignatureCode::of;
    for (one, other) in [
        (Basic::Int, Basic::Int32),
        (Basic::Int, Basic::Unsigned),
        (Basic::Int, Basic::FortranInteger),
        (Basic::Aint, Basic::Offset),
        (Basic::Count, Basic::Long),
        (Basic::Char, Basic::UnsignedChar),
        (Basic::FortranReal, Basic::Float),
        (Basic::DoubleComplex, Basic::Double),
        (Basic::Byte, Basic::Double),
        (Basic::Int, Basic::Packed),
        (Basic::TwoInt, Basic::Int),
    ] {
        assert!(code(one).fits(code(other)) && code(other).fits(code(one)));
    }
    for (one, other) in [
        (Basic::Int, Basic::Float),
        (Basic::Long, Basic::Double),
        (Basic::Short, Basic::Int),
        (Basic::LongDouble, Basic::Real16),
        (Basic::FloatComplex, Basic::DoubleComplex),
    ] {
        assert!(!code(one).fits(code(other)) && !code(other).fits(code(one)));
    }
    assert!(!Basic::FloatInt.datatype().code(1).fits(code(Basic::Int)));
    assert!(
        code(Basic::Int).fits(SignatureCode::from_bits(255)),
        "of no datatype"
    );
}

#[test]
fn the_field_is_one() {
    let divides = |divisor: &u32| PRIME.is_multiple_of(*divisor);
    assert!(!(2..256).any(|divisor| divides(&divisor)));
    assert!((1..PRIME).contains(&BASE));
}

#[test]
fn so_many_times_is_one_after_the_other() {
    let several = Digest::of(Basic::Int).then(Digest::of(Basic::Double));
    let all = Basic::ALL.iter().map(|basic| Digest::of(*basic));
    for digest in all.chain([Digest::NOTHING, several]) {
        let mut sequence = Digest::NOTHING;
        for count in 0..40 {
            assert_eq!(digest.times(count), sequence, "{count} of {digest:?}");
            sequence = sequence.then(digest);
        }
    }
}
