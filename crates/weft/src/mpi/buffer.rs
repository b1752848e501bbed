//! Buffers: values that can be sent and received into, and their elements.

use super::element::{Complex, Element, Located};

/// A value that can be sent: a single [`Element`], or a sequence of them.
///
/// ```
/// use weft::mpi::Buffer;
///
/// assert_eq!(5_u8.elements(), [5]);
/// assert_eq!([1.0, 2.0].elements().len(), 2);
/// assert_eq!("text".elements(), b"text");
/// ```
pub trait Buffer {
    /// Type of its elements.
    type Element: Element;
    /// Owned type for the same number of elements: the result of a reduction, for example.
    type Owned;

    /// The elements.
    fn elements(&self) -> &[Self::Element];

    /// Makes an owned value of elements, as many as this buffer has. Panics if there are not as many.
    fn owned(elements: Vec<Self::Element>) -> Self::Owned;
}

/// A value that can be received into.
pub trait BufferMut: Buffer {
    /// The elements.
    fn elements_mut(&mut self) -> &mut [Self::Element];
}

macro_rules! single {
    ($([$($generic:ident),*] $type:ty,)*) => {$(
        impl<$($generic: Element),*> Buffer for $type {
            type Element = Self;
            type Owned = Self;

            #[inline]
            fn elements(&self) -> &[Self] {
                std::slice::from_ref(self)
            }

            fn owned(elements: Vec<Self>) -> Self {
                elements[0]
            }
        }

        impl<$($generic: Element),*> BufferMut for $type {
            #[inline]
            fn elements_mut(&mut self) -> &mut [Self] {
                std::slice::from_mut(self)
            }
        }
    )*};
}

single! {
    [] i8, [] i16, [] i32, [] i64, [] i128, [] isize,
    [] u8, [] u16, [] u32, [] u64, [] u128, [] usize,
    [] f32, [] f64, [] bool, [] char,
    [] Complex<f32>, [] Complex<f64>,
    [] Located<f32>, [] Located<f64>, [] Located<i64>, [] Located<i32>, [] Located<i16>,
    [A, B] (A, B),
    [A, B, C] (A, B, C),
    [A, B, C, D] (A, B, C, D),
    [A, B, C, D, E] (A, B, C, D, E),
    [A, B, C, D, E, F] (A, B, C, D, E, F),
}

impl<T: Element> Buffer for [T] {
    type Element = T;
    type Owned = Vec<T>;

    #[inline]
    fn elements(&self) -> &[T] {
        self
    }

    fn owned(elements: Vec<T>) -> Vec<T> {
        elements
    }
}

impl<T: Element> BufferMut for [T] {
    #[inline]
    fn elements_mut(&mut self) -> &mut [T] {
        self
    }
}

impl<T: Element> Buffer for Vec<T> {
    type Element = T;
    type Owned = Self;

    #[inline]
    fn elements(&self) -> &[T] {
        self
    }

    fn owned(elements: Self) -> Self {
        elements
    }
}

impl<T: Element> BufferMut for Vec<T> {
    #[inline]
    fn elements_mut(&mut self) -> &mut [T] {
        self
    }
}

impl<T: Element> Buffer for Box<[T]> {
    type Element = T;
    type Owned = Self;

    #[inline]
    fn elements(&self) -> &[T] {
        self
    }

    fn owned(elements: Vec<T>) -> Self {
        elements.into()
    }
}

impl<T: Element> BufferMut for Box<[T]> {
    #[inline]
    fn elements_mut(&mut self) -> &mut [T] {
        self
    }
}

impl<T: Element, const N: usize> Buffer for [T; N] {
    type Element = T;
    type Owned = Self;

    #[inline]
    fn elements(&self) -> &[T] {
        self
    }

    fn owned(elements: Vec<T>) -> Self {
        let length = elements.len();
        Self::try_from(elements).unwrap_or_else(|_| panic!("{length} elements for an array of {N}"))
    }
}

impl<T: Element, const N: usize> BufferMut for [T; N] {
    #[inline]
    fn elements_mut(&mut self) -> &mut [T] {
        self
    }
}

/// Text is sent as the bytes of its UTF-8.
impl Buffer for str {
    type Element = u8;
    type Owned = Vec<u8>;

    fn elements(&self) -> &[u8] {
        self.as_bytes()
    }

    fn owned(elements: Vec<u8>) -> Vec<u8> {
        elements
    }
}

/// Text is sent as the bytes of its UTF-8.
impl Buffer for String {
    type Element = u8;
    type Owned = Vec<u8>;

    fn elements(&self) -> &[u8] {
        self.as_bytes()
    }

    fn owned(elements: Vec<u8>) -> Vec<u8> {
        elements
    }
}
