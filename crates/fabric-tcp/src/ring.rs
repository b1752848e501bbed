//! Ring of bytes: frames that are not acknowledged yet. It is filled at one end, sent from the middle, and
//! freed at the other end when the peer has processed them.
//!
//! ```text
//!   start ≤ sent ≤ end ≤ start + capacity       counts since it was last empty, place = count mod capacity
//!   └ kept for sending again ┘└ to be sent ┘
//! ```
//!
//! An empty ring begins anew at its first byte, which is in the cache: a ping-pong uses no other memory.

/// The ring of one peer.
pub struct Ring {
    bytes: Box<[u8]>,
    start: u64,
    sent: u64,
    end: u64,
}

impl Ring {
    /// `capacity` is a power of two. Memory is taken as it is touched.
    pub fn new(capacity: usize) -> Self {
        assert!(capacity.is_power_of_two());
        Self {
            bytes: vec![0; capacity].into_boxed_slice(),
            start: 0,
            sent: 0,
            end: 0,
        }
    }

    /// Bytes that fit.
    #[inline]
    pub fn free(&self) -> usize {
        self.bytes.len() - (self.end - self.start) as usize
    }

    /// Bytes that are to be sent.
    #[inline]
    pub fn unsent(&self) -> usize {
        (self.end - self.sent) as usize
    }

    #[inline]
    fn place(&self, count: u64) -> usize {
        count as usize & (self.bytes.len() - 1)
    }

    /// Appends; the caller has checked [`Self::free`].
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        debug_assert!(bytes.len() <= self.free());
        let place = self.place(self.end);
        let first = bytes.len().min(self.bytes.len() - place);
        self.bytes[place..place + first].copy_from_slice(&bytes[..first]);
        self.bytes[..bytes.len() - first].copy_from_slice(&bytes[first..]);
        self.end += bytes.len() as u64;
    }

    /// The bytes to be sent, in one or two pieces.
    #[inline]
    pub fn pieces(&self) -> (&[u8], &[u8]) {
        let (place, length) = (self.place(self.sent), self.unsent());
        let first = length.min(self.bytes.len() - place);
        (
            &self.bytes[place..place + first],
            &self.bytes[..length - first],
        )
    }

    /// Notes that `count` bytes were sent.
    #[inline]
    pub fn advance(&mut self, count: usize) {
        debug_assert!(count <= self.unsent());
        self.sent += count as u64;
    }

    /// The oldest `count` bytes are no longer needed.
    #[inline]
    pub fn release(&mut self, count: usize) {
        self.start += count as u64;
        debug_assert!(self.start <= self.end);
        self.sent = self.sent.max(self.start);
        if self.start == self.end {
            (self.start, self.sent, self.end) = (0, 0, 0);
        }
    }

    /// Marks everything that is kept to be sent again.
    pub fn rewind(&mut self) {
        self.sent = self.start;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(ring: &mut Ring, count: usize) -> Vec<u8> {
        let (first, second) = ring.pieces();
        let mut all = [first, second].concat();
        all.truncate(count);
        ring.advance(count);
        all
    }

    #[test]
    fn bytes_go_around_in_order_and_come_again() {
        let mut ring = Ring::new(8);
        ring.push(b"abcdef");
        assert_eq!((ring.free(), ring.unsent()), (2, 6));
        assert_eq!(take(&mut ring, 4), b"abcd");
        ring.release(3);
        ring.push(b"ghijk");
        assert_eq!(ring.free(), 0);
        assert_eq!(take(&mut ring, 7), b"efghijk");
        ring.rewind();
        assert_eq!(take(&mut ring, 8), b"defghijk");
        ring.release(8);
        assert_eq!((ring.free(), ring.unsent()), (8, 0));
    }

    #[test]
    fn an_empty_ring_begins_anew() {
        let mut ring = Ring::new(8);
        ring.push(b"abcde");
        assert_eq!(take(&mut ring, 5), b"abcde");
        ring.release(5);
        ring.push(b"fghijklm");
        assert_eq!(ring.pieces(), (&b"fghijklm"[..], &b""[..]), "in one piece");
        // Released before it was sent by this connection: a part, then all.
        ring.release(3);
        assert_eq!(take(&mut ring, 1), b"i");
        ring.release(5);
        assert_eq!((ring.free(), ring.unsent()), (8, 0));
        ring.push(b"n");
        ring.rewind();
        assert_eq!(take(&mut ring, 1), b"n");
    }
}
