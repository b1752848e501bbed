//! The representation `external32` (MPI 5.0, section 14.5.2): big-endian, without gaps, with widths of
//! its own: `long` has 4 bytes, `wchar_t` 2, `long double` is IEEE binary128.

use std::ops::ControlFlow;

use super::basic::{Basic, BasicKind, Scalar};
use super::signature::Signature;
use crate::error::{Error, ErrorClass, Result};

/// How wide a number is there, and whether its sign is extended when it is read.
#[derive(Clone, Copy)]
struct Width {
    scalar: Scalar,
    bytes: usize,
}

/// The numbers that a basic element consists of: one or two of the same kind.
fn numbers(basic: Basic) -> (Width, usize) {
    let plain = |scalar: Scalar| Width {
        scalar,
        bytes: scalar.size(),
    };
    match basic {
        Basic::Long | Basic::UnsignedLong => {
            return (
                Width {
                    bytes: 4,
                    ..plain(long(basic))
                },
                1,
            );
        }
        // Unicode: never negative.
        Basic::Wchar => {
            return (
                Width {
                    scalar: Scalar::U32,
                    bytes: 2,
                },
                1,
            );
        }
        _ => {}
    }
    match basic.kind() {
        BasicKind::Complex(part) => (plain(part), 2),
        BasicKind::Integer(scalar)
        | BasicKind::FortranInteger(scalar)
        | BasicKind::Address(scalar)
        | BasicKind::Floating(scalar)
        | BasicKind::Logical(scalar)
        | BasicKind::Character(scalar) => (plain(scalar), 1),
        // Signatures hold no pairs: they are two elements.
        BasicKind::Byte | BasicKind::Packed | BasicKind::Pair(..) => (plain(Scalar::U8), 1),
    }
}

fn long(basic: Basic) -> Scalar {
    if basic == Basic::Long {
        Scalar::I64
    } else {
        Scalar::U64
    }
}

/// Bytes of a basic element.
pub(super) fn size_of(basic: Basic) -> usize {
    let (width, numbers) = numbers(basic);
    width.bytes * numbers
}

/// Calls `visit` with each number of data in order, until they end.
fn each(
    signature: &Signature,
    mut left: usize,
    mut visit: impl FnMut(Basic, Width) -> Result<()>,
) -> Result<()> {
    // Data of elements that have none: a repetition of nothing would never end.
    while left > 0 && signature.elements > 0 {
        let ended = signature.runs(|basic, count| {
            let (width, numbers) = numbers(basic);
            for _ in 0..count {
                for _ in 0..numbers {
                    if left == 0 {
                        return ControlFlow::Break(Ok(()));
                    }
                    if let Err(error) = visit(basic, width) {
                        return ControlFlow::Break(Err(error));
                    }
                    left = left.saturating_sub(width.scalar.size());
                }
            }
            ControlFlow::Continue(())
        });
        if let ControlFlow::Break(outcome) = ended {
            return outcome;
        }
    }
    Ok(())
}

/// The external form of data without gaps, which repeat the signature.
pub(super) fn encode(signature: &Signature, data: &[u8]) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(data.len());
    let mut rest = data;
    each(signature, data.len(), |basic, width| {
        let (number, later) = rest.split_at(width.scalar.size());
        rest = later;
        let mut little = [0; 16];
        little[..number.len()].copy_from_slice(number);
        if cfg!(target_endian = "big") {
            little[..number.len()].reverse();
        }
        if width.scalar == Scalar::F80 {
            little = wide(u128::from_le_bytes(little)).to_le_bytes();
        }
        let (kept, lost) = little[..number.len().max(width.bytes)].split_at(width.bytes);
        if lost.iter().any(|byte| *byte != sign(width.scalar, kept)) {
            return Err(too_wide(basic, width.bytes));
        }
        out.extend(kept.iter().rev());
        Ok(())
    })?;
    Ok(out)
}

/// The data, without gaps, of their external form; `length` bytes.
pub(super) fn decode(signature: &Signature, external: &[u8], length: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(length);
    let mut rest = external;
    let read = each(signature, length, |_, width| {
        let (number, later) = rest.split_at(width.bytes.min(rest.len()));
        rest = later;
        let mut little = [0; 16];
        for (into, from) in little.iter_mut().zip(number.iter().rev()) {
            *into = *from;
        }
        let extension = sign(width.scalar, &little[..width.bytes]);
        little[width.bytes..].fill(extension);
        if width.scalar == Scalar::F80 {
            little = narrow(u128::from_le_bytes(little)).to_le_bytes();
        }
        let native = &mut little[..width.scalar.size()];
        if cfg!(target_endian = "big") {
            native.reverse();
        }
        out.extend_from_slice(native);
        Ok(())
    });
    debug_assert!(read.is_ok(), "reading refuses nothing");
    out
}

/// How many bytes of data the whole numbers of the first `external` bytes of one element's external form are.
pub(super) fn native_bytes(signature: &Signature, external: usize) -> usize {
    let (mut read, mut native) = (0, 0);
    // Stops by itself when the element ends, or by the error when the bytes do.
    let _ended = each(signature, signature.bytes as usize, |basic, width| {
        read += width.bytes;
        if read > external {
            return Err(too_wide(basic, width.bytes));
        }
        native += width.scalar.size();
        Ok(())
    });
    native
}

/// What fills a number that becomes wider.
fn sign(scalar: Scalar, little: &[u8]) -> u8 {
    let negative = little.last().is_some_and(|top| top & 0x80 != 0);
    if scalar == Scalar::I64 && negative {
        0xff
    } else {
        0
    }
}

/// From x87 extended to binary128: both have 15 bits of exponent; the leading one becomes implicit.
fn wide(extended: u128) -> u128 {
    if !cfg!(target_arch = "x86_64") {
        return extended;
    }
    let (top, fraction) = (extended >> 64 & 0xffff, extended & 0x7fff_ffff_ffff_ffff);
    top << 112 | fraction << 49
}

/// Back, rounded towards zero.
fn narrow(quad: u128) -> u128 {
    if !cfg!(target_arch = "x86_64") {
        return quad;
    }
    let (top, fraction) = (quad >> 112, quad >> 49 & 0x7fff_ffff_ffff_ffff);
    let leading = u128::from(top & 0x7fff != 0) << 63;
    top << 64 | leading | fraction
}

#[cold]
fn too_wide(basic: Basic, bytes: usize) -> Error {
    Error::new(
        ErrorClass::Arg,
        format!(
            "a value of {} does not fit the {bytes} bytes that external32 has for it; use a datatype of fixed width",
            basic.name()
        ),
    )
}
