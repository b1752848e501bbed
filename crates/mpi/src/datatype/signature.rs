//! The type signature: which basic elements a datatype holds, in order. Compact like the layout.
//!
//! It may be nested as deep as the program nests its constructors, so nothing here recurses.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::basic::Basic;
use super::digest::Digest;
use super::external;
use super::nested::{Nested, drop_children};

/// Basic elements in order.
#[derive(Debug)]
pub(super) struct Signature {
    shape: Shape,
    /// Number of basic elements.
    pub elements: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their bytes in the representation `external32`, which are not more.
    pub external: u64,
    /// Digest of their types.
    pub digest: Digest,
}

#[derive(Debug)]
enum Shape {
    /// `elements` times this.
    Basic(Basic),
    /// This, which is not empty, until the elements end.
    Repeat(Arc<Signature>),
    /// These, none of which is empty.
    Sequence(Box<[Arc<Signature>]>),
}

impl Nested for Signature {
    fn take_children(&mut self, into: &mut Vec<Arc<Self>>) {
        match std::mem::replace(&mut self.shape, Shape::Basic(Basic::Byte)) {
            Shape::Basic(_) => {}
            Shape::Repeat(body) => into.push(body),
            Shape::Sequence(parts) => into.extend(parts),
        }
    }

    fn has_children(&self) -> bool {
        !matches!(self.shape, Shape::Basic(_))
    }

    fn has_grandchildren(&self) -> bool {
        match &self.shape {
            Shape::Basic(_) => false,
            Shape::Repeat(body) => body.has_children(),
            Shape::Sequence(parts) => parts.iter().any(|part| part.has_children()),
        }
    }
}

impl Drop for Signature {
    fn drop(&mut self) {
        drop_children(self);
    }
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
            external: external::size_of(basic) as u64,
            digest: Digest::of(basic),
        })
    }

    fn empty() -> Arc<Self> {
        Arc::new(Self {
            shape: Shape::Sequence([].into()),
            elements: 0,
            bytes: 0,
            external: 0,
            digest: Digest::NOTHING,
        })
    }

    /// `count` times `body`. The caller ensures that the bytes fit into 64 bits.
    pub fn repeated(body: &Arc<Self>, count: u64) -> Arc<Self> {
        if count == 1 {
            return Arc::clone(body);
        }
        if count == 0 || body.elements == 0 {
            return Self::empty();
        }
        let shape = match body.shape {
            Shape::Basic(basic) => Shape::Basic(basic),
            _ => Shape::Repeat(Arc::clone(body)),
        };
        Arc::new(Self {
            shape,
            elements: body.elements * count,
            bytes: body.bytes * count,
            external: body.external * count,
            digest: body.digest.times(count),
        })
    }

    /// These in sequence. The caller ensures that the bytes fit into 64 bits.
    pub fn sequence(mut parts: Vec<Arc<Self>>) -> Arc<Self> {
        parts.retain(|part| part.elements > 0);
        let (mut elements, mut bytes, mut external) = (0, 0, 0);
        let mut digest = Digest::NOTHING;
        for part in &parts {
            elements += part.elements;
            bytes += part.bytes;
            external += part.external;
            digest = digest.then(part.digest);
        }
        let shape = match Self::uniform(&parts) {
            Some(basic) => Shape::Basic(basic),
            None if parts.len() == 1 => return parts.remove(0),
            None => Shape::Sequence(parts.into()),
        };
        Arc::new(Self {
            shape,
            elements,
            bytes,
            external,
            digest,
        })
    }

    fn uniform(parts: &[Arc<Self>]) -> Option<Basic> {
        let Shape::Basic(first) = parts.first()?.shape else {
            return None;
        };
        let same = |part: &Arc<Self>| matches!(part.shape, Shape::Basic(basic) if basic == first);
        parts.iter().all(same).then_some(first)
    }

    /// Number of whole basic elements in `bytes` bytes of such data; `None` if the last is cut, or if bytes are left over
    /// without any element. The data repeat.
    pub fn elements_in(&self, bytes: u64) -> Option<u64> {
        let (mut node, mut left, mut elements) = (self, bytes, 0u64);
        loop {
            if left == 0 {
                return Some(elements);
            }
            let whole = left.checked_div(node.bytes)?;
            elements = elements.checked_add(whole.checked_mul(node.elements)?)?;
            left %= node.bytes;
            match &node.shape {
                Shape::Basic(basic) => {
                    let size = basic.size() as u64;
                    return (left.is_multiple_of(size)).then_some(elements + left / size);
                }
                Shape::Repeat(body) => node = body,
                Shape::Sequence(parts) => {
                    for part in parts {
                        node = part;
                        if left < part.bytes {
                            break;
                        }
                        left -= part.bytes;
                        elements += part.elements;
                    }
                }
            }
        }
    }

    /// Digest of the elements in the first `bytes` bytes; `None` if the last is cut. The data repeat.
    pub fn digest_of(&self, bytes: u64) -> Option<Digest> {
        let (mut node, mut left, mut digest) = (self, bytes, Digest::NOTHING);
        loop {
            if left == 0 {
                return Some(digest);
            }
            let whole = left.checked_div(node.bytes)?;
            digest = digest.then(node.digest.times(whole));
            left %= node.bytes;
            match &node.shape {
                Shape::Basic(basic) => {
                    let one = Digest::of(*basic);
                    let size = basic.size() as u64;
                    return (left.is_multiple_of(size))
                        .then(|| digest.then(one.times(left / size)));
                }
                Shape::Repeat(body) => node = body,
                Shape::Sequence(parts) => {
                    for part in parts {
                        node = part;
                        if left < part.bytes {
                            break;
                        }
                        left -= part.bytes;
                        digest = digest.then(part.digest);
                    }
                }
            }
        }
    }

    /// The bytes of which `elements` basic elements from the start consist; the data repeat.
    pub fn bytes_of(&self, elements: u64) -> Option<u64> {
        let (mut node, mut left, mut bytes) = (self, elements, 0u64);
        loop {
            if left == 0 {
                return Some(bytes);
            }
            let whole = left.checked_div(node.elements)?;
            bytes = bytes.checked_add(whole.checked_mul(node.bytes)?)?;
            left %= node.elements;
            match &node.shape {
                Shape::Basic(basic) => return bytes.checked_add(left * basic.size() as u64),
                Shape::Repeat(body) => node = body,
                Shape::Sequence(parts) => {
                    for part in parts {
                        node = part;
                        if left < part.elements {
                            break;
                        }
                        left -= part.elements;
                        bytes = bytes.checked_add(part.bytes)?;
                    }
                }
            }
        }
    }

    /// Calls `visit` with each run of equal elements, in order, until it breaks.
    pub fn runs<B>(&self, mut visit: impl FnMut(Basic, u64) -> ControlFlow<B>) -> ControlFlow<B> {
        // What is still to be visited, the next one last: a node, and how often.
        let mut pending = vec![(self, 1)];
        while let Some((node, times)) = pending.pop() {
            if times > 1 {
                pending.push((node, times - 1));
            }
            match &node.shape {
                Shape::Basic(basic) => visit(*basic, node.elements)?,
                Shape::Repeat(body) => pending.push((body, node.bytes / body.bytes)),
                Shape::Sequence(parts) => {
                    pending.extend(parts.iter().rev().map(|part| (&**part, 1)));
                }
            }
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As deep as programs may nest, on a stack as small as those of fibers.
    #[test]
    fn deep_signatures_need_no_stack() {
        const DEEP: u64 = 100_000;
        let work = || {
            let mut signature = Signature::sequence(vec![
                Signature::of(Basic::Int),
                Signature::of(Basic::Double),
            ]);
            for _ in 0..DEEP {
                signature = Signature::sequence(vec![signature, Signature::of(Basic::Byte)]);
            }
            assert_eq!(signature.elements_in(12), Some(2));
            assert_eq!(signature.elements_in(12 + DEEP), Some(2 + DEEP));
            assert_eq!(signature.elements_in(7), None);
            assert_eq!(signature.bytes_of(3), Some(13));
            let mut runs = 0;
            let ended = signature.runs(|_, _| {
                runs += 1;
                ControlFlow::<()>::Continue(())
            });
            assert_eq!((ended, runs), (ControlFlow::Continue(()), 2 + DEEP));
        };
        let thread = std::thread::Builder::new().stack_size(16 << 10).spawn(work);
        thread.expect("a thread").join().expect("it does not panic");
    }

    #[test]
    fn nothing_repeated_is_nothing() {
        let nothing = Signature::sequence(Vec::new());
        let repeated = Signature::repeated(&nothing, 1 << 40);
        assert_eq!((repeated.elements, repeated.external), (0, 0));
        assert_eq!(repeated.elements_in(0), Some(0));
        assert_eq!(repeated.elements_in(1), None);
        assert_eq!(repeated.bytes_of(1), None);
        let ended = repeated.runs(|_, _| ControlFlow::Break(()));
        assert_eq!(ended, ControlFlow::Continue(()), "there are no runs");
    }
}
