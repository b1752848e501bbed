//! The predefined datatypes of the standard (MPI 5.0, section 3.2.2 and annex A.1), as a table.
//!
//! Sizes are those of the C and Fortran compilers of 64-bit Linux: `long` and `MPI_INTEGER8` have 8
//! bytes, `long double` 16 of which 10 are used (x86-64), `MPI_INTEGER` and `MPI_LOGICAL` have 4.

use std::sync::{Arc, LazyLock};

use super::{Datatype, Recipe};

/// Representation of a number in memory.
#[allow(missing_docs)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Scalar {
    I8,
    I16,
    I32,
    I64,
    I128,
    U8,
    U16,
    U32,
    U64,
    /// IEEE binary16.
    F16,
    F32,
    F64,
    /// `long double`: x87 extended on x86-64.
    F80,
    /// IEEE binary128.
    F128,
}

impl Scalar {
    /// Bytes in memory, which are the alignment, too.
    #[inline]
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 | Self::F16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
            Self::I128 | Self::F80 | Self::F128 => 16,
        }
    }
}

/// Class of a predefined datatype in the standard; decides which operations are allowed (MPI 5.0, section 6.9.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BasicKind {
    /// C integer.
    Integer(Scalar),
    /// Fortran integer.
    FortranInteger(Scalar),
    /// `MPI_AINT`, `MPI_OFFSET`, `MPI_COUNT`.
    Address(Scalar),
    /// Floating point.
    Floating(Scalar),
    /// Complex, of two such parts.
    Complex(Scalar),
    /// Logical, as an integer that is zero or not.
    Logical(Scalar),
    /// Bytes without meaning.
    Byte,
    /// Characters to be read. Operations apply to those of one byte only, as to integers.
    Character(Scalar),
    /// `MPI_PACKED`.
    Packed,
    /// A value and an index, laid out as a C structure.
    Pair(Basic, Basic),
}

impl BasicKind {
    /// Bytes of data.
    #[inline]
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::Integer(scalar)
            | Self::FortranInteger(scalar)
            | Self::Address(scalar)
            | Self::Floating(scalar)
            | Self::Logical(scalar)
            | Self::Character(scalar) => scalar.size(),
            Self::Complex(scalar) => 2 * scalar.size(),
            Self::Byte | Self::Packed => 1,
            Self::Pair(value, index) => value.kind().size() + index.kind().size(),
        }
    }

    /// The alignment that a C compiler gives it.
    #[must_use]
    pub const fn alignment(self) -> usize {
        match self {
            Self::Complex(scalar) => scalar.size(),
            Self::Pair(value, index) => {
                let (value, index) = (value.kind().alignment(), index.kind().alignment());
                if value > index { value } else { index }
            }
            other => other.size(),
        }
    }
}

macro_rules! basics {
    ($($variant:ident $name:literal $kind:expr;)*) => {
        /// A predefined datatype.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum Basic {
            $(#[doc = concat!("`", $name, "`.")] $variant,)*
        }

        impl Basic {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Name in the standard.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Its class.
            #[inline]
            #[must_use]
            pub const fn kind(self) -> BasicKind {
                use BasicKind::*;
                use Scalar::*;
                match self { $(Self::$variant => $kind,)* }
            }
        }
    };
}

basics! {
    Aint "MPI_AINT" Address(I64);
    Count "MPI_COUNT" Address(I64);
    Offset "MPI_OFFSET" Address(I64);
    Packed "MPI_PACKED" Packed;
    Byte "MPI_BYTE" Byte;
    Char "MPI_CHAR" Character(I8);
    SignedChar "MPI_SIGNED_CHAR" Integer(I8);
    UnsignedChar "MPI_UNSIGNED_CHAR" Integer(U8);
    Wchar "MPI_WCHAR" Character(I32);
    Short "MPI_SHORT" Integer(I16);
    Int "MPI_INT" Integer(I32);
    Long "MPI_LONG" Integer(I64);
    LongLong "MPI_LONG_LONG" Integer(I64);
    UnsignedShort "MPI_UNSIGNED_SHORT" Integer(U16);
    Unsigned "MPI_UNSIGNED" Integer(U32);
    UnsignedLong "MPI_UNSIGNED_LONG" Integer(U64);
    UnsignedLongLong "MPI_UNSIGNED_LONG_LONG" Integer(U64);
    Float "MPI_FLOAT" Floating(F32);
    Double "MPI_DOUBLE" Floating(F64);
    LongDouble "MPI_LONG_DOUBLE" Floating(F80);
    FloatComplex "MPI_C_FLOAT_COMPLEX" Complex(F32);
    DoubleComplex "MPI_C_DOUBLE_COMPLEX" Complex(F64);
    LongDoubleComplex "MPI_C_LONG_DOUBLE_COMPLEX" Complex(F80);
    CxxFloatComplex "MPI_CXX_FLOAT_COMPLEX" Complex(F32);
    CxxDoubleComplex "MPI_CXX_DOUBLE_COMPLEX" Complex(F64);
    CxxLongDoubleComplex "MPI_CXX_LONG_DOUBLE_COMPLEX" Complex(F80);
    Bool "MPI_C_BOOL" Logical(U8);
    CxxBool "MPI_CXX_BOOL" Logical(U8);
    Int8 "MPI_INT8_T" Integer(I8);
    Uint8 "MPI_UINT8_T" Integer(U8);
    Int16 "MPI_INT16_T" Integer(I16);
    Uint16 "MPI_UINT16_T" Integer(U16);
    Int32 "MPI_INT32_T" Integer(I32);
    Uint32 "MPI_UINT32_T" Integer(U32);
    Int64 "MPI_INT64_T" Integer(I64);
    Uint64 "MPI_UINT64_T" Integer(U64);
    FloatInt "MPI_FLOAT_INT" Pair(Basic::Float, Basic::Int);
    DoubleInt "MPI_DOUBLE_INT" Pair(Basic::Double, Basic::Int);
    LongInt "MPI_LONG_INT" Pair(Basic::Long, Basic::Int);
    TwoInt "MPI_2INT" Pair(Basic::Int, Basic::Int);
    ShortInt "MPI_SHORT_INT" Pair(Basic::Short, Basic::Int);
    LongDoubleInt "MPI_LONG_DOUBLE_INT" Pair(Basic::LongDouble, Basic::Int);
    FortranLogical "MPI_LOGICAL" Logical(U32);
    FortranInteger "MPI_INTEGER" FortranInteger(I32);
    FortranReal "MPI_REAL" Floating(F32);
    FortranComplex "MPI_COMPLEX" Complex(F32);
    FortranDoublePrecision "MPI_DOUBLE_PRECISION" Floating(F64);
    FortranDoubleComplex "MPI_DOUBLE_COMPLEX" Complex(F64);
    FortranCharacter "MPI_CHARACTER" Character(I8);
    FortranTwoReal "MPI_2REAL" Pair(Basic::FortranReal, Basic::FortranReal);
    FortranTwoDoublePrecision "MPI_2DOUBLE_PRECISION"
        Pair(Basic::FortranDoublePrecision, Basic::FortranDoublePrecision);
    FortranTwoInteger "MPI_2INTEGER" Pair(Basic::FortranInteger, Basic::FortranInteger);
    Logical1 "MPI_LOGICAL1" Logical(U8);
    Logical2 "MPI_LOGICAL2" Logical(U16);
    Logical4 "MPI_LOGICAL4" Logical(U32);
    Logical8 "MPI_LOGICAL8" Logical(U64);
    Logical16 "MPI_LOGICAL16" Logical(I128);
    Integer1 "MPI_INTEGER1" FortranInteger(I8);
    Integer2 "MPI_INTEGER2" FortranInteger(I16);
    Integer4 "MPI_INTEGER4" FortranInteger(I32);
    Integer8 "MPI_INTEGER8" FortranInteger(I64);
    Integer16 "MPI_INTEGER16" FortranInteger(I128);
    Real2 "MPI_REAL2" Floating(F16);
    Real4 "MPI_REAL4" Floating(F32);
    Real8 "MPI_REAL8" Floating(F64);
    Real16 "MPI_REAL16" Floating(F128);
    Complex4 "MPI_COMPLEX4" Complex(F16);
    Complex8 "MPI_COMPLEX8" Complex(F32);
    Complex16 "MPI_COMPLEX16" Complex(F64);
    Complex32 "MPI_COMPLEX32" Complex(F128);
}

/// One value per predefined datatype, made at first use. They never change but for what users hang
/// on them (names, attributes).
static PREDEFINED: LazyLock<Vec<Arc<Datatype>>> = LazyLock::new(|| {
    let make = |&basic: &Basic| {
        let datatype = Datatype::build(Recipe::Named(basic), false);
        datatype.expect("the table holds small sizes only")
    };
    Basic::ALL.iter().map(make).collect()
});

impl Basic {
    /// Bytes of data.
    #[inline]
    #[must_use]
    pub const fn size(self) -> usize {
        const SIZES: [u8; Basic::ALL.len()] = {
            let mut sizes = [0; Basic::ALL.len()];
            let mut place = 0;
            while place < sizes.len() {
                sizes[place] = Basic::ALL[place].kind().size() as u8;
                place += 1;
            }
            sizes
        };
        SIZES[self as usize] as usize
    }

    /// Whether `MPI_Compare_and_swap` is defined for it: integers, logicals and bytes (MPI 5.0, section 12.3.4).
    #[inline]
    pub(crate) fn is_compared(&self) -> bool {
        const IS: [bool; Basic::ALL.len()] = {
            let mut is = [false; Basic::ALL.len()];
            let mut place = 0;
            while place < is.len() {
                is[place] = matches!(
                    Basic::ALL[place].kind(),
                    BasicKind::Integer(_)
                        | BasicKind::FortranInteger(_)
                        | BasicKind::Address(_)
                        | BasicKind::Logical(_)
                        | BasicKind::Byte
                        | BasicKind::Character(_)
                );
                place += 1;
            }
            is
        };
        IS[*self as usize]
    }

    /// The datatype.
    #[inline]
    #[must_use]
    pub fn datatype(self) -> &'static Arc<Datatype> {
        &PREDEFINED[self as usize]
    }

    /// The basic elements that the standard counts in it: two for a pair, else itself.
    pub(super) fn elements(self) -> (Self, Option<Self>) {
        match self.kind() {
            BasicKind::Pair(value, index) => (value, Some(index)),
            _ => (self, None),
        }
    }

    /// `MPI_Type_match_size`: the Fortran type of `bytes` bytes among reals, integers or complex ones.
    #[must_use]
    pub fn match_size(class: TypeClass, bytes: usize) -> Option<Self> {
        let candidates: &[Self] = match class {
            TypeClass::Real => &[Self::Real4, Self::Real8, Self::Real16, Self::Real2],
            TypeClass::Integer => &[
                Self::Integer1,
                Self::Integer2,
                Self::Integer4,
                Self::Integer8,
                Self::Integer16,
            ],
            TypeClass::Complex => &[
                Self::Complex8,
                Self::Complex16,
                Self::Complex32,
                Self::Complex4,
            ],
        };
        candidates
            .iter()
            .copied()
            .find(|basic| basic.size() == bytes)
    }
}

/// Classes of [`Basic::match_size`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TypeClass {
    /// `MPI_TYPECLASS_REAL`.
    Real,
    /// `MPI_TYPECLASS_INTEGER`.
    Integer,
    /// `MPI_TYPECLASS_COMPLEX`.
    Complex,
}
