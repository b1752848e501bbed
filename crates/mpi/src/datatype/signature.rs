//! The type signature: which basic elements a datatype holds, in order. Compact like the layout.

use std::sync::Arc;

use super::basic::Basic;

/// Basic elements in order.
#[derive(Debug)]
pub(super) struct Signature {
    shape: Shape,
    /// How many basic elements.
    pub elements: u64,
    /// Their bytes.
    pub bytes: u64,
}

#[derive(Debug)]
enum Shape {
    /// `elements` times this.
    Basic(Basic),
    Repeat {
        body: Arc<Signature>,
    },
    Sequence(Box<[Arc<Signature>]>),
}

impl Signature {
    /// The signature of a predefined datatype.
    pub fn of(basic: Basic) -> Arc<Self> {
        match basic.elements() {
            (one, None) => Self::basic(one),
            (one, Some(two)) if one == two => Self::repeated(&Self::basic(one), 2),
            (one, Some(two)) => Self::sequence(vec![Self::basic(one), Self::basic(two)]),
        }
    }

    fn basic(basic: Basic) -> Arc<Self> {
        Arc::new(Self {
            shape: Shape::Basic(basic),
            elements: 1,
            bytes: basic.size() as u64,
        })
    }

    /// `count` times `body`. Whoever calls has made sure that the bytes fit into 64 bits.
    pub fn repeated(body: &Arc<Self>, count: u64) -> Arc<Self> {
        let shape = match body.shape {
            _ if count == 1 => return Arc::clone(body),
            Shape::Basic(basic) => Shape::Basic(basic),
            _ => Shape::Repeat {
                body: Arc::clone(body),
            },
        };
        Arc::new(Self {
            shape,
            elements: body.elements * count,
            bytes: body.bytes * count,
        })
    }

    /// These one after the other.
    pub fn sequence(mut parts: Vec<Arc<Self>>) -> Arc<Self> {
        parts.retain(|part| part.elements > 0);
        let (elements, bytes) = parts.iter().fold((0, 0), |(elements, bytes), part| {
            (elements + part.elements, bytes + part.bytes)
        });
        let shape = match Self::uniform(&parts) {
            Some(basic) => Shape::Basic(basic),
            None if parts.len() == 1 => return parts.remove(0),
            None => Shape::Sequence(parts.into()),
        };
        Arc::new(Self {
            shape,
            elements,
            bytes,
        })
    }

    fn uniform(parts: &[Arc<Self>]) -> Option<Basic> {
        let Shape::Basic(first) = parts.first()?.shape else {
            return None;
        };
        let same = |part: &Arc<Self>| matches!(part.shape, Shape::Basic(basic) if basic == first);
        parts.iter().all(same).then_some(first)
    }

    /// How many whole basic elements `bytes` bytes of such data hold; `None` if the last is cut, or if
    /// bytes are left over without any element.
    pub fn elements_in(&self, bytes: u64) -> Option<u64> {
        if self.bytes == 0 {
            return (bytes == 0).then_some(0);
        }
        let (whole, rest) = (bytes / self.bytes, bytes % self.bytes);
        let rest = if rest == 0 { 0 } else { self.partial(rest)? };
        (whole.checked_mul(self.elements)?).checked_add(rest)
    }

    fn partial(&self, bytes: u64) -> Option<u64> {
        match &self.shape {
            Shape::Basic(basic) => {
                let size = basic.size() as u64;
                (bytes.is_multiple_of(size)).then_some(bytes / size)
            }
            Shape::Repeat { body } => body.elements_in(bytes),
            Shape::Sequence(parts) => {
                let (mut left, mut elements) = (bytes, 0);
                for part in parts {
                    if left < part.bytes {
                        return Some(elements + part.elements_in(left)?);
                    }
                    left -= part.bytes;
                    elements += part.elements;
                }
                (left == 0).then_some(elements)
            }
        }
    }

    /// The bytes of which `elements` basic elements from the start consist; the data repeat.
    pub fn bytes_of(&self, elements: u64) -> Option<u64> {
        if self.elements == 0 {
            return (elements == 0).then_some(0);
        }
        let (whole, rest) = (elements / self.elements, elements % self.elements);
        let mut bytes = whole.checked_mul(self.bytes)?;
        if rest > 0 {
            bytes = bytes.checked_add(match &self.shape {
                Shape::Basic(basic) => rest * basic.size() as u64,
                Shape::Repeat { body } => body.bytes_of(rest)?,
                Shape::Sequence(parts) => {
                    let (mut left, mut bytes) = (rest, 0);
                    for part in parts {
                        if left < part.elements {
                            bytes += part.bytes_of(left)?;
                            break;
                        }
                        left -= part.elements;
                        bytes += part.bytes;
                    }
                    bytes
                }
            })?;
        }
        Some(bytes)
    }

    /// Calls `visit` with each run of equal elements, in order.
    pub fn runs(&self, visit: &mut dyn FnMut(Basic, u64)) {
        match &self.shape {
            Shape::Basic(basic) => visit(*basic, self.elements),
            Shape::Repeat { body } => {
                for _ in 0..self.bytes / body.bytes {
                    body.runs(visit);
                }
            }
            Shape::Sequence(parts) => parts.iter().for_each(|part| part.runs(visit)),
        }
    }
}
