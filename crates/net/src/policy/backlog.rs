//! Backlog: which clients have a frame waiting, and how long the first one is.

/// Most clients of a system: one bit each.
pub const CLIENTS: usize = 64;

/// Which clients have a frame waiting, and how long the first one is.
#[derive(Clone, Debug)]
pub struct Backlog {
    /// Bit `i`: client `i` has a frame.
    mask: u64,
    /// Bytes of its first frame.
    length: [u16; CLIENTS],
}

impl Default for Backlog {
    fn default() -> Self {
        Self {
            mask: 0,
            length: [0; CLIENTS],
        }
    }
}

impl Backlog {
    /// Notes that a client's first frame has `length` bytes.
    #[inline]
    pub fn set(&mut self, client: usize, length: u16) {
        self.mask |= 1 << client;
        self.length[client] = length;
    }

    /// Notes that a client has no frame.
    #[inline]
    pub fn clear(&mut self, client: usize) {
        self.mask &= !(1 << client);
    }

    /// The clients that have one: bit `i` is client `i`.
    #[inline]
    #[must_use]
    pub fn mask(&self) -> u64 {
        self.mask
    }

    /// Bytes of the first frame of a client that has one.
    #[inline]
    #[must_use]
    pub fn length(&self, client: usize) -> u16 {
        self.length[client]
    }

    /// Bytes of the first frame of each client; meaningless for those that have none.
    #[inline]
    pub(super) fn lengths(&self) -> &[u16; CLIENTS] {
        &self.length
    }

    /// The same, restricted to the clients in a mask.
    #[inline]
    #[must_use]
    pub fn only(&self, mask: u64) -> Self {
        Self {
            mask: self.mask & mask,
            length: self.length,
        }
    }

    /// The first client at or after `from` that has one, in a circle.
    #[inline]
    #[must_use]
    pub fn first_from(&self, from: usize) -> Option<usize> {
        first_from(self.mask, from)
    }

    /// Whether it has one.
    #[inline]
    #[must_use]
    pub fn has(&self, client: usize) -> bool {
        self.mask & 1 << client != 0
    }
}

/// The first client of a mask at or after `from`, in a circle.
#[inline]
pub(super) fn first_from(mask: u64, from: usize) -> Option<usize> {
    if mask == 0 {
        return None;
    }
    let rotated = mask.rotate_right(from as u32);
    Some((from + rotated.trailing_zeros() as usize) % CLIENTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_circle_closes() {
        assert_eq!(first_from(0, 3), None);
        assert_eq!(first_from(0b1001, 0), Some(0));
        assert_eq!(first_from(0b1001, 1), Some(3));
        assert_eq!(first_from(0b1001, 4), Some(0));
        assert_eq!(first_from(1 << 63, 63), Some(63));
    }
}
